"""The types that the program has registered with `nighthawk_async.journal.register`."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct


class RegisteredType(Struct, frozen=True):
    """A registered type.

    Args:
        name: The name that the journal stores.
        dump: Returns plain data for a value.
        load: Returns the value for that data.
    """

    name: str
    dump: Callable[[Any], object]
    load: Callable[[Any], object]


registered: dict[type, RegisteredType] = {}
registered_names: dict[str, RegisteredType] = {}


def is_registered(kind: type) -> bool:
    """Whether the program has registered a type."""
    return kind in registered


def is_registered_below(kind: type) -> bool:
    """Whether the program has registered a type, or a subclass of it."""
    try:
        return any(issubclass(each, kind) for each in registered)
    except TypeError:  # a protocol, of which nobody knows its subclasses
        return False

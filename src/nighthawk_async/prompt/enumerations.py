"""Enumeration classes: the names of their members say more than the signature of their call.

Members themselves are values, see `scalars`.
"""

import enum
from typing import Any, cast

from msgspec import Struct

from .introspection import class_dictionary, has_base, resolution_order

__all__ = ["EnumerationDescription", "describe_enumeration"]

_KINDS: tuple[type, ...] = (enum.StrEnum, enum.IntEnum, enum.IntFlag, enum.Flag, enum.Enum)


class EnumerationDescription(Struct, frozen=True, kw_only=True):
    """An enumeration class as the prompt describes it.

    Args:
        kind: The name of the standard library's class that it is made from, for example `Enum` or `IntFlag`.
        member_names: The names of its members in the order of definition, without aliases.
    """

    kind: str
    member_names: list[str]


def describe_enumeration(value: object) -> EnumerationDescription | None:
    """Describe an enumeration class without calling any of its code.

    Args:
        value: Any value.

    Returns:
        The description; None when the value is no enumeration class, or has no members and so is only ever a
        base of others.
    """
    if not has_base(type(value), enum.EnumType):
        return None
    cls = cast("type[Any]", value)
    names = class_dictionary(cls).get("_member_names_")
    if type(names) is not list or not names:
        return None
    kind = next(base.__name__ for base in resolution_order(cls) if any(base is each for each in _KINDS))
    return EnumerationDescription(kind=kind, member_names=cast("list[str]", names))

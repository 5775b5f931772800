"""What tells people of which object a method is called, and not of another one. Floor 3."""

import hashlib
import types
from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from ..human.digest import digest_action
from ..human.errors import UndigestibleArgumentError

__all__ = ["fields_of", "stable_text"]

_MAX_TEXT = 200


def stable_text(receiver: object) -> str | None:
    """How an object shows itself; None when that says nothing, or is another text in the next run.

    A long text is cut off, and what tells it from others is the beginning of its SHA-256.
    """
    if type(receiver).__repr__ is object.__repr__:
        return None
    try:
        text = repr(receiver)
    except Exception:  # `__repr__` of the program may raise anything, and people are asked all the same
        return None
    if " at 0x" in text:  # an address says nothing
        return None
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[:_MAX_TEXT]}… (SHA-256 {hashlib.sha256(text.encode(errors='replace')).hexdigest()[:16]})"


def fields_of(receiver: object) -> dict[str, object]:
    """The public attributes of an object that an approval can be bound to.

    Raises:
        UndigestibleArgumentError: It has attributes, but none of these.
    """
    attributes = _attributes(receiver)
    fields = {
        name: value
        for name, value in attributes.items()
        if not name.startswith("_") and _is_digestible(name, value)
    }
    if attributes and not fields:
        raise UndigestibleArgumentError(
            f"nothing tells people which {type(receiver).__qualname__} it is; its class needs a __repr__"
        )
    return fields


def _attributes(receiver: object) -> Mapping[str, object]:
    """The instance attributes of an object, those in slots included, without asking its `__getattr__`."""
    attributes: dict[str, object] = {}
    for kind in type(receiver).__mro__:
        for name, slot in tuple(vars(kind).items()):
            if isinstance(slot, types.MemberDescriptorType):
                with suppress(AttributeError):  # an empty slot
                    attributes[name] = slot.__get__(receiver)
    with suppress(AttributeError):
        attributes |= cast("Mapping[str, object]", object.__getattribute__(receiver, "__dict__"))
    return attributes


def _is_digestible(name: str, value: object) -> bool:
    try:
        digest_action("", {name: value})
    except UndigestibleArgumentError:
        return False
    return True

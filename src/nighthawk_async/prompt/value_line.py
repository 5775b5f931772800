"""A line of a section that shows a value, before it is known how much of it has room."""

from msgspec import Struct

__all__ = ["FIELD_SHARE", "VALUE_SHARE", "ValueLine"]

VALUE_SHARE = 200
"""Tokens that are set aside for every value that does not fit into fewer, before any gets more."""

FIELD_SHARE = 120
"""The same for every field of an object."""


class ValueLine(Struct, frozen=True, kw_only=True, eq=False):
    """A line `name: type = …`, or `name.field: type = …`.

    Args:
        name: The name or the path.
        start: The line up to the value.
        value: What is shown.
        share: Tokens set aside for it at first.
        max_tokens: The most tokens that it may have; None for what the section has left.
        is_named: Whether the program names it itself, so that the block reads all of it.
    """

    name: str
    start: str
    value: object
    share: int
    max_tokens: int | None
    is_named: bool = False

"""The beginning of a JSON object: what it says so far, and what of it goes on."""

import re
from typing import Any, cast

from msgspec import Struct
from pydantic_core import from_json

__all__ = ["JsonSoFar", "OpenJson"]

_STRUCTURE = re.compile(r'["{}\[\],:]')
_IN_STRING = re.compile(r'["\\]')

_GROWTH = 32
"""The text is decoded again when it has grown by this part of itself: in sum 33 times its length at most."""


class JsonSoFar(Struct, frozen=True, kw_only=True):
    """Data of the beginning of a JSON object.

    What goes on is always last in what it belongs to, so it is found by its depth.

    Args:
        data: The object. A number at the end of the text is left out, because a digit may follow; so are
            `true`, `false` and `null`.
        open_levels: How many objects and lists go on, the object itself included: it, the last value in it,
            the last value in that.
        is_text_open: Whether the last value of the innermost of them is a text that goes on.
    """

    data: dict[str, Any]
    open_levels: int
    is_text_open: bool


class OpenJson:
    """Takes in fragments of the text of one JSON object.

    Every character is looked at once, but for decoding.
    """

    __slots__ = (
        "_certain_end",
        "_is_in_string",
        "_is_in_value",
        "_last_mark",
        "_length",
        "_next_look",
        "_open",
        "_pending",
        "_skips_one",
        "_text",
    )

    def __init__(self) -> None:
        self._text = ""
        self._pending: list[str] = []
        self._length = 0
        self._next_look = 1
        self._open: list[str] = []
        self._last_mark = ""
        self._is_in_string = False
        self._is_in_value = False
        self._skips_one = False
        self._certain_end = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing was fed."""
        return not self._length

    @property
    def is_due(self) -> bool:
        """Whether so much was fed since the last look that another one is worth its cost."""
        return self._length >= self._next_look

    def feed(self, fragment: str) -> None:
        """Take in the next fragment."""
        self._pending.append(fragment)
        self._length += len(fragment)

    def look(self) -> JsonSoFar | None:
        """Return the data of the text so far; None when it is no beginning of a JSON object."""
        self._next_look = self._length + 1 + self._length // _GROWTH
        new = "".join(self._pending)
        self._pending.clear()
        start = len(self._text)
        self._text += new
        self._scan(start)
        end = None if self._is_in_string else self._certain_end
        try:
            data: object = from_json(self._text[:end], allow_partial="trailing-strings")
        except ValueError:
            return None
        if not isinstance(data, dict):
            return None
        return JsonSoFar(
            data=cast("dict[str, Any]", data),
            open_levels=len(self._open),
            is_text_open=self._is_in_string and self._is_in_value,
        )

    def _scan(self, position: int) -> None:
        """Find out, from there on, what is open where the text ends."""
        text = self._text
        if self._skips_one and position < len(text):
            self._skips_one = False
            position += 1
        while mark := (_IN_STRING if self._is_in_string else _STRUCTURE).search(text, position):
            position = mark.end()
            if mark[0] == "\\":
                self._skips_one = position == len(text)
                position += 1
            else:
                self._take(mark[0])
                self._certain_end = position

    def _take(self, mark: str) -> None:
        if mark == '"':
            self._is_in_string = not self._is_in_string
            is_item = bool(self._open) and self._open[-1] == "["
            self._is_in_value = is_item or self._last_mark == ":"
            return
        self._last_mark = mark
        if mark in "{[":
            self._open.append(mark)
        elif mark in "}]" and self._open:
            self._open.pop()

"""Making text from values safe for a prompt.

Data must never look like the library's own structure: a section delimiter inside a value is broken up, and
one-line text stays on one line.

A value prepared for display has parts: JSON values, or the classes here if something was left out or there is
a shorter form than JSON.
"""

import re
from typing import Literal, TypeAlias, Union

from msgspec import Struct

from ..types.json import JsonableValue

VALUE_SHARE = 200
"""Tokens that are set aside for every value that does not fit into fewer, before any gets more."""

FIELD_SHARE = 120
"""The same for every field of an object."""


class ValueLine(Struct, frozen=True, kw_only=True, eq=False):
    """A line `name: type = …`, or `name.field: type = …`.

    Args:
        name: The name or the path.
        start: The line up to the value.
        value: The value that is shown.
        share: Tokens set aside for it at first.
        max_tokens: The greatest number of tokens that it may have; None for all that the section has left.
        is_named: Whether the program names it itself, so that the block reads all of it.
    """

    name: str
    start: str
    value: object
    share: int
    max_tokens: int | None
    is_named: bool = False


BIG_INTEGER_MARK = "\ufdd1"
"""The prefix of the digits of an integer of more than 64 bits; a noncharacter, absent from ordinary text."""

Noun: TypeAlias = Literal["items", "keys", "fields", "rows", "columns"]


class Text(Struct, frozen=True, kw_only=True):
    """A text that may be incomplete.

    Args:
        beginning: Its first characters.
        length: The number of characters of the whole.
        ending: Its last characters, if they are worth showing.
    """

    beginning: str
    length: int
    ending: str = ""


class Parts(Struct, frozen=True, kw_only=True):
    """A container that may be incomplete.

    Args:
        values: Its first items.
        keys: The key of each, for a mapping or an object.
        length: The number of items of the whole.
        noun: The word for its items.
        heading: The heading before the first: the shape of an array.
    """

    values: "list[Part]"
    keys: list[str] | None
    length: int
    noun: Noun
    heading: str = ""


class Table(Struct, frozen=True, kw_only=True):
    """Records with the same fields, whose names are given once.

    Args:
        row_type: The name of the records' class; empty if the line gives it.
        columns: The names of the columns.
        rows: The first rows, with a value for each column.
        length: The number of rows of the whole.
        width: The number of columns of the whole.
    """

    row_type: str
    columns: list[str]
    rows: "list[list[Part]]"
    length: int
    width: int


Part: TypeAlias = Union[JsonableValue, Text, Parts, Table]  # noqa: UP007  (pydantic never sees it)


def fair_level(demands: list[int], room: int) -> int:
    """Return the greatest share of each, so that all demands together fit and no room is wasted.

    Args:
        demands: The demands of each.
        room: The available tokens.
    """
    ascending = sorted(demands)
    for index, demand in enumerate(ascending):
        level = room // (len(ascending) - index)
        if demand > level:
            return max(0, level)
        room -= demand
    return ascending[-1] if ascending else 0


_DELIMITER_START = "<<<NH:"
_BROKEN_DELIMITER_START = "\\u003c<<NH:"

_NO_TEXT = re.compile(r"[\ud800-\udfff\ufdd0-\ufdef]")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufdd0-\ufdef]+")


def break_delimiters(text: str) -> str:
    r"""Replace the beginning of every section delimiter by an equal JSON text, `\u003c<<NH:`.

    Args:
        text: Rendered values; inside a JSON string the replacement means the same characters.
    """
    return text.replace(_DELIMITER_START, _BROKEN_DELIMITER_START)


def clean_text(text: str) -> str:
    """Replace code points that are no text by U+FFFD.

    These are lone surrogates, which UTF-8 cannot carry, and noncharacters, which Unicode leaves to programs
    for their own use and which previews use as marks.
    """
    return text if text.isascii() else _NO_TEXT.sub("\ufffd", text)


def single_line(text: str, max_characters: int) -> str:
    """Put a text on one line of bounded length, control characters as spaces.

    Args:
        text: The text; only its beginning is read.
        max_characters: Characters to keep; if something is left out, the last of them is an ellipsis.
    """
    shown = _UNPRINTABLE.sub(" ", str.__getitem__(text, slice(0, max_characters + 1)))
    return shown if len(shown) <= max_characters else shown[: max_characters - 1] + "…"

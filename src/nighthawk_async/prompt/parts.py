"""Values made ready to be shown, whole or in part.

A part is a JSON value, or one of the classes here where something was left out or where there is a shorter
form than JSON.
"""

from typing import Literal, TypeAlias, Union

from msgspec import Struct

from ..types.json import JsonableValue

__all__ = ["BIG_INTEGER_MARK", "Noun", "Part", "Parts", "Table", "Text", "fair_level"]

BIG_INTEGER_MARK = "\ufdd1"
"""Begins digits that stand for an integer of more than 64 bits; a noncharacter, absent from ordinary text."""

Noun: TypeAlias = Literal["items", "keys", "fields", "rows", "columns"]


class Text(Struct, frozen=True, kw_only=True):
    """A text of which not all is at hand.

    Args:
        beginning: Its first characters.
        length: The number of characters of the whole.
        ending: Its last characters, where they are worth showing.
    """

    beginning: str
    length: int
    ending: str = ""


class Parts(Struct, frozen=True, kw_only=True):
    """A container of which perhaps not all is at hand.

    Args:
        values: Its first items.
        keys: The key of each, for a mapping or an object.
        length: The number of items of the whole.
        noun: What its items are called.
        heading: What stands before the first: the shape of an array.
    """

    values: "list[Part]"
    keys: list[str] | None
    length: int
    noun: Noun
    heading: str = ""


class Table(Struct, frozen=True, kw_only=True):
    """Records with the same fields, whose names are said once.

    Args:
        row_type: The name of the records' class; empty where the line says it.
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
    """Find what each may have at most, so that all demands together fit and no room is wasted.

    Args:
        demands: What each would like to have.
        room: What there is.
    """
    ascending = sorted(demands)
    for index, demand in enumerate(ascending):
        level = room // (len(ascending) - index)
        if demand > level:
            return max(0, level)
        room -= demand
    return ascending[-1] if ascending else 0

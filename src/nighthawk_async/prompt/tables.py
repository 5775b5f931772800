"""Lists of like records as tables, which name their columns once."""

import json
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import cast

from .introspection import type_name
from .parts import Part, Parts, Table

__all__ = ["find_table", "frame_table", "table_heading"]

_encode: Callable[[object], str] = json.JSONEncoder(ensure_ascii=False).encode

_LEAST_ROWS = 4


def find_table(records: Sequence[object], values: list[Part], length: int) -> Table | None:
    """Make a table of a list, where its items are like records and a table is shorter.

    Args:
        records: The items at hand.
        values: The same, converted; perhaps not all of them.
        length: The number of items of the whole list.
    """
    if len(values) < _LEAST_ROWS:
        return None
    kind = type(records[0])
    columns = _columns(values[0])
    if not columns or any(type(record) is not kind for record in records):
        return None
    rows: list[list[Part]] = []
    for value in values:
        if _columns(value) != columns:
            return None
        rows.append(_cells(value))
    table = Table(
        row_type=type_name(kind),
        columns=columns,
        rows=rows,
        length=max(length, len(rows)),
        width=len(columns),
    )
    per_row = 2 + sum(len(_encode(column)) + 2 for column in columns)
    return table if len(table_heading(table)) < len(rows) * per_row else None


def frame_table(columns: list[str], values: list[Part], *, length: int, width: int) -> Table:
    """Make a table of the rows of a frame.

    Args:
        columns: The names of the columns at hand.
        values: The rows at hand, as records. Those of which less is at hand than of the first are left out.
        length: The number of rows of the whole.
        width: The number of columns of the whole.
    """
    rows = [_cells(value) for value in values]
    count = len(rows[0]) if rows else len(columns)
    rows = [row[:count] for row in takewhile(lambda row: len(row) >= count, rows)]
    return Table(row_type="", columns=columns[:count], rows=rows, length=length, width=width)


def table_heading(table: Table, mark: str = "") -> str:
    """Return the heading of a table: the shape, the class of the rows and the names of the columns.

    Args:
        table: The table.
        mark: What says that there are more columns.
    """
    row_type = f" of {table.row_type}" if table.row_type else ""
    columns = ", ".join(map(_encode, table.columns))
    more = f", {mark}" if mark else ""
    return f"table {table.length:,} x {table.width:,}{row_type}: {columns}{more}"


def _columns(value: Part) -> list[str] | None:
    """The names of a record's fields; None when it is no record, or not all of it is at hand."""
    if isinstance(value, dict):
        return list(value)
    if isinstance(value, Parts) and value.keys is not None and len(value.keys) == value.length:
        return value.keys
    return None


def _cells(value: Part) -> list[Part]:
    if isinstance(value, Parts):
        return value.values
    return list(cast("dict[str, Part]", value).values())

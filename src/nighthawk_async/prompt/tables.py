"""Lists of like records as tables, which name their columns once. Floor 1."""

import json
from collections.abc import Callable, Sequence
from typing import cast

from .introspection import type_name
from .parts import Part, Parts, Table

__all__ = ["find_table", "table_heading"]

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


def table_heading(table: Table) -> str:
    """What stands before the rows: the shape, the class of the rows and the names of the columns."""
    row_type = f" of {table.row_type}" if table.row_type else ""
    columns = ", ".join(map(_encode, table.columns))
    return f"table {table.length:,} x {table.width:,}{row_type}: {columns}"


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

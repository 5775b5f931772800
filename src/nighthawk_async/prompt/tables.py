"""Lists of like records as tables, which name their columns once.

Tables and arrays of pandas, polars and numpy are read if the program has imported these: only objects of
exactly the libraries' own types are read, by the libraries' own methods; nothing is imported here.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any, cast

from msgspec import Struct

from .plain_text import Part, Parts, Table, instance_dictionary, type_name

_MAX_COLUMNS = 64
_LIBRARIES = ("numpy", "pandas", "polars")

_module_of_type = type.__dict__["__module__"].__get__


class Frame(Struct, frozen=True, kw_only=True):
    """A table or an array prepared for reading.

    Args:
        length: The number of its rows or items.
        items: Its rows or items, lazily.
        columns: The names of the available columns, for a table.
        width: The number of columns of the whole.
        heading: The heading of an array: its shape and the type of its items.
    """

    length: int
    items: Iterator[Any]
    columns: list[object] | None = None
    width: int = 0
    heading: str = ""


class _Row(Struct, frozen=True):
    """Part of an array of several dimensions."""

    array: Any


def is_frame_type(cls: type) -> bool:
    """Whether values of a class are tables, arrays or items of arrays."""
    return _kind(cls) is not None


def find_frame(value: Any, cls: type) -> Frame | None:
    """Prepare a table or an array for reading; None when the value is neither.

    Args:
        value: Any value.
        cls: Its type.
    """
    if cls is _Row:
        return _array(value.array, heading="")
    match _kind(cls):
        case "numpy.ndarray":
            shape = " x ".join(f"{length:,}" for length in value.shape)
            return _array(value, heading=f"array {shape} of {value.dtype.name}") if value.ndim else None
        case "pandas.DataFrame":
            return _pandas_frame(value)
        case "pandas.Series":
            return _pandas_series(value)
        case "polars.DataFrame":
            columns = list(value.columns[:_MAX_COLUMNS])
            rows = value[:, :_MAX_COLUMNS].iter_rows()
            return Frame(length=value.height, items=rows, columns=columns, width=value.width)
        case "polars.Series":
            heading = f"series {len(value):,} of {value.dtype}"
            return Frame(length=len(value), items=iter(value), heading=heading)
        case _:
            return None


def scalar_of_array(value: Any, cls: type) -> tuple[bool, object]:
    """Return an item of an array, or an array of no dimension, as a Python value, and whether it is one."""
    kind = _kind(cls)
    if kind == "numpy.generic" or (kind == "numpy.ndarray" and value.ndim == 0):
        item = value.item()
        return type(item) is not cls, item
    return False, None


def _kind(cls: type) -> str | None:
    """Return the known type that a class is exactly, without running its code."""
    if not _is_own(cls):
        return None
    name = type_name(cls)
    for library in _LIBRARIES:
        module = sys.modules.get(library)
        if module is None:
            continue
        if name in ("DataFrame", "Series", "ndarray") and instance_dictionary(module).get(name) is cls:
            return f"{library}.{name}"
        if library == "numpy" and any(base is module.generic for base in cls.__mro__):
            return "numpy.generic"
    return None


def _is_own(cls: type) -> bool:
    """Whether a class claims to belong to one of these libraries."""
    module: object = _module_of_type(cls)
    return type(module) is str and module.partition(".")[0] in _LIBRARIES


def _array(array: Any, heading: str) -> Frame:
    length = len(array)
    if array.ndim == 1:
        items: Iterator[Any] = map(array.item, range(length))
    else:
        items = (_Row(array[index]) for index in range(length))
    return Frame(length=length, items=items, heading=heading)


def _pandas_frame(frame: Any) -> Frame | None:
    if not _are_own((frame.index, *frame.dtypes)):
        return None  # columns of an extension, whose code would run
    shown = frame.iloc[:, :_MAX_COLUMNS]
    columns = list(shown.columns)
    has_index = not _only_counts(frame.index)
    if has_index:
        columns.insert(0, "index" if frame.index.name is None else frame.index.name)
    present = _without_missing()
    rows = (tuple(map(present, row)) for row in shown.itertuples(index=has_index, name=None))
    return Frame(length=len(frame), items=rows, columns=columns, width=len(frame.columns) + has_index)


def _only_counts(index: Any) -> bool:
    is_range = type_name(_class_of(index)) == "RangeIndex"
    return is_range and index.start == 0 and index.step == 1 and index.name is None


def _pandas_series(series: Any) -> Frame | None:
    if not _are_own((series.dtype,)):
        return None
    heading = f"series {len(series):,} of {series.dtype.name}"
    return Frame(length=len(series), items=map(_without_missing(), series), heading=heading)


def _are_own(values: Iterable[object]) -> bool:
    return all(_is_own(_class_of(value)) for value in values)


def _class_of(value: object) -> type:
    return type(value)


def _without_missing() -> Callable[[object], object]:
    """Return a converter that turns pandas' markers of missing values, except NaN, into None."""
    pandas = instance_dictionary(sys.modules["pandas"])
    missing = (pandas.get("NaT"), pandas.get("NA"))
    return lambda value: None if any(value is each for each in missing) else value


_encode: Callable[[object], str] = json.JSONEncoder(ensure_ascii=False).encode

_LEAST_ROWS = 4


def find_table(records: Sequence[object], values: list[Part], length: int) -> Table | None:
    """Make a table of a list, if its items are like records and a table is shorter.

    Args:
        records: The available items.
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
        columns: The names of the available columns.
        values: The available rows, as records. Rows with fewer available values than the first are left out.
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
        mark: The mark of further columns.
    """
    row_type = f" of {table.row_type}" if table.row_type else ""
    columns = ", ".join(map(_encode, table.columns))
    more = f", {mark}" if mark else ""
    return f"table {table.length:,} x {table.width:,}{row_type}: {columns}{more}"


def _columns(value: Part) -> list[str] | None:
    """The names of a record's fields; None when it is no record, or is incomplete."""
    if isinstance(value, dict):
        return list(value)
    if isinstance(value, Parts) and value.keys is not None and len(value.keys) == value.length:
        return value.keys
    return None


def _cells(value: Part) -> list[Part]:
    if isinstance(value, Parts):
        return value.values
    return list(cast("dict[str, Part]", value).values())

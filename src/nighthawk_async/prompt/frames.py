"""Tables and arrays of pandas, polars and numpy, prepared for reading.

They are read if the program has imported these libraries: only objects of exactly the libraries' own types,
by the libraries' own methods; nothing is imported here.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct

from ..types.json import JsonableValue
from .large_values import Numbers, numbers_of_array, rows_of_numbers
from .plain_text import class_of, instance_dictionary, type_name

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
        last: Gives the last rows or items.
        numbers: Gives the facts about the numbers of an array.
        rows_of_numbers: Gives those about the numbers of each available column of a table.
    """

    length: int
    items: Iterator[Any]
    columns: list[object] | None = None
    width: int = 0
    heading: str = ""
    last: Callable[[int], Iterable[Any]]
    numbers: Callable[[], Numbers | None] = lambda: None
    rows_of_numbers: Callable[[], dict[str, list[JsonableValue]]] = dict


class Row(Struct, frozen=True):
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
    if cls is Row:
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
            shown = value[:, :_MAX_COLUMNS]
            return Frame(
                length=value.height,
                items=shown.iter_rows(),
                columns=columns,
                width=value.width,
                last=lambda count: shown.tail(count).iter_rows(),
                rows_of_numbers=lambda: rows_of_numbers(
                    lambda column=column: _polars_numbers(column) for column in shown.get_columns()
                ),
            )
        case "polars.Series":
            return Frame(
                length=len(value),
                items=iter(value),
                heading=f"series {len(value):,} of {value.dtype}",
                last=value.tail,
                numbers=lambda: _polars_numbers(value),
            )
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
    try:
        module: object = _module_of_type(cls)
    except AttributeError:  # made by `type` in code without a module
        return False
    return type(module) is str and module.partition(".")[0] in _LIBRARIES


def _array(array: Any, heading: str) -> Frame:
    length = len(array)

    def items(start: int) -> Iterator[Any]:
        if array.ndim == 1:
            return map(array.item, range(start, length))
        return (Row(array[index]) for index in range(start, length))

    return Frame(
        length=length,
        items=items(0),
        heading=heading,
        last=lambda count: items(max(0, length - count)),
        numbers=lambda: numbers_of_array(array, sys.modules["numpy"]) if heading else None,
    )


def _pandas_frame(frame: Any) -> Frame | None:
    if not _are_own((frame.index, *frame.dtypes)):
        return None  # columns of an extension, whose code would run
    shown = frame.iloc[:, :_MAX_COLUMNS]
    columns = list(shown.columns)
    has_index = not _only_counts(frame.index)
    if has_index:
        columns.insert(0, "index" if frame.index.name is None else frame.index.name)
    present = _without_missing()

    def rows(part: Any) -> Iterator[Any]:
        return (tuple(map(present, row)) for row in part.itertuples(index=has_index, name=None))

    def facts() -> dict[str, list[JsonableValue]]:
        finders = [
            lambda index=index: _pandas_numbers(shown.iloc[:, index]) for index in range(len(shown.columns))
        ]
        return rows_of_numbers([lambda: None, *finders] if has_index else finders)

    return Frame(
        length=len(frame),
        items=rows(shown),
        columns=columns,
        width=len(frame.columns) + has_index,
        last=lambda count: rows(shown.iloc[max(0, len(frame) - count) :]),
        rows_of_numbers=facts,
    )


def _pandas_numbers(series: Any) -> Numbers | None:
    numpy = sys.modules.get("numpy")
    array = series.to_numpy()
    return numbers_of_array(array, numpy) if numpy is not None and type(array) is numpy.ndarray else None


def _polars_numbers(series: Any) -> Numbers | None:
    numpy = sys.modules.get("numpy")
    if numpy is None or not series.dtype.is_numeric():
        return None
    return numbers_of_array(series.drop_nulls().to_numpy(), numpy)


def _only_counts(index: Any) -> bool:
    is_range = type_name(class_of(index)) == "RangeIndex"
    return is_range and index.start == 0 and index.step == 1 and index.name is None


def _pandas_series(series: Any) -> Frame | None:
    if not _are_own((series.dtype,)):
        return None
    return Frame(
        length=len(series),
        items=map(_without_missing(), series),
        heading=f"series {len(series):,} of {series.dtype.name}",
        last=lambda count: map(_without_missing(), series.iloc[max(0, len(series) - count) :]),
        numbers=lambda: _pandas_numbers(series),
    )


def _are_own(values: Iterable[object]) -> bool:
    return all(_is_own(class_of(value)) for value in values)


def _without_missing() -> Callable[[object], object]:
    """Return a converter that turns pandas' markers of missing values, except NaN, into None."""
    pandas = instance_dictionary(sys.modules["pandas"])
    missing = (pandas.get("NaT"), pandas.get("NA"))
    return lambda value: None if any(value is each for each in missing) else value

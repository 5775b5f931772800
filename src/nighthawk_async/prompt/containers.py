"""Containers and objects of any program, prepared for reading, and the keys of mappings as text.

None of their own code runs. Lists of like records become tables, which name their columns once. Keys are
written in Python's notation, so that code can name them.
"""

import datetime as dt
import gc
import math
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from itertools import islice, takewhile
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, cast
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from ..types.json import JsonableValue
from .frames import Frame, Row, find_frame, is_frame_type, scalar_of_array
from .large_values import Numbers
from .objects import object_fields
from .plain_text import (
    KEY_MARK,
    Noun,
    Part,
    Parts,
    ShownKey,
    Table,
    class_of,
    class_value,
    clean_text,
    encode,
    has_base,
    is_class,
    is_string,
    kinds_of,
    resolution_order,
    single_line,
    type_name,
)
from .scalars import find_scalar_text, is_known_zone, zone_of

KEY_CHARACTERS = 128
"""The greatest length of a key, or of a part of one."""

ARGUMENT = ""
"""The key of a positional argument in the call that stands for an object."""

_Item = TypeVar("_Item")


_LEAST_ROWS = 4


def find_table(
    records: Sequence[object], values: list[Part], length: int, gap: int | None = None
) -> Table | None:
    """Make a table of a list, if its items are like records and a table is shorter.

    Args:
        records: The available items.
        values: The same, converted; perhaps not all of them.
        length: The number of items of the whole list.
        gap: The number of first items, where the others are its last ones.
    """
    if len(values) < _LEAST_ROWS:
        return None
    columns = _columns(next((value for value in values if not _is_name(value)), None))
    if not columns or ARGUMENT in columns or len(kinds_of(records)) > 1:
        return None
    rows: list[list[Part]] = []
    for value in values:
        if _is_name(value):
            rows.append([value])
            continue
        if _columns(value) != columns:
            return None
        rows.append(_cells(value))
    table = Table(
        row_type=type_name(class_of(records[0])),
        columns=columns,
        rows=rows,
        length=max(length, len(rows)),
        width=len(columns),
        gap=gap,
    )
    per_row = 2 + sum(len(encode(column)) + 2 for column in columns)
    named = sum(map(_is_name, values))
    return table if len(table_heading(table)) < (len(rows) - named) * per_row else None


def _is_name(value: Part) -> bool:
    """Whether a record is named, because another place shows it."""
    return type(value) is str and value.startswith(KEY_MARK)


def frame_table(
    columns: list[str],
    values: list[Part],
    *,
    length: int,
    width: int,
    gap: int | None = None,
    facts: Mapping[str, list[JsonableValue]] | None = None,
) -> Table:
    """Make a table of the rows of a frame.

    Args:
        columns: The names of the available columns.
        values: The available rows, as records. Rows with fewer available values than the first are left out.
        length: The number of rows of the whole.
        width: The number of columns of the whole.
        gap: The number of first rows, where the others are its last ones.
        facts: Facts about all rows by their names, with a value for each available column.
    """
    rows = [_cells(value) for value in values]
    count = min(map(len, rows)) if gap is not None else len(rows[0]) if rows else len(columns)
    rows = [row[:count] for row in takewhile(lambda row: len(row) >= count, rows)]
    return Table(
        row_type="",
        columns=columns[:count],
        rows=rows,
        length=length,
        width=width,
        gap=gap,
        facts={name: row[:count] for name, row in (facts or {}).items()},
    )


def table_heading(table: Table, mark: str = "") -> str:
    """Return the heading of a table: the shape, the class of the rows and the names of the columns.

    Args:
        table: The table.
        mark: The mark of further columns.
    """
    row_type = f" of {table.row_type}" if table.row_type else ""
    columns = ", ".join(map(encode, table.columns))
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


class Opened(Struct, frozen=True):
    """A container prepared for reading: its length, its items or pairs, its end, and facts about a frame."""

    length: int
    items: Iterator[Any]
    noun: Noun = "items"
    is_unordered: bool = False
    columns: list[str] | None = None
    width: int = 0
    heading: str = ""
    frame: Frame | None = None
    last: Callable[[int], Iterable[Any]] | None = None
    numbers: Callable[[], Numbers | None] = lambda: None


_Open: TypeAlias = Callable[[Any], Opened]


def is_container_type(cls: type) -> bool:
    """Whether values of a class are previewed by their items: containers, tables, arrays."""
    return _find_open(cls) is not None or is_frame_type(cls)


def open_container(value: object, cls: type, *, is_marked: bool) -> Opened | None:
    """Prepare a container, a table, an array or an object for reading; None for any other value."""
    opener = _find_open(cls)
    if opener is not None:
        return opener(value)
    frame = find_frame(value, cls)
    if frame is not None:
        return _open_frame(frame, is_marked=is_marked)
    return open_fields(object_fields(value))


def open_fields(fields: Mapping[str, object]) -> Opened | None:
    """Prepare the fields of an object that is no container for reading; None when it has none."""
    return Opened(len(fields), iter(fields.items()), noun="fields") if fields else None


def is_object_type(cls: type) -> bool:
    """Whether values of a class are objects with an identity: no scalars, no containers, no tuples.

    Args:
        cls: The class.
    """
    return not (
        id(cls) in OPENERS
        or find_scalar_text(cls) is not None
        or _find_open(cls) is not None
        or is_frame_type(cls)
        or cls is Row
    )


def notation_of_type(cls: type) -> str:
    """The name of a class before the parenthesis of its call; the name is any text."""
    return _named(type_name(cls))


def with_arguments_apart(error: Opened) -> Opened:
    """The fields of an exception with its arguments in front, each without a name.

    Args:
        error: The fields.
    """
    fields: dict[str, Any] = dict(error.items)
    if type(fields.get("args")) is not tuple:
        return Opened(error.length, iter(fields.items()), noun="fields")
    arguments: tuple[object, ...] = fields.pop("args")
    pairs = [*((ARGUMENT, each) for each in arguments), *fields.items()]
    return Opened(len(pairs), iter(pairs), noun="fields")


def _open_frame(frame: Frame, *, is_marked: bool) -> Opened:
    if frame.columns is None:
        return Opened(frame.length, frame.items, heading=frame.heading, frame=frame)
    columns = list(made_distinct([key_text(column, is_marked=is_marked) for column in frame.columns]))
    keys = [ShownKey(column) if column.startswith(KEY_MARK) else column for column in columns]

    def records(rows: Iterable[Any]) -> Iterator[dict[Any, Any]]:
        return (dict(zip(keys, row, strict=True)) for row in rows)

    def last(count: int) -> Iterator[dict[Any, Any]]:
        return records(frame.last(count))

    return Opened(
        frame.length,
        records(frame.items),
        columns=columns,
        width=frame.width,
        frame=replace(frame, last=last),
    )


def _find_open(cls: type) -> _Open | None:
    for base in resolution_order(cls):
        opener = OPENERS.get(id(base))
        if opener is not None:
            return opener
    return None


def _opener(kind: Any, *, is_unordered: bool = False) -> _Open:
    """Return a reader of values of a kind, subclasses included, that uses the methods of that kind itself."""

    def open_(value: object) -> Opened:
        return Opened(kind.__len__(value), kind.__iter__(value), is_unordered=is_unordered)

    return open_


def _open_tuple(value: tuple[object, ...]) -> Opened:
    opened = _opener(tuple)(value)
    names = None if type(value) is tuple else class_value(type(value), "_fields")
    if type(names) is tuple and len(fields := cast("tuple[str, ...]", names)) == opened.length:
        return Opened(opened.length, zip(fields, opened.items, strict=True), noun="fields")
    return opened


def _open_mapping(value: object) -> Opened:
    # An ordered dictionary keeps its order apart from `dict`; only an exact one is safe to ask for it.
    kind: Any = OrderedDict if type(value) is OrderedDict else dict
    return Opened(kind.__len__(value), iter(kind.items(value)), noun="keys")


def _open_proxy(value: MappingProxyType[object, object]) -> Opened:
    mapping: object = gc.get_referents(value)[0]  # a method of the proxy would call those of the mapping
    if has_base(type(mapping), dict):
        return _open_mapping(mapping)
    return Opened(1, iter([mapping]))


OPENERS: dict[int, _Open] = {
    id(MappingProxyType): _open_proxy,
    id(list): _opener(list),
    id(tuple): _open_tuple,
    id(dict): _open_mapping,
    id(set): _opener(set, is_unordered=True),
    id(frozenset): _opener(frozenset, is_unordered=True),
    id(deque): _opener(deque),
}
"""The reader of each kind of container; keyed by identity, see `scalars`."""


def take(items: Iterable[_Item], count: int) -> list[_Item]:
    """The first items; fewer when another thread changes the container meanwhile."""
    taken: list[_Item] = []
    try:
        taken.extend(islice(items, count))
    except RuntimeError:  # another thread changed the container
        return taken
    return taken


_SORTABLE_TYPES = {id(kind) for kind in (str, int, float, bytes)}


def sorted_where_possible(parts: list[Any]) -> list[Any]:
    """The items of a set in their order, if they have one."""
    kinds = kinds_of(parts)
    if len(kinds) == 1 and kinds <= _SORTABLE_TYPES:
        return sorted(parts)
    return parts


def key_text(key: object, *, is_marked: bool) -> str:
    """The text of a key; one that is no text is in Python's notation, and marked if it needs no quotes."""
    if type(key) is ShownKey:
        return str(key)
    if is_string(key) and not has_base(type(key), Enum):
        shown = clean_text(str.__getitem__(key, slice(0, KEY_CHARACTERS)))
        return shown if str.__len__(key) <= KEY_CHARACTERS else shown + "…"
    return KEY_MARK * is_marked + key_notation(key)


def made_distinct(keys: list[str]) -> Iterator[str]:
    """Distinguish keys that differ in Python and read the same, as `1` and `"1"` do."""
    taken = set(keys)
    if len(taken) == len(keys):
        yield from keys
        return
    numbers: dict[str, int] = {}
    for key in keys:
        candidate, number = key, numbers.get(key, 0)
        while number and candidate in taken:
            number += 1
            candidate = f"{key} ({number})"
        taken.add(candidate)
        numbers[key] = max(number, 1)
        yield candidate


_KEY_ITEMS = 8
_SORTED_KEY_ITEMS = 64
"""The greatest number of items of a set that are looked at, so that mostly the same are shown."""

_STRUCTURE = frozenset("{}[](),:;\"'\\")
"""Characters that a name has only to look like something else."""

_KEY_DEPTH = 4
_INTEGER_BITS = 512


def key_notation(key: object) -> str:
    """Return a key, as Python code writes it where that is possible, on one line and of bounded length.

    Args:
        key: A key that is not exactly a `str`.
    """
    return single_line(clean_text(_notation(key, 0)), KEY_CHARACTERS)


def _notation(key: object, depth: int) -> str:
    kind = type(key)
    written = _WRITERS.get(id(kind))
    if written is not None:
        return written(key)
    if depth >= _KEY_DEPTH:
        return "…"
    if kind is tuple:
        parts = cast("tuple[object, ...]", key)
        items = _joined(parts, depth)
        return f"({items},)" if len(parts) == 1 else f"({items})"
    if kind is frozenset:
        return _frozen_set(cast("frozenset[object]", key), depth)
    if has_base(kind, dt.datetime) or has_base(kind, dt.time):
        return _moment(cast("dt.datetime | dt.time", key))
    if is_class(key):
        name = type_name(key)
        return name if name.isidentifier() else _named(f"<class {name}>")
    text = find_scalar_text(kind)
    if text is not None:
        return _inherited(key, kind, text, depth)
    is_item, item = scalar_of_array(key, kind)
    if is_item:
        return _notation(item, depth)
    if has_base(kind, tuple):
        return _named_tuple(cast("tuple[object, ...]", key), kind, depth)
    fields = object_fields(key)
    return _call(kind, fields, depth) if fields else _named(f"<{type_name(kind)}>")


def _named(text: str) -> str:
    """A text with a name in it; the name is any text."""
    return text if _STRUCTURE.isdisjoint(text) else f"<{text!r}>"


def _inherited(key: Any, kind: type, text: Callable[[Any, int], object], depth: int) -> str:
    """The notation of an enumeration member, or of an instance of a subclass."""
    shown = text(key, KEY_CHARACTERS)
    if has_base(kind, Enum):
        return _named(str(shown)).replace("|", f"|{type_name(kind)}.")
    if kind is range:
        return str(shown)
    if has_base(kind, str):
        return _string(str.__str__(key))
    if has_base(kind, int):
        return _integer(int.__int__(key))
    if has_base(kind, float):
        return _real(float.__float__(key))
    if has_base(kind, bytes):
        return _octets(key)
    if type(shown) is str and not shown.startswith("<"):
        return f"{_named(type_name(kind))}({shown!r})"
    return _named(str(shown))


def _joined(items: Iterable[object], depth: int) -> str:
    shown = [_notation(each, depth + 1) for each in islice(items, _KEY_ITEMS + 1)]
    return ", ".join([*shown[:_KEY_ITEMS], "…"] if len(shown) > _KEY_ITEMS else shown)


def _frozen_set(key: frozenset[object], depth: int) -> str:
    if not key:
        return "frozenset()"
    shown = sorted(_notation(each, depth + 1) for each in islice(key, _SORTED_KEY_ITEMS))
    return f"frozenset({{{', '.join([*shown[:_KEY_ITEMS], '…'] if len(key) > _KEY_ITEMS else shown)}}})"


def _named_tuple(key: tuple[object, ...], kind: type, depth: int) -> str:
    names = class_value(kind, "_fields")
    tuples: Any = tuple  # whose own method is called
    items: Iterable[object] = tuples.__iter__(key)
    if type(names) is not tuple:
        return f"{_named(type_name(kind))}(({_joined(items, depth)}))"
    return _call(kind, dict(zip(cast("tuple[str, ...]", names), items, strict=False)), depth)


def _call(kind: type, fields: Mapping[str, object], depth: int) -> str:
    first = islice(fields.items(), _KEY_ITEMS)
    shown = [f"{_named(name)}={_notation(each, depth + 1)}" for name, each in first]
    return f"{_named(type_name(kind))}({', '.join([*shown, '…'] if len(fields) > _KEY_ITEMS else shown)})"


def _moment(key: dt.datetime | dt.time) -> str:
    """The notation of a date and time, or of a time, whose zone may be of a user's class."""
    kind: type = type(key)
    base: Any = dt.datetime if has_base(kind, dt.datetime) else dt.time
    if kind is base and is_known_zone(zone_of(key)):
        return repr(key)
    text = find_scalar_text(base)
    return f"<{type_name(kind)} {text(key, KEY_CHARACTERS) if text else ''}>"


def _string(key: str) -> str:
    shown = str.__getitem__(key, slice(0, KEY_CHARACTERS))
    return repr(shown) if len(shown) == str.__len__(key) else f"{shown!r}…"


def _integer(key: int) -> str:
    bits = int.bit_length(key)
    return int.__repr__(key) if bits <= _INTEGER_BITS else f"<int of {bits} bits>"


def _real(key: float) -> str:
    text = float.__repr__(key)
    return text if math.isfinite(key) else f"float({text!r})"


def _octets(key: bytes) -> str:
    shown = bytes.__getitem__(key, slice(0, KEY_CHARACTERS // 4))
    return repr(shown) if len(shown) == bytes.__len__(key) else f"{shown!r}…"


def _fraction(key: Fraction) -> str:
    bits = key.numerator.bit_length() + key.denominator.bit_length()
    return repr(key) if bits <= _INTEGER_BITS else f"<Fraction of {bits} bits>"


_WRITERS: Mapping[int, Callable[[Any], str]] = {
    id(type(None)): repr,
    id(type(...)): lambda key: "...",
    id(bool): repr,
    id(int): _integer,
    id(float): _real,
    id(complex): repr,
    id(str): _string,
    id(bytes): _octets,
    id(Decimal): repr,
    id(Fraction): _fraction,
    id(uuid.UUID): repr,
    id(dt.date): repr,
    id(dt.timedelta): repr,
    id(dt.timezone): repr,
    id(ZoneInfo): repr,
    **{id(path): repr for path in (PosixPath, WindowsPath, PurePosixPath, PureWindowsPath)},
}
"""Writers of values of exactly these types; keyed by identity, see `scalars`."""

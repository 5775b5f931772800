"""Bounded conversion of any Python value into JSON values.

Not a serializer: the result is only displayed. The number of visited cells is bounded (a value is a cell, and
every few characters of a text are another), whatever the value's size, depth or shape, and none of its own
code runs.
"""

import gc
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from itertools import islice
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, cast

from msgspec import Struct

from ..secret_names import HIDDEN, hides_value, names_secret_value
from ..types.json import JsonableValue
from .key_notation import key_notation
from .objects import object_fields
from .plain_text import (
    KEY_MARK,
    Noun,
    Part,
    Parts,
    ShownKey,
    Text,
    clean_text,
    fair_level,
    find_class_attribute,
    has_base,
    resolution_order,
    type_name,
)
from .scalars import SCALARS, find_scalar_text
from .tables import Frame, find_frame, find_table, frame_table, is_frame_type, scalar_of_array

_CHARACTERS_PER_CELL = 16
_SHORTEST_TEXT = 16
_MAX_DEPTH = 48
_KEY_CELLS = 8
_KEY_CHARACTERS = _KEY_CELLS * _CHARACTERS_PER_CELL
_LEAST_CELLS_OF_PAIR = 2
_CELLS_PER_SCALAR = 2
_LEAST_PARTS = 8

_Item = TypeVar("_Item")


class BoundedValue(Struct, frozen=True, kw_only=True):
    """The part of a value that can be shown.

    Args:
        value: The JSON value.
        is_complete: Whether nothing is missing.
    """

    value: JsonableValue
    is_complete: bool


class WholeValue(Struct, frozen=True, kw_only=True):
    """All of a value.

    Args:
        part: The value.
        is_json: Whether it is plain JSON, because there is no table in it.
    """

    part: Part
    is_json: bool


def to_bounded_value(value: object, *, cells: int, show_secrets: bool = False) -> BoundedValue:
    """Convert all of a small value, or an even selection of the parts of a larger one.

    Args:
        value: Any value.
        cells: The approximate number of parts to visit.
        show_secrets: Whether to show values with secret names.
    """
    whole = whole_value(value, cells=cells, with_tables=False, show_secrets=show_secrets)
    if whole is not None:
        return BoundedValue(value=cast("JsonableValue", whole.part), is_complete=True)
    some = some_parts(value, cells=cells, with_tables=False, show_secrets=show_secrets)
    return BoundedValue(value=_as_json(some), is_complete=False)


def whole_value(
    value: object, *, cells: int, with_tables: bool, show_secrets: bool = False
) -> WholeValue | None:
    """Convert all of a value; return None when it has more parts than there are cells.

    Args:
        value: Any value.
        cells: The number of parts that may be visited.
        with_tables: Whether the form may be shorter than JSON: like records become tables, and keys that are
            no texts stand without quotes.
        show_secrets: Whether to show values with secret names.
    """
    walk = _Walk(is_selective=False, with_tables=with_tables, show_secrets=show_secrets)
    try:
        part, _ = walk.convert(value, cells, 0)
    except _TooLarge:
        return None
    return WholeValue(part=part, is_json=not walk.has_tables)


def some_parts(value: object, *, cells: int, with_tables: bool, show_secrets: bool = False) -> Part:
    """Convert an even selection of the parts of a value that is too large.

    Args:
        value: Any value.
        cells: About how many parts to visit.
        with_tables: Whether the form may be shorter than JSON: like records become tables, and keys that are
            no texts stand without quotes.
        show_secrets: Whether to show values with secret names.
    """
    walk = _Walk(is_selective=True, with_tables=with_tables, show_secrets=show_secrets)
    return walk.convert(value, cells, 0)[0]


def is_container_type(cls: type) -> bool:
    """Whether values of a class are previewed by their items: containers, tables, arrays."""
    return _find_open(cls) is not None or is_frame_type(cls)


class _TooLarge(Exception):  # noqa: N818  (not an error: it ends the attempt to convert everything)
    pass


class _Opened(Struct, frozen=True):
    """A container prepared for reading: its length, its items or pairs, and further facts about a frame."""

    length: int
    items: Iterator[Any]
    noun: Noun = "items"
    is_unordered: bool = False
    columns: list[str] | None = None
    width: int = 0
    heading: str = ""

    @property
    def has_keys(self) -> bool:
        return self.noun != "items"


_Open: TypeAlias = Callable[[Any], _Opened]


class _Walk:
    """One pass over a value.

    A selective pass gives every part its share of the cells; the other kind stops when there are too few.
    """

    __slots__ = ("_is_selective", "_path", "_show_secrets", "_with_tables", "has_tables")

    def __init__(self, *, is_selective: bool, with_tables: bool, show_secrets: bool) -> None:
        self.has_tables = False
        self._is_selective = is_selective
        self._with_tables = with_tables
        self._show_secrets = show_secrets
        self._path: set[int] = set()

    def convert(self, value: object, cells: int, depth: int) -> tuple[Part, int]:
        """Convert a value within a number of cells; return it and the number of cells it took."""
        if value is None or type(value) is bool or (type(value) is int and value.bit_length() < 64):
            return value, 1
        if type(value) is str and value.isascii():  # as most are; one that fits is shown as it is
            cost = 1 + len(value) // _CHARACTERS_PER_CELL
            if cost <= cells:
                return value, cost
        cls = type(value)
        render, opener = SCALARS.get(id(cls)), _OPENERS.get(id(cls))
        if render is None and opener is None:
            render = find_scalar_text(cls)
        if render is not None:
            return self._charged(render(value, max(_SHORTEST_TEXT, cells * _CHARACTERS_PER_CELL)), cells)
        opened = _open(value, cls, is_marked=self._with_tables) if opener is None else opener(value)
        if opened is None:
            is_item, item = scalar_of_array(value, cls)
            return self.convert(item, cells, depth) if is_item else (f"<{type_name(cls)}>", 1)
        if id(value) in self._path:
            return f"<circular: {type_name(cls)}>", 1
        self._path.add(id(value))
        try:
            return self._convert_parts(opened, cells, depth)
        finally:
            self._path.discard(id(value))

    def _charged(self, rendered: JsonableValue | Text, cells: int) -> tuple[Part, int]:
        if isinstance(rendered, Text):
            if not self._is_selective:
                raise _TooLarge
            return rendered, 1 + len(rendered.beginning) // _CHARACTERS_PER_CELL
        if type(rendered) is not str:
            return rendered, 1
        cost = 1 + len(rendered) // _CHARACTERS_PER_CELL
        if cost > cells and not self._is_selective:
            raise _TooLarge
        return rendered, cost

    def _convert_parts(self, opened: _Opened, cells: int, depth: int) -> tuple[Part, int]:
        parts = self._selected_parts(opened, cells, depth)
        remaining = cells - 1
        shares = self._shares(parts, opened, remaining) if self._is_selective else None
        values: list[Part] = []
        keys: list[str] = []
        unspent = 0
        has_keys = opened.has_keys
        for index, part in enumerate(parts):
            share = remaining if shares is None else max(1, shares[index] + unspent)
            key, item = part if has_keys else (None, part)
            spent = 0
            if has_keys:
                if type(key) is str and len(key) <= _KEY_CHARACTERS:
                    keys.append(key if key.isascii() else clean_text(key))
                    if not self._show_secrets and names_secret_value(key) and hides_value(key, item):
                        item = HIDDEN
                else:
                    keys.append(self._key_text(key))  # no name of a secret, which is shorter
                spent = len(keys[-1]) // _CHARACTERS_PER_CELL
            converted, cost = self.convert(item, share, depth + 1)
            values.append(converted)
            remaining -= spent + cost
            unspent = share - spent - cost
            if remaining < 0 and not self._is_selective:
                raise _TooLarge
            if remaining < 0:
                break
        if self._with_tables and not has_keys:
            table = self._find_table(opened, parts, values)
            if table is not None:
                self.has_tables = True
                return table, cells - remaining
        named = list(_made_distinct(keys)) if len(set(keys)) < len(keys) else keys if has_keys else None
        return self._assembled(opened, named, values), cells - remaining

    def _key_text(self, key: object) -> str:
        return _key_text(key, is_marked=self._with_tables)

    def _find_table(self, opened: _Opened, records: list[Any], values: list[Part]) -> Part | None:
        """The items in a container with a shape."""
        if opened.columns is not None:
            return frame_table(opened.columns, values, length=opened.length, width=opened.width)
        if opened.heading:
            return Parts(
                values=values, keys=None, length=opened.length, noun=opened.noun, heading=opened.heading
            )
        return find_table(records, values, opened.length)

    def _selected_parts(self, opened: _Opened, cells: int, depth: int) -> list[Any]:
        room = cells - 1 if depth < _MAX_DEPTH else 0
        least = opened.length * _LEAST_CELLS_OF_PAIR if opened.has_keys else opened.length
        if least > room and not self._is_selective:
            raise _TooLarge
        parts = _take(opened.items, min(opened.length, room))
        if self._is_selective and len(parts) > _LEAST_PARTS:
            # A few parts shown well are more useful than all of them shown as stumps.
            del parts[max(_LEAST_PARTS, room // self._usual_cost(parts[0], opened, room, depth)) :]
        return _sorted_where_possible(parts) if opened.is_unordered else parts

    def _usual_cost(self, part: Any, opened: _Opened, room: int, depth: int) -> int:
        """The cells that a part takes, estimated from the first."""
        item: object = part[1] if opened.has_keys else part
        if find_scalar_text(type(item)) is not None:
            return _CELLS_PER_SCALAR
        return _CELLS_PER_SCALAR * max(2, self.convert(item, room // _LEAST_PARTS, depth + 1)[1])

    def _shares(self, parts: list[Any], opened: _Opened, cells: int) -> list[int]:
        """The cells of each part in a selective pass: as many as it needs, large ones equally many."""
        demands = [_demand(part[1] if opened.has_keys else part, cells) for part in parts]
        level = fair_level(demands, cells)
        return [min(demand, level) for demand in demands]

    def _assembled(self, opened: _Opened, keys: list[str] | None, values: list[Part]) -> Part:
        if self._is_selective:
            return Parts(values=values, keys=keys, length=max(opened.length, len(values)), noun=opened.noun)
        complete = cast("list[JsonableValue]", values)
        return complete if keys is None else dict(zip(keys, complete, strict=True))


def _demand(value: object, cells: int) -> int:
    """Return the number of cells of a value, as far as it is known without visiting it."""
    cls = type(value)
    if has_base(cls, str):
        return min(cells, 1 + str.__len__(cast("str", value)) // _CHARACTERS_PER_CELL)
    return _CELLS_PER_SCALAR if find_scalar_text(cls) is not None else cells


def _as_json(part: Part) -> JsonableValue:
    """The available parts as JSON, with an ellipsis at the end of texts that are cut."""
    if isinstance(part, Text):
        return part.beginning + "…"
    if not isinstance(part, Parts):
        return cast("JsonableValue", part)  # a table was not requested
    values = [_as_json(value) for value in part.values]
    return values if part.keys is None else dict(zip(part.keys, values, strict=True))


def _take(items: Iterable[_Item], count: int) -> list[_Item]:
    taken: list[_Item] = []
    try:
        taken.extend(islice(items, count))
    except RuntimeError:
        # Another thread changed the container meanwhile; the parts read so far are shown.
        return taken
    return taken


def _sorted_where_possible(parts: list[Any]) -> list[Any]:
    kinds = {id(type(cast(object, part))) for part in parts}
    if len(kinds) == 1 and kinds <= _SORTABLE_TYPES:
        return sorted(parts)
    return parts


def _key_text(key: object, *, is_marked: bool) -> str:
    """The text of a key; one that is no text is in Python's notation, and marked if it needs no quotes."""
    if type(key) is ShownKey:
        return str(key)
    if has_base(type(key), str) and not has_base(type(key), Enum):
        text = cast("str", key)
        shown = clean_text(str.__getitem__(text, slice(0, _KEY_CHARACTERS)))
        return shown if str.__len__(text) <= _KEY_CHARACTERS else shown + "…"
    return KEY_MARK * is_marked + key_notation(key)


def _made_distinct(keys: list[str]) -> Iterator[str]:
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


def _open(value: object, cls: type, *, is_marked: bool) -> _Opened | None:
    opener = _find_open(cls)
    if opener is not None:
        return opener(value)
    frame = find_frame(value, cls)
    if frame is not None:
        return _open_frame(frame, is_marked=is_marked)
    fields = object_fields(value)
    return _Opened(len(fields), iter(fields.items()), noun="fields") if fields else None


def _open_frame(frame: Frame, *, is_marked: bool) -> _Opened:
    if frame.columns is None:
        return _Opened(frame.length, frame.items, heading=frame.heading)
    columns = list(_made_distinct([_key_text(column, is_marked=is_marked) for column in frame.columns]))
    keys = [ShownKey(column) if column.startswith(KEY_MARK) else column for column in columns]
    rows = (dict(zip(keys, row, strict=True)) for row in frame.items)
    return _Opened(frame.length, rows, columns=columns, width=frame.width)


def _find_open(cls: type) -> _Open | None:
    for base in resolution_order(cls):
        opener = _OPENERS.get(id(base))
        if opener is not None:
            return opener
    return None


def _opener(kind: Any, *, is_unordered: bool = False) -> _Open:
    """Return a reader of values of a kind, subclasses included, that uses the methods of that kind itself."""

    def open_(value: object) -> _Opened:
        return _Opened(kind.__len__(value), kind.__iter__(value), is_unordered=is_unordered)

    return open_


def _open_tuple(value: tuple[object, ...]) -> _Opened:
    opened = _opener(tuple)(value)
    names = None if type(value) is tuple else find_class_attribute(type(value), "_fields")[1]
    if type(names) is tuple and len(cast("tuple[object, ...]", names)) == opened.length:
        pairs = zip(cast("tuple[object, ...]", names), opened.items, strict=True)
        return _Opened(opened.length, pairs, noun="fields")
    return opened


def _open_mapping(value: object) -> _Opened:
    # An ordered dictionary keeps its order apart from `dict`; only an exact one is safe to ask for it.
    kind: Any = OrderedDict if type(value) is OrderedDict else dict
    return _Opened(kind.__len__(value), iter(kind.items(value)), noun="keys")


def _open_proxy(value: MappingProxyType[object, object]) -> _Opened:
    mapping: object = gc.get_referents(value)[0]  # a method of the proxy would call those of the mapping
    if has_base(type(mapping), dict):
        return _open_mapping(mapping)
    return _Opened(1, iter([mapping]))


_OPENERS: dict[int, _Open] = {
    id(MappingProxyType): _open_proxy,
    id(list): _opener(list),
    id(tuple): _open_tuple,
    id(dict): _open_mapping,
    id(set): _opener(set, is_unordered=True),
    id(frozenset): _opener(frozenset, is_unordered=True),
    id(deque): _opener(deque),
}
"""The reader of each kind of container; keyed by identity, see `scalars`."""

_SORTABLE_TYPES = {id(kind) for kind in (str, int, float, bytes)}

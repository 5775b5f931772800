"""A walk over a value that makes the parts which are shown, within a number of cells.

A value is a cell, and every few characters of a text are another. The number of visited cells is bounded,
whatever the value's size, depth or shape, and none of its own code runs.
"""

import math
from operator import is_, itemgetter
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from ..secret_names import HIDDEN, hides_value, names_secret_value
from ..types.json import JsonableValue
from .containers import (
    KEY_CHARACTERS,
    OPENERS,
    Opened,
    find_table,
    frame_table,
    key_text,
    made_distinct,
    notation_of_type,
    open_container,
    open_fields,
    scalar_of_array,
    sorted_where_possible,
    take,
    with_arguments_apart,
)
from .identities import LineObjects, Path, named, path_text
from .large_values import MOST_NUMBERS, last_items, numbers_of, short_number
from .layout import ENDING_OF, MOST_FIELDS
from .plain_text import (
    KEY_MARK,
    Part,
    Parts,
    Text,
    class_of,
    clean_text,
    fair_level,
    has_base,
    is_string,
    kinds_of,
    type_name,
)
from .scalars import SCALARS, find_scalar_text

INTEGER_BITS = 64
"""Greater integers are shown in a way of their own."""

LEAST_CELLS = 64
"""The number of cells that any value gets."""

CHARACTERS_PER_CELL = 16
_SHORTEST_TEXT = 16
MAX_DEPTH = 48
_LEAST_CELLS_OF_PAIR = 2
_CELLS_PER_SCALAR = 2
_LEAST_PARTS = 8
_MOST_WHOLE_NUMBERS = 64


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
    value: object,
    *,
    cells: int,
    with_tables: bool,
    show_secrets: bool = False,
    objects: LineObjects | None = None,
) -> WholeValue | None:
    """Convert all of a value; return None when it has more parts than there are cells.

    Args:
        value: Any value.
        cells: The number of parts that may be visited.
        with_tables: Whether the form may be shorter than JSON: like records become tables, and keys that are
            no texts stand without quotes.
        show_secrets: Whether to show values with secret names.
        objects: Gets the objects that are shown; None when no other value mentions them.
    """
    objects = objects or LineObjects.alone(show_secrets=show_secrets)
    walk = _Walk(is_selective=False, with_tables=with_tables, show_secrets=show_secrets, objects=objects)
    try:
        part = walk.start(value, cells)
    except _TooLarge:
        return None
    return WholeValue(part=part, is_json=not walk.has_tables)


def some_parts(
    value: object,
    *,
    cells: int,
    with_tables: bool,
    show_secrets: bool = False,
    shows_ending: bool = False,
    objects: LineObjects | None = None,
) -> Part:
    """Convert an even selection of the parts of a value that is too large.

    Args:
        value: Any value.
        cells: About how many parts to visit.
        with_tables: Whether the form may be shorter than JSON: like records become tables, and keys that are
            no texts stand without quotes.
        show_secrets: Whether to show values with secret names.
        shows_ending: Whether the last items of containers are selected too, and facts about numbers added.
        objects: Gets the objects that are shown; None when no other value mentions them.
    """
    objects = objects or LineObjects.alone(show_secrets=show_secrets)
    walk = _Walk(is_selective=True, with_tables=with_tables, show_secrets=show_secrets, objects=objects)
    walk.shows_ending = shows_ending
    return walk.start(value, cells)


class _TooLarge(Exception):  # noqa: N818  (not an error: it ends the attempt to convert everything)
    pass


class _Walk:
    """One pass over a value.

    A selective pass gives every part its share of the cells; the other kind stops when there are too few.
    """

    __slots__ = (
        *("_find_reader", "_is_selective", "_kinds", "_numbers_left", "_objects", "_path"),
        *("_plain_keys", "_show_secrets", "_shortens", "_with_tables", "has_tables", "shows_ending"),
    )

    def __init__(
        self, *, is_selective: bool, with_tables: bool, show_secrets: bool, objects: LineObjects
    ) -> None:
        self.has_tables = False
        self.shows_ending = False
        self._numbers_left = MOST_NUMBERS
        self._is_selective = is_selective
        self._shortens = False
        self._with_tables = with_tables
        self._show_secrets = show_secrets
        self._objects = objects
        self._path: dict[int, Path] = {}
        self._kinds: dict[int, tuple[type, str]] = {}
        self._plain_keys: dict[int, list[str]] = {}
        self._find_reader = objects.find_reader

    def start(self, value: object, cells: int) -> Part:
        """Convert the value itself."""
        cls = type(value)
        if id(cls) not in SCALARS and id(cls) not in OPENERS and self._find_reader(cls):
            self._objects.claim(value, cls, self._objects.root)
        return self.convert(value, cells, 0, self._objects.root)[0]

    def convert(self, value: object, cells: int, depth: int, path: Path) -> tuple[Part, int]:
        """Convert a value within a number of cells; return it and the number of cells it took."""
        if value is None or type(value) is bool or (type(value) is int and value.bit_length() < 64):
            return value, 1
        if type(value) is str and value.isascii():  # as most are; one that fits is shown as it is
            cost = 1 + len(value) // CHARACTERS_PER_CELL
            if cost <= cells:
                return value, cost
        if type(value) is float and self._shortens and math.isfinite(value):
            return short_number(value), 1
        cls = type(value)
        render, opener = SCALARS.get(id(cls)), OPENERS.get(id(cls))
        reader = self._find_reader(cls) if render is None and opener is None else None
        if render is None and opener is None and reader is None:
            render = find_scalar_text(cls)
        if render is not None:
            return self._charged(render(value, max(_SHORTEST_TEXT, cells * CHARACTERS_PER_CELL)), cells)
        if reader is not None and (elsewhere := self._objects.name_elsewhere(value, path)) is not None:
            return self._name(elsewhere)
        if reader is not None:
            opened = open_fields(reader.fields(value))
        else:
            opened = opener(value) if opener else open_container(value, cls, is_marked=self._with_tables)
        if opened is None:
            is_item, item = (False, None) if reader else scalar_of_array(value, cls)
            return self.convert(item, cells, depth, path) if is_item else (f"<{type_name(cls)}>", 1)
        if id(value) in self._path:
            return self._name(named(cls, path_text(self._path[id(value)])))
        self._path[id(value)] = path
        try:
            kind = ""
            if depth and self._with_tables and opened.noun == "fields":
                kind, self.has_tables = self._notation(cls), True
                if has_base(cls, BaseException):
                    opened = with_arguments_apart(opened)
            return self._convert_parts(self._with_end(opened, value), cells, depth, path, kind)
        finally:
            del self._path[id(value)]

    def _with_end(self, opened: Opened, value: object) -> Opened:
        """The container with what a selection shows of its end."""
        if not self.shows_ending or opened.noun == "fields":
            return opened
        if opened.is_unordered:
            return replace(opened, numbers=lambda: numbers_of(value))
        if opened.frame is not None:
            return replace(opened, last=opened.frame.last, numbers=opened.frame.numbers)

        def last(count: int) -> list[Any]:
            return last_items(value, count)

        return replace(opened, last=last, numbers=lambda: numbers_of(value))

    def _notation(self, cls: type) -> str:
        known = self._kinds.get(id(cls))
        if known is None:
            known = self._kinds[id(cls)] = cls, notation_of_type(cls)
        return known[1]

    def _name(self, name: str) -> tuple[Part, int]:
        return KEY_MARK + name if self._with_tables else name, 1 + len(name) // CHARACTERS_PER_CELL

    def _charged(self, rendered: JsonableValue | Text, cells: int) -> tuple[Part, int]:
        if isinstance(rendered, Text):
            if not self._is_selective:
                raise _TooLarge
            return rendered, 1 + len(rendered.beginning) // CHARACTERS_PER_CELL
        if type(rendered) is not str:
            return rendered, 1
        cost = 1 + len(rendered) // CHARACTERS_PER_CELL
        if cost > cells and not self._is_selective:
            raise _TooLarge
        return rendered, cost

    def _convert_parts(
        self, opened: Opened, cells: int, depth: int, path: Path, kind: str
    ) -> tuple[Part, int]:
        parts, gap = self._selected_parts(opened, cells, depth, path)
        remaining = cells - 1
        keys, items = self._keys_and_items(opened, parts)
        kinds = kinds_of(items)
        if keys is None and kinds <= _WHOLE_NUMBERS and _are_short(items):
            return self._finished(opened, parts, items, None, kind, gap), cells - remaining + len(items)
        paths = {} if kinds <= _SCALAR_TYPES else self._places(opened, parts, items, path, gap)
        shortens = self._shortens
        is_series = opened.noun == "items" and opened.length > _MOST_WHOLE_NUMBERS  # nobody needs all digits
        self._shortens = self._with_tables and (self._is_selective or shortens or is_series)
        if self._is_selective:
            values, remaining = self._convert_shares(items, keys, remaining, depth, path, paths, gap)
        else:
            values, remaining = self._convert_all(items, keys, remaining, depth, path, paths)
        self._shortens = shortens
        return self._finished(opened, parts, values, keys, kind, gap), cells - remaining

    def _convert_all(
        self,
        items: list[Any],
        keys: list[str] | None,
        remaining: int,
        depth: int,
        path: Path,
        paths: dict[int, Path],
    ) -> tuple[list[Part], int]:
        """Convert all items; return the cells that are left too. Most items are texts and small integers."""
        values: list[Part] = []
        for index, item in enumerate(items):
            kind = class_of(item)
            if kind is str and item.isascii():
                values.append(item)
                remaining -= 1 + len(item) // CHARACTERS_PER_CELL
            elif item is None or kind is bool or (kind is int and item.bit_length() < INTEGER_BITS):
                values.append(item)
                remaining -= 1
            else:
                converted, cost = self.convert(item, remaining, depth + 1, paths.get(index, path))
                values.append(converted)
                remaining -= cost
            if keys is not None:
                remaining -= len(keys[index]) // CHARACTERS_PER_CELL
            if remaining < 0:
                raise _TooLarge
        return values, remaining

    def _convert_shares(
        self,
        items: list[Any],
        keys: list[str] | None,
        remaining: int,
        depth: int,
        path: Path,
        paths: dict[int, Path],
        gap: int | None,
    ) -> tuple[list[Part], int]:
        """Convert what the share of each item has cells for; return the cells that are left too."""
        shares = self._shares(items, remaining)
        values: list[Part] = []
        unspent = 0
        for index, item in enumerate(items):
            share = max(1, shares[index] + unspent)
            spent = 0 if keys is None else len(keys[index]) // CHARACTERS_PER_CELL
            if type(item) is int and item.bit_length() < INTEGER_BITS:
                converted, cost = item, 1
            else:
                converted, cost = self.convert(item, share, depth + 1, paths.get(index, path))
            values.append(converted)
            remaining -= spent + cost
            unspent = share - spent - cost
            if remaining < 0 and gap is None:
                break
        return values, remaining

    def _finished(
        self,
        opened: Opened,
        parts: list[Any],
        values: list[Part],
        keys: list[str] | None,
        kind: str,
        gap: int | None,
    ) -> Part:
        """The container of the converted items: a table, JSON, or parts of which some are missing."""
        if self._with_tables and keys is None:
            table = self._find_table(opened, parts, values, gap)
            if table is not None:
                self.has_tables = True
                return table
        shown = None if keys is None else keys[: len(values)]
        if shown is not None and not kind and len(set(shown)) < len(shown):
            shown = list(made_distinct(shown))
        if self._is_selective or kind:
            return self._parts(opened, shown, values, kind, gap)
        complete = cast("list[JsonableValue]", values)
        return complete if shown is None else dict(zip(shown, complete, strict=True))

    def _parts(
        self, opened: Opened, keys: list[str] | None, values: list[Part], kind: str, gap: int | None
    ) -> Parts:
        return Parts(
            values=values,
            keys=keys,
            length=max(opened.length, len(values)),
            noun=opened.noun,
            heading=opened.heading if self._with_tables else "",
            kind=kind,
            gap=gap,
            facts=self._facts(opened) if len(values) < opened.length else "",
        )

    def _facts(self, opened: Opened) -> str:
        if opened.frame is None:
            self._numbers_left -= opened.length
        numbers = opened.numbers() if self._numbers_left >= 0 else None
        return "" if numbers is None else f", {numbers.text()}"

    def _keys_and_items(self, opened: Opened, parts: list[Any]) -> tuple[list[str] | None, list[Any]]:
        """The keys as text, and the items, secrets among them hidden."""
        if not _has_keys(opened):
            return None, parts
        # Records have the same keys, one after the other; keys are not compared, or hashed.
        plain = self._plain_keys.get(len(parts))
        if plain is not None and all(map(is_, map(itemgetter(0), parts), plain)):
            return plain, [
                self._shown(key, item) if type(item) is str and "://" in item else item for key, item in parts
            ]
        keys: list[str] = []
        items: list[Any] = []
        are_plain = True
        for key, item in parts:
            if type(key) is str and len(key) <= KEY_CHARACTERS:
                keys.append(key if key.isascii() else clean_text(key))
                is_secret = names_secret_value(key)
                are_plain = are_plain and not is_secret and keys[-1] is key
                may_hide = is_secret or (type(item) is str and "://" in item)
                items.append(self._shown(key, item) if may_hide else item)
            else:
                are_plain = False
                keys.append(self._key_text(key))  # no name of a secret, which is shorter
                items.append(item)
        if are_plain:
            self._plain_keys[len(keys)] = keys
        return keys, items

    def _shown(self, key: str, item: object) -> object:
        return HIDDEN if not self._show_secrets and hides_value(key, item) else item

    def _places(
        self, opened: Opened, parts: list[Any], items: list[Any], path: Path, gap: int | None
    ) -> dict[int, Path]:
        """The places of items that have parts. Objects among them are shown here, not deeper in a sibling."""
        paths: dict[int, Path] = {}
        left_out = 0 if gap is None else opened.length - len(parts)
        for index, item in enumerate(items):
            cls = class_of(item)
            if id(cls) in SCALARS:
                continue
            if opened.noun == "fields":
                paths[index] = Path(path, ".", parts[index][0])
            elif _has_keys(opened):
                paths[index] = Path(path, "[", parts[index][0])
            else:
                place = index if gap is None or index < gap else index + left_out
                paths[index] = Path(path, "{" if opened.is_unordered else "[", place)
            if id(cls) not in OPENERS and self._find_reader(cls):
                self._objects.claim(item, cls, paths[index])
        return paths

    def _key_text(self, key: object) -> str:
        return key_text(key, is_marked=self._with_tables)

    def _find_table(
        self, opened: Opened, records: list[Any], values: list[Part], gap: int | None
    ) -> Part | None:
        """The items in a container with a shape."""
        if opened.columns is not None:
            is_cut = self.shows_ending and len(values) < opened.length and opened.frame is not None
            return frame_table(
                opened.columns,
                values,
                length=opened.length,
                width=opened.width,
                gap=gap,
                facts=opened.frame.rows_of_numbers() if is_cut and opened.frame else None,
            )
        if opened.heading:
            return self._parts(opened, None, values, "", gap)
        return find_table(records, values, opened.length, gap)

    def _selected_parts(
        self, opened: Opened, cells: int, depth: int, path: Path
    ) -> tuple[list[Any], int | None]:
        """The parts to convert, and the number of first ones where the others are the last ones."""
        room = cells - 1 if depth < MAX_DEPTH else 0
        least = opened.length * _LEAST_CELLS_OF_PAIR if _has_keys(opened) else opened.length
        if least > room and not self._is_selective:
            raise _TooLarge
        parts = take(opened.items, min(opened.length, room))
        has_room_for_keys = self.shows_ending and _has_keys(opened) and opened.length <= MOST_FIELDS
        if self._is_selective and len(parts) > _LEAST_PARTS and not has_room_for_keys:
            # A few parts shown well are more useful than all of them shown as stumps.
            del parts[max(_LEAST_PARTS, room // self._usual_cost(parts[0], opened, room, depth, path)) :]
        if opened.is_unordered:
            parts = sorted_where_possible(parts)
        ending = min(len(parts) // ENDING_OF, opened.length - len(parts))
        if ending <= 0 or opened.last is None:
            return parts, None
        last = take(opened.last(ending), ending)
        gap = len(parts) - len(last)
        return [*parts[:gap], *last], gap if last else None

    def _usual_cost(self, part: Any, opened: Opened, room: int, depth: int, path: Path) -> int:
        """The cells that a part takes, estimated from the first."""
        item: object = part[1] if _has_keys(opened) else part
        if is_string(item):
            return max(_CELLS_PER_SCALAR, _demand(item, room // _LEAST_PARTS))
        if find_scalar_text(type(item)) is not None:
            return _CELLS_PER_SCALAR
        mark = self._objects.mark()
        cost = self.convert(item, room // _LEAST_PARTS, depth + 1, path)[1]
        self._objects.rewind(mark)
        return _CELLS_PER_SCALAR * max(2, cost)

    def _shares(self, items: list[Any], cells: int) -> list[int]:
        """The cells of each part in a selective pass: as many as it needs, large ones equally many."""
        demands = [_demand(item, cells) for item in items]
        level = fair_level(demands, cells)
        return [min(demand, level) for demand in demands]


_WHOLE_NUMBERS = frozenset(map(id, (int, bool, type(None))))
_SCALAR_TYPES = frozenset(SCALARS)


def _are_short(numbers: list[Any]) -> bool:
    """Whether integers, and what stands beside them, are shown as they are."""
    present = [each for each in numbers if each is not None] if None in numbers else numbers
    return not present or max(-min(present), max(present)).bit_length() < INTEGER_BITS


def _has_keys(opened: Opened) -> bool:
    """Whether the items are pairs."""
    return opened.noun != "items"


def _demand(value: object, cells: int) -> int:
    """Return the number of cells of a value, as far as it is known without visiting it."""
    if is_string(value):
        return min(cells, 1 + str.__len__(value) // CHARACTERS_PER_CELL)
    if id(class_of(value)) in SCALARS:
        return _CELLS_PER_SCALAR
    return _CELLS_PER_SCALAR if find_scalar_text(type(value)) is not None else cells


def _as_json(part: Part) -> JsonableValue:
    """The available parts as JSON, with an ellipsis at the end of texts that are cut."""
    if isinstance(part, Text):
        return part.beginning + "…"
    if not isinstance(part, Parts):
        return cast("JsonableValue", part)  # a table was not requested
    values = [_as_json(value) for value in part.values]
    return values if part.keys is None else dict(zip(part.keys, values, strict=True))

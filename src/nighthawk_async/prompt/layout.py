"""A value that was prepared for display, written in a given room.

What does not fit is left out and counted. Where endings are shown, a container is cut in its middle, and the
facts about its numbers stand beside the count.
"""

import json
from collections.abc import Callable

from msgspec.structs import replace

from ..configuration import JsonRendererStyle
from ..types.json import JsonableValue
from .containers import ARGUMENT, table_heading
from .plain_text import Noun, Part, Parts, Table, Text, count_that_fit, fair_level

encode: Callable[[object], str] = json.JSONEncoder(ensure_ascii=False).encode
"""Writes a JSON value, on one line."""

_MARK_CHARACTERS = 28
_SHORTEST_CUT_TEXT = 64
_SHORTEST_CUT_PARTS = 160
_SHORTEST_CUT_VALUE = 32
_LEAST_ROWS = 3
_MOST_COLUMNS_AT_ANY_COST = 8
_LEAST_CHARACTERS_WITH_FACTS = 160
_LEAST_ITEMS = 12
_LEAST_FIELDS = 48
MOST_FIELDS = 64
"""A mapping or an object with no more keys shows all of them, before more of each value."""

ENDING_OF = 3
"""One of so many items is one of the last."""


class Layout:
    """Lays out one value in a given room.

    Args:
        style: The style of marks for omitted parts.
        shows_ending: Whether containers are cut in their middle rather than at their end.
    """

    __slots__ = ("_narrow_tables", "_shows_ending", "_sizes", "_style")

    def __init__(self, style: JsonRendererStyle, *, shows_ending: bool = False) -> None:
        self._style = style
        self._shows_ending = shows_ending
        self._sizes: dict[int, list[int]] = {}
        self._narrow_tables: dict[tuple[int, int], Table] = {}

    def write(self, part: Part) -> str:
        """Write all of a part.

        Args:
            part: The part that `whole_value` gave.
        """
        if isinstance(part, Table):
            rows = (", ".join(map(self.write, row)) for row in part.rows)
            return f"[{'; '.join((self._heading(part), *rows))}]"
        if isinstance(part, Parts) and part.keys is not None:
            pairs = zip(part.keys, part.values, strict=True)
            return _enclosed(part, [_key(part, key) + self.write(value) for key, value in pairs])
        if isinstance(part, Parts):
            return _enclosed(part, list(map(self.write, part.values)))
        if isinstance(part, list):
            return f"[{', '.join(map(self.write, part))}]"
        if isinstance(part, dict):
            return f"{{{', '.join(f'{encode(key)}: {self.write(value)}' for key, value in part.items())}}}"
        return encode(part)

    def size(self, part: Part) -> int:
        """The number of characters that all available parts of a part take."""
        if isinstance(part, Text):
            beginning = len(encode(part.beginning))
            is_whole = part.length == len(part.beginning)
            return beginning if is_whole else beginning + len(part.ending) + _MARK_CHARACTERS
        if isinstance(part, Parts):
            mark = 0 if _is_whole(part) else _MARK_CHARACTERS + len(part.facts)
            return len(part.heading) + len(part.kind) + 4 + sum(self._child_sizes(part)) + mark
        if isinstance(part, Table):
            facts = sum(map(self._facts_size, part.facts.values()))
            return len(self._heading(part)) + 2 + sum(self._row_sizes(part)) + facts + _MARK_CHARACTERS
        return len(encode(part))

    def show(self, part: Part, room: int) -> str:
        """Write a part in about the given number of characters; a few more if it cannot be written in fewer.

        Args:
            part: The part.
            room: The number of characters.
        """
        if isinstance(part, Text):
            return self._show_text(part, room)
        if isinstance(part, Parts):
            return self._show_parts(part, room)
        if isinstance(part, Table):
            return self._show_table(part, room)
        if type(part) is str and len(part) > _SHORTEST_CUT_TEXT:
            return self._show_text(Text(beginning=part, length=len(part)), room)
        return encode(part)

    def _child_sizes(self, parts: Parts) -> list[int]:
        """The characters of each item with its key and the comma after it."""
        sizes = self._sizes.get(id(parts))
        if sizes is None:
            keys = parts.keys
            sizes = [self.size(value) + 2 for value in parts.values]
            if keys is not None:
                sizes = [size + len(_key(parts, key)) for size, key in zip(sizes, keys, strict=True)]
            self._sizes[id(parts)] = sizes
        return sizes

    def _show_parts(self, parts: Parts, room: int) -> str:
        sizes = self._child_sizes(parts)
        room -= len(parts.heading) + len(parts.kind)
        order = list(range(len(sizes)))
        facts = parts.facts if room >= _LEAST_CHARACTERS_WITH_FACTS else ""
        if not _is_whole(parts) or 2 + sum(sizes) > room:
            room -= _MARK_CHARACTERS + len(facts)
            has_end = parts.gap is not None or (_is_whole(parts) and not parts.kind)
            order = self._order(len(sizes), parts.gap, has_end=has_end)
            del order[self._count_shown(parts, sizes, order, room) :]
        level = fair_level([sizes[index] for index in order], room - 2)
        shown = [(index, self._show_item(parts, index, min(sizes[index], level))) for index in sorted(order)]
        if len(shown) == parts.length:
            return _enclosed(parts, [text for _, text in shown])
        mark = self._mark(len(shown), parts.length, parts.noun, facts)
        return _enclosed(parts, self._around_gap(shown, mark, parts.gap))

    def _order(self, count: int, gap: int | None, *, has_end: bool) -> list[int]:
        """The indexes of available items, the most useful first: one of three is one of the last."""
        if not self._shows_ending or not has_end:
            return list(range(count))
        order: list[int] = []
        first, last = 0, count - 1
        while first <= last:
            is_last = len(order) % ENDING_OF == 1
            order.append(last if is_last and (gap is None or last >= gap) else first)
            first, last = (first, last - 1) if order[-1] == last and is_last else (first + 1, last)
        return order

    def _around_gap(
        self, shown: list[tuple[int, str]], mark: tuple[str, ...], known: int | None
    ) -> list[str]:
        """The items with the mark where others are left out."""
        texts = [text for _, text in shown]
        places = enumerate(index for index, _ in shown)
        gap = next((place for place, index in places if place != index or index == known), len(shown))
        if gap == len(shown) or not mark:
            return [*texts, *mark]
        ending = "" if self._style == "detailed" else " …"
        return [*texts[:gap], mark[0] + ending, *texts[gap:]]

    def _count_shown(self, parts: Parts, sizes: list[int], order: list[int], room: int) -> int:
        is_record = parts.keys is not None and parts.length <= MOST_FIELDS
        fair = room // (_LEAST_FIELDS if is_record else _LEAST_ITEMS)
        least: list[int] = []
        for index in order:
            value = parts.values[index]
            stump = _SHORTEST_CUT_PARTS if isinstance(value, Parts | Table) else _SHORTEST_CUT_TEXT
            if is_record and parts.keys and self._shows_ending:  # all keys, before more of each value
                stump = _SHORTEST_CUT_VALUE + len(parts.keys[index])
            least.append(min(sizes[index], max(stump, fair)))
        return count_that_fit(least, room)

    def _row_sizes(self, table: Table) -> list[int]:
        sizes = self._sizes.get(id(table))
        if sizes is None:
            sizes = self._sizes[id(table)] = [sum(self.size(cell) + 2 for cell in row) for row in table.rows]
        return sizes

    def _narrowed(self, table: Table, room: int) -> Table:
        """The table with as many of its columns as have room, so that there is room for rows too."""
        sizes = [len(encode(column)) + 2 for column in table.columns]
        if self._shows_ending and table.rows and len(sizes) > _MOST_COLUMNS_AT_ANY_COST:
            if len(table.rows) == table.length and sum(sizes) + sum(self._row_sizes(table)) < room // 2:
                return table
            least = self._sizes_in_rows(table)
            sizes = [size + of_rows for size, of_rows in zip(sizes, least, strict=True)]
            room *= 2
        count = max(1, count_that_fit(sizes, room // 2 - _MARK_CHARACTERS))
        if count == len(sizes):
            return table
        key = (id(table), count)
        if key not in self._narrow_tables:
            rows = [row[:count] for row in table.rows]
            self._narrow_tables[key] = replace(table, columns=table.columns[:count], rows=rows)
        return self._narrow_tables[key]

    def _sizes_in_rows(self, table: Table) -> list[int]:
        """The characters of each column in a few rows, and in the facts about its numbers."""
        sizes = [_LEAST_ROWS * (min(self.size(cell), _SHORTEST_CUT_VALUE) + 2) for cell in table.rows[0]]
        for row in table.facts.values():
            sizes = [size + len(encode(fact)) + 2 for size, fact in zip(sizes, row, strict=True)]
        return sizes

    def _show_table(self, table: Table, room: int) -> str:
        table = self._narrowed(table, room)
        sizes, heading = self._row_sizes(table), self._heading(table)
        room -= len(heading) + 2
        order = list(range(len(sizes)))
        facts: list[str] = []
        if len(sizes) < table.length or sum(sizes) > room:
            room -= _MARK_CHARACTERS
            facts = self._show_facts(table, room - 2 * sizes[0] if sizes else room)
            room -= sum(len(row) + 2 for row in facts)
            least = max(_SHORTEST_CUT_PARTS, room // _LEAST_ITEMS)
            has_end = table.gap is not None or len(sizes) == table.length
            order = self._order(len(sizes), table.gap, has_end=has_end)
            del order[count_that_fit([min(sizes[index], least) for index in order], room) :]
        level = fair_level([sizes[index] for index in order], room)
        shown = [
            (index, self._show_row(table.rows[index], min(sizes[index], level))) for index in sorted(order)
        ]
        if len(shown) == table.length:
            return f"[{'; '.join((heading, *(text for _, text in shown)))}]"
        rows = self._around_gap(shown, self._mark(len(shown), table.length, "rows"), table.gap)
        return f"[{'; '.join((heading, *rows, *facts))}]"

    def _show_facts(self, table: Table, room: int) -> list[str]:
        """The least, the greatest and the mean of each column, if there is room."""
        rows = [
            f"{name} {', '.join(encode(each) for each in row[: len(table.columns)])}"
            for name, row in table.facts.items()
        ]
        return rows if sum(map(len, rows)) <= room else []

    def _facts_size(self, row: list[JsonableValue]) -> int:
        return sum(len(encode(each)) + 2 for each in row)

    def _heading(self, table: Table) -> str:
        count = len(table.columns)
        return table_heading(table, *self._mark(count, table.width, "columns") if count < table.width else ())

    def _show_row(self, row: list[Part], room: int) -> str:
        sizes = [self.size(cell) + 2 for cell in row]
        level = fair_level(sizes, room)
        return ", ".join(self.show(cell, min(size, level) - 2) for cell, size in zip(row, sizes, strict=True))

    def _show_item(self, parts: Parts, index: int, room: int) -> str:
        if parts.keys is None:
            return self.show(parts.values[index], room - 2)
        key = _key(parts, parts.keys[index])
        return key + self.show(parts.values[index], room - len(key) - 2)

    def _mark(self, count: int, length: int, noun: Noun, facts: str = "") -> tuple[str, ...]:
        """Return the mark in the place of items that are left out."""
        if self._style == "strict":
            return ()
        said = f"{_counts(count, length)} {noun}{facts}"
        return (f"/* {said} */",) if self._style == "detailed" else (f"… {said}",)

    def _show_text(self, text: Text, room: int) -> str:
        literal = encode(text.beginning)
        if text.length == len(text.beginning) and len(literal) <= max(room, _SHORTEST_CUT_TEXT):
            return literal
        mark = f"{_counts(text.length, text.length)} characters"
        room = max(0, room - len(mark) - 4)
        ending = _last_characters(text.ending, room // 2) if text.ending else ""
        beginning = _first_characters(text.beginning, room - len(ending))
        counts = f"{_counts(len(beginning) + len(ending), text.length)} characters"
        if self._style == "strict":
            return encode(f"{beginning}… ({counts}){' …' if ending else ''}{ending}")
        mark = f"/* {counts} */" if self._style == "detailed" else f"… {counts}"
        if not ending:
            return f"{encode(beginning)} {mark}"
        return f"{encode(beginning)} {mark}{'' if self._style == 'detailed' else ' …'} {encode(ending)}"


def _key(parts: Parts, key: str) -> str:
    """The key of an item with what stands between: `"a": ` in a mapping, `a=` in the call of an object."""
    if not parts.kind:
        return f"{encode(key)}: "
    if key == ARGUMENT:
        return ""
    return f"{key if key.isidentifier() else encode(key)}="


def _enclosed(parts: Parts, shown: list[str]) -> str:
    """The shown items of a container, or of an object, in their brackets."""
    inner = ", ".join(shown)
    if parts.kind:
        return f"{parts.kind}({inner})"
    if parts.keys is not None:
        return f"{{{inner}}}"
    return f"[{parts.heading}: {inner}]" if parts.heading else f"[{inner}]"


def _is_whole(parts: Parts) -> bool:
    return len(parts.values) == parts.length


def _counts(shown: int, length: int) -> str:
    return f"{shown:,} of {length:,}"


def _first_characters(text: str, room: int) -> str:
    """The longest beginning, nearly, whose literal has no more characters inside its quotes."""
    shown = text[:room]
    while shown and (excess := len(encode(shown)) - 2 - room) > 0:
        shown = shown[: -max(1, excess // 2)]
    return shown


def _last_characters(text: str, room: int) -> str:
    shown = text[max(0, len(text) - room) :]
    while shown and (excess := len(encode(shown)) - 2 - room) > 0:
        shown = shown[max(1, excess // 2) :]
    return shown

"""A value that was prepared for display, written in a given room.

What does not fit is left out and counted. Where endings are shown, a container is cut in its middle, and the
facts about its numbers stand beside the count.
"""

from collections.abc import Iterator, Sequence
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from ..configuration import JsonRendererStyle
from ..types.json import JsonableValue
from .containers import ARGUMENT, table_heading
from .plain_text import ENCODERS, Noun, Part, Parts, Table, Text, count_that_fit, encode, fair_level

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


_CUT_TYPES = frozenset({Text, Parts, Table})
_NESTED = frozenset({Parts, Table})


class _Measured(Struct, frozen=True):
    """The items of a container, or the cells of a row, as they are when they are whole.

    Args:
        sizes: The characters of each with its key and the comma after it.
        keys: The text of each key with what follows it; None without keys.
        texts: The text of each; None for one that may be cut in its own way.
        size: The characters of all.
    """

    sizes: list[int]
    keys: list[str] | None
    texts: list[str | None]
    size: int


class Layout:
    """Lays out one value in a given room.

    Args:
        style: The style of marks for omitted parts.
        shows_ending: Whether containers are cut in their middle rather than at their end.
    """

    __slots__ = ("_measured_parts", "_measured_rows", "_narrow_tables", "_shows_ending", "_style")

    def __init__(self, style: JsonRendererStyle, *, shows_ending: bool = False) -> None:
        self._style = style
        self._shows_ending = shows_ending
        self._measured_parts: dict[int, _Measured] = {}
        self._measured_rows: dict[int, list[_Measured]] = {}
        self._narrow_tables: dict[tuple[int, int], Table] = {}

    def write(self, part: Part) -> str:
        """Write all of a part.

        Args:
            part: The part that `whole_value` gave.
        """
        encoder = ENCODERS.get(type(part))
        if encoder is not None:
            return encoder(part)
        if isinstance(part, Table):
            rows = [", ".join(map(self.write, row)) for row in part.rows]
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
            return len(part.heading) + len(part.kind) + 4 + self._measure(part).size + mark
        if isinstance(part, Table):
            facts = sum(map(self._facts_size, part.facts.values()))
            return (
                len(self._heading(part))
                + 2
                + sum(row.size for row in self._measure_rows(part))
                + facts
                + _MARK_CHARACTERS
            )
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

    def _measure(self, parts: Parts) -> _Measured:
        """Measure the items of a container, once."""
        measured = self._measured_parts.get(id(parts))
        if measured is None:
            keys = None if parts.keys is None else [_key(parts, key) for key in parts.keys]
            measured = self._measured_parts[id(parts)] = self._measured(parts.values, keys)
        return measured

    def _measured(self, values: list[Part], keys: list[str] | None = None) -> _Measured:
        texts = [None if type(value) in _CUT_TYPES else encode(value) for value in values]
        sizes = [
            (self.size(value) if text is None else len(text)) + 2
            for value, text in zip(values, texts, strict=True)
        ]
        if keys is not None:
            sizes = [size + len(key) for size, key in zip(sizes, keys, strict=True)]
        return _Measured(sizes, keys, texts, sum(sizes))

    def _show_parts(self, parts: Parts, room: int) -> str:
        measured = self._measure(parts)
        sizes = measured.sizes
        room -= len(parts.heading) + len(parts.kind)
        facts = parts.facts if room >= _LEAST_CHARACTERS_WITH_FACTS else ""
        if _is_whole(parts) and 2 + measured.size <= room:
            order: list[int] = list(range(len(sizes)))
        else:
            room -= _MARK_CHARACTERS + len(facts)
            has_end = parts.gap is not None or (_is_whole(parts) and not parts.kind)
            order = self._that_fit(self._least_sizes(parts, sizes, room), parts.gap, room, has_end=has_end)
        level = fair_level([sizes[index] for index in order], room - 2)
        order.sort()
        shown = [(index, self._show_item(parts, measured, index, level)) for index in order]
        if len(shown) == parts.length:
            return _enclosed(parts, [text for _, text in shown])
        mark = self._mark(len(shown), parts.length, parts.noun, facts)
        return _enclosed(parts, self._around_gap(shown, mark, parts.gap))

    def _that_fit(self, least: Sequence[int], gap: int | None, room: int, *, has_end: bool) -> list[int]:
        """The indexes of the items that fit in their least form, the most useful first."""
        order: list[int] = []
        room -= 2
        for index in self._order(len(least), gap, has_end=has_end):
            room -= least[index]
            if room < 0:
                break
            order.append(index)
        return order

    def _order(self, count: int, gap: int | None, *, has_end: bool) -> Iterator[int]:
        """The indexes of available items, the most useful first: one of three is one of the last."""
        first, last, given = 0, count - 1, 0
        takes_last = self._shows_ending and has_end
        while first <= last:
            if takes_last and given % ENDING_OF == 1 and (gap is None or last >= gap):
                yield last
                last -= 1
            else:
                yield first
                first += 1
            given += 1

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

    def _least_sizes(self, parts: Parts, sizes: list[int], room: int) -> list[int]:
        """The characters that each item takes at least: nothing useful is cut to a stump."""
        is_record = parts.keys is not None and parts.length <= MOST_FIELDS
        fair = room // (_LEAST_FIELDS if is_record else _LEAST_ITEMS)
        if is_record and parts.keys and self._shows_ending:  # all keys, before more of each value
            return [
                min(size, max(_SHORTEST_CUT_VALUE + len(key), fair))
                for size, key in zip(sizes, parts.keys, strict=True)
            ]
        return [
            size if size <= _SHORTEST_CUT_TEXT else min(size, max(_stump(value), fair))
            for size, value in zip(sizes, parts.values, strict=True)
        ]

    def _measure_rows(self, table: Table) -> list[_Measured]:
        rows = self._measured_rows.get(id(table))
        if rows is None:
            rows = self._measured_rows[id(table)] = [self._measured(row) for row in table.rows]
        return rows

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

    def _row_sizes(self, table: Table) -> list[int]:
        return [row.size for row in self._measure_rows(table)]

    def _show_table(self, table: Table, room: int) -> str:
        table = self._narrowed(table, room)
        rows, heading = self._measure_rows(table), self._heading(table)
        sizes = [row.size for row in rows]
        room -= len(heading) + 2
        order = list(range(len(sizes)))
        facts: list[str] = []
        if len(sizes) < table.length or sum(sizes) > room:
            room -= _MARK_CHARACTERS
            facts = self._show_facts(table, room - 2 * sizes[0] if sizes else room)
            room -= sum(len(row) + 2 for row in facts)
            least = max(_SHORTEST_CUT_PARTS, room // _LEAST_ITEMS)
            has_end = table.gap is not None or len(sizes) == table.length
            order = self._that_fit([min(size, least) for size in sizes], table.gap, room, has_end=has_end)
        level = fair_level([sizes[index] for index in order], room)
        order.sort()
        shown = [(index, self._show_row(table.rows[index], rows[index], level)) for index in order]
        if len(shown) == table.length:
            return f"[{'; '.join((heading, *(text for _, text in shown)))}]"
        texts = self._around_gap(shown, self._mark(len(shown), table.length, "rows"), table.gap)
        return f"[{'; '.join((heading, *texts, *facts))}]"

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

    def _show_row(self, row: list[Part], measured: _Measured, room: int) -> str:
        if measured.size <= room and None not in measured.texts:
            return ", ".join(cast("list[str]", measured.texts))
        level = max(measured.sizes, default=0)
        if measured.size > room:
            level = fair_level(measured.sizes, room)
        return ", ".join(
            self._show_value(cell, text, min(size, level) - 2)
            for cell, text, size in zip(row, measured.texts, measured.sizes, strict=True)
        )

    def _show_item(self, parts: Parts, measured: _Measured, index: int, level: int) -> str:
        key, text = "" if measured.keys is None else measured.keys[index], measured.texts[index]
        if text is not None and measured.sizes[index] <= level:
            return key + text
        room = min(measured.sizes[index], level) - 2
        return key + self._show_value(parts.values[index], text, room - len(key))

    def _show_value(self, value: Part, text: str | None, room: int) -> str:
        """Write a value in some characters, given its whole text where that is known."""
        if text is None or (type(value) is str and len(value) > _SHORTEST_CUT_TEXT and len(text) > room):
            return self.show(value, room)
        return text

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


def _stump(value: Part) -> int:
    """The characters below which a value is not worth cutting."""
    return _SHORTEST_CUT_PARTS if type(value) in _NESTED else _SHORTEST_CUT_TEXT


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

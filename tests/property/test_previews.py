"""Whatever the values, previews show what these hold and count the rest truly (specification 8.2.2)."""

import json
import math
import re
from typing import Any

from hypothesis import given, strategies as st

from nighthawk_async.configuration import JsonRendererStyle, StepContextLimits
from nighthawk_async.prompt.previews import render_preview
from nighthawk_async.prompt.sections import render_section
from nighthawk_async.prompt.tokens import TokenCounter

_COUNTER = TokenCounter.resolve(encoding_name="o200k_base", model_name="")
_DECODER = json.JSONDecoder()
_MARK = re.compile(
    r"(?:… |/\* )(?P<shown>[\d,]+) of (?P<all>[\d,]+) (?P<noun>\w+)"
    r"(?:, min (?P<min>\S+), max (?P<max>\S+), mean (?P<mean>[^ \]]+))?(?: \*/)?"
)
_HEADING = re.compile(r"\[table (?P<length>[\d,]+) x (?P<width>[\d,]+) of dict: ")
_RESORTS = ("[…]", "{…}", '"…"', "…", "")


class _Reader:
    """Reads a preview beside the value that it shows, and checks every word of it.

    Args:
        text: The preview.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_whole = True
        self._position = 0

    def check(self, value: Any) -> None:
        self._check(value)
        assert self._position == len(self.text)

    def _check(self, value: Any) -> None:
        if isinstance(value, str):
            self._check_text(value)
        elif isinstance(value, list):
            self._check_table(value) if self._sees("[table ") else self._check_parts("[", "]", value, "items")
        elif isinstance(value, dict):
            self._check_parts("{", "}", list(value.items()), "keys")
        else:
            self._check_number(value)

    def _check_number(self, value: object) -> None:
        shown = self._literal()
        if self._sees("…"):
            self._take("…")
            assert isinstance(value, float)
            assert shown != value
            assert float(f"{value:.6g}") == shown
            self.is_whole = False
        else:
            assert shown == value

    def _check_text(self, value: str) -> None:
        beginning, ending = self._literal(), ""
        if self._sees(" … ") or self._sees(" /* "):
            self._take(" ")
            shown, length = self._mark("characters")
            if self._sees(' … "') or self._sees(' "'):
                self._take(" … " if self._sees(" …") else " ")
                ending = self._literal()
            assert (shown, length) == (len(beginning) + len(ending), len(value))
            assert shown < length
            assert value.endswith(ending)
            assert value.startswith(beginning)
        else:
            assert beginning == value

    def _check_parts(self, opening: str, closing: str, parts: list[Any], noun: str) -> None:
        self._take(opening)
        index, shown = 0, len(parts)
        while not self._sees(closing):
            if self._sees("… ") or self._sees("/* "):
                shown, length = self._mark(noun, parts)
                assert length == len(parts)
                index += length - shown
                if self._sees(" …, "):
                    self._take(" …, ")
                elif self._sees(", "):
                    self._take(", ")
                continue
            part = parts[index]
            if noun == "keys":
                assert self._literal() == part[0]
                self._take(": ")
                part = part[1]
            self._check(part)
            index += 1
            if self._sees(", "):
                self._take(", ")
        assert index == len(parts)
        self._take(closing)

    def _check_table(self, records: list[Any]) -> None:
        match = _HEADING.match(self.text, self._position)
        assert match is not None
        self._position = match.end()
        columns = list(records[0])
        assert (_number(match["length"]), _number(match["width"])) == (len(records), len(columns))
        assert self._cells([None] * len(columns)) == columns
        row = 0
        while self._sees("; "):
            self._take("; ")
            if self._sees("… ") or self._sees("/* "):
                shown, length = self._mark("rows")
                assert length == len(records)
                row += length - shown
                if self._sees(" …"):
                    self._take(" …")
                continue
            assert list(records[row]) == columns
            for index, column in enumerate(columns):
                if index:
                    self._take(", ")
                self._check(records[row][column])
            row += 1
        assert row == len(records)
        self._take("]")

    def _cells(self, cells: list[None]) -> list[Any]:
        literals: list[Any] = []
        for index in range(len(cells)):
            if index:
                self._take(", ")
            literals.append(self._literal())
        return literals

    def _mark(self, noun: str, parts: list[Any] | None = None) -> tuple[int, int]:
        match = _MARK.match(self.text, self._position)
        assert match is not None
        assert match["noun"] == noun
        if match["min"] is not None:
            assert parts is not None
            numbers = [part[1] if noun == "keys" else part for part in parts]
            facts = (min(numbers), max(numbers), sum(numbers) / len(numbers))
            for fact, text in zip(facts, (match["min"], match["max"], match["mean"]), strict=True):
                shown = float(text.rstrip("…"))
                assert math.isclose(shown, fact, rel_tol=1e-5)
                assert text.endswith("…") == (shown != fact)
        self._position = match.end()
        self.is_whole = False
        return _number(match["shown"]), _number(match["all"])

    def _literal(self) -> Any:
        value, self._position = _DECODER.raw_decode(self.text, self._position)
        return value

    def _sees(self, text: str) -> bool:
        return self.text.startswith(text, self._position)

    def _take(self, text: str) -> None:
        assert self._sees(text)
        self._position += len(text)


def _number(text: str) -> int:
    return int(text.replace(",", ""))


_SHORT_TEXTS = st.one_of(
    st.sampled_from(
        ["… 1 of 2 items", "/* 1 of 2 rows */", "[table 1 x 1 of dict: ", "; ", '"', "<<<NH:", "\n"]
    ),
    st.text('ab<NH:>\\"é… ', max_size=8),
)
_TEXTS = st.one_of(_SHORT_TEXTS, st.text("ab \n\\", min_size=1, max_size=5).map(lambda text: text * 100))
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS
)


def _containers(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(children, max_size=5)
    records = st.lists(st.fixed_dictionaries({"name": children, "x;, ": children}), max_size=8)
    return st.one_of(
        lists,
        lists.map(lambda items: items * 6),
        records,
        records.map(lambda rows: rows * 6),
        st.dictionaries(st.text("ab;", max_size=3) | _SHORT_TEXTS, children, max_size=6),
    )


_VALUES: st.SearchStrategy[Any] = st.recursive(_SCALARS, _containers, max_leaves=25)
_STYLES: st.SearchStrategy[JsonRendererStyle] = st.sampled_from(["default", "detailed"])


@given(value=_VALUES, max_tokens=st.integers(1, 400), style=_STYLES, shows_ending=st.booleans())
def test_preview_shows_what_the_value_holds_and_counts_the_rest_truly(
    value: object, max_tokens: int, style: JsonRendererStyle, shows_ending: bool
) -> None:
    text = render_preview(
        value, max_tokens=max_tokens, style=style, counter=_COUNTER, shows_ending=shows_ending
    )
    assert _COUNTER.count(text) <= max_tokens
    if text not in _RESORTS:
        _Reader(text).check(value)


@given(value=_VALUES, style=_STYLES)
def test_preview_that_has_room_is_whole(value: object, style: JsonRendererStyle) -> None:
    reader = _Reader(render_preview(value, max_tokens=1_000_000, style=style, counter=_COUNTER))
    reader.check(value)
    assert reader.is_whole


@given(
    entries=st.dictionaries(st.sampled_from("abcdef"), _VALUES, max_size=6),
    max_tokens=st.integers(1, 3_000),
    references=st.lists(st.sampled_from("abcdef"), max_size=4),
    style=_STYLES,
)
def test_section_keeps_its_budget_and_is_whole_when_it_has_room(
    entries: dict[str, Any], max_tokens: int, references: list[str], style: JsonRendererStyle
) -> None:
    def lines(max_tokens: int) -> list[str]:
        limits = StepContextLimits(locals_max_tokens=max_tokens)
        section = render_section(
            entries, section="locals", limits=limits, references=references, style=style, counter=_COUNTER
        )
        (text,) = section.parts or ("",)
        assert isinstance(text, str)
        return text.splitlines()

    whole, shown = lines(10_000_000), lines(max_tokens)
    needed = sum(_COUNTER.count(line + "\n") for line in whole)
    assert sum(_COUNTER.count(line + "\n") for line in shown) <= max(max_tokens, 8)
    if needed <= max_tokens:
        assert shown == whole
    for line in shown:
        if line != "<snipped>":
            preview = line.partition(" = ")[2]
            if preview not in _RESORTS:
                _Reader(preview).check(entries[line[0]])
    assert [line[0] for line in shown if line != "<snipped>"] == sorted(entries)[
        : len(shown) - shown.count("<snipped>")
    ]

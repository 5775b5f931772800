"""Values that do not fit: beginning, end, number, and facts about numbers (specification 8.2.2)."""

import dataclasses
import math
from collections import OrderedDict, deque
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from nighthawk_async.configuration import StepContextLimits
from nighthawk_async.prompt.previews import render_preview
from nighthawk_async.prompt.sections import render_section
from nighthawk_async.prompt.tokens import TokenCounter
from tests.cases import every


def _shown(value: object, counter: TokenCounter, **limits: Any) -> str:
    section = render_section(
        {"v": value},
        section="locals",
        limits=StepContextLimits(**limits),
        references=(),
        style="default",
        counter=counter,
    )
    (text,) = section.parts
    assert isinstance(text, str)
    return text


@dataclasses.dataclass
class _Row:
    number: int
    text: str


@every(
    "value, beginning, facts, ending",
    [
        (list(range(50_000)), "[0, 1, 2, ", " of 50,000 items, min 0, max 49999, mean 24999.5 …, ", "49999]"),
        (tuple([0.5] * 9_000), "[0.5, 0.5", " of 9,000 items, min 0.5, max 0.5, mean 0.5 …, ", "0.5]"),
        (deque(range(20_000)), "[0, 1, ", " of 20,000 items, min 0, max 19999, mean 9999.5 …, ", "19999]"),
        (
            dict.fromkeys(map(str, range(9_000)), 2),
            '{"0": 2, "1": 2, ',
            " of 9,000 keys, min 2, max 2, mean 2.0 …, ",
            '"8999": 2}',
        ),
        (OrderedDict.fromkeys(range(9_000), "x"), '{0: "x", ', " of 9,000 keys …, ", '8999: "x"}'),
        (
            [_Row(number, "t") for number in range(9_000)],
            '[table 9,000 x 2 of _Row: "number", "text"; 0, "t"; 1, "t"; ',
            " of 9,000 rows …; ",
            '8999, "t"]',
        ),
        (["text " * 9] * 9_000, '["text text', " of 9,000 items …, ", 'text "]'),
        ([True] * 20_000, "[true, ", " of 20,000 items …, ", "true]"),
        ([1, *["x"] * 20_000], '[1, "x", ', " of 20,001 items …, ", '"x"]'),
        ([10**400, *range(9_000)], '["<int of', " of 9,001 items …, ", "8999]"),
        (b"ab" * 5_000, "\"<10000 bytes: b'abab", "' … b'", "abab'>\""),
    ],
)
def test_value_that_does_not_fit_shows_both_ends_the_number_and_facts(
    value: object, beginning: str, facts: str, ending: str, counter: TokenCounter
) -> None:
    shown = _shown(value, counter)
    assert shown.partition(" = ")[2].startswith(beginning)
    assert facts in shown
    assert shown.endswith(ending)
    assert counter.count(shown) <= 410


def test_setting_raises_what_is_shown_of_such_a_value(counter: TokenCounter) -> None:
    numbers = list(range(50_000))
    assert 2_500 < counter.count(_shown(numbers, counter, value_max_tokens=3_000)) <= 3_010
    assert (
        1_500
        < counter.count(_shown(numbers, counter, value_max_tokens=9_000, locals_max_tokens=2_000))
        <= 2_000
    )
    assert counter.count(_shown(numbers, counter, value_max_tokens=50)) <= 60


def test_text_has_two_thousand_tokens_of_both_ends(counter: TokenCounter) -> None:
    text = "".join(f"Sentence {number}. " for number in range(9_000))
    shown = _shown(text, counter)
    assert 1_500 < counter.count(shown) <= 2_010
    assert shown.startswith('v: str = "Sentence 0. Sentence 1. ')
    assert shown.endswith('Sentence 8999. "')
    assert f" of {len(text):,} characters …" in shown


def test_value_that_fits_is_whole(counter: TokenCounter) -> None:
    assert "…" not in _shown(list(range(1_500)), counter)


def test_numbers_that_are_none_are_counted_apart(counter: TokenCounter) -> None:
    shown = _shown([math.nan, *map(float, range(20_000)), math.nan], counter)
    assert ", min 0.0, max 19999.0, mean 9999.5, 2 NaN …" in shown
    cases: list[tuple[Any, str]] = [
        ([math.inf, *range(20_000)], ", min 0, max inf …"),
        ([math.inf, *[-math.inf] * 20_000, math.nan], ", min -inf, max inf, 1 NaN …"),
        ([math.nan] * 20_000, " of 20,000 items, 20,000 NaN …"),
        ([None, *[2.5] * 9_000, None, math.nan], ", min 2.5, max 2.5, mean 2.5, 1 NaN, 2 None …"),
        ([1e308] * 9_000, ", min 1e+308, max 1e+308, mean 1e+308 …"),
        ([-1e308, *[1e308] * 9_000], ", min -1e+308, max 1e+308, mean 9.99778e+307… …"),
        (
            [Decimal("0.1"), Decimal("NaN"), Decimal("sNaN")] * 3_000,
            ", min 0.1, max 0.1, mean 0.1, 6,000 NaN …",
        ),
        ([Decimal("1E+5000")] * 3_000, ", min inf, max inf …"),
        ([Fraction(1, 4), 1] * 3_000, ", min 0.25, max 1, mean 0.625 …"),
        (set(range(50_000)), " of 50,000 items, min 0, max 49999, mean 24999.5"),
        (
            frozenset(each / 8 for each in range(50_000)),
            " of 50,000 items, min 0.0, max 6249.88…, mean 3124.94…",
        ),
        (
            {"a": 1.5, "b": None} | {str(each): 1 for each in range(9_000)},
            ", min 1, max 1.5, mean 1.00006…, 1 None …",
        ),
    ]
    for value, facts in cases:
        assert facts in _shown(value, counter), facts
    for value in ([None] * 20_000, [True] * 9_000, [1, "x"] * 9_000, [10**400] * 9_000):
        assert ", min" not in _shown(value, counter)


def test_numbers_of_arrays_are_counted_in_the_same_way(counter: TokenCounter) -> None:
    numpy: Any = pytest.importorskip("numpy")
    pandas: Any = pytest.importorskip("pandas")
    for value, facts in (
        ([math.inf, math.nan, *[1.0] * 9_000], ", min 1.0, max inf, 1 NaN …"),
        ([math.nan] * 9_000, ", 9,000 NaN …"),
        ([1e308] * 9_000, ", min 1e+308, max 1e+308, mean "),
    ):
        assert facts in _shown(numpy.array(value), counter)
        assert facts.replace("…", "").strip() in _shown(pandas.Series(value), counter).replace("…", "")


def test_long_lists_show_six_digits_and_mark_it(counter: TokenCounter) -> None:
    third = 1 / 3
    assert _shown([third, 0.25, *[1.0] * 70], counter).startswith("v: list = [0.333333…, 0.25, 1.0, ")
    assert _shown([third, 0.25], counter) == "v: list = [0.3333333333333333, 0.25]"
    assert _shown(third, counter) == "v: float = 0.3333333333333333"
    assert _shown([1234567.5, 1e300, 1e-300, *[third] * 70], counter).startswith(
        "v: list = [1.23457e+06…, 1e+300, 1e-300, 0.333333…"
    )
    strict = render_preview([third] * 70, max_tokens=5_000, style="strict", counter=counter)
    assert "…" not in strict


def test_all_keys_come_before_more_of_each_value(counter: TokenCounter) -> None:
    value = {f"key{number}": {"rows": [[number] * 300] * 40, "n": number} for number in range(20)}
    shown = _shown(value, counter)
    assert all(f'"key{number}": ' in shown for number in range(20))
    assert counter.count(shown) <= 410


def test_ends_of_a_subclass_are_read_by_its_base(counter: TokenCounter) -> None:
    def refuse(*arguments: object) -> Any:
        raise AssertionError("user code ran")

    loud = dict.fromkeys(["__getitem__", "__len__", "__iter__", "__reversed__", "items", "values"], refuse)
    for base in (list, deque, dict):
        value = type("Loud", (base,), loud)()
        for number in range(9_000):
            base.__setitem__(value, number, number) if base is dict else base.append(value, number)
        assert "8999" in _shown(value, counter)


@pytest.mark.parametrize("count", [1, 3])
def test_several_large_values_share_a_section(count: int, counter: TokenCounter) -> None:
    section = render_section(
        {f"v{number}": list(range(50_000)) for number in range(count)},
        section="locals",
        limits=StepContextLimits(),
        references=(),
        style="default",
        counter=counter,
    )
    assert (
        350 * count
        < sum(counter.count(part) for part in section.parts if isinstance(part, str))
        <= 410 * count
    )

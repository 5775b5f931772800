"""Scorers that need no model."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from nighthawk_async.evals import (
    Case,
    EvaluationError,
    Score,
    Trial,
    close_to,
    cost_at_most,
    equals,
    holds,
    json_difference,
    matches_schema,
    seconds_at_most,
    similar_text,
)
from nighthawk_async.types.unset import UNSET
from nighthawk_async.types.usage import Usage


class Point(BaseModel):
    """A pydantic model."""

    x: int
    y: int


@dataclass
class Pair:
    """A dataclass."""

    left: int
    right: Any


def trial(output: object, expected: object = UNSET, *, usage: Usage | None = None, **inputs: object) -> Trial:
    return Trial(
        case=Case("it", inputs=dict(inputs), expected=expected),
        number=1,
        seed=0,
        inputs=inputs,
        output=output,
        seconds=0.25,
        usage=usage or Usage(),
    )


def scored(score: object) -> Score:
    assert isinstance(score, Score)
    return score


def test_equals_compares_with_the_expected_result() -> None:
    assert scored(equals()(trial(4, 4))) == Score(1.0, passed=True)
    assert scored(equals()(trial("4", 4))) == Score(0.0, passed=False, reason="'4' is not 4")


def test_equals_compares_what_a_key_makes_of_both() -> None:
    assert scored(equals(key=str.casefold)(trial("YES", "yes"))).passed
    assert equals(key=sorted, name="items").name == "items"


def test_an_expectation_that_is_missing_is_an_error_that_names_the_case() -> None:
    with pytest.raises(EvaluationError, match="Case 'it' has no expected result"):
        equals()(trial(4))


def test_none_is_an_expectation() -> None:
    assert scored(equals()(trial(None, None))).passed


@pytest.mark.parametrize(
    ("output", "expected", "passes"),
    [
        (1.04, 1.0, True),
        (1.2, 1.0, False),
        (Decimal("1.01"), 1, True),
        ([1.01, 2.0], [1, 2], True),
        ([1.01], [1, 2], False),
        ({"a": 1.01}, {"a": 1}, True),
        ({"a": 1.01}, {"b": 1}, False),
        ({"a": [1.01, "x"]}, {"a": (1, "x")}, True),
        (True, 1.01, False),
        ("1.01", 1.0, False),
        (float("nan"), 1.0, False),
    ],
)
def test_close_to_has_a_tolerance(output: object, expected: object, passes: bool) -> None:
    assert scored(close_to(absolute=0.05)(trial(output, expected))).passed is passes


def test_close_to_has_a_relative_tolerance() -> None:
    assert scored(close_to(relative=0.1)(trial(95, 100))).passed
    assert not scored(close_to(relative=0.01)(trial(95, 100))).passed
    with pytest.raises(EvaluationError, match="at least 0, not -1"):
        close_to(absolute=-1)


def test_a_schema_may_be_a_type() -> None:
    scorer = matches_schema(Point)
    assert scored(scorer(trial(Point(x=1, y=2)))).passed
    assert scored(scorer(trial({"x": 1, "y": 2}))).passed
    refused = scored(scorer(trial({"x": "1"})))
    assert not refused.passed
    assert "at x" in refused.reason
    assert not scored(matches_schema(list[int])(trial(["1"]))).passed


def test_a_schema_may_be_a_json_schema() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer", "maximum": 3}}, "required": ["x"]}
    scorer = matches_schema(schema)
    assert scored(scorer(trial({"x": 3}))).passed
    assert scored(scorer(trial(Point(x=3, y=2)))).passed
    assert scored(scorer(trial({"x": 4}))).reason == "at $.x: 4 is greater than the maximum of 3"
    assert not scored(scorer(trial([1]))).passed


def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(EvaluationError, match="This is no JSON Schema: 'number-ish' is not valid"):
        matches_schema({"type": "number-ish"})


@pytest.mark.parametrize(
    ("output", "expected", "value", "reason"),
    [
        ({"a": 1, "b": [1, 2]}, {"a": 1, "b": [1, 2]}, 1.0, ""),
        ({"a": 1, "b": [1, 3]}, {"a": 1, "b": [1, 2]}, 2 / 3, "$.b[1]: 3, expected 2"),
        ({"a": 1}, {"a": 1, "b": 2}, 0.5, "$.b: missing, expected 2"),
        ({"a": 1, "b": 2}, {"a": 1}, 0.5, "$.b: 2, expected nothing"),
        ({"a": True}, {"a": 1}, 0.0, "$.a: True, expected 1"),
        (1.0, 1, 1.0, ""),
        ([], {}, 0.0, "$: [], expected {}"),
        (Pair(1, Point(x=1, y=2)), {"left": 1, "right": {"x": 1, "y": 3}}, 2 / 3, "$.right.y: 2, expected 3"),
    ],
)
def test_a_json_difference_names_the_places(
    output: object, expected: object, value: float, reason: str
) -> None:
    score = scored(json_difference()(trial(output, expected)))
    assert score.value == pytest.approx(value)
    assert score.passed is (value == 1)
    assert score.reason == reason


def test_places_of_a_json_difference_are_not_mixed_up() -> None:
    expected = {"a.b": 1, "a": {"b": 2}, "c[0]": 1, "c": [2]}
    score = scored(json_difference()(trial({**expected, "a.b": 3, "c[0]": 4}, expected)))
    assert not score.passed
    assert score.value == 0.5
    assert score.reason == "$['a.b']: 3, expected 1; $['c[0]']: 4, expected 1"


def test_a_long_json_difference_is_cut() -> None:
    score = scored(json_difference()(trial(dict.fromkeys("abcdef", 1), dict.fromkeys("abcdef", 2))))
    assert score.reason.endswith("; and 3 more")


def test_similar_text_compares_words() -> None:
    scorer = similar_text(at_least=0.6)
    assert scored(scorer(trial("The  Quick\nfox", "the quick fox"))).value == 1
    half = scored(scorer(trial("the quick dog runs", "the quick fox sleeps")))
    assert half.value == 0.5
    assert not half.passed
    assert scored(similar_text()(trial("", ""))).passed
    with pytest.raises(EvaluationError, match="at_least is a number from 0 to 1"):
        similar_text(at_least=80)


def test_a_property_holds_of_the_inputs_after_the_call() -> None:
    scorer = holds(lambda cart, output: output == 3 and not cart, name="the cart is empty")
    assert scorer.name == "the cart is empty"
    assert scored(scorer(trial(3, cart=[]))).passed
    assert scored(scorer(trial(3, cart=[1]))).reason == "it does not hold"


def test_a_property_may_use_the_expectation_and_the_trial() -> None:
    def is_right(expected: int, trial: Trial, factor: int = 2) -> bool:
        return trial.output == factor * expected

    scorer = holds(is_right)
    assert scorer.name == "is_right"
    assert scored(scorer(trial(8, 4))).passed
    with pytest.raises(EvaluationError, match="has no value for 'expected'; it has: output, trial"):
        scorer(trial(8))


def test_a_property_of_something_unknown_is_refused() -> None:
    with pytest.raises(EvaluationError, match="no value for 'basket'; it has: cart, output, trial"):
        holds(lambda basket: True)(trial(1, cart=[]))

    async def later(output: int) -> bool:
        return True

    with pytest.raises(EvaluationError, match="is not async"):
        holds(later)
    with pytest.raises(EvaluationError, match="holds\\(\\) needs a function, not 3"):
        holds(3)  # type: ignore[arg-type]


def test_the_cost_is_limited() -> None:
    usage = Usage(requests=1, cost=Decimal("0.02"))
    assert scored(cost_at_most(0.02)(trial(1, usage=usage))) == Score(
        -0.02, passed=True, reason="$0.02, at most $0.02"
    )
    assert not scored(cost_at_most(Decimal("0.019"))(trial(1, usage=usage))).passed
    with pytest.raises(EvaluationError, match="the cost is unknown"):
        cost_at_most(1)(trial(1, usage=Usage(requests=1, unpriced_requests=1)))


def test_the_duration_is_limited() -> None:
    assert scored(seconds_at_most(0.25)(trial(1))).passed
    assert scored(seconds_at_most(0.2)(trial(1))) == Score(
        -0.25, passed=False, reason="0.250 s, at most 0.2 s"
    )

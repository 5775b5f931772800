"""What a vote decides, and when it is certain. Without any calls."""

from typing import Any

import pytest
from pydantic import BaseModel

from nighthawk_async.errors import HookError, HumanError, StepAbortedError
from nighthawk_async.kernel.commit import InterceptionError
from nighthawk_async.parallel import Failed, Succeeded
from nighthawk_async.resilience import InvalidPolicyError, plurality
from nighthawk_async.resilience.voting import Tally, Votes


class Point(BaseModel):
    x: int


@pytest.mark.parametrize(
    ("values", "winner"),
    [
        (["a"], "a"),
        (["a", "b", "b"], "b"),
        (["a", "b"], "a"),
        (["a", "b", "b", "a"], "b"),
        ([[1], [2], [1]], [1]),
        ([{"a": [1]}, {"a": []}, {"a": []}], {"a": []}),
        ([None, "a", None], None),
    ],
    ids=str,
)
def test_plurality_occurs_most_often_and_got_there_first(values: list[object], winner: object) -> None:
    assert plurality(values) == winner


def test_models_are_the_same_when_they_are_equal() -> None:
    assert plurality([Point(x=1), Point(x=2), Point(x=2)]) == Point(x=2)


def test_the_first_of_equal_values_is_given() -> None:
    first = Point(x=1)
    assert plurality([first, Point(x=1)]) is first


def test_a_value_that_is_not_equal_to_itself_is_the_same_nevertheless() -> None:
    nan = float("nan")
    assert plurality([1.0, nan, nan]) is nan


def test_no_values_have_no_plurality() -> None:
    with pytest.raises(InvalidPolicyError, match="at least one value"):
        plurality([])


@pytest.mark.parametrize(
    ("values", "outstanding", "is_certain"),
    [
        ("", 0, False),
        ("", 3, False),
        ("a", 2, False),
        ("a", 1, True),  # another would be second to get one
        ("aa", 1, True),
        ("ab", 1, False),
        ("ab", 0, True),
        ("aab", 1, True),
        ("aab", 2, False),
        ("aabc", 1, True),
        ("abb", 1, True),
    ],
)
def test_a_leader_nobody_can_overtake_is_certain(values: str, outstanding: int, is_certain: bool) -> None:
    votes = Votes[str]()
    for value in values:
        votes.add(value)
    assert votes.is_certain(outstanding) == is_certain


def tally_of(*outcomes: object, count: int, min_success: int, is_plurality: bool = True) -> Tally[Any]:
    tally = Tally[Any](count, min_success, votes=Votes[Any]() if is_plurality else None)
    for position, outcome in enumerate(outcomes):
        is_error = isinstance(outcome, Exception)
        tally.take(position, Failed(outcome) if is_error else Succeeded(outcome))
    return tally


def test_a_certain_winner_is_not_enough_while_too_few_have_succeeded() -> None:
    assert not tally_of("a", count=2, min_success=2).is_settled
    assert tally_of("a", "b", count=2, min_success=2).is_settled
    assert tally_of("a", count=2, min_success=1).is_settled


def test_it_is_settled_when_too_many_have_failed() -> None:
    error = ValueError()
    assert not tally_of(error, count=3, min_success=2).is_settled
    tally = tally_of("a", error, error, count=3, min_success=2)
    assert tally.is_settled
    assert not tally.has_succeeded
    assert tally.errors_in_order() == [error, error]


def test_what_has_to_see_all_values_waits_for_all() -> None:
    assert not tally_of("a", "a", count=3, min_success=1, is_plurality=False).is_settled
    assert tally_of("a", "a", ValueError(), count=3, min_success=1, is_plurality=False).has_succeeded


def test_what_comes_too_late_does_not_count() -> None:
    tally = tally_of("a", "a", "b", ValueError(), count=3, min_success=1)
    assert tally.values == {0: "a", 1: "a"}
    assert tally.errors == {}


def test_values_are_told_in_the_order_of_the_calls() -> None:
    tally = Tally[str](3, 1, votes=None)
    for position in (2, 0, 1):
        tally.take(position, Succeeded(str(position)))
    assert tally.values_in_order() == ["0", "1", "2"]


@pytest.mark.parametrize(
    "error",
    [
        StepAbortedError("aborted"),
        HookError("refused", hook="check"),
        HumanError("denied"),
        InterceptionError("nothing recorded"),
        ExceptionGroup("several", [ValueError(), StepAbortedError("aborted")]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_somebody_decided_settles_everything(error: Exception) -> None:
    tally = tally_of(error, count=3, min_success=1)
    assert tally.is_settled
    assert tally.final_error is error

"""Numbers that callers give."""

import math

import pytest

from nighthawk_async.actors.errors import check_seconds, check_whole_number


@pytest.mark.parametrize("number", [0, -1, 1.0, 2.5, math.nan, True, "3", None])
def test_what_is_no_whole_number_or_too_small_is_refused_by_name(number: object) -> None:
    with pytest.raises(ValueError, match="capacity must be a whole number of at least 1, not") as caught:
        check_whole_number("capacity", number, least=1)
    assert str(caught.value).endswith(repr(number))


@pytest.mark.parametrize("seconds", [-1, -0.5, math.nan, -math.inf, True, "3", None])
def test_what_is_no_number_of_seconds_or_negative_is_refused_by_name(seconds: object) -> None:
    with pytest.raises(ValueError, match="timeout must be a number of seconds of at least 0, not") as caught:
        check_seconds("timeout", seconds)
    assert str(caught.value).endswith(repr(seconds))


def test_numbers_that_make_sense_are_accepted() -> None:
    for number in (1, 2, 10**9):
        check_whole_number("capacity", number, least=1)
    for seconds in (0, 0.5, 3, math.inf):
        check_seconds("timeout", seconds)


def test_none_is_accepted_only_where_it_means_something() -> None:
    check_whole_number("capacity", None, least=1, or_none=True)
    check_seconds("timeout", None, or_none=True)
    with pytest.raises(ValueError, match="capacity must be a whole number of at least 1 or None, not 0"):
        check_whole_number("capacity", 0, least=1, or_none=True)
    with pytest.raises(ValueError, match="timeout must be a number of seconds of at least 0 or None, not -1"):
        check_seconds("timeout", -1, or_none=True)

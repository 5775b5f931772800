"""Tests that carry out many cases, and the order of long tests."""

from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cases import every
from tests.long_first import LONG, put_long_tests_first, shares


def test_a_case_that_fails_is_named_and_the_others_before_it_were_carried_out() -> None:
    seen: list[tuple[int, str]] = []

    @every("number", [1, 2])
    @every("letter, is_bad", [("a", False), ("b", True)])
    def check(number: int, letter: str, is_bad: bool) -> None:
        seen.append((number, letter))
        assert not (number == 2 and is_bad)

    with pytest.raises(AssertionError) as raised:
        check()
    assert seen == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
    assert raised.value.__notes__ == [
        "in the case {'letter': 'b', 'is_bad': True}",
        "in the case {'number': 2}",
    ]


@pytest.mark.anyio
@every("number", range(3))
async def test_cases_are_awaited_and_have_fixtures(number: int, record_property: Any) -> None:
    record_property("number", number)


def test_every_case_is_carried_out_and_every_failure_is_named() -> None:
    seen: list[int] = []

    @every("number", range(4))
    def check(number: int) -> None:
        seen.append(number)
        if number == 1:
            pytest.fail("no")
        assert number != 3

    with pytest.raises(BaseExceptionGroup) as raised:
        check()
    assert seen == [0, 1, 2, 3]
    assert [each.__notes__ for each in raised.value.exceptions] == [
        ["in the case {'number': 1}"],
        ["in the case {'number': 3}"],
    ]


def test_there_is_a_case_and_an_argument_for_it() -> None:
    with pytest.raises(AssertionError, match="there is no case"):
        every("number", [])
    with pytest.raises(AssertionError, match="has no arguments numbr"):
        every("numbr", [1])(lambda number: None)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_share_of_each_process_begins_with_long_tests(count: int) -> None:
    long = [f"{LONG[rank]}[case]" for rank in (1, 0, 2)]
    names = [*(f"tests/{number:02}.py::test" for number in range(20)), *long]
    tests: Any = [SimpleNamespace(nodeid=name) for name in names]
    alone = list(tests)
    put_long_tests_first(SimpleNamespace(), alone)  # type: ignore[arg-type]
    assert alone == tests
    for number in range(count):
        arranged = list(tests)
        process = {"workerid": f"gw{number}", "workercount": count}
        put_long_tests_first(SimpleNamespace(workerinput=process), arranged)  # type: ignore[arg-type]
        found = [each.nodeid for each in arranged]
        assert sorted(found) == sorted(names)
        begins = accumulate(shares(len(names), count)[:-1], initial=0)
        assert [found[at] for at in begins] == [f"{LONG[rank]}[case]" for rank in range(count)]

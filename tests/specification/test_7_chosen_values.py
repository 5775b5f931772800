"""Section 7: a value that an expression chooses among converted ones is not converted again."""

from collections.abc import Generator
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, Json

import nighthawk_async as nh
from tests.specification.scripted_steps import (
    PASS,
    ScriptedSteps,
    assigning,
    executing,
    returning,
)

pytestmark = pytest.mark.anyio

Cents = Annotated[int, AfterValidator(lambda dollars: dollars * 100)]


@nh.natural_function
async def choose(text: str, given: Cents) -> Cents:
    first: Cents = 0
    second: Cents = 0
    """natural
    Set <:first> and <:second> from <text>, and return the better one, or <given>.
    """
    return first if second else given


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("first if first > 700 else second", 700),
        ("first if first < 700 else second", 500),
        ("(first if first < 700 else second) if text else given", 500),
        ("first or second", 500),
        ("first and second", 700),
        ("(best := second)", 700),
        ("first if False else given", 900),
        ("first if text else 5", 500),
        ("first if not text else 5", 500),
        ("first if not text else first + 1", 50_100),
        ("None or given", 900),
        ("given or None", 900),
        ("first + 0", 50_000),
    ],
)
async def test_9_a_chosen_value_is_converted_once(expression: str, result: int) -> None:
    steps = (assigning("first", "5"), assigning("second", "7"), returning(expression))
    async with nh.run(ScriptedSteps(steps).executor):
        assert await choose("x", given=900) == result
    if expression == "(best := second)":
        return  # it sets a name
    steps = (assigning("first", "5"), assigning("second", "7"), assigning("first", expression), PASS)
    async with nh.run(ScriptedSteps(steps).executor):
        assert await choose("x", given=900) == result
    steps = (assigning("first", "5"), assigning("second", "7"), executing(f"first = {expression}"), PASS)
    async with nh.run(ScriptedSteps(steps).executor):
        assert await choose("x", given=900) == result


@pytest.mark.parametrize("dollars", [2, 5])
@pytest.mark.parametrize(
    "statements",
    [
        ("best = first\nfirst = best",),
        ("best = first", "first = best"),
        ("best = first\nother = best", "first = 3", "first = other"),
    ],
)
async def test_7_a_copy_under_another_name_is_not_converted_again(
    statements: tuple[str, ...], dollars: int
) -> None:
    steps = (assigning("first", str(dollars)), *map(executing, statements))
    async with nh.run(ScriptedSteps((*steps, returning("first"))).executor):
        assert await choose("x", given=0) == dollars * 100
    async with nh.run(ScriptedSteps((*steps, assigning("second", "1"), PASS)).executor):
        assert await choose("x", given=0) == dollars * 100


@pytest.mark.parametrize(
    "statements",
    [
        "for first in [first, 7][:1]: pass",
        "if text:\n    first = [first][0]",
        "best = max([first, 7])\nfirst = best",
        "best = None\nfor each in [first]:\n    best = each\nfirst = best",
    ],
)
async def test_7_the_very_object_that_was_converted_is_not_converted_again(statements: str) -> None:
    steps = (assigning("first", "5"), executing(statements))
    async with nh.run(ScriptedSteps((*steps, returning("first"))).executor):
        assert await choose("x", given=0) == 500
    async with nh.run(ScriptedSteps((*steps, assigning("second", "1"), PASS)).executor):
        assert await choose("x", given=0) == 500


async def test_7_a_copy_that_is_set_anew_is_converted() -> None:
    for statements in (
        "best = first\nbest = 2\nfirst = best",
        "best = first\nfor best in [2]: pass\nfirst = best",
    ):
        steps = (assigning("first", "2"), executing(statements), returning("first"))
        async with nh.run(ScriptedSteps(steps).executor):
            assert await choose("x", given=0) == 200


async def test_7_what_code_breaks_under_another_name_is_refused() -> None:
    @nh.natural_function
    async def find(text: str) -> list[int]:
        found: list[int] = []
        """natural
        Set <:found> from <text>, and return it.
        """
        return found

    steps = (
        assigning("found", "[5]"),
        executing("best = found\nbest.append('x')\nfound = best"),
        returning("best"),
    )
    async with nh.run(ScriptedSteps(steps, max_corrective_turns=0).executor):
        with pytest.raises(nh.ExecutionError, match="should be a valid integer"):
            await find("x")


async def test_9_texts_that_were_decoded_may_be_chosen() -> None:
    @nh.natural_function
    async def find(text: str) -> Json[list[int]]:
        found: Json[list[int]] = []
        other: Json[list[int]] = []
        """natural
        Set <:found> and <:other>, and return one.
        """
        return found or other

    steps: Any = (assigning("found", "'[1]'"), returning("found if found else other"))
    async with nh.run(ScriptedSteps(steps).executor):
        assert await find("x") == [1]
    async with nh.run(ScriptedSteps((steps[0], PASS)).executor):
        assert await find("x") == [1]


async def test_9_python_returns_a_chosen_variable_as_the_block_has_set_it() -> None:
    @nh.natural_function
    async def find(text: str, way: str) -> Cents:
        first: Cents
        second: Cents
        """natural
        Set <:first> and <:second> from <text>.
        """
        if way == "or":
            return first or second
        if way == "and":
            return first and second
        if way == "three":
            return 0 or first or second
        return first if way == "first" else second if way == "second" else 6

    steps: Any = (assigning("first", "5"), assigning("second", "7"), PASS)
    for way, result in (("first", 500), ("second", 700), ("new", 600), ("or", 500), ("and", 700)):
        async with nh.run(ScriptedSteps(steps).executor):
            assert await find("x", way) == result
    steps = (assigning("first", "0"), assigning("second", "7"), PASS)
    for way, result in (("or", 700), ("and", 0)):
        async with nh.run(ScriptedSteps(steps).executor):
            assert await find("x", way) == result


def test_9_generators_return_variables_as_the_block_has_set_them() -> None:
    @nh.natural_function
    def find(text: str) -> Generator[int, None, Cents]:
        found: Cents
        yield 1
        """natural
        Set <:found> from <text>.
        """
        yield found
        return found

    with nh.run(ScriptedSteps((assigning("found", "5"), PASS)).executor):
        generator = find("x")
        assert [next(generator), next(generator)] == [1, 500]
        with pytest.raises(StopIteration) as end:
            next(generator)
    assert end.value.value == 500

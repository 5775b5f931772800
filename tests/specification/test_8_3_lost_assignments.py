"""Section 8.3: what the model assigns and the block does not set is lost, and both sides are told."""

import logging
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.models import ToolCall
from tests.specification.scripted_steps import (
    PASS,
    ScriptedSteps,
    assigning,
    evaluating,
    executing,
    returning,
)

pytestmark = pytest.mark.anyio

total = 0


@nh.natural_function
async def add(numbers: list[int], other: int = 1) -> int:
    count = 0
    """natural
    Add <numbers> to <total>, and set <:count>.
    """
    return total + count


@nh.natural_function
async def length_of(numbers: list[int]) -> object:
    """natural
    Set <:len> to what <len> is for <numbers>.
    """
    return len


@nh.natural_function
async def counted(numbers: list[int]) -> object:
    """natural
    Set <:found> to the length of <numbers>, and double <found>.
    """
    return found  # type: ignore[name-defined]


async def result_of(*calls: ToolCall, function: Any = add) -> Any:
    """Run a block; return the results of the calls but the last one, as the model sees them."""
    steps = ScriptedSteps((*calls, returning("nothing")), (PASS,))
    async with nh.run(steps.executor):
        await function([1])
    return [envelope["value"] or envelope["error"] for envelope in steps.envelopes[: len(calls)]]


NOTE = "not kept when the block ends: {}; the block sets <:count>"


@pytest.mark.parametrize("name", ["total", "numbers", "other", "result"])
async def test_8_3_an_assignment_of_what_the_block_does_not_set_says_so(name: str) -> None:
    (result,) = await result_of(assigning(name, "5"))
    assert result == {
        "succeeded": True,
        "target_path": name,
        "type": "int",
        "value": 5,
        "note": NOTE.format(name),
    }


@pytest.mark.parametrize(
    "statements",
    [
        "global total\ntotal = 5",
        "total = 5",
        "total: int = 5",
        "total, count = 5, 6",
        "def add():\n    global total\n    total = 7\nadd()",
        "for total in [5]: pass",
        "import math as total",
        "def total(): ...",
        "class total: ...",
        "with open('/dev/null') as total: pass",
        "(total := 5)",
        "if True: total = 5",
        "match 5:\n    case total: pass",
    ],
)
async def test_8_3_statements_that_assign_what_the_block_does_not_set_say_so(statements: str) -> None:
    (result,) = await result_of(executing(statements))
    assert "total" in result["changed"]
    assert result["note"] == NOTE.format("total")


@pytest.mark.parametrize(
    ("statements", "names"),
    [("other += 1", "other"), ("del other", "other"), ("numbers = other = 3", "numbers, other")],
)
async def test_8_3_so_do_those_that_rebind_variables_of_the_function(statements: str, names: str) -> None:
    (result,) = await result_of(executing(statements))
    assert result["note"] == NOTE.format(names)
    assert result["changed"] == ([] if statements.startswith("del") else names.split(", "))


@pytest.mark.parametrize(
    "statements",
    [
        "helper = 5",
        "for each in numbers: each += 1",
        "numbers.append(2)\nsize = len(numbers)",
        "count = 5",
        "try:\n    1 / 0\nexcept ZeroDivisionError as error: text = str(error)",
        "def make():\n    global kept\n    kept = 5\nmake()",
    ],
)
async def test_8_3_names_that_code_makes_for_itself_need_no_note(
    statements: str, caplog: pytest.LogCaptureFixture
) -> None:
    results = await result_of(executing(statements), executing(statements))
    assert all("note" not in result for result in results)
    assert caplog.records == []


async def test_8_3_a_name_that_code_has_made_may_be_assigned() -> None:
    results = await result_of(executing("helper = []"), assigning("helper", "[5]"))
    assert results[1]["value"] == [5]
    assert "note" not in results[1]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (assigning("total", "5"), "total"),
        (assigning("result", "5"), "result"),
        (executing("global total\ntotal = 5"), "total"),
        (executing("numbers = []"), "numbers"),
        (evaluating("(numbers := [])"), "numbers"),
    ],
)
async def test_8_3_the_author_is_warned_when_the_block_passes(
    call: ToolCall, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="nighthawk"):
        async with nh.run(ScriptedSteps((call, PASS)).executor):
            await add([1])
    (record,) = caplog.records
    assert f"the model has assigned {name}, which the block does not set" in record.getMessage()
    assert f"write <:{name}> in the block" in record.getMessage()


async def test_8_3_the_author_is_warned_once_in_a_run(caplog: pytest.LogCaptureFixture) -> None:
    call = assigning("total", "5")
    for records in (1, 2):
        async with nh.run(ScriptedSteps((call, PASS), (call, PASS)).executor):
            await add([1])
            await add([1])
        assert len(caplog.records) == records


async def test_8_3_nobody_is_warned_of_a_block_that_ends_otherwise(caplog: pytest.LogCaptureFixture) -> None:
    async with nh.run(ScriptedSteps((assigning("total", "5"), returning("total"))).executor):
        assert await add([1]) == 5
    assert caplog.records == []


async def test_8_1_a_block_may_read_what_it_sets_itself() -> None:
    async with nh.run(ScriptedSteps((assigning("len", "len(numbers)"), PASS)).executor):
        assert await length_of([1, 2]) == 2
    async with nh.run(ScriptedSteps((assigning("found", "3"), executing("found *= 2"), PASS)).executor):
        assert await counted([1, 2, 3]) == 6
    async with nh.run(ScriptedSteps((PASS,), max_corrective_turns=0).executor):
        with pytest.raises(nh.ExecutionError, match="the write binding 'found' has no value"):
            await counted([1])

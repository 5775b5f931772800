"""Section 8.3 and this library's `nh_exec`: statements over the shared state of a step."""

from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from tests.specification.scripted_steps import (
    PASS,
    ScriptedSteps,
    assigning,
    evaluating,
    executing,
    returning,
)

pytestmark = pytest.mark.anyio


async def fetch(number: int) -> int:
    await anyio.lowlevel.checkpoint()
    return number * 100


def refuse(value: object) -> None:
    raise nh.errors.ToolBoundaryError(kind="transient", message=f"not now: {value}", guidance="Try later.")


@nh.natural_function
async def fill(items: list[int]) -> tuple[int, str]:
    """natural
    Set <:total> and <:label> from <items>.
    """
    total: int
    label: str
    return total, label


@nh.natural_function
async def work(items: list[Any], value: int = 1) -> object:
    """natural
    Work on <items> with <value>.
    """


async def test_8_3_statements_bind_names_that_live_for_the_rest_of_the_step() -> None:
    steps = ScriptedSteps(
        executing("half = value / 2\nfor item in items:\n    half += item"),
        executing("half = half * 2"),
        returning("half"),
    )
    async with nh.run(steps.executor):
        assert await work([1, 2], value=4) == 10
    assert steps.envelopes == [
        {"value": {"changed": ["half", "item"]}, "error": None},
        {"value": {"changed": ["half"]}, "error": None},
    ]


async def test_8_3_functions_of_one_call_see_names_from_others() -> None:
    steps = ScriptedSteps(
        executing("def scale(number):\n    return number * factor + offset()"),
        executing("factor = value"),
        executing("def offset():\n    return len(items)"),
        returning("scale(5)"),
    )
    async with nh.run(steps.executor):
        assert await work([1, 2], value=4) == 22


async def test_8_3_only_write_bindings_are_committed() -> None:
    steps = ScriptedSteps((executing("total = sum(items)\nlabel = 'sum'\nitems = []\nother = 3"), PASS))
    items = [1, 2]
    async with nh.run(steps.executor):
        assert await fill(items) == (3, "sum")
    assert items == [1, 2]


async def test_8_3_what_statements_bind_is_validated_before_it_is_committed() -> None:
    steps = ScriptedSteps((executing("total = 'many'\nlabel = 'x'"), PASS), (executing("total = '7'"), PASS))
    async with nh.run(steps.executor):
        assert await fill([]) == (7, "x")
    refusal = steps.results[1]
    assert refusal.is_error
    assert "'total' must be int" in str(refusal.content[0])


async def test_8_3_in_place_changes_stay() -> None:
    steps = ScriptedSteps((executing("items.append(3)\nitems.sort(reverse=True)"), PASS))
    items = [1, 2]
    async with nh.run(steps.executor):
        await work(items)
    assert items == [3, 2, 1]


async def test_8_3_an_error_is_reported_with_its_line_and_undoes_nothing() -> None:
    statements = "items.append(1)\nfirst = 1\nsecond = first / 0\nthird = 3"
    steps = ScriptedSteps(executing(statements), returning("(first, 'third' in locals())"))
    items: list[int] = []
    async with nh.run(steps.executor):
        assert await work(items) == (1, False)
    assert items == [1]
    assert steps.envelopes[0] == {
        "value": None,
        "error": {
            "kind": "execution",
            "message": "line 3 (second = first / 0): ZeroDivisionError: division by zero; "
            "changed before the error, and not undone: first",
            "guidance": "Change the call, or go on without its result.",
        },
    }


async def test_8_3_an_error_inside_a_function_of_the_statements_names_the_line_inside() -> None:
    steps = ScriptedSteps(executing("def fail():\n    return items[9]\n\nfail()"), PASS)
    async with nh.run(steps.executor):
        await work([])
    assert "line 2 (return items[9]): IndexError" in steps.envelopes[0]["error"]["message"]


async def test_8_3_an_error_in_a_function_of_an_earlier_call_names_the_line_that_called_it() -> None:
    steps = ScriptedSteps(executing("def fail():\n    return items[9]"), executing("value\nfail()"), PASS)
    async with nh.run(steps.executor):
        await work([])
    assert "line 2 (fail()): IndexError" in steps.envelopes[1]["error"]["message"]


async def test_8_3_a_syntax_error_in_statements_names_its_line() -> None:
    steps = ScriptedSteps(executing("fine = 1\nif value\n    pass"), PASS)
    async with nh.run(steps.executor):
        await work([])
    error = steps.envelopes[0]["error"]
    assert error["kind"] == "invalid_input"
    assert "line 2" in error["message"]
    assert error["guidance"] == "Write valid Python."


@pytest.mark.parametrize(
    "text", ["-" * 100_000 + "1", "1" + "+1" * 100_000, "value\x00", "(" * 300 + ")" * 300, "value ="]
)
async def test_8_3_text_that_does_not_compile_is_told_to_the_model(text: str) -> None:
    steps = ScriptedSteps((executing(text), evaluating(text), assigning("value", text)), PASS)
    async with nh.run(steps.executor):
        await work([])
    kinds = [envelope["error"]["kind"] for envelope in steps.envelopes]
    assert kinds == ["invalid_input"] * 3


async def test_8_3_statements_await_at_the_top_level() -> None:
    steps = ScriptedSteps(
        executing("first = await fetch(value)\nasync def both():\n    return first + await fetch(2)"),
        executing("second = await both()\nthird = [await fetch(item) for item in items]"),
        returning("(first, second, third)"),
    )
    async with nh.run(steps.executor):
        assert await work([3], value=1) == (100, 300, [300])
    assert steps.envelopes == [
        {"value": {"changed": ["both", "first"]}, "error": None},
        {"value": {"changed": ["second", "third"]}, "error": None},
    ]


async def test_8_3_an_error_after_an_await_is_reported_with_its_line() -> None:
    steps = ScriptedSteps(executing("first = await fetch(1)\nfirst.missing"), returning("first"))
    async with nh.run(steps.executor):
        assert await work([]) == 100
    error = steps.envelopes[0]["error"]
    assert error["message"].startswith("line 2 (first.missing): AttributeError")


async def test_8_3_a_structured_failure_keeps_its_kind_through_statements() -> None:
    steps = ScriptedSteps(executing("first = 1\nrefuse(first)"), PASS)
    async with nh.run(steps.executor):
        await work([])
    assert steps.envelopes[0]["error"] == {
        "kind": "transient",
        "message": "line 2 (refuse(first)): not now: 1; changed before the error, and not undone: first",
        "guidance": "Try later.",
    }


async def test_8_3_statements_that_await_hold_back_calls_on_what_they_change() -> None:
    steps = ScriptedSteps(
        (
            executing("for number in range(3):\n    items.append(await fetch(number))"),
            assigning("total", "sum(items)"),
            executing("label = str(total)"),
            PASS,
        )
    )
    async with nh.run(steps.executor):
        assert await fill([]) == (300, "300")


async def test_8_3_the_tools_on_offer_are_those_of_the_configuration() -> None:
    steps = ScriptedSteps((executing("value = 1"), PASS), PASS, provided_tools=("nh_eval",))
    async with nh.run(steps.executor):
        await work([])
    assert [tool.name for tool in steps.model.requests[0].tools] == ["nh_eval", "nh_outcome"]
    assert steps.envelopes[0]["error"]["kind"] == "resolution"
    assert "nh_exec" in steps.envelopes[0]["error"]["message"]


async def test_8_3_provided_tools_are_all_on_offer_by_default() -> None:
    steps = ScriptedSteps(PASS)
    async with nh.run(steps.executor):
        await work([])
    names = [tool.name for tool in steps.model.requests[0].tools]
    assert names == ["nh_eval", "nh_assign", "nh_exec", "nh_outcome"]


PARTLY_DONE: list[Any] = [
    pytest.param(executing("first = 1\nsecond = 2\nsecond / 0"), "first, second", id="statements"),
    pytest.param(executing("first = await fetch(1)\nfirst / 0"), "first", id="after an await"),
    pytest.param(executing("for first in range(3): 1 / (2 - first)"), "first", id="a loop"),
    pytest.param(executing("def first(): pass\nimport string\nfirst() / 0"), "first, string", id="others"),
    pytest.param(evaluating("(first := 1) / 0"), "first", id="an expression"),
    pytest.param(evaluating("(first := await fetch(1)) / 0"), "first", id="an expression that awaits"),
    pytest.param(
        evaluating("[second := each for each in (1, 0) if 1 / each]"), "second", id="a comprehension"
    ),
]


@pytest.mark.parametrize(("call", "changed"), PARTLY_DONE)
async def test_8_3_an_error_tells_what_was_bound_before_it(call: Any, changed: str) -> None:
    steps = ScriptedSteps(call, PASS)
    async with nh.run(steps.executor):
        await work([])
    (envelope,) = steps.envelopes
    assert "Error: " in envelope["error"]["message"]
    assert envelope["error"]["message"].endswith(f"; changed before the error, and not undone: {changed}")


@pytest.mark.parametrize("call", [executing("first_missing / 0"), evaluating("1 / 0"), executing("1 +")])
async def test_8_3_an_error_before_anything_was_bound_says_nothing_of_it(call: Any) -> None:
    steps = ScriptedSteps(call, PASS)
    async with nh.run(steps.executor):
        await work([])
    assert "changed" not in steps.envelopes[0]["error"]["message"]


async def test_8_3_what_was_bound_is_told_although_the_error_is_long_and_the_names_are_many() -> None:
    names = [f"name_{number:02}" for number in range(30)]
    statements = "\n".join([*(f"{name} = 1" for name in names), "raise ValueError('x' * 9000)"])
    steps = ScriptedSteps(executing(statements), PASS)
    async with nh.run(steps.executor):
        await work([])
    message = steps.envelopes[0]["error"]["message"]
    assert message.endswith("name_18, name_19 and 10 more")
    assert len(message) < 2_000


async def test_8_3_a_return_expression_that_fails_tells_what_it_bound() -> None:
    steps = ScriptedSteps(returning("(first := 1) / 0"), returning("first"))
    async with nh.run(steps.executor):
        assert await work([]) == 1
    assert steps.envelopes[0]["error"]["message"].endswith("and not undone: first")


ASSIGNMENTS = ["(first := 1) / 0", "(first := await fetch(1)) / 0", "[first := 1, await fetch(1), 1 / 0]"]


@pytest.mark.parametrize("expression", ASSIGNMENTS)
@pytest.mark.parametrize("before", [(), (executing("first = 7"),)], ids=["new", "bound before"])
async def test_8_3_an_assignment_that_fails_binds_nothing(expression: str, before: Any) -> None:
    look = returning("globals().get('first')")
    steps = ScriptedSteps(*before, assigning("second", expression), look)
    async with nh.run(steps.executor):
        assert await work([]) == (7 if before else None)
    assert "changed" not in steps.envelopes[-1]["error"]["message"]


async def test_8_3_an_assignment_that_is_not_valid_binds_nothing_else() -> None:
    @nh.natural_function
    async def count() -> int | None:
        number: int = 0
        """natural
        Set <:number>.
        """
        return number

    steps = ScriptedSteps(assigning("number", "(other := 'many')"), returning("globals().get('other')"))
    async with nh.run(steps.executor):
        assert await count() is None
    assert "valid integer" in steps.envelopes[0]["error"]["message"]

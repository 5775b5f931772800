"""Section 8.3: expressions see the step's names wherever Python code may stand in them."""

import types
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

RATE = 10


def double(number: int) -> int:
    return 2 * number


async def fetch(number: int) -> int:
    await anyio.lowlevel.checkpoint()
    return number * 100


@nh.natural_function
async def compute(x: int, items: list[int], id: str = "own") -> object:
    """natural
    Compute with <x>, <items> and <id> what is asked.
    """


async def value_of(expression: str, *before: nh.models.ToolCall) -> Any:
    steps = ScriptedSteps((*before, returning(expression)))
    async with nh.run(steps.executor):
        return await compute(2, [1, 2, 3])


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("x", 2),
        ("RATE", 10),
        ("double(x)", 4),
        ("len(items)", 3),
        ("id", "own"),
        ("[x * item for item in items]", [2, 4, 6]),
        ("{item: RATE * item for item in items if item > x}", {3: 30}),
        ("{x + item for item in items}", {3, 4, 5}),
        ("sum(x * item for item in items)", 12),
        ("[[x * a + b for b in items] for a in items][2][0]", 7),
        ("(lambda y: x + y + RATE)(1)", 13),
        ("(lambda: [double(x) for _ in items])()", [4, 4, 4]),
        ("sorted(items, key=lambda item: -item * x)", [3, 2, 1]),
        ("list(map(lambda item: item + x, items))", [3, 4, 5]),
        ("(y := x + 1) * y", 9),
        ("await fetch(x)", 200),
        ("[await fetch(item) for item in items]", [100, 200, 300]),
        ("__name__", __name__),
        ("\n  (x +\n  1)\n", 3),
        ("__builtins__ is not None", True),
    ],
)
async def test_8_3_expressions_are_evaluated_against_step_globals_and_step_locals(
    expression: str, value: object
) -> None:
    assert await value_of(expression) == value


async def test_8_3_step_locals_hide_globals_and_globals_hide_builtins() -> None:
    hide = executing("RATE = 7\nlen = lambda value: 'mine'")
    assert await value_of("(RATE, len(items), (lambda: (RATE, len(items)))())", hide) == (
        7,
        "mine",
        (7, "mine"),
    )


async def test_8_3_a_class_body_sees_the_names_of_the_step() -> None:
    statements = """
from dataclasses import dataclass

@dataclass
class Reading:
    factor: int = x
    rate: int = RATE
    count: int = len(items)
    doubled: int = double(x)
    all_items: tuple[int, ...] = tuple(item * x for item in items)

    def total(self) -> int:
        return self.factor * RATE + x
"""
    assert await value_of(
        "(Reading().factor, Reading().rate, Reading().count, Reading().doubled, Reading().all_items, "
        "Reading().total())",
        executing(statements),
    ) == (2, 10, 3, 4, (2, 4, 6), 22)


async def test_8_3_a_class_made_by_statements_belongs_to_the_module_of_the_function() -> None:
    assert await value_of("Item.__module__", executing("class Item: pass")) == __name__


async def test_8_3_a_global_statement_binds_a_name_of_the_step_at_once() -> None:
    define = executing("counter = 0\ndef bump():\n    global counter\n    counter += 1")
    assert await value_of("(counter, seen)", define, executing("bump()\nbump()\nseen = counter")) == (2, 2)


async def test_8_3_a_global_statement_never_binds_a_global_of_the_module() -> None:
    statements = "def change():\n    global RATE\n    RATE = 1\nchange()"
    assert await value_of("RATE", executing(statements)) == 1
    assert RATE == 10


async def test_8_3_a_walrus_at_the_top_binds_a_name_of_the_step() -> None:
    assert await value_of("kept", evaluating("(kept := x + 40)")) == 42


async def test_8_3_functions_of_the_step_see_names_bound_later() -> None:
    define = executing("def later():\n    return x + bound_later")
    assert await value_of("later()", define, assigning("bound_later", "5")) == 7


async def test_8_3_names_can_be_imported_and_deleted() -> None:
    assert await value_of(
        "(math.floor(2.5), 'gone' in locals())", executing("import math\ngone = 1\ndel gone")
    ) == (2, False)


async def test_8_3_a_global_of_the_module_cannot_be_deleted() -> None:
    steps = ScriptedSteps(executing("del RATE"), PASS)
    async with nh.run(steps.executor):
        await compute(1, [])
    assert steps.envelopes[0]["error"]["kind"] == "resolution"
    assert RATE == 10


async def test_8_3_step_globals_are_live() -> None:
    global RATE
    original = RATE
    steps = ScriptedSteps(returning("(RATE, (lambda: RATE)())"), returning("RATE"))
    try:
        async with nh.run(steps.executor):
            RATE = 77
            assert await compute(1, []) == (77, 77)
            RATE = 78
            assert await compute(1, []) == 78
    finally:
        RATE = original


async def without_builtins() -> object:
    """natural
    Return what is asked.
    """


async def test_8_3_builtins_are_injected_into_step_globals_that_lack_them() -> None:
    function = types.FunctionType(without_builtins.__code__, {"RATE": 3})
    steps = ScriptedSteps(returning("(RATE, len('ab'))"))
    async with nh.run(steps.executor):
        assert await nh.natural_function(function)() == (3, 2)
    assert "__builtins__" in function.__globals__


async def test_8_3_evaluating_leaves_no_name_of_its_own_behind() -> None:
    snapshots: list[nh.runtime.StepSnapshot] = []

    async def look() -> None:
        snapshots.append(await nh.get_current_step_actor().snapshot())

    @nh.natural_function
    async def looking(look: object) -> None:
        """natural
        Call <look>.
        """

    steps = ScriptedSteps((executing("x = eval('1 + 1')"), evaluating("look()"), PASS))
    async with nh.run(steps.executor):
        await looking(look)
    assert sorted(snapshots[0].locals) == ["look", "x"]


async def test_8_3_a_function_committed_by_a_step_works_after_it() -> None:
    @nh.natural_function
    async def make(factor: int) -> object:
        """natural
        Set <:function> to a function that multiplies by <factor> and by the rate.
        """
        return function

    steps = ScriptedSteps((assigning("function", "lambda number: number * factor * RATE + len('abc')"), PASS))
    async with nh.run(steps.executor):
        function: Any = await make(3)
    assert function(2) == 63

"""What the gather-safety guard adds to a step that binds lists, alone or beside another step that does."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Literal

import anyio

import nighthawk_async as nh
from nighthawk_async.testing import (
    CallbackExecutor,
    ModelResponse,
    ScriptedModel,
    StepCall,
    StepResponse,
    model_response,
    pass_response,
    tool_call,
)

from ..measure import Benchmark

__all__ = ["BENCHMARKS"]

ITEMS = 20
"""How many numbers each list holds."""


@nh.natural_function
async def bind_none() -> None:
    """Bind nothing that can change."""
    """natural
    Look around.
    """


@nh.natural_function
async def bind_one(a: list[int]) -> None:
    """Bind one list."""
    """natural
    Look at <a>.
    """


@nh.natural_function
async def bind_ten(
    a: list[int],
    b: list[int],
    c: list[int],
    d: list[int],
    e: list[int],
    f: list[int],
    g: list[int],
    h: list[int],
    i: list[int],
    j: list[int],
) -> None:
    """Bind ten lists."""
    """natural
    Look at <a>, <b>, <c>, <d>, <e>, <f>, <g>, <h>, <i> and <j>.
    """


FUNCTIONS: dict[int, Callable[..., Coroutine[Any, Any, None]]] = {0: bind_none, 1: bind_one, 10: bind_ten}


def look(request: nh.models.ModelRequest) -> ModelResponse:
    """One tool call that changes nothing, and the outcome."""
    return model_response(tool_call("nh_eval", expression="1"), tool_call("nh_outcome", kind="pass"))


async def bind(mode: Literal["warn", "ignore"], lists: int, is_shared: bool, steps: int) -> None:
    """Carry out steps one after the other; when the lists are shared, another step in flight binds them."""
    function, things = FUNCTIONS[lists], [list(range(ITEMS)) for _ in range(lists)]
    is_held, is_over = anyio.Event(), anyio.Event()

    async def hold(call: StepCall) -> StepResponse:
        is_held.set()
        await is_over.wait()
        return pass_response()

    model = ScriptedModel(look)
    executor = nh.AgentStepExecutor.from_model(model=model)
    async with nh.run(executor, concurrent_mutation=mode), anyio.create_task_group() as group:
        if is_shared:
            with nh.scope(model=CallbackExecutor(hold)):
                group.start_soon(function, *things)
            await is_held.wait()
        for _ in range(steps):
            await function(*things)
        is_over.set()
    assert len(model.requests) == steps


BENCHMARKS = tuple(
    Benchmark(
        name=f"guard-{mode}-{lists}-{'shared' if is_shared else 'alone'}",
        what=f"one step with one tool call binding {lists} lists{', as another does' if is_shared else ''}",
        run=partial(anyio.run, partial(bind, mode, lists, is_shared), backend="trio"),
        operations=500,
        quick_operations=20,
    )
    for lists, is_shared in ((0, False), (1, False), (10, False), (1, True), (10, True))
    for mode in ("ignore", "warn")
)

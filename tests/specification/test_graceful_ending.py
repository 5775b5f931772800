"""A task that was asked to end: its step in flight finishes its turn, and the next one does not begin."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.from_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.testing import (
    CallbackExecutor,
    ModelResponse,
    ScriptedModel,
    StepCall,
    StepResponse,
    model_response,
    pass_response,
)
from tests.specification.scripted_steps import PASS, assigning

pytestmark = pytest.mark.anyio

DONE = (assigning("result", "'done'"), PASS)


@nh.natural_function
async def work() -> str:
    result = "untouched"
    """natural
    Set <:result>.
    """
    return result


class InAThread:
    """A synchronous executor: it works in a worker thread."""

    def __init__(self, pause: Callable[[], Awaitable[None]]) -> None:
        self._pause = pause

    def run_step(self, **_: object) -> tuple[nh.executors.StepOutcome, dict[str, object]]:
        anyio.from_thread.run(self._pause)
        return nh.executors.PassStepOutcome(), {"result": "done"}


class WithoutTurns:
    """An agent that awaits no turn boundary."""

    def __init__(self, pause: Callable[[], Awaitable[None]]) -> None:
        self._pause = pause

    async def run(self, task: nh.executors.AgentTask) -> nh.executors.StepOutcome:
        await self._pause()
        nh.get_current_step_context().step_locals["result"] = "done"
        return nh.executors.PassStepOutcome()


class PausingModel(ScriptedModel):
    """A model that lets the test wait before it answers; its answer ends the block."""

    def __init__(self, pause: Callable[[], Awaitable[None]], answer: ModelResponse) -> None:
        super().__init__(lambda _: answer)
        self._pause = pause

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent]]:
        await self._pause()
        async with super().stream(request) as events:
            yield events


def callback(pause: Callable[[], Awaitable[None]]) -> object:
    async def answer(call: StepCall) -> StepResponse:
        await pause()
        return pass_response(result="done")

    return CallbackExecutor(answer)


def model_with_tools(pause: Callable[[], Awaitable[None]]) -> object:
    return nh.AgentStepExecutor.from_model(model=PausingModel(pause, model_response(*DONE)))


def direct_model(pause: Callable[[], Awaitable[None]]) -> object:
    answer = '{"result": {"kind": "pass", "bindings": {"result": "done"}}}'
    configuration = nh.StepExecutorConfiguration(outcome_transport="direct", provided_tools=())
    model = PausingModel(pause, model_response(text=answer))
    return nh.AgentStepExecutor.from_model(model=model, configuration=configuration)


def own_agent(pause: Callable[[], Awaitable[None]]) -> object:
    return nh.AgentStepExecutor.from_agent(agent=WithoutTurns(pause))


@pytest.mark.parametrize("make", [callback, InAThread, own_agent, direct_model, model_with_tools])
async def test_whatever_carries_out_a_step_it_finishes_and_the_next_one_does_not_begin(
    make: Callable[[Callable[[], Awaitable[None]]], Any],
) -> None:
    reached, go_on = anyio.Event(), anyio.Event()
    begun: list[bool] = []
    finished: list[str] = []

    async def pause() -> None:
        begun.append(nh.parallel.cancel_requested())
        reached.set()
        await go_on.wait()
        begun.append(nh.parallel.cancel_requested())

    async def twice() -> None:
        finished.append(await work())
        finished.append(await work())

    async with nh.run(make(pause)), nh.open_tasks() as tasks, anyio.create_task_group() as task_group:
        handle = tasks.start(twice)
        await reached.wait()
        task_group.start_soon(handle.cancel_gracefully, 3600, "closing")
        await anyio.wait_all_tasks_blocked()
        go_on.set()
        with pytest.raises(nh.parallel.TaskCancelledError, match="closing") as caught:
            await handle
    assert not caught.value.forced
    assert finished == ["done"]
    assert begun == [False, True]


@pytest.mark.virtual_time
async def test_an_executor_without_turns_that_outlasts_the_grace_is_cancelled_by_force() -> None:
    async def answer(call: StepCall) -> StepResponse:
        await anyio.sleep_forever()
        raise AssertionError

    async with nh.run(CallbackExecutor(answer)), nh.open_tasks() as tasks:
        handle = tasks.start(work)
        await anyio.wait_all_tasks_blocked()
        assert await handle.cancel_gracefully(5) == "cancelled"
        with pytest.raises(nh.parallel.TaskCancelledError) as caught:
            await handle
    assert caught.value.forced

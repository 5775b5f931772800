"""Steering a step that waits to be admitted: it obeys at once, since it has not begun."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response
from tests.specification.scripted_steps import PASS, ScriptedSteps, evaluating

pytestmark = pytest.mark.anyio


@nh.natural_function
async def work(number: int) -> None:
    """natural
    Work on <number>.
    """


@dataclass(kw_only=True)
class Queue:
    """A run with room for one step, which is taken until the test frees it."""

    tasks: nh.parallel.Tasks
    freed: anyio.Event = field(default_factory=anyio.Event)
    begun: list[object] = field(default_factory=list)
    model: ScriptedSteps = field(default_factory=lambda: ScriptedSteps(evaluating("1"), PASS))

    async def carry_out(self, call: StepCall) -> StepResponse:
        self.begun.append(call.step_locals["number"])
        if call.step_locals["number"] == 0:
            await self.freed.wait()
        return pass_response()

    async def start(self, number: int) -> nh.parallel.TaskHandle[None]:
        handle = self.tasks.start(work, number)
        await anyio.wait_all_tasks_blocked()
        return handle

    async def free(self) -> None:
        self.freed.set()
        await anyio.wait_all_tasks_blocked()


@asynccontextmanager
async def queue() -> AsyncGenerator[Queue]:
    """A queue with the step 0 in flight."""
    with anyio.fail_after(240):
        async with nh.open_tasks() as tasks:
            queue = Queue(tasks=tasks)
            async with nh.run(CallbackExecutor(queue.carry_out), max_concurrent_steps=1):
                first = await queue.start(0)
                yield queue
                queue.freed.set()
                await first
                await work(99)  # whatever happened, the place is free
                assert queue.begun[-1] == 99


async def test_a_waiting_step_is_stopped_at_once() -> None:
    async with queue() as steps:
        waiting, next_one = await steps.start(1), await steps.start(2)
        waiting.stop("not needed")
        with pytest.raises(nh.ExecutionError, match="was stopped: not needed"):
            await waiting
        await steps.free()
        await next_one
        assert steps.begun == [0, 2]


async def test_a_waiting_step_that_is_cancelled_gracefully_ends_at_once_and_not_by_force() -> None:
    async with queue() as steps:
        waiting = await steps.start(1)
        assert await waiting.cancel_gracefully(3600, "closing") == "cancelled"
        with pytest.raises(nh.parallel.TaskCancelledError, match="closing") as caught:
            await waiting
        assert not caught.value.forced
        assert steps.begun == [0]


async def test_what_a_waiting_step_is_steered_with_reaches_its_model_in_its_first_turn() -> None:
    async with queue() as steps:
        with nh.scope(step_executor=steps.model.executor):
            waiting = await steps.start(1)
        waiting.steer("first")
        waiting.steer("second")
        await steps.free()
        await waiting
    prompt, *steered = steps.model.model.requests[0].messages
    assert "Work on" in str(prompt)
    assert steered == [nh.models.UserMessage(content=("first", "second"))]
    assert steps.model.model.requests[1].messages[:2] == (prompt, *steered)


async def test_a_waiting_step_parks_at_once_and_lets_others_pass() -> None:
    async with queue() as steps:
        waiting, next_one = await steps.start(1), await steps.start(2)
        waiting.suspend()
        await waiting.wait_suspended()
        assert waiting.status == "suspended"
        await steps.free()
        await next_one
        assert steps.begun == [0, 2]
        waiting.resume()
        await waiting
        assert steps.begun == [0, 2, 1]


async def test_a_waiting_step_that_is_resumed_asks_anew_and_keeps_what_it_is_resumed_with() -> None:
    async with queue() as steps:
        with nh.scope(step_executor=steps.model.executor):
            waiting = await steps.start(1)
        waiting.suspend()
        await waiting.wait_suspended()
        waiting.resume("go on")
        await anyio.wait_all_tasks_blocked()
        assert (waiting.status, len(steps.model.model.requests)) == ("running", 0)
        await steps.free()
        await waiting
    assert steps.model.model.requests[0].messages[-1] == nh.models.UserMessage(content=("go on",))


END: list[tuple[str, Callable[[nh.parallel.TaskHandle[None]], object], type[Exception]]] = [
    ("cancel", lambda handle: handle.cancel("enough"), nh.parallel.TaskCancelledError),
    ("stop", lambda handle: handle.stop("enough"), nh.ExecutionError),
]


@pytest.mark.parametrize(
    ("end", "error"), [(end, error) for _, end, error in END], ids=[name for name, *_ in END]
)
async def test_a_waiting_step_that_is_parked_can_be_ended(
    end: Callable[[nh.parallel.TaskHandle[None]], object], error: type[Exception]
) -> None:
    async with queue() as steps:
        waiting = await steps.start(1)
        waiting.suspend()
        await waiting.wait_suspended()
        end(waiting)
        with pytest.raises(error, match="enough"):
            await waiting
        assert steps.begun == [0]


async def test_the_errors_of_resuming_are_those_of_a_step_in_flight() -> None:
    async with queue() as steps:
        waiting = await steps.start(1)
        with pytest.raises(nh.parallel.NotSuspendedError):
            waiting.resume()
        waiting.suspend()
        await waiting.wait_suspended()
        waiting.resume()
        with pytest.raises(nh.parallel.AlreadyResumedError):
            waiting.resume()


async def test_a_snapshot_of_a_waiting_step_shows_what_it_will_begin_with() -> None:
    async with queue() as steps:
        waiting = await steps.start(1)
        view: nh.runtime.StepSnapshot = await waiting.snapshot()
        assert (view.turns, view.tool_calls, dict(view.locals)) == (0, (), {"number": 1})
        assert not view.is_suspended


@pytest.mark.parametrize("is_first", [True, False], ids=["before it is woken", "after it was woken"])
@pytest.mark.parametrize("checkpoints", range(8))
async def test_a_step_that_is_suspended_around_its_admission_parks_where_it_is(
    checkpoints: int, is_first: bool
) -> None:
    async def suspend_in_time() -> None:
        for _ in range(checkpoints):
            await anyio.lowlevel.checkpoint()
        if waiting.status == "completed":
            return
        begun = list(steps.begun)
        try:
            waiting.suspend()
        except nh.parallel.NothingToControlError:  # past its last boundary
            return
        await waiting.wait_suspended()
        assert steps.begun == begun

    async with queue() as steps, anyio.create_task_group() as task_group:
        waiting = await steps.start(1)
        if is_first:
            task_group.start_soon(suspend_in_time)
        steps.freed.set()
        if not is_first:
            task_group.start_soon(suspend_in_time)
        await anyio.wait_all_tasks_blocked()
        if waiting.status == "suspended":
            waiting.resume()
        await waiting
        assert steps.begun == [0, 1]


async def test_a_task_that_was_asked_to_end_waits_for_no_place() -> None:
    begins = anyio.Event()

    async def late() -> None:
        await begins.wait()
        await work(1)

    async with queue() as steps, anyio.create_task_group() as task_group:
        handle = steps.tasks.start(late)
        await anyio.wait_all_tasks_blocked()
        task_group.start_soon(handle.cancel_gracefully, 3600)
        await anyio.wait_all_tasks_blocked()
        begins.set()
        with pytest.raises(nh.parallel.TaskCancelledError):
            await handle
        assert steps.begun == [0]

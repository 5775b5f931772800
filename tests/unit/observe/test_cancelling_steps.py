"""Cancelling the node of a step ends the step wherever it is, and nobody else."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async import observe
from nighthawk_async.observe import NodeView, NotControllableError, TaskTree
from nighthawk_async.resilience import Baseline, retrying
from nighthawk_async.testing import (
    CallbackExecutor,
    ScriptedModel,
    StepCall,
    StepResponse,
    model_response,
    pass_response,
    tool_call,
)
from nighthawk_async.types.model import ModelCapabilities, ModelEvent, ModelRequest, TextDelta

pytestmark = pytest.mark.anyio

Helper = Callable[[], Awaitable[object]]


@nh.natural_function
async def work(helper: Helper) -> str:
    """natural
    Set <:result> with the help of <helper>.
    """
    return result  # pyright: ignore[reportUndefinedVariable, reportUnknownVariableType]


@nh.natural_function
def work_in_a_thread() -> str:
    """natural
    Set <:result>.
    """
    return result  # pyright: ignore[reportUndefinedVariable, reportUnknownVariableType]


async def never_answered(call: StepCall) -> StepResponse:
    """An executor that never has an outcome."""
    await anyio.sleep_forever()
    raise AssertionError


class SlowModel:
    """Says a word, and then nothing more."""

    name = "scripted:slow"
    capabilities = ModelCapabilities()

    def __init__(self) -> None:
        self.open_streams = 0

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
        """Say a word."""
        self.open_streams += 1
        try:
            async with aclosing(self._events()) as events:
                yield events
        finally:
            self.open_streams -= 1

    async def _events(self) -> AsyncGenerator[ModelEvent, None]:
        yield TextDelta(text="Well")
        await anyio.sleep_forever()


def steps_of(tree: TaskTree) -> list[NodeView]:
    """The steps, in the order in which they began."""
    return [node for node in tree.snapshot().walk() if node.kind == "step"]


def ends_of(tree: TaskTree) -> list[str]:
    """What there is below the run, and how it ended."""
    return [f"{node.kind} {node.state}" for node in tree.snapshot().walk()][2:]


async def wait_for_steps(tree: TaskTree, number: int) -> None:
    """Wait until so many steps have begun, and all tasks wait."""
    async with tree.watch(min_interval=0) as changes:
        async for _ in changes:
            if len(steps_of(tree)) == number:
                break
    await anyio.wait_all_tasks_blocked()


async def cancel_a_step(
    executor: nh.executors.StepExecutor,
    call: Callable[[], Awaitable[object]] | None = None,
    *,
    number: int = 1,
) -> tuple[TaskTree, nh.parallel.TaskCancelledError]:
    """Cancel a step from its tree once it waits; gives the tree, and what the caller of the function got."""
    with observe.recording() as tree:
        async with nh.run(executor), anyio.create_task_group() as task_group:

            async def cancel_when_all_wait() -> None:
                await wait_for_steps(tree, number)
                tree.cancel(steps_of(tree)[-1].id, "enough")

            task_group.start_soon(cancel_when_all_wait)
            with pytest.raises(nh.parallel.TaskCancelledError) as caught:
                await (work(anyio.sleep_forever) if call is None else call())
            error = caught.value
            await checkpoint()  # nobody but the step is cancelled
            return tree, error
    raise AssertionError


async def test_a_step_that_waits_for_its_executor_is_cancelled_there() -> None:
    tree, error = await cancel_a_step(CallbackExecutor(never_answered))
    assert (error.reason, error.forced) == ("enough", False)
    assert ends_of(tree) == ["function cancelled", "step cancelled"]


async def test_a_step_is_cancelled_while_its_model_speaks_and_its_request_with_it() -> None:
    model = SlowModel()
    tree, _ = await cancel_a_step(nh.AgentStepExecutor.from_model(model=model))
    assert model.open_streams == 0
    assert ends_of(tree) == ["function cancelled", "step cancelled", "model_request cancelled"]


async def test_a_step_is_cancelled_in_a_tool_and_a_step_in_the_tool_with_it() -> None:
    model = ScriptedModel([model_response(tool_call("nh_eval", expression="helper()"))])
    executor = nh.AgentStepExecutor.from_model(model=model)
    tree, _ = await cancel_a_step(executor)
    assert ends_of(tree)[1:] == ["step cancelled", "model_request completed", "tool_call cancelled"]


async def test_a_suspended_step_is_cancelled_where_it_is_parked() -> None:
    async def suspended() -> str:
        with nh.scope(step_executor=nh.AgentStepExecutor.from_model(model=model)):
            return await work(checkpoint)

    def suspend(request: ModelRequest) -> object:
        nh.get_current_step_actor().suspend()
        return model_response(tool_call("nh_eval", expression="helper()"))

    model = ScriptedModel(suspend)  # type: ignore[arg-type]
    tree, _ = await cancel_a_step(CallbackExecutor(never_answered), suspended)
    assert ends_of(tree)[:3] == ["function cancelled", "step cancelled", "model_request completed"]
    assert len(model.requests) == 1


async def test_a_step_that_waits_for_its_next_attempt_is_cancelled_and_not_tried_again() -> None:
    attempts = 0

    def failing(call: StepCall) -> StepResponse:
        nonlocal attempts
        attempts += 1
        raise nh.ExecutionError("no outcome")

    async def with_attempts() -> object:
        with nh.scope(resilience=Baseline(retries=retrying(attempts=2, wait=1_000))):
            return await work(checkpoint)

    tree, _ = await cancel_a_step(CallbackExecutor(failing), with_attempts, number=2)
    assert attempts == 1
    assert [step.state for step in steps_of(tree)] == ["failed", "cancelled"]


async def test_what_waits_for_a_place_gets_the_place_of_a_cancelled_step() -> None:
    with observe.recording() as tree:
        async with nh.run(CallbackExecutor(never_answered), max_concurrent_steps=1), nh.open_tasks() as tasks:
            handles: list[nh.parallel.TaskHandle[str]] = []
            for number in range(1, 4):
                handles.append(tasks.start(work, checkpoint))
                await wait_for_steps(tree, number)
            first, second, third = steps_of(tree)
            tree.cancel(second.id)
            await anyio.wait_all_tasks_blocked()
            assert [step.state for step in steps_of(tree)] == ["running", "cancelled", "waiting"]
            tree.cancel(first.id)
            await anyio.wait_all_tasks_blocked()
            assert [step.state for step in steps_of(tree)] == ["cancelled", "cancelled", "running"]
            tree.cancel(third.id)
            for handle in handles:
                with pytest.raises(nh.parallel.TaskCancelledError):
                    await handle


async def test_a_step_of_a_synchronous_function_is_cancelled_from_another_thread() -> None:
    executor = CallbackExecutor(never_answered)
    tree, error = await cancel_a_step(executor, lambda: anyio.to_thread.run_sync(work_in_a_thread))
    assert error.reason == "enough"
    assert ends_of(tree) == ["function cancelled", "step cancelled"]


async def test_a_step_that_has_ended_in_time_counts_and_cannot_be_cancelled() -> None:
    with observe.recording() as tree:
        async with nh.run(CallbackExecutor(lambda call: pass_response(result="done"))):
            assert await work(checkpoint) == "done"
            with pytest.raises(NotControllableError, match="has ended"):
                tree.cancel(steps_of(tree)[0].id)

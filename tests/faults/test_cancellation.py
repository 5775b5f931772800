"""A step cancelled at every moment of its life leaves nothing behind and commits nothing.

Nothing in these steps waits for the outside world, so a step advances with the ticks of its event loop alone:
cancelling after n ticks, for every n until the step is quicker, reaches every await of the step.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.kernel.environment import shared_in_run
from nighthawk_async.testing import (
    CallbackExecutor,
    ScriptedModel,
    StepCall,
    StepResponse,
    model_response,
    pass_response,
    tool_call,
)

pytestmark = pytest.mark.anyio

MAX_TICKS = 400

committed = "nothing"
opened: list[str] = []


async def look_up(name: str) -> str:
    await checkpoint()
    try:
        await checkpoint()
    finally:
        opened.append(f"looked up {name}")
        opened.remove(f"looked up {name}")
    return name.upper()


@nh.natural_function
async def set_committed(name: str) -> str:
    """natural
    Set <:committed> with <look_up> of <name>.
    """
    global committed
    return committed


@nh.natural_function
async def set_committed_through_another(name: str) -> str:
    """natural
    Set <:committed> with <set_committed> of <name>.
    """
    global committed
    return committed


class PooledModel(ScriptedModel):
    """A scripted model that holds a connection of the run's pool while it streams."""

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        async with shared_in_run("pool", open_pool), super().stream(request) as events:
            opened.append("connection")
            try:
                yield events
            finally:
                opened.remove("connection")


@asynccontextmanager
async def open_pool() -> AsyncGenerator[None, None]:
    await checkpoint()
    opened.append("pool")
    try:
        yield
    finally:
        await checkpoint()
        opened.remove("pool")


def agent_executor(*answers: nh.ModelError | Any, **configuration: Any) -> nh.AgentStepExecutor:
    return nh.AgentStepExecutor.from_model(
        model=PooledModel(answers), configuration=nh.StepExecutorConfiguration(**configuration)
    )


def parallel_calls_and_outcome() -> nh.AgentStepExecutor:
    first = model_response(
        tool_call("nh_eval", expression="await look_up('first')"),
        tool_call("nh_eval", expression="look_up('second')"),
        tool_call("nh_exec", statements="draft = await look_up(name)"),
    )
    second = model_response(
        tool_call("nh_assign", target_path="committed", expression="look_up(draft)"),
        tool_call("nh_outcome", kind="pass"),
    )
    return agent_executor(first, second)


def refused_outcome() -> nh.AgentStepExecutor:
    return agent_executor(
        model_response(tool_call("nh_outcome", kind="return", return_expression="1 / 0")),
        model_response(text="I would rather talk."),
        model_response(
            tool_call("nh_assign", target_path="committed", expression="look_up(name)"),
            tool_call("nh_outcome", kind="return", return_expression="look_up(name)"),
        ),
    )


def direct_answer() -> nh.AgentStepExecutor:
    answer = '{"result": {"kind": "pass", "bindings": {"committed": "NAME"}}}'
    return agent_executor(model_response(text="no"), model_response(text=answer), outcome_transport="direct")


def overseen() -> nh.AgentStepExecutor:
    return parallel_calls_and_outcome()


def nested_steps() -> nh.AgentStepExecutor:
    call_other = model_response(
        tool_call("nh_eval", expression="await set_committed(name)"),
        tool_call("nh_assign", target_path="committed", expression="set_committed(name)"),
        tool_call("nh_outcome", kind="pass"),
    )
    answer = model_response(
        tool_call("nh_assign", target_path="committed", expression="name.upper()"),
        tool_call("nh_outcome", kind="pass"),
    )

    def reply(request: nh.models.ModelRequest) -> Any:
        return call_other if "<set_committed>" in str(request.messages[0]) else answer

    return nh.AgentStepExecutor.from_model(model=PooledModel(reply))


def callback() -> CallbackExecutor:
    async def answer(call: StepCall) -> StepResponse:
        return pass_response(committed=await look_up(str(call.step_locals["name"])))

    return CallbackExecutor(answer)


class SlowOversight:
    """Accepts everything, after a while."""

    async def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> nh.oversight.Accept:
        await checkpoint()
        return nh.oversight.Accept()

    async def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> nh.oversight.Rewrite:
        await checkpoint()
        return nh.oversight.Rewrite(values=commit.bindings)


async def cancelled_after(ticks: int, step: Callable[[], Awaitable[str]]) -> str | None:
    """What the step gave, or None when it was cancelled after that many ticks of the event loop."""
    result: str | None = None
    async with anyio.create_task_group() as task_group:

        async def carry_out() -> None:
            nonlocal result
            result = await step()
            task_group.cancel_scope.cancel()

        task_group.start_soon(carry_out)
        for _ in range(ticks):
            await checkpoint()
        task_group.cancel_scope.cancel()
    return result


def assert_nothing_in_force() -> None:
    for accessor in (nh.get_execution_ref, nh.get_current_step_context, nh.get_step_executor):
        with pytest.raises(nh.NighthawkError):
            accessor()


@pytest.mark.parametrize("entered_with", ["async with", "with"])
@pytest.mark.parametrize(
    "make_executor",
    [parallel_calls_and_outcome, refused_outcome, direct_answer, overseen, nested_steps, callback],
)
async def test_a_step_cancelled_at_any_of_its_awaits_commits_nothing_and_leaves_nothing(
    make_executor: Callable[[], Any], entered_with: str
) -> None:
    global committed
    function = set_committed_through_another if make_executor is nested_steps else set_committed
    oversight = SlowOversight() if make_executor is overseen else None
    tasks = len(anyio.get_running_tasks())
    returned: list[str] = []

    async def step() -> str:
        run = nh.run(make_executor())
        if entered_with == "with":
            with run, nh.scope(oversight=oversight):
                returned.append(await function("name"))
        else:
            async with run, nh.scope(oversight=oversight):
                returned.append(await function("name"))
        return returned[-1]

    for ticks in range(MAX_TICKS):
        committed = "nothing"
        returned.clear()
        result = await cancelled_after(ticks, step)
        assert opened == []
        assert len(anyio.get_running_tasks()) == tasks
        assert_nothing_in_force()
        if result is not None:
            assert result == committed == "NAME"
            assert ticks > 0
            return
        if returned or make_executor is nested_steps:  # the inner step may have committed to its own variable
            assert committed in ("nothing", "NAME")
        else:
            assert committed == "nothing"
    pytest.fail(f"the step did not end within {MAX_TICKS} ticks")


async def test_usage_of_a_cancelled_request_is_counted_as_incomplete() -> None:
    streaming = anyio.Event()

    class EndlessModel(ScriptedModel):
        @asynccontextmanager
        async def stream(
            self, request: nh.models.ModelRequest
        ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
            async def events() -> AsyncIterator[nh.models.ModelEvent]:
                yield nh.models.TextDelta(text="Let me see")
                streaming.set()
                await anyio.sleep_forever()

            yield events()

    executor = nh.AgentStepExecutor.from_model(model=EndlessModel([]))
    async with nh.run(executor) as run:
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(set_committed, "name")
            await streaming.wait()
            task_group.cancel_scope.cancel()
        assert run.usage_meter.usage == nh.Usage(requests=1, is_complete=False)
        assert run.usage_meter.steps == 1


async def test_a_cancelled_step_waits_for_its_executor_in_a_worker_thread() -> None:
    began, ended = anyio.Event(), False

    class ThreadExecutor:
        def run_step(self, **arguments: Any) -> tuple[nh.executors.StepOutcome, dict[str, object]]:
            nonlocal ended
            anyio.from_thread.run_sync(began.set)
            try:
                while True:
                    anyio.from_thread.check_cancelled()
            finally:
                ended = True

    async with nh.run(ThreadExecutor()):
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(set_committed, "name")
            await began.wait()
            task_group.cancel_scope.cancel()
        assert ended


async def test_siblings_of_a_cancelled_step_go_on() -> None:
    release = anyio.Event()
    results: list[str] = []

    async def answer(call: StepCall) -> StepResponse:
        if call.step_locals["name"] == "cancelled":
            await anyio.sleep_forever()
        await release.wait()
        return pass_response(committed=str(call.step_locals["name"]))

    async with nh.run(CallbackExecutor(answer)) as run, anyio.create_task_group() as task_group:

        async def go_on() -> None:
            results.append(await set_committed("goes on"))

        task_group.start_soon(go_on)
        with anyio.move_on_after(0):
            await set_committed("cancelled")
        release.set()
    assert results == ["goes on"]
    assert run.usage_meter.steps == 2

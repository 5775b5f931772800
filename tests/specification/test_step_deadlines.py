"""Deadlines around and inside steps: they reach tools, child steps and what threads do."""

import threading
from contextvars import copy_context

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response
from tests.specification.scripted_steps import PASS, ScriptedSteps, evaluating, executing

pytestmark = pytest.mark.anyio


@nh.natural_function
async def work(tool: object) -> None:
    """natural
    Call <tool>.
    """


@nh.natural_function
def work_in_thread(tool: object) -> None:
    """natural
    Call <tool>.
    """


async def never_ends(call: StepCall) -> StepResponse:
    await anyio.sleep_forever()
    return pass_response()


@pytest.mark.virtual_time
async def test_a_deadline_around_a_step_ends_the_tool_it_waits_for() -> None:
    ended: list[float] = []

    async def slow() -> None:
        try:
            await anyio.sleep(1_000)
        finally:
            ended.append(anyio.current_time())

    steps = ScriptedSteps(evaluating("tool()"), PASS)
    begun = anyio.current_time()
    async with nh.run(steps.executor):
        with pytest.raises(nh.parallel.DeadlineExceededError):
            async with nh.deadline(30):
                await work(slow)
    assert ended == [begun + 30]
    assert len(steps.model.requests) == 1


@pytest.mark.virtual_time
async def test_a_deadline_around_a_step_ends_the_child_steps_of_its_tools() -> None:
    async def delegate() -> None:
        with nh.scope(step_executor=CallbackExecutor(never_ends)):
            async with nh.open_tasks(at_end="wait") as tasks:
                tasks.start(work, None)

    steps = ScriptedSteps(evaluating("tool()"), PASS)
    async with nh.run(steps.executor):
        with pytest.raises(nh.parallel.DeadlineExceededError):
            async with nh.deadline(30):
                await work(delegate)


@pytest.mark.virtual_time
async def test_no_handler_inside_swallows_an_outer_deadline() -> None:
    async def stubborn() -> str:
        try:
            async with nh.deadline(60):
                await anyio.sleep(1_000)
        except TimeoutError:
            return "inner"
        return "outer"

    steps = ScriptedSteps(evaluating("tool()"), PASS)
    async with nh.run(steps.executor):
        with pytest.raises(nh.parallel.DeadlineExceededError) as caught:
            async with nh.deadline(30):
                await work(stubborn)
    assert caught.value.seconds == 30


@pytest.mark.virtual_time
async def test_a_deadline_of_a_tool_is_an_error_that_the_model_sees() -> None:
    @nh.deadline(5)
    async def slow() -> None:
        await anyio.sleep(1_000)

    steps = ScriptedSteps(evaluating("tool()"), PASS)
    async with nh.run(steps.executor):
        await work(slow)
    (result,) = steps.results
    assert result.is_error
    assert "exceeded its deadline of 5 seconds" in str(result.content)


@pytest.mark.virtual_time
async def test_a_deadline_in_executed_statements_holds() -> None:
    async def slow() -> None:
        await anyio.sleep(1_000)

    statements = "async with deadline(5):\n    await tool()"
    steps = ScriptedSteps(executing(statements), PASS)
    async with nh.run(steps.executor), nh.scope(implicit_references={"deadline": nh.deadline}):
        await work(slow)
    assert steps.results[0].is_error


async def test_a_deadline_reaches_the_step_of_a_synchronous_function_in_a_worker_thread() -> None:
    async with nh.run(CallbackExecutor(never_ends)):
        with pytest.raises(nh.parallel.DeadlineExceededError):
            async with nh.deadline(0.01):
                await anyio.to_thread.run_sync(work_in_thread, None)


async def test_a_deadline_set_in_a_worker_thread_reaches_its_step() -> None:
    def limited() -> None:
        with nh.deadline(0.01):
            work_in_thread(None)

    async with nh.run(CallbackExecutor(never_ends)):
        with pytest.raises(nh.parallel.DeadlineExceededError):
            await anyio.to_thread.run_sync(limited)


def test_a_deadline_in_a_script_reaches_its_step() -> None:
    with (
        nh.run(CallbackExecutor(never_ends)),
        pytest.raises(nh.parallel.DeadlineExceededError),
        nh.deadline(0.01),
    ):
        work_in_thread(None)


async def test_a_deadline_in_a_thread_of_ones_own_reaches_its_step() -> None:
    errors: list[Exception] = []

    def limited() -> None:
        try:
            with nh.deadline(0.01):
                work_in_thread(None)
        except nh.parallel.DeadlineExceededError as error:
            errors.append(error)

    async with nh.run(CallbackExecutor(never_ends)):
        thread = threading.Thread(target=copy_context().run, args=(limited,))
        thread.start()
        await anyio.to_thread.run_sync(thread.join)
    assert len(errors) == 1


@pytest.mark.may_block_event_loop(reason="a synchronous natural function on the thread of the loop")
async def test_a_deadline_around_what_blocks_the_event_loop_ends_its_step() -> None:
    async with nh.run(CallbackExecutor(never_ends)):
        with pytest.warns(RuntimeWarning, match="blocks"), pytest.raises(nh.parallel.DeadlineExceededError):
            async with nh.deadline(0.01):
                work_in_thread(None)

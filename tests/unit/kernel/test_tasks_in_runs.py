"""What runs add to tasks: identity, mailboxes, names, and usage in progress reports."""

import copy
import threading
from contextvars import copy_context

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.actors import Channel, Mailbox, MailboxClosedError, SharedCell, SharedMap, find_namespace
from nighthawk_async.parallel import NothingToControlError, Progress
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


@nh.natural_function
async def work() -> None:
    """natural
    Work.
    """


@nh.natural_function
def work_in_thread() -> None:
    """natural
    Work.
    """


async def test_a_task_knows_its_run_its_scope_and_its_step() -> None:
    seen: list[nh.parallel.CurrentTask] = []

    async def look(call: StepCall) -> StepResponse:
        seen.append(nh.current_task())
        return pass_response()

    async with nh.run(CallbackExecutor(look), run_id="the run") as run:
        outside = nh.current_task()
        async with nh.scope():
            scope_id = nh.get_execution_ref().scope_id
            async with nh.open_tasks(at_end="wait") as tasks:
                tasks.start(work)
    (inside,) = seen
    assert (outside.id, outside.parent_id, outside.run_id, outside.step_id) == ("run", None, "the run", None)
    assert outside.scope_id == run.execution_ref.scope_id
    assert (inside.id, inside.parent_id, inside.root_id) == ("run/tasks[0]/work[0]", "run", "run")
    assert (inside.run_id, inside.scope_id) == ("the run", scope_id)
    assert str(inside.step_id).startswith(__name__)
    assert nh.current_task().run_id is None


async def test_the_mailbox_of_a_task_is_that_of_its_handle_and_closes_with_it() -> None:
    received: list[object] = []

    async def receive() -> None:
        received.append(await nh.current_task().mailbox.receive())

    async with nh.open_tasks() as tasks:
        handle = tasks.start(receive)
        await handle.mailbox.send("hello")
        await handle
    assert received == ["hello"]
    with pytest.raises(MailboxClosedError):
        handle.mailbox.send_nowait("late")


async def test_runs_and_blocks_of_tasks_are_namespaces() -> None:
    async def kind() -> str:
        return find_namespace().kind

    assert find_namespace().kind == "process"
    async with nh.run(CallbackExecutor(lambda call: pass_response())):
        assert find_namespace().kind == "run"
        async with nh.open_tasks() as tasks:
            assert find_namespace().kind == "task_group"
            assert await tasks.start(kind) == "task_group"
        assert find_namespace().kind == "run"
    assert find_namespace().kind == "process"


async def test_task_local_values_set_in_a_run_are_forgotten_after_it() -> None:
    async with nh.run(CallbackExecutor(lambda call: pass_response())):
        nh.parallel.task_values().set("color", "red")
        assert nh.parallel.task_values().get("color") == "red"
    assert nh.parallel.task_values().get("color") is None


async def test_progress_reports_tell_the_usage_of_the_run() -> None:
    reports: list[Progress] = []
    model = ScriptedModel(lambda request: model_response(tool_call("nh_outcome", kind="pass")))
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        await nh.parallel.map(_work_on, range(3), progress=reports.append)
    assert reports[-1].usage == nh.Usage(requests=3, input_tokens=30, output_tokens=15)


async def _work_on(number: int) -> None:
    await work()


@pytest.mark.parametrize("shared", [Mailbox[int](), Channel[int](), SharedCell(1), SharedMap[str, int]()])
async def test_what_is_meant_to_be_shared_is_not_copied(shared: object) -> None:
    assert copy.deepcopy([shared])[0] is shared


async def test_a_step_of_a_worker_thread_is_steered_from_the_handle_of_its_task() -> None:
    begun, go_on = anyio.Event(), anyio.Event()

    async def wait(call: StepCall) -> StepResponse:
        begun.set()
        await go_on.wait()
        return pass_response()

    async with nh.run(CallbackExecutor(wait)), nh.open_tasks() as tasks:
        handle = tasks.start(work_in_thread)
        await begun.wait()
        handle.stop("enough")
        go_on.set()
        with pytest.raises(nh.ExecutionError, match="was stopped: enough"):
            await handle


async def test_a_step_on_another_event_loop_is_not_touched_by_the_handle_of_its_task() -> None:
    begun, go_on = threading.Event(), threading.Event()

    async def wait(call: StepCall) -> StepResponse:
        begun.set()
        await anyio.to_thread.run_sync(go_on.wait)
        return pass_response()

    async def in_thread_of_ones_own() -> None:
        thread = threading.Thread(target=copy_context().run, args=(work_in_thread,))
        thread.start()
        await anyio.to_thread.run_sync(thread.join)

    async with nh.run(CallbackExecutor(wait)), nh.open_tasks() as tasks:
        handle = tasks.start(in_thread_of_ones_own)
        await anyio.to_thread.run_sync(begun.wait)
        with pytest.raises(NothingToControlError):
            handle.stop("not from here")
        go_on.set()
        await handle


def test_tasks_on_a_portal_thread_steer_their_own_steps() -> None:
    async def answer(call: StepCall) -> StepResponse:
        if call.step_id == outer_id[0]:
            return await start_inner()
        inner_begun.set()
        await inner_gate.wait()
        return pass_response()

    async def start_inner() -> StepResponse:
        async with nh.open_tasks() as tasks:
            handle = tasks.start(work)
            await inner_begun.wait()
            handle.stop("enough")
            inner_gate.set()
            with pytest.raises(nh.ExecutionError, match="enough"):
                await handle
        return pass_response()

    outer_id = [""]
    executor = CallbackExecutor(lambda call: pass_response())
    with nh.run(executor):
        work_in_thread()
    outer_id[0] = executor.calls[0].step_id
    inner_begun, inner_gate = anyio.Event(), anyio.Event()
    with nh.run(CallbackExecutor(answer)):
        work_in_thread()

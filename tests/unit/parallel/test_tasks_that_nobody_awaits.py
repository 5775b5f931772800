"""Tasks end with their owner: what becomes of those that nobody awaits when their block ends."""

import threading

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.parallel import TaskCancelledError, TaskHandle, open_tasks
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response
from tests.unit.observe.told_nodes import root

pytestmark = pytest.mark.anyio


async def fail_when_cancelled() -> None:
    try:
        await anyio.sleep_forever()
    finally:
        raise LookupError("while it was cancelled")


async def test_leaving_the_block_cancels_what_nobody_awaits() -> None:
    begun = anyio.Event()
    called: list[str] = []

    async def work() -> None:
        begun.set()
        await anyio.sleep_forever()

    async def never() -> None:
        called.append("called")

    with anyio.fail_after(240):
        async with open_tasks() as tasks:
            running = tasks.start(work)
            await begun.wait()
            pending = tasks.start(never)
    assert (running.status, pending.status, called) == ("cancelled", "cancelled", [])
    for handle in (running, pending):
        with pytest.raises(TaskCancelledError, match="its block has ended"):
            await handle


async def test_what_was_awaited_counts_and_the_block_may_wait_for_the_rest() -> None:
    done: list[str] = []

    async def work(name: str) -> str:
        await anyio.lowlevel.checkpoint()
        done.append(name)
        return name

    async with open_tasks() as tasks:
        assert await tasks.start(work, "awaited") == "awaited"
    async with open_tasks(at_end="wait") as tasks:
        tasks.start(work, "waited for")
    assert done == ["awaited", "waited for"]


async def test_waiting_for_the_end_of_a_task_does_not_spare_it() -> None:
    ended: list[str] = []

    async def wait_for(handle: TaskHandle[None]) -> None:
        await handle.wait_ended()
        ended.append(handle.status)

    with anyio.fail_after(240):
        async with anyio.create_task_group() as others, open_tasks() as tasks:
            others.start_soon(wait_for, tasks.start(anyio.sleep_forever))
            await anyio.wait_all_tasks_blocked()
    assert ended == ["cancelled"]


async def test_a_failure_before_the_end_of_the_body_is_raised_and_the_rest_cancelled() -> None:
    error = ValueError("before")
    handles: list[TaskHandle[None]] = []

    async def fail() -> None:
        raise error

    async def block() -> None:
        async with open_tasks() as tasks:
            handles.append(tasks.start(anyio.sleep_forever))
            await tasks.start(fail).wait_ended()

    with pytest.raises(ValueError, match="before") as caught:
        await block()
    assert caught.value is error
    assert handles[0].status == "cancelled"


async def test_a_failure_while_a_task_is_cancelled_for_the_end_of_its_block_is_raised() -> None:
    handles: list[TaskHandle[None]] = []

    async def block(count: int) -> None:
        async with open_tasks() as tasks:
            handles.extend(tasks.start(fail_when_cancelled) for _ in range(count))
            await anyio.wait_all_tasks_blocked()

    with pytest.raises(LookupError, match="while it was cancelled"):
        await block(1)
    with pytest.raises(ExceptionGroup) as caught:
        await block(2)
    assert [str(error) for error in caught.value.exceptions] == ["while it was cancelled"] * 2
    assert {handle.status for handle in handles} == {"failed"}


async def test_a_failure_that_only_a_cancelled_task_awaited_is_raised() -> None:
    async def wait_for(handle: TaskHandle[None]) -> None:
        await handle

    async def block() -> None:
        async with open_tasks() as tasks:
            tasks.start(wait_for, tasks.start(fail_when_cancelled))
            await anyio.wait_all_tasks_blocked()

    with anyio.fail_after(240), pytest.raises(LookupError, match="while it was cancelled"):
        await block()


async def test_a_function_in_a_thread_is_asked_to_end_and_waited_for() -> None:
    begun = threading.Event()

    def work() -> str:
        begun.set()
        while not nh.parallel.cancel_requested():
            threading.Event().wait(0.001)
        return "ended by itself"

    with anyio.fail_after(240):
        async with open_tasks() as tasks:
            handle = tasks.start(work)
            await anyio.to_thread.run_sync(begun.wait)
    assert (handle.status, await handle) == ("completed", "ended by itself")


@nh.natural_function
async def think(question: str) -> str:
    answer: str
    """natural
    Set <:answer> to the answer to <question>.
    """
    return answer


async def test_tree_and_handle_show_what_nobody_awaited_as_cancelled() -> None:
    asked = anyio.Event()

    async def never_answer(call: StepCall) -> StepResponse:
        asked.set()
        await anyio.sleep_forever()
        return pass_response()

    watched = root()
    with watched.watching():
        async with nh.run(CallbackExecutor(never_answer)), nh.open_tasks() as tasks:
            handle = tasks.start(think, "Why?")
            await asked.wait()
    assert handle.status == "cancelled"
    states = [(node.kind, node.state) for node in watched.walk() if node.kind in ("group", "task", "step")]
    assert states == [("group", "completed"), ("task", "cancelled"), ("step", "cancelled")]
    assert "its block has ended" in str(watched.find("task").error)

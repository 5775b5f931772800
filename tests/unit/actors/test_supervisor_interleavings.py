"""Supervisors whose children fail, end and are replaced while something else is under way."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import anyio
import pytest
from anyio.lowlevel import checkpoint

from nighthawk_async.actors import ActorEndedError, Restart, Supervisor
from nighthawk_async.actors.task_group import ForeignCancellationError
from tests.unit.actors.actor_examples import Counter
from tests.unit.actors.waiting_tasks import start

pytestmark = pytest.mark.anyio

AT_ONCE = Restart(backoff_seconds=0, jitter_seconds=0)
NEVER = Restart(mode="never")

only_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])  # Trio cancels scopes only


def fails_once(fail: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """A child that fails when it is run for the first time, and later runs on."""
    has_failed = False

    async def run() -> None:
        nonlocal has_failed
        if not has_failed:
            has_failed = True
            await fail()
        await anyio.sleep_forever()

    return run


async def fail() -> None:
    """Fail."""
    raise ValueError("fail")


async def await_something_cancelled() -> None:
    """Await what others have cancelled."""
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def wait_for(supervisor: Supervisor, kind: str) -> None:
    """Wait until something happens, and not until the supervisor has done something about it."""
    async for event in supervisor.watch():
        if event.kind == kind:
            return


@only_asyncio
async def test_a_child_that_awaits_something_cancelled_has_failed_and_is_restarted() -> None:
    async with Supervisor() as supervisor:
        supervisor.start("sibling", anyio.sleep_forever)
        supervisor.start("child", fails_once(await_something_cancelled), restart=AT_ONCE)
        await wait_for(supervisor, "restarted")
        statuses = [child.status for child in supervisor.children]
        assert isinstance(supervisor.children[1].last_error, ForeignCancellationError)
    assert statuses == ["running", "running"]  # asked out here, since it would end the block without a word


@only_asyncio
async def test_a_child_whose_task_is_cancelled_past_all_scopes_has_failed() -> None:
    tasks: list[asyncio.Task[object]] = []

    async def child() -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        await anyio.sleep_forever()

    async with Supervisor() as supervisor:
        supervisor.start("child", child, restart=AT_ONCE)
        await anyio.wait_all_tasks_blocked()
        tasks[0].cancel()
        await wait_for(supervisor, "restarted")
        await anyio.wait_all_tasks_blocked()
    assert len(tasks) == 2


@only_asyncio
async def test_an_actor_whose_hook_awaits_something_cancelled_is_restarted() -> None:
    lives: list[int] = []

    class Starting(Counter):
        async def started(self) -> None:
            lives.append(len(lives))
            if lives == [0]:
                await await_something_cancelled()

    async with Supervisor() as supervisor:
        counter = supervisor.start_actor("counter", Starting, restart=AT_ONCE)
        with anyio.fail_after(240):
            assert await counter.ask(Counter.add, 1) == 1
        assert (lives, supervisor.statistics().failures) == ([0, 1], 1)


@only_asyncio
async def test_the_cancellation_of_the_task_that_entered_a_supervisor_is_no_failure() -> None:
    supervisors: list[Supervisor] = []

    async def enter() -> None:
        async with Supervisor() as supervisor:
            supervisors.append(supervisor)
            supervisor.start("child", anyio.sleep_forever, restart=AT_ONCE)
            await anyio.sleep_forever()

    task = asyncio.ensure_future(enter())
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (supervisor,) = supervisors
    assert (supervisor.children[0].status, supervisor.statistics().failures) == ("stopped", 0)


@pytest.mark.parametrize("turns", range(5))
async def test_a_child_may_be_forgotten_while_others_are_started(turns: int) -> None:
    async with Supervisor() as supervisor:
        supervisor.start("old", fail, restart=NEVER)
        await wait_for(supervisor, "failed")
        for number in range(3):
            supervisor.start(f"new {number}", anyio.sleep_forever)
        for _ in range(turns):
            await checkpoint()
        supervisor.forget_child("old")
        await anyio.wait_all_tasks_blocked()
        assert [child.status for child in supervisor.children] == ["running"] * 3


@pytest.mark.parametrize("turns", range(5))
async def test_a_new_child_is_not_touched_by_what_was_due_to_an_old_one_of_its_name(turns: int) -> None:
    async with Supervisor() as supervisor:
        supervisor.start_actor("name", Counter, restart=NEVER).tell_nowait(Counter.crash)
        await wait_for(supervisor, "failed")
        supervisor.start("other", anyio.sleep_forever)
        for _ in range(turns):
            await checkpoint()
        counter = supervisor.start_actor("name", Counter)
        await anyio.wait_all_tasks_blocked()
        assert await counter.ask(Counter.add, 1) == 1


async def test_what_waits_for_a_replaced_actor_gets_the_reason_for_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    async with Supervisor() as supervisor, anyio.create_task_group() as task_group:
        gate = anyio.Event()
        old = supervisor.start_actor("name", lambda: Counter(gate=gate), restart=NEVER)
        old.tell_nowait(Counter.wait)
        old.tell_nowait(Counter.crash)
        waiting = await start(task_group, lambda: old.ask(Counter.add, 1))
        gate.set()
        await wait_for(supervisor, "failed")
        supervisor.start_actor("name", Counter)
        await anyio.wait_all_tasks_blocked()
        assert isinstance(waiting.result, ActorEndedError)
        assert isinstance(waiting.result.__cause__, ValueError)

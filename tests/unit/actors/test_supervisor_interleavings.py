"""Supervisors whose children fail, end and are replaced while something else is under way."""

import logging

import anyio
import pytest
from anyio.lowlevel import checkpoint

from nighthawk_async.actors import ActorEndedError, Restart, Supervisor
from tests.unit.actors.actor_examples import Counter
from tests.unit.actors.waiting_tasks import start

pytestmark = pytest.mark.anyio

NEVER = Restart(mode="never")


async def fail() -> None:
    """Fail."""
    raise ValueError("fail")


async def wait_for(supervisor: Supervisor, kind: str) -> None:
    """Wait until something happens, and not until the supervisor has done something about it."""
    async for event in supervisor.watch():
        if event.kind == kind:
            return


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

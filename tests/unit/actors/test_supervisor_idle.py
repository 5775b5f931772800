"""Children that wait to be started and are not: those who wait for the end of all children learn of it."""

import anyio
import pytest

from nighthawk_async.actors import Child, Restart, Supervisor
from tests.unit.actors.waiting_tasks import Waiting, start

pytestmark = pytest.mark.anyio

LATER = Restart(mode="always", backoff_seconds=1000)


async def end() -> None:
    """Return at once."""


def kinds(supervisor: Supervisor) -> list[str]:
    """What happened."""
    return [event.kind for event in supervisor.events]


async def test_a_child_that_is_stopped_while_it_waits_for_its_restart_is_waited_for_no_more() -> None:
    async with Supervisor() as supervisor, anyio.create_task_group() as task_group:
        supervisor.start("child", end, restart=LATER)
        waiting = await start(task_group, supervisor.wait_ended)
        await supervisor.stop_child("child")
        await anyio.wait_all_tasks_blocked()
        assert waiting.result is None
        assert kinds(supervisor) == ["started", "stopped", "waiting", "suppressed"]
        assert supervisor.children[0].status == "stopped"


async def test_a_child_that_is_stopped_before_it_begins_is_waited_for_no_more() -> None:
    async with Supervisor() as supervisor, anyio.create_task_group() as task_group:
        await anyio.wait_all_tasks_blocked()
        waiting = Waiting(supervisor.wait_ended)
        task_group.start_soon(waiting.run)  # on asyncio, both run before the supervisor does anything
        task_group.start_soon(supervisor.stop_child, "child")
        supervisor.start("child", anyio.sleep_forever)
        await anyio.wait_all_tasks_blocked()
        assert waiting.result is None
        assert supervisor.children[0].status == "stopped"


async def test_a_supervisor_that_is_run_ends_when_its_last_child_is_stopped_in_its_delay() -> None:
    supervisor = Supervisor(children=[Child(name="child", function=end, restart=LATER)])
    async with anyio.create_task_group() as task_group:
        running = await start(task_group, supervisor.run)
        await supervisor.stop_child("child")
        await anyio.wait_all_tasks_blocked()
        assert (running.result, supervisor.status) == (None, "stopped")


async def test_watchers_learn_that_a_child_that_returned_is_not_restarted_after_all() -> None:
    async with Supervisor(max_restarts=0, circuit_open_seconds=1000) as supervisor:
        watched = supervisor.watch()
        supervisor.start("child", end, restart=LATER)
        await anyio.wait_all_tasks_blocked()
    assert [event.kind async for event in watched] == [
        "started",
        "stopped",
        "circuit_opened",
        "stopping",
        "suppressed",
        "ended",
    ]

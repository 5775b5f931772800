"""Names of the program on workers: locks are served, everything else is refused."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async import actors, parallel
from nighthawk_async.distributed import LocalOnlyError, Processes
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response
from tests import worker_names as on_workers
from tests.in_memory_workers import InMemoryWorkers

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_a_mutex_excludes_all_workers_and_a_lost_one_releases_it(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    async with Processes(2) as workers, anyio.create_task_group() as group:
        group.start_soon(parallel.call_placed, workers, on_workers.hold_and_die, str(tmp_path / "held"))
        await parallel.map(on_workers.count_up, [str(counter)] * 30, on=workers)
    counted = len(counter.with_suffix(".log").read_text().splitlines())
    assert counted >= 30
    assert counter.read_text() == str(counted)


async def test_program_and_workers_exclude_each_other() -> None:
    async with InMemoryWorkers() as workers:
        async with actors.mutex("a"):
            assert await parallel.map(on_workers.try_mutex, ["a", "b"], on=workers) == [False, True]
        assert await parallel.map(on_workers.try_mutex, ["a"], on=workers) == [True]


async def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    async with InMemoryWorkers() as workers, actors.mutex("a") as permit:
        async with anyio.create_task_group() as group:
            group.start_soon(parallel.call_placed, workers, on_workers.wait_for_mutex, "a")
            await wait_all_tasks_blocked()
            (waiting,) = actors.lock_statistics("mutex", "a")
            assert waiting.waiting == 1
            group.cancel_scope.cancel()
        await wait_all_tasks_blocked()
        (statistics,) = actors.lock_statistics("mutex", "a")
        assert statistics.waiting == 0
        permit.release()
        assert await parallel.map(on_workers.try_mutex, ["a"], on=workers) == [True]


async def test_waits_that_would_never_end_are_refused() -> None:
    async with InMemoryWorkers() as workers:
        with pytest.raises(actors.LockReentryError):
            await parallel.map(on_workers.reenter, [0], on=workers)
        async with actors.mutex("held by the caller"):
            with pytest.raises(actors.LockReentryError):
                await parallel.call_placed(workers, on_workers.acquire_once, 0)


async def test_locks_of_a_run_are_those_of_the_callers_run() -> None:
    async with InMemoryWorkers() as workers:
        with pytest.raises(actors.UnknownNamespaceError):
            await parallel.map(on_workers.use_run_lock, [0], on=workers)
        async with nh.run(CallbackExecutor(answer)):
            async with actors.mutex("in the run", scope="run"):
                assert await parallel.map(on_workers.use_run_lock, [0], on=workers) == [False]
            assert await parallel.map(on_workers.use_run_lock, [0], on=workers) == [True]


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (on_workers.use_cell, "the shared cell 'total'"),
        (on_workers.use_mailbox, "the mailbox 'inbox'"),
        (on_workers.find_its_pool, "the pool 'jobs'"),
    ],
    ids=["cell", "mailbox", "pool"],
)
async def test_other_names_are_refused(function: Callable[[int], Awaitable[Any]], named: str) -> None:
    async with InMemoryWorkers() as workers:
        with pytest.raises(LocalOnlyError, match=f"{named} belongs to the program"):
            await parallel.map(function, [0], on=workers)


async def test_messages_reach_the_mailboxes_of_the_program() -> None:
    async with InMemoryWorkers() as workers:
        with pytest.raises(actors.UnknownMailboxError, match="no mailbox has the name 'inbox'"):
            await parallel.map(on_workers.send_word, ["lost"], on=workers)
        with actors.open_namespace("task_group"):
            inbox = actors.open_mailbox("inbox")
            await parallel.map(on_workers.send_word, ["hello"], on=workers)
            assert await inbox.receive() == {"word": "hello"}


async def test_what_a_call_names_in_a_scope_of_its_own_is_its_own() -> None:
    async with InMemoryWorkers() as workers:
        assert await parallel.map(on_workers.use_own_cell, [0], on=workers) == [1]


async def test_a_call_keeps_resources_and_those_of_the_run_are_refused() -> None:
    async with InMemoryWorkers() as workers, nh.run(CallbackExecutor(answer)):
        assert await parallel.map(on_workers.use_resource, ["task"], on=workers) == ["opened"]
        with pytest.raises(parallel.ResourceOwnerError, match="the run is in the program"):
            await parallel.map(on_workers.use_resource, ["run"], on=workers)


class Most:
    """The greatest number of steps in flight."""

    in_flight = most = 0


async def answer(call: StepCall) -> StepResponse:
    Most.in_flight += 1
    Most.most = max(Most.most, Most.in_flight)
    for _ in range(20):
        await checkpoint()
    Most.in_flight -= 1
    return pass_response(**dict.fromkeys(call.binding_names, 1))


async def test_the_limit_of_steps_holds_over_all_workers() -> None:
    Most.most = 0
    async with InMemoryWorkers(3) as workers, nh.run(CallbackExecutor(answer), max_concurrent_steps=2):
        assert await parallel.map(on_workers.note_beginning, ["a"] * 12, on=workers) == [1] * 12
        assert Most.most == 2
        Most.most = 0
        with anyio.move_on_after(0):
            await parallel.map(on_workers.note_beginning, ["a"] * 12, on=workers)
        assert await parallel.map(on_workers.note_beginning, ["a"] * 5, on=workers) == [1] * 5

"""Workers that die, write junk, hang or leave processes behind."""

import errno
import os
import signal
import socket
from collections import Counter
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from nighthawk_async import parallel
from nighthawk_async.distributed import Processes
from nighthawk_async.placements import call_placed
from tests.faults.placed.processes_seen import has_ended, mark_has_ended, number_in
from tests.stubborn_functions import (
    block_loop,
    block_thread,
    cancel_itself,
    fork_and_die,
    is_open_in_children,
    kill_sometimes,
    process_id,
    stop_process,
    use_workers_of_its_own,
    write_junk,
)
from tests.worker_functions import double

pytestmark = pytest.mark.anyio


async def test_no_call_is_lost_and_none_counted_twice_when_workers_die(tmp_path: Path) -> None:
    async with Processes(2, max_concurrent_per_worker=4, max_placements=50) as workers:
        results = await parallel.map(partial(kill_sometimes, folder=str(tmp_path)), range(40), on=workers)
    assert results == [2 * each for each in range(40)]
    made = Counter(map(int, (await anyio.Path(tmp_path / "made").read_text()).split()))
    assert sorted(made) == list(range(40))
    assert len([each for each in os.listdir(tmp_path) if each.startswith("died-")]) == 6


async def test_junk_from_a_worker_counts_as_its_loss(tmp_path: Path) -> None:
    async with Processes(1) as workers:
        assert await parallel.map(write_junk, [str(tmp_path / "mark")], on=workers) == ["well"]


@pytest.mark.parametrize("function", [stop_process, block_loop, block_thread], ids=lambda each: each.__name__)
async def test_a_worker_that_hangs_ends_with_the_grace_of_a_cancelled_call(
    tmp_path: Path, function: object
) -> None:
    async with Processes(1, grace_seconds=0.2) as workers:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(call_placed, workers, function, str(tmp_path / "mark"))
                pid = await anyio.to_thread.run_sync(number_in, tmp_path / "mark")
                scope.cancel()
        assert await anyio.to_thread.run_sync(has_ended, pid)
        assert await parallel.map(double, [1], on=workers) == [2]


async def test_a_call_that_cancels_itself_ends() -> None:
    async with Processes(1, backend="asyncio") as workers:
        with anyio.fail_after(240), pytest.raises(parallel.CallCancelledError):
            await parallel.map(cancel_itself, [1], on=workers)


async def test_processes_that_a_call_has_started_end_with_the_worker(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    async with Processes(1) as workers:
        assert await parallel.map(is_open_in_children, [0], on=workers) == [False]
        with anyio.fail_after(240):
            assert await parallel.map(fork_and_die, [str(mark)], on=workers) == [7]
        assert await anyio.to_thread.run_sync(mark_has_ended, mark)
        assert await anyio.to_thread.run_sync(mark_has_ended, tmp_path / "mark.other")


async def test_placements_live_beside_and_within_each_other() -> None:
    async with Processes(1) as one, Processes(1) as other:
        (first,) = await parallel.map(process_id, [0], on=one)
        (second,) = await parallel.map(process_id, [0], on=other)
        assert first != second
        assert await parallel.map(use_workers_of_its_own, [[1, 2]], on=one) == [[2, 4]]


async def test_a_worker_is_replaced_although_there_was_no_socket_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As it is when a burst of connections has used up the file descriptors."""
    make, failures = socket.socketpair, [OSError(errno.EMFILE, "Too many open files")]

    def make_later() -> tuple[socket.socket, socket.socket]:
        if failures:
            raise failures.pop()
        return make()

    async with Processes(1) as workers:
        (pid,) = await parallel.map(process_id, [0], on=workers)
        monkeypatch.setattr(socket, "socketpair", make_later)
        os.kill(pid, signal.SIGKILL)
        (other,) = await parallel.map(process_id, [0], on=workers)
        assert other != pid
        assert not failures


async def test_a_worker_that_is_killed_while_it_is_idle_is_replaced() -> None:
    async with Processes(1) as workers:
        (pid,) = await parallel.map(process_id, [0], on=workers)
        os.kill(pid, signal.SIGKILL)
        (other,) = await parallel.map(process_id, [0], on=workers)
        assert other != pid

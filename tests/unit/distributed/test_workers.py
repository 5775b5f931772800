"""The program's side of workers, with workers in memory."""

import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import NoReturn

import anyio
import pytest

from nighthawk_async import parallel
from nighthawk_async.distributed import CrossingError, WorkerStartError, connection
from nighthawk_async.distributed.link import WorkerLink
from nighthawk_async.distributed.messages import Begin
from nighthawk_async.placements import PlacedCall
from tests.in_memory_workers import InMemoryWorkers
from tests.stubborn_functions import size_of
from tests.worker_functions import double

pytestmark = pytest.mark.anyio


async def wait_a_minute(number: int) -> int:
    await anyio.sleep(60)
    return number


async def wait_uninterruptibly(number: int) -> int:
    with anyio.CancelScope(shield=True):
        await anyio.sleep(60)
    return number


async def test_an_argument_of_all_calls_is_sent_once_to_each_worker() -> None:
    body = bytes(1_000_000)
    async with InMemoryWorkers(2) as workers:
        results = await parallel.map(partial(size_of, body), [0] * 20, on=workers)
        assert results == [b""] * 20
        assert all(1_000_000 < link.sent < 1_100_000 for link in workers.links.values())


async def test_large_arguments_and_results_cross() -> None:
    async with InMemoryWorkers(1) as workers:
        (result,) = await parallel.map(partial(size_of, bytes(1_000_000)), [20], on=workers)
    assert len(result) == 20_000_000


@pytest.mark.virtual_time
async def test_calls_end_when_a_task_of_the_placement_fails() -> None:
    async def make_calls() -> None:
        async with InMemoryWorkers(2) as workers, anyio.create_task_group() as group:
            group.start_soon(partial(parallel.map, wait_a_minute, range(4), on=workers))
            await anyio.sleep(1)
            workers.links["worker-0"].incoming.close()  # its error is none that a link may raise

    with pytest.raises(anyio.ClosedResourceError):
        await make_calls()


@pytest.mark.virtual_time
async def test_a_call_that_does_not_end_within_its_grace_ends_with_its_worker() -> None:
    async with InMemoryWorkers(1, grace_seconds=5) as workers:
        begun = anyio.current_time()
        with anyio.move_on_after(1):
            await parallel.map(wait_uninterruptibly, [0], on=workers)
        assert anyio.current_time() - begun == pytest.approx(6)
        assert await parallel.map(double, [1], on=workers) == [2]


@pytest.mark.virtual_time
async def test_leaving_the_block_waits_for_calls() -> None:
    async with InMemoryWorkers(2) as workers:
        job = await workers.start(PlacedCall(function=wait_a_minute, args=(1,)))
        begun = anyio.current_time()
    assert anyio.current_time() - begun >= 60
    assert await job.wait() == 1


@pytest.mark.virtual_time
async def test_leaving_the_block_with_an_error_cancels_calls() -> None:
    with suppress(ValueError):
        async with InMemoryWorkers(2) as workers:
            job = await workers.start(PlacedCall(function=wait_a_minute, args=(1,)))
            raise ValueError("outside")
    with pytest.raises(parallel.CallCancelledError):
        await job.wait()


@pytest.mark.parametrize("make", [InMemoryWorkers, parallel.Here])
async def test_an_error_in_the_block_is_raised_also_when_the_block_is_cancelled(
    make: Callable[[], AbstractAsyncContextManager[object]],
) -> None:
    """As it is when a task around the block fails because its calls are cancelled."""

    async def fail_inside() -> None:
        with anyio.CancelScope() as scope:
            async with make():
                scope.cancel()
                raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        await fail_inside()


@pytest.mark.virtual_time
@pytest.mark.parametrize("steps", range(12))
async def test_a_cancellation_at_any_moment_leaves_nothing(steps: int) -> None:
    """Entering, starting, waiting and leaving are cancelled after so many switches of tasks."""
    with anyio.CancelScope() as scope:

        async def cancel() -> None:
            for _ in range(steps * 3):
                await anyio.lowlevel.checkpoint()
            scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(cancel)
            async with InMemoryWorkers(2, max_concurrent_per_worker=1) as workers:
                assert await parallel.map(double, range(4), on=workers) == [0, 2, 4, 6]
                assert workers._jobs == {}


async def test_calls_that_wait_hold_a_shared_argument_once() -> None:
    body = [bytes(200_000)]
    async with InMemoryWorkers(1, max_concurrent_per_worker=1) as workers:
        jobs = [await workers.start(PlacedCall(function=length_of, args=(body,))) for _ in range(20)]
        assert len({id(job.args[0]) for job in jobs}) == 1
        assert [await job.wait() for job in jobs] == [200_000] * 20


class Unstartable(InMemoryWorkers):
    """Workers of which none starts."""

    async def open_link(self, name: str, begin: Begin) -> NoReturn:
        raise WorkerStartError(f"worker {name} did not start")


async def test_workers_that_do_not_start_are_one_error() -> None:
    with pytest.raises(WorkerStartError, match="worker-0 did not start") as raised:
        async with Unstartable(3):
            pass
    assert raised.value.__notes__ == ["worker worker-1 did not start", "worker worker-2 did not start"]
    assert isinstance(raised.value, parallel.PlacementError)


async def length_of(body: list[bytes]) -> int:
    return len(body[0])


async def test_contents_that_a_worker_drops_are_those_of_calls_that_have_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "_MOST_KEPT_BYTES", 300_000)
    bodies = [[bytes([number]) * 200_000] for number in range(20)]
    async with InMemoryWorkers(1, max_concurrent_per_worker=20) as workers:
        assert await parallel.map(length_of, bodies, on=workers) == [200_000] * 20
        assert len(workers.links["worker-0"].worker._kept) <= 2


class Worded:
    """An object that can be called, and looks like a message about workers."""

    def __call__(self) -> None: ...

    def __repr__(self) -> str:
        return "<a worker: idle>"


def lock_if_one(value: object) -> object:
    return threading.Lock() if value == 1 else value


async def test_a_value_that_cannot_cross_is_the_failure_of_its_call_alone() -> None:
    async with InMemoryWorkers(1) as workers:
        settled = await parallel.settle(lock_if_one, [0, 1, threading.Lock(), 3], on=workers)
    first, result, argument, last = settled.outcomes
    assert (first, last) == (parallel.Succeeded(0), parallel.Succeeded(3))
    for each, subject in ((result, "the result"), (argument, "the argument 'value'")):
        assert isinstance(each, parallel.Failed)
        assert isinstance(each.error, CrossingError)
        assert each.error.subject.startswith(subject)


async def test_a_function_that_has_no_name_is_refused_with_the_reason() -> None:
    async with InMemoryWorkers(1) as workers:
        with pytest.raises(CrossingError, match=r"a worker: it is no function\."):
            await parallel.call_placed(workers, Worded())


class UnstartableWorkers(InMemoryWorkers):
    """Workers that fail all at once when all are starting."""

    starting = 0

    async def open_link(self, name: str, begin: Begin) -> WorkerLink:
        self.starting += 1
        await anyio.wait_all_tasks_blocked()  # until all of them are
        raise WorkerStartError(f"{name} does not start")


async def test_workers_that_fail_to_start_together_raise_the_error_of_one() -> None:
    workers = UnstartableWorkers(3)
    with pytest.raises(WorkerStartError, match="does not start"):
        async with workers:
            pass
    assert workers.starting == 3

"""Pools that are full: who waits, who is dropped, and who gets an error."""

import asyncio

import anyio
import pytest
from anyio.lowlevel import checkpoint

from nighthawk_async.actors import (
    Backpressure,
    JobHandle,
    JobRejectedError,
    Pool,
    PoolClosedError,
    PoolFullError,
)

from .pool_jobs import Held
from .waiting_tasks import start

pytestmark = pytest.mark.anyio


def statuses(handles: list[JobHandle[int]]) -> str:
    """The first letters of what has become of jobs: queued, running, completed, rejected."""
    return "".join(handle.status[0] for handle in handles)


async def test_a_submitter_waits_for_room_in_the_order_of_asking() -> None:
    held = Held()
    async with anyio.create_task_group() as task_group, Pool(max_concurrent=1, max_queued=1) as pool:
        for number in range(2):
            await pool.submit(held.job, number)
        waiting = [
            await start(task_group, lambda number=number: pool.submit(held.job, number))
            for number in range(2, 5)
        ]
        assert pool.statistics().waiting_submitters == 3
        assert pool.statistics().submitted == 2
        for number in range(3):
            held.release(number)
            await anyio.wait_all_tasks_blocked()
            assert pool.statistics().waiting_submitters == 2 - number
            assert isinstance(waiting[number].result, JobHandle)
            assert waiting[number].result.id == f"pool[{number + 2}]"
        held.release_all()
    assert held.begun == [0, 1, 2, 3, 4]


async def test_without_a_queue_a_submitter_waits_for_a_worker() -> None:
    held = Held()
    async with anyio.create_task_group() as task_group, Pool(max_concurrent=1, max_queued=0) as pool:
        await pool.submit(held.job, 0)
        waiting = await start(task_group, lambda: pool.submit(held.job, 1))
        assert waiting.result == "nothing"
        held.release(0)
        await anyio.wait_all_tasks_blocked()
        assert isinstance(waiting.result, JobHandle)
        assert waiting.result.status == "running"
        held.release_all()
    assert pool.statistics().greatest_queued == 0


async def test_cancelling_a_queued_job_makes_room() -> None:
    held = Held()
    async with anyio.create_task_group() as task_group, Pool(max_concurrent=1, max_queued=1) as pool:
        await pool.submit(held.job, 0)
        queued = await pool.submit(held.job, 1)
        waiting = await start(task_group, lambda: pool.submit(held.job, 2))
        queued.cancel()
        await anyio.wait_all_tasks_blocked()
        assert isinstance(waiting.result, JobHandle)
        held.release_all()
    assert held.begun == [0, 2]


async def test_a_submitter_that_is_cancelled_while_it_waits_has_submitted_nothing() -> None:
    held = Held()
    async with anyio.create_task_group() as task_group, Pool(max_concurrent=1, max_queued=0) as pool:
        await pool.submit(held.job, 0)
        first, second = [
            await start(task_group, lambda number=number: pool.submit(held.job, number)) for number in (1, 2)
        ]
        first.scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert pool.statistics().waiting_submitters == 1
        held.release_all()
        await anyio.wait_all_tasks_blocked()
        assert isinstance(second.result, JobHandle)
        assert second.result.id == "pool[1]"
    assert first.result == "cancelled"
    assert held.begun == [0, 2]
    assert pool.statistics().submitted == 2


async def test_a_place_goes_to_the_next_when_the_first_is_cancelled_in_the_same_moment() -> None:
    held = Held()
    async with anyio.create_task_group() as task_group, Pool(max_concurrent=1, max_queued=1) as pool:
        await pool.submit(held.job, 0)
        queued = await pool.submit(held.job, 1)
        first, second = [
            await start(task_group, lambda number=number: pool.submit(held.job, number)) for number in (2, 3)
        ]
        first.scope.cancel()
        queued.cancel()
        await anyio.wait_all_tasks_blocked()
        assert first.result == "cancelled"
        assert isinstance(second.result, JobHandle)
        assert pool.statistics().submitted == 3
        held.release_all()
    assert held.begun == [0, 3]


async def test_a_submitter_that_is_cancelled_after_it_was_let_in_has_submitted() -> None:
    """Its call returns: the cancellation comes at its next checkpoint."""
    held = Held()
    async with anyio.create_task_group() as task_group, Pool(max_concurrent=1, max_queued=1) as pool:
        await pool.submit(held.job, 0)
        queued = await pool.submit(held.job, 1)
        waiting = await start(task_group, lambda: pool.submit(held.job, 2))
        queued.cancel()
        waiting.scope.cancel()
        await anyio.wait_all_tasks_blocked()
        submitted = isinstance(waiting.result, JobHandle)
        held.release_all()
    assert held.begun == ([0, 2] if submitted else [0])
    figures = pool.statistics()
    assert figures.submitted == figures.completed + figures.cancelled


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_submitter_that_asyncio_cancels_after_it_was_let_in_has_its_job_cancelled() -> None:
    """Not by a scope, which lets its call return, but by itself, which does not: nobody has the handle."""
    held = Held()
    async with Pool(max_concurrent=1, max_queued=1) as pool:
        await pool.submit(held.job, 0)
        queued = await pool.submit(held.job, 1)
        submitting = asyncio.ensure_future(pool.submit(held.job, 2))
        await anyio.wait_all_tasks_blocked()
        queued.cancel()
        submitting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await submitting
        assert (pool.statistics().queued, pool.statistics().cancelled) == (0, 2)
        held.release_all()
    assert held.begun == [0]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("turns", range(5))
async def test_a_job_has_not_begun_when_asyncio_cancels_its_submitter(turns: int) -> None:
    held = Held()
    async with Pool(max_concurrent=1, max_queued=0) as pool:
        await pool.submit(held.job, 0)
        submitting = asyncio.ensure_future(pool.submit(held.job, 1))
        await anyio.wait_all_tasks_blocked()
        held.release_all()
        for _ in range(turns):
            await checkpoint()
        submitting.cancel()
        await asyncio.wait((submitting,))
    assert held.begun == ([0] if submitting.cancelled() else [0, 1])


async def test_submit_is_a_checkpoint_even_when_there_is_room() -> None:
    async with Pool(max_concurrent=1) as pool:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await pool.submit(checkpoint)
        assert scope.cancelled_caught
        assert pool.statistics().submitted == 0


async def test_submit_nowait_raises_where_submit_would_wait() -> None:
    held = Held()
    async with Pool(max_concurrent=1, max_queued=1) as pool:
        handles = [pool.submit_nowait(held.job, number) for number in range(2)]
        with pytest.raises(PoolFullError, match=r"'pool' is full \(block\): no worker is free, and 1 jobs"):
            pool.submit_nowait(held.job, 2)
        assert (pool.statistics().submitted, pool.statistics().refused) == (2, 1)
        assert pool.statistics().waiting_submitters == 0
        held.release_all()
    assert statuses(handles) == "cc"


@pytest.mark.parametrize("policy", ["drop_oldest", "ring_buffer"])
async def test_the_oldest_queued_job_makes_place_for_a_new_one(policy: Backpressure) -> None:
    held = Held()
    async with Pool(max_concurrent=1, backpressure=policy, max_queued=2) as pool:
        handles = [await pool.submit(held.job, number) for number in range(5)]
        assert statuses(handles) == "rrrqq"
        assert [handle.status for handle in handles[:2]] == ["running", "rejected"]
        assert (handles[1].rejection_policy, handles[4].rejection_policy) == (policy, None)
        assert handles[1].rejection_reason == "it was the oldest queued job when job pool[3] was submitted"
        with pytest.raises(JobRejectedError, match=policy) as caught:
            await handles[1]
        assert (caught.value.job_id, caught.value.policy) == ("pool[1]", policy)
        held.release_all()
    assert held.begun == [0, 3, 4]
    assert pool.statistics().rejected == 2


async def test_the_oldest_is_dropped_whatever_its_priority() -> None:
    held = Held()
    async with Pool(max_concurrent=1, queue="priority", backpressure="drop_oldest", max_queued=2) as pool:
        await pool.submit(held.job, 0)
        handles = [await pool.submit(held.job, number, priority=-number) for number in (1, 2, 3, 4)]
        assert [handle.status for handle in handles] == ["rejected", "rejected", "queued", "queued"]
        held.release_all()
    assert held.begun == [0, 3, 4]


async def test_waiting_for_a_job_ends_when_it_is_dropped() -> None:
    held = Held()
    async with (
        anyio.create_task_group() as task_group,
        Pool(max_concurrent=1, backpressure="drop_oldest", max_queued=1) as pool,
    ):
        await pool.submit(held.job, 0)
        dropped = await pool.submit(held.job, 1)
        waiting = await start(task_group, dropped.wait)
        await pool.submit(held.job, 2)
        await anyio.wait_all_tasks_blocked()
        assert isinstance(waiting.result, JobRejectedError)
        held.release_all()


async def test_a_new_job_is_dropped_when_the_queue_is_full() -> None:
    held = Held()
    async with Pool(max_concurrent=1, backpressure="drop_newest", max_queued=1) as pool:
        handles = [await pool.submit(held.job, number) for number in range(3)]
        assert [handle.status for handle in handles] == ["running", "queued", "rejected"]
        assert handles[2].rejection_policy == "drop_newest"
        assert handles[2].rejection_reason == "no worker and no queue slot was free"
        with pytest.raises(JobRejectedError):
            await handles[2]
        held.release_all()
    assert held.begun == [0, 1]


async def test_submitting_to_a_full_pool_fails() -> None:
    held = Held()
    async with Pool(max_concurrent=1, backpressure="fail", max_queued=1, name="busy") as pool:
        handles = [await pool.submit(held.job, number) for number in range(2)]
        with pytest.raises(PoolFullError) as caught:
            await pool.submit(held.job, 2)
        assert (caught.value.pool, caught.value.policy, caught.value.queued) == ("busy", "fail", 1)
        held.release_all()
    assert statuses(handles) == "cc"
    assert (pool.statistics().submitted, pool.statistics().refused) == (2, 1)


async def test_failing_fast_queues_nothing() -> None:
    held = Held()
    async with Pool(max_concurrent=1, backpressure="fail_fast", max_queued=9) as pool:
        first = await pool.submit(held.job, 0)
        with pytest.raises(PoolFullError, match="fail_fast"):
            await pool.submit(held.job, 1)
        held.release_all()
        await first
        await anyio.wait_all_tasks_blocked()
        assert await (await pool.submit(held.job, 2)) == 2


async def test_without_a_limit_nobody_waits() -> None:
    held = Held()
    async with Pool(max_concurrent=1, max_queued=None) as pool:
        for number in range(1_000):
            pool.submit_nowait(held.job, number)
        assert pool.statistics().queued == 999
        held.release_all()
    assert held.begun == list(range(1_000))


async def test_closing_sends_waiting_submitters_away_and_keeps_what_was_submitted() -> None:
    held = Held()
    async with anyio.create_task_group() as task_group, Pool(max_concurrent=1, max_queued=1) as pool:
        for number in range(2):
            await pool.submit(held.job, number)
        waiting = await start(task_group, lambda: pool.submit(held.job, 2))
        pool.close()
        pool.close()
        await anyio.wait_all_tasks_blocked()
        assert isinstance(waiting.result, PoolClosedError)
        with pytest.raises(PoolClosedError):
            pool.submit_nowait(held.job, 3)
        held.release_all()
    assert held.begun == [0, 1]
    assert pool.statistics().refused == 1

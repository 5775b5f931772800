"""Idempotency keys: a job that is submitted twice runs once."""

import asyncio

import anyio
import pytest

from nighthawk_async.actors import JobHandle, Pool, PoolClosedError, PoolFullError
from nighthawk_async.actors.pool_jobs import REMEMBERED_JOBS

from .pool_jobs import Held
from .waiting_tasks import start

pytestmark = pytest.mark.anyio

only_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])


async def test_the_same_key_gives_the_same_handle_while_queued_while_running_and_afterwards() -> None:
    held = Held()
    async with Pool(max_concurrent=1) as pool:
        running, queued = (
            pool.submit_nowait(held.job, number, idempotency_key=f"key {number}") for number in range(2)
        )
        assert pool.submit_nowait(held.job, 8, idempotency_key="key 0") is running
        assert await pool.submit(held.job, 9, idempotency_key="key 1") is queued
        held.release_all()
        await queued
        assert await pool.submit(held.job, 9, idempotency_key="key 1") is queued
        assert pool.submit_nowait(held.job, 2, idempotency_key="key 2") is not queued
    assert held.begun == [0, 1, 2]
    assert pool.statistics().submitted == 3


async def test_a_failed_job_keeps_its_key() -> None:
    calls: list[int] = []

    async def fail() -> None:
        calls.append(1)
        raise OSError("broken")

    async with Pool(max_concurrent=1) as pool:
        for _ in range(2):
            with pytest.raises(OSError, match="broken"):
                await (await pool.submit(fail, idempotency_key=1))
    assert calls == [1]


async def test_jobs_without_a_key_are_different_jobs() -> None:
    held = Held()
    held.release_all()
    async with Pool(max_concurrent=1) as pool:
        handles = {pool.submit_nowait(held.job, 0) for _ in range(3)}
    assert len(handles) == 3


async def test_keys_of_different_pools_do_not_meet() -> None:
    held = Held()
    held.release_all()
    async with Pool(max_concurrent=1) as one, Pool(max_concurrent=1) as other:
        assert one.submit_nowait(held.job, 0, idempotency_key="key") is not other.submit_nowait(
            held.job, 0, idempotency_key="key"
        )


async def test_a_key_is_free_again_when_the_body_never_ran() -> None:
    held = Held()
    async with Pool(max_concurrent=1, backpressure="drop_oldest", max_queued=1) as pool:
        pool.submit_nowait(held.job, 0)
        evicted = pool.submit_nowait(held.job, 1, idempotency_key="evicted")
        cancelled = pool.submit_nowait(held.job, 2, idempotency_key="cancelled")
        assert evicted.status == "rejected"
        cancelled.cancel()
        again = pool.submit_nowait(held.job, 3, idempotency_key="cancelled")
        assert again is not cancelled
        held.release_all()
        await again
        assert await pool.submit_nowait(held.job, 4, idempotency_key="evicted") == 4
    assert held.begun == [0, 3, 4]


async def test_a_key_whose_job_was_dropped_as_the_newest_is_free() -> None:
    held = Held()
    async with Pool(max_concurrent=1, backpressure="drop_newest", max_queued=0) as pool:
        pool.submit_nowait(held.job, 0)
        dropped = pool.submit_nowait(held.job, 1, idempotency_key="key")
        assert dropped.status == "rejected"
        held.release_all()
        await anyio.wait_all_tasks_blocked()
        assert await pool.submit_nowait(held.job, 2, idempotency_key="key") == 2


async def test_a_job_that_was_cancelled_while_it_ran_keeps_its_key() -> None:
    held = Held()
    async with Pool(max_concurrent=1) as pool:
        handle = pool.submit_nowait(held.job, 0, idempotency_key="key")
        await anyio.wait_all_tasks_blocked()
        handle.cancel()
        await handle.wait_ended()
        assert pool.submit_nowait(held.job, 1, idempotency_key="key") is handle


async def test_two_that_wait_for_room_with_the_same_key_get_the_same_handle() -> None:
    held = Held()
    async with anyio.create_task_group() as task_group, Pool(max_concurrent=1, max_queued=0) as pool:
        pool.submit_nowait(held.job, 0)
        first, second = [
            await start(task_group, lambda: pool.submit(held.job, 1, idempotency_key="key")) for _ in range(2)
        ]
        assert pool.statistics().waiting_submitters == 1
        with pytest.raises(PoolFullError):
            pool.submit_nowait(held.job, 1, idempotency_key="key")
        held.release(0)
        await anyio.wait_all_tasks_blocked()
        assert isinstance(first.result, JobHandle)
        assert first.result is second.result
        held.release_all()
    assert held.begun == [0, 1]


async def test_a_job_is_taken_as_long_as_one_of_those_who_submit_it_waits() -> None:
    held = Held()
    async with anyio.create_task_group() as task_group, Pool(max_concurrent=1, max_queued=0) as pool:
        pool.submit_nowait(held.job, 0)
        waiting = [
            await start(task_group, lambda: pool.submit(held.job, 1, idempotency_key="key")) for _ in range(3)
        ]
        waiting[0].scope.cancel()
        held.release(0)
        waiting[2].scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert [waiting[0].result, waiting[2].result] == ["cancelled", "cancelled"]
        assert isinstance(waiting[1].result, JobHandle)
        held.release_all()
    assert held.begun == [0, 1]


async def test_a_key_is_free_when_all_who_waited_with_it_were_cancelled() -> None:
    held = Held()
    async with anyio.create_task_group() as task_group, Pool(max_concurrent=1, max_queued=0) as pool:
        pool.submit_nowait(held.job, 0)
        waiting = [
            await start(task_group, lambda: pool.submit(held.job, 1, idempotency_key="key")) for _ in range(2)
        ]
        for each in waiting:
            each.scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert pool.statistics().waiting_submitters == 0
        held.release_all()
        assert await (await pool.submit(held.job, 2, idempotency_key="key")) == 2
    assert held.begun == [0, 2]


async def test_a_key_is_free_when_a_place_came_too_late_for_all_who_waited_with_it() -> None:
    held = Held()
    async with anyio.create_task_group() as task_group, Pool(max_concurrent=1, max_queued=1) as pool:
        pool.submit_nowait(held.job, 0)
        queued = pool.submit_nowait(held.job, 1)
        waiting = await start(task_group, lambda: pool.submit(held.job, 2, idempotency_key="key"))
        waiting.scope.cancel()
        queued.cancel()
        await anyio.wait_all_tasks_blocked()
        assert waiting.result == "cancelled"
        held.release_all()
        assert await pool.submit_nowait(held.job, 3, idempotency_key="key") == 3
    assert held.begun == [0, 3]


@only_asyncio
async def test_a_job_goes_on_for_others_when_asyncio_cancels_who_waited_with_its_key() -> None:
    held = Held()
    async with Pool(max_concurrent=1, max_queued=1) as pool:
        await pool.submit(held.job, 0)
        queued = await pool.submit(held.job, 1)
        submitting = asyncio.ensure_future(pool.submit(held.job, 2, idempotency_key="key"))
        await anyio.wait_all_tasks_blocked()
        queued.cancel()  # lets it in
        handle = pool.submit_nowait(held.job, 3, idempotency_key="key")
        submitting.cancel()
        await asyncio.wait((submitting,))
        held.release_all()
        assert await handle == 2
    assert submitting.cancelled()


@only_asyncio
@pytest.mark.parametrize("cancelled", [0, 1])
async def test_a_job_goes_on_for_the_other_who_waited_when_asyncio_cancels_one(cancelled: int) -> None:
    held = Held()
    async with Pool(max_concurrent=1, max_queued=1) as pool:
        await pool.submit(held.job, 0)
        queued = await pool.submit(held.job, 1)
        submitting = [
            asyncio.ensure_future(pool.submit(held.job, 2, idempotency_key="key")) for _ in range(2)
        ]
        await anyio.wait_all_tasks_blocked()
        queued.cancel()  # lets it in
        submitting[cancelled].cancel()
        await asyncio.wait(submitting)
        held.release_all()
        assert await submitting[1 - cancelled].result() == 2
    assert submitting[cancelled].cancelled()


@only_asyncio
async def test_a_job_is_cancelled_when_asyncio_cancels_all_who_waited_with_its_key() -> None:
    held = Held()
    async with Pool(max_concurrent=1, max_queued=1) as pool:
        await pool.submit(held.job, 0)
        queued = await pool.submit(held.job, 1)
        submitting = [
            asyncio.ensure_future(pool.submit(held.job, 2, idempotency_key="key")) for _ in range(2)
        ]
        await anyio.wait_all_tasks_blocked()
        queued.cancel()  # lets it in
        for each in submitting:
            each.cancel()
        await asyncio.wait(submitting)
        held.release_all()
    assert held.begun == [0]
    assert pool.statistics().cancelled == 2


async def test_closing_sends_all_away_who_wait_with_a_key() -> None:
    held = Held()
    async with anyio.create_task_group() as task_group, Pool(max_concurrent=1, max_queued=0) as pool:
        pool.submit_nowait(held.job, 0)
        waiting = [
            await start(task_group, lambda: pool.submit(held.job, 1, idempotency_key="key")) for _ in range(2)
        ]
        pool.close()
        await anyio.wait_all_tasks_blocked()
        assert all(isinstance(each.result, PoolClosedError) for each in waiting)
        held.release_all()


async def test_a_key_is_free_for_the_jobs_of_a_pool_when_closing_sent_away_who_waited_with_it() -> None:
    held = Held()

    async def submit() -> int:
        await held.job(0)
        return await pool.submit_nowait(held.job, 2, idempotency_key="key")

    async with anyio.create_task_group() as task_group, Pool(max_concurrent=2, max_queued=0) as pool:
        submitting = pool.submit_nowait(submit)
        first = pool.submit_nowait(held.job, 1)
        await start(task_group, lambda: pool.submit(held.job, 3, idempotency_key="key"))
        pool.close()
        held.release(1)
        await first
        held.release_all()
        assert await submitting == 2
    assert sorted(held.begun) == [0, 1, 2]


async def test_the_keys_used_last_are_remembered() -> None:
    calls: list[int] = []

    async def call(number: int) -> None:
        calls.append(number)

    async with Pool(max_concurrent=1, max_queued=None) as pool:
        for number in range(REMEMBERED_JOBS):
            handle = pool.submit_nowait(call, number, idempotency_key=number)
        await handle
        pool.submit_nowait(call, 0, idempotency_key=0)
        await pool.submit_nowait(call, -1, idempotency_key=-1)
        pool.submit_nowait(call, 0, idempotency_key=0)
        await pool.submit_nowait(call, 1, idempotency_key=1)
    assert calls == [*range(REMEMBERED_JOBS), -1, 1]

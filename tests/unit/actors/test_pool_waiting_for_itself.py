"""Jobs that wait for their own pool: allowed while somebody else can go on."""

from collections.abc import Awaitable, Callable

import anyio
import pytest
from anyio.lowlevel import checkpoint

from nighthawk_async.actors import JobHandle, Pool, PoolDeadlockError

from .pool_jobs import Held

pytestmark = pytest.mark.anyio

Job = Callable[[], Awaitable[None]]


async def nothing() -> None:
    """Do nothing."""


async def test_a_job_may_wait_for_another_of_its_pool() -> None:
    async def total(number: int) -> int:
        if number == 0:
            return 0
        return number + await (await pool.submit(total, number - 1))

    async with Pool(max_concurrent=4) as pool:
        assert await (await pool.submit(total, 3)) == 6


async def test_the_last_free_worker_may_not_wait_for_what_is_queued() -> None:
    async def wait_for_another() -> None:
        await (await pool.submit(nothing))

    async with Pool(max_concurrent=1) as pool:
        handle = await pool.submit(wait_for_another)
        with pytest.raises(PoolDeadlockError, match=r"job pool\[0\] waits for its own pool, as do all 1"):
            await handle
    assert pool.statistics().completed == 1


async def test_several_may_not_wait_for_each_other_with_nobody_left() -> None:
    held = Held()
    handles: list[JobHandle[None]] = []

    async def wait_for(number: int, job: int) -> None:
        await held.job(number)
        await handles[job]

    async with Pool(max_concurrent=2) as pool:
        handles.append(pool.submit_nowait(wait_for, 0, 2))
        handles.append(pool.submit_nowait(wait_for, 1, 0))
        handles.append(pool.submit_nowait(nothing))
        held.release(0)
        await anyio.wait_all_tasks_blocked()
        assert [handle.status for handle in handles] == ["running", "running", "queued"]
        held.release(1)
        await handles[2]
    assert [handle.status for handle in handles] == ["completed", "failed", "completed"]
    assert isinstance(handles[1].error, PoolDeadlockError)


async def test_a_job_may_not_wait_for_its_own_end() -> None:
    handles: list[JobHandle[None]] = []

    async def wait_for_itself() -> None:
        await anyio.wait_all_tasks_blocked()
        await handles[0]

    async with Pool(max_concurrent=2) as pool:
        handles.append(pool.submit_nowait(wait_for_itself))
        with pytest.raises(PoolDeadlockError, match=r"for ever: pool\[0\] -> pool\[0\]"):
            await handles[0]


@pytest.mark.parametrize("free_workers", [0, 1, 5])
@pytest.mark.parametrize("size", [2, 4])
async def test_jobs_may_not_wait_for_each_other_whatever_is_free(size: int, free_workers: int) -> None:
    """The last of them would close the circle; what it raises goes on to those that wait for it."""
    handles: list[JobHandle[None]] = []
    turns = [anyio.Event() for _ in range(size)]

    async def wait_for_the_next(number: int) -> None:
        await turns[number].wait()
        await handles[(number + 1) % size]

    async with Pool(max_concurrent=size + free_workers) as pool:
        handles.extend(pool.submit_nowait(wait_for_the_next, number) for number in range(size))
        for turn in turns:
            turn.set()
            await anyio.wait_all_tasks_blocked()
    numbers = [size - 1, *range(size)]
    way = " -> ".join(f"pool[{number}]" for number in numbers)
    assert [str(handle.error) for handle in handles] == [
        f"jobs would wait for each other for ever: {way}"
    ] * size


async def test_jobs_may_wait_for_the_same_job_by_different_ways() -> None:
    held = Held()
    handles: list[JobHandle[int]] = []

    async def wait_for(*numbers: int) -> int:
        async with anyio.create_task_group() as task_group:
            for number in numbers:
                task_group.start_soon(handles[number].wait)
        return len(numbers)

    async with Pool(max_concurrent=5) as pool:
        handles.append(pool.submit_nowait(held.job, 0))
        handles.extend([pool.submit_nowait(wait_for, *range(number)) for number in (1, 2, 3)])
        await anyio.wait_all_tasks_blocked()
        held.release_all()
    assert [handle.result for handle in handles] == [0, 1, 2, 3]


async def test_a_circle_through_a_task_of_a_job_is_one() -> None:
    handles: list[JobHandle[None]] = []

    async def wait_in_a_task() -> None:
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(handles[1].wait)

    async def wait_late() -> None:
        await anyio.wait_all_tasks_blocked()
        await handles[0]

    async with Pool(max_concurrent=3) as pool:
        handles.append(pool.submit_nowait(wait_in_a_task))
        handles.append(pool.submit_nowait(wait_late))
    assert isinstance(handles[1].error, PoolDeadlockError)


async def test_a_task_that_outlives_its_job_may_wait_for_it_and_others_too() -> None:
    results: list[int] = []
    handles: list[JobHandle[int]] = []
    go = anyio.Event()

    async def wait_for_it() -> None:
        results.append(await handles[0])

    async def leave_a_task_behind() -> int:
        task_group.start_soon(wait_for_it)
        await go.wait()
        return 7

    async with anyio.create_task_group() as task_group, Pool(max_concurrent=3) as pool:
        handles.append(pool.submit_nowait(leave_a_task_behind))
        await anyio.wait_all_tasks_blocked()
        pool.submit_nowait(wait_for_it)
        await anyio.wait_all_tasks_blocked()
        go.set()
    assert results == [7, 7]


@pytest.mark.virtual_time
@pytest.mark.parametrize("free_workers", [0, 1])
async def test_a_wait_with_a_deadline_ends_a_circle(free_workers: int) -> None:
    handles: list[JobHandle[str]] = []

    async def wait_for_a_while() -> str:
        with anyio.move_on_after(5):
            return await handles[1]
        return "went on"

    async def wait() -> str:
        await anyio.wait_all_tasks_blocked()
        return await handles[0]

    async with Pool(max_concurrent=2 + free_workers) as pool:
        handles.append(pool.submit_nowait(wait_for_a_while))
        handles.append(pool.submit_nowait(wait))
    assert [handle.result for handle in handles] == ["went on", "went on"]


@pytest.mark.virtual_time
async def test_the_last_free_worker_may_wait_until_a_deadline() -> None:
    async def wait_for_a_while() -> list[bool]:
        handle = await pool.submit(nothing)
        with anyio.move_on_after(5) as waiting_for_a_job:
            await handle
        with anyio.move_on_after(5) as waiting_for_room:
            await pool.submit(nothing)
        return [waiting_for_a_job.cancelled_caught, waiting_for_room.cancelled_caught]

    async with Pool(max_concurrent=1, max_queued=1) as pool:
        assert await (await pool.submit(wait_for_a_while)) == [True, True]
    assert pool.statistics().submitted == 2


@pytest.mark.virtual_time
async def test_a_job_that_waits_for_room_until_a_deadline_gets_it_while_its_pool_is_being_left() -> None:
    held = Held()

    async def submit() -> int:
        with anyio.fail_after(240):
            return await (await pool.submit(held.job, 1))

    async with Pool(max_concurrent=2, max_queued=0) as pool:
        pool.submit_nowait(held.job, 0)
        submitting = pool.submit_nowait(submit)
        await anyio.wait_all_tasks_blocked()
        held.release_all()
        pool.close()
    assert submitting.result == 1


@pytest.mark.parametrize("shielded", [False, True])
async def test_a_deadline_around_the_pool_hides_nothing(shielded: bool) -> None:
    """It would end everything and say nothing."""

    async def wait_for_another() -> None:
        handle = await pool.submit(nothing)
        with anyio.CancelScope(shield=shielded):
            await handle

    with anyio.fail_after(240):
        async with Pool(max_concurrent=1) as pool:
            with pytest.raises(PoolDeadlockError):
                await (await pool.submit(wait_for_another))


async def test_the_last_free_worker_may_not_wait_for_room() -> None:
    async def submit_two() -> None:
        await pool.submit(nothing)
        await pool.submit(nothing)

    async with Pool(max_concurrent=1, max_queued=1) as pool:
        with pytest.raises(PoolDeadlockError):
            await (await pool.submit(submit_two))
        assert pool.statistics().waiting_submitters == 0
    assert pool.statistics().submitted == 2


async def test_tasks_that_a_job_starts_count_as_the_job() -> None:
    async def wait_in_a_task() -> None:
        handle = await pool.submit(nothing)
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(handle.wait)

    async with Pool(max_concurrent=1) as pool:
        with pytest.raises(ExceptionGroup) as caught:
            await (await pool.submit(wait_in_a_task))
    assert isinstance(caught.value.exceptions[0], PoolDeadlockError)


@pytest.mark.parametrize("attempt", range(8))  # who goes on first is up to chance on Trio
async def test_a_wait_that_is_over_does_not_count(attempt: int) -> None:
    """The second job ends, so that the first goes on; the third may begin and wait before it does."""
    held = Held()
    handles: list[JobHandle[int]] = []

    async def wait_for(job: int) -> int:
        return await handles[job]

    async with Pool(max_concurrent=2) as pool:
        handles.append(pool.submit_nowait(wait_for, 1))
        handles.append(pool.submit_nowait(held.job, 1))
        handles.append(pool.submit_nowait(wait_for, 3))
        handles.append(pool.submit_nowait(held.job, 3))
        await anyio.wait_all_tasks_blocked()
        held.release_all()
    assert [handle.result for handle in handles] == [1, 1, 3, 3]


@pytest.mark.parametrize("attempt", range(8))
async def test_a_job_that_got_room_does_not_count(attempt: int) -> None:
    held = Held()
    submitted: list[JobHandle[int]] = []

    async def submit() -> None:
        submitted.append(await pool.submit(held.job, 2, idempotency_key="key"))

    async def wait_for_keyed() -> int:
        return await pool.submit_nowait(held.job, 2, idempotency_key="key")

    async with Pool(max_concurrent=2, max_queued=1) as pool:
        submitting = pool.submit_nowait(submit)
        pool.submit_nowait(held.job, 1)
        waiting = pool.submit_nowait(wait_for_keyed)
        await anyio.wait_all_tasks_blocked()
        held.release_all()
    assert [submitting.status, waiting.status] == ["completed", "completed"]


async def test_a_job_that_is_being_cancelled_does_not_count() -> None:
    started = anyio.Event()
    handles: list[JobHandle[None]] = []

    async def wait_for_queued() -> None:
        started.set()
        await handles[2]

    async def cancel_and_wait() -> None:
        await started.wait()
        await anyio.wait_all_tasks_blocked()
        handles[0].cancel()
        await handles[2]

    async with Pool(max_concurrent=2) as pool:
        handles.append(pool.submit_nowait(wait_for_queued))
        handles.append(pool.submit_nowait(cancel_and_wait))
        handles.append(pool.submit_nowait(nothing))
    assert [handle.status for handle in handles] == ["cancelled", "completed", "completed"]


async def test_a_wait_that_is_being_cancelled_does_not_count() -> None:
    scope = anyio.CancelScope()
    handles: list[JobHandle[None]] = []

    async def give_up() -> None:
        with scope:
            await handles[2]

    async def wait() -> None:
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
        await handles[2]

    async with Pool(max_concurrent=2) as pool:
        handles.append(pool.submit_nowait(give_up))
        handles.append(pool.submit_nowait(wait))
        handles.append(pool.submit_nowait(nothing))
    assert [handle.status for handle in handles] == ["completed"] * 3


@pytest.mark.parametrize("what", ["room", "job"])
async def test_a_wait_that_was_cancelled_does_not_count(what: str) -> None:
    held = Held()
    scope = anyio.CancelScope()

    async def wait() -> None:
        await (pool.submit(held.job, 2) if what == "room" else queued)

    async def give_up() -> int:
        with scope:
            await wait()
        return await held.job(0)

    async def wait_late() -> None:
        await held.job(1)
        await wait()

    async with Pool(max_concurrent=2, max_queued=1) as pool:
        giving_up = pool.submit_nowait(give_up)
        waiting = pool.submit_nowait(wait_late)
        queued = pool.submit_nowait(nothing)
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
        await anyio.wait_all_tasks_blocked()
        held.release(1)
        await anyio.wait_all_tasks_blocked()
        assert (giving_up.status, waiting.status) == ("running", "running")
        held.release_all()
    assert (giving_up.status, waiting.status) == ("completed", "completed")


async def test_jobs_of_another_pool_and_outsiders_wait_as_they_like() -> None:
    held = Held()

    async def wait_for(handle: JobHandle[int]) -> int:
        return await handle

    async with Pool(max_concurrent=1) as inner, Pool(max_concurrent=1) as outer:
        inner.submit_nowait(held.job, 0)
        queued = inner.submit_nowait(held.job, 1)
        waiting = outer.submit_nowait(wait_for, queued)
        await anyio.wait_all_tasks_blocked()
        assert waiting.status == "running"
        held.release_all()
        assert await waiting == 1


async def test_a_task_that_outlives_its_job_does_not_count() -> None:
    """It runs in a task group around the pool, so the job ends without it."""
    results: list[object] = []

    async def wait_for_queued() -> None:
        results.append(await queued)

    async def leave_a_task_behind() -> None:
        task_group.start_soon(wait_for_queued)
        await anyio.wait_all_tasks_blocked()

    async with anyio.create_task_group() as task_group, Pool(max_concurrent=1) as pool:
        leaving = pool.submit_nowait(leave_a_task_behind)
        queued = pool.submit_nowait(nothing)
        await leaving
    assert results == [None]


async def test_a_task_of_a_job_that_has_ended_waits_like_an_outsider() -> None:
    held = Held()
    results: list[object] = []

    go = anyio.Event()

    async def wait_for_another() -> None:
        await go.wait()
        results.append(await pool.submit_nowait(held.job, 2))

    async def leave_a_task_behind() -> None:
        task_group.start_soon(wait_for_another)

    async with anyio.create_task_group() as task_group, Pool(max_concurrent=1) as pool:
        await pool.submit_nowait(leave_a_task_behind)
        pool.submit_nowait(held.job, 1)
        go.set()
        await anyio.wait_all_tasks_blocked()
        assert pool.statistics().queued == 1
        held.release_all()
    assert results == [2]


async def test_what_a_job_left_behind_waits_for_does_not_hide_that_the_others_are_stuck() -> None:
    held = Held()
    go = anyio.Event()

    async def leave_a_task_behind() -> None:
        task_group.start_soon(queued.wait)
        await go.wait()

    async def wait_for_queued() -> None:
        await queued

    async with anyio.create_task_group() as task_group, Pool(max_concurrent=1) as pool:
        pool.submit_nowait(leave_a_task_behind)
        waiting = pool.submit_nowait(wait_for_queued)
        queued = pool.submit_nowait(held.job, 1)
        await anyio.wait_all_tasks_blocked()
        go.set()
        with pytest.raises(PoolDeadlockError):
            await waiting
        held.release_all()


async def test_what_a_job_left_behind_waits_for_does_not_hide_that_the_job_itself_is_stuck() -> None:
    async def wait_twice() -> None:
        task_group.start_soon(queued.wait)
        await anyio.wait_all_tasks_blocked()
        await queued

    async with anyio.create_task_group() as task_group, Pool(max_concurrent=1) as pool:
        waiting = pool.submit_nowait(wait_twice)
        queued = pool.submit_nowait(nothing)
        with pytest.raises(PoolDeadlockError):
            await waiting


async def test_a_job_that_was_told_of_a_deadlock_goes_on_and_does_not_count() -> None:
    held = Held()

    told = anyio.Event()

    async def try_to_wait_for_itself() -> int:
        await checkpoint()
        with pytest.raises(PoolDeadlockError):
            await trying
        told.set()
        return await held.job(0)

    async def wait_for_queued() -> int:
        return await queued

    async with Pool(max_concurrent=2) as pool:
        trying = pool.submit_nowait(try_to_wait_for_itself)
        await told.wait()
        waiting = pool.submit_nowait(wait_for_queued)
        queued = pool.submit_nowait(held.job, 1)
        await anyio.wait_all_tasks_blocked()
        held.release_all()
    assert (trying.result, waiting.result) == (0, 1)

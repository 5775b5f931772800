"""Leaving a pool: nothing runs afterwards, and every handle says how its job ended."""

from collections.abc import Awaitable, Callable
from contextlib import nullcontext

import anyio
import pytest
import trio
from anyio.lowlevel import checkpoint

from nighthawk_async.actors import JobCancelledError, JobHandle, Pool, PoolClosedError

from .pool_jobs import Held
from .waiting_tasks import start

pytestmark = pytest.mark.anyio


async def break_block(pool: Pool, submit: Callable[[Pool], object]) -> None:
    """Raise in the block of a pool once everything that was submitted waits."""
    async with pool:
        submit(pool)
        await anyio.wait_all_tasks_blocked()
        raise OSError("broken")


async def test_leaving_waits_for_everything_queued_and_running() -> None:
    held = Held()
    left = anyio.Event()
    handles: list[JobHandle[int]] = []

    async def use() -> None:
        async with Pool(max_concurrent=2) as pool:
            handles.extend(pool.submit_nowait(held.job, number) for number in range(5))
        left.set()

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(use)
        await anyio.wait_all_tasks_blocked()
        held.release(0)
        await anyio.wait_all_tasks_blocked()
        assert not left.is_set()
        held.release_all()
        await left.wait()
    assert [handle.result for handle in handles] == [0, 1, 2, 3, 4]


async def test_an_error_in_the_block_cancels_the_rest_and_arrives_bare() -> None:
    held = Held()
    handles: list[JobHandle[int]] = []

    def submit(pool: Pool) -> None:
        handles.extend(pool.submit_nowait(held.job, number) for number in range(3))

    with pytest.raises(OSError, match="broken"):
        await break_block(Pool(max_concurrent=1), submit)
    assert [handle.status for handle in handles] == ["cancelled"] * 3
    assert held.begun == [0]
    with pytest.raises(JobCancelledError, match="its pool was cancelled"):
        await handles[0]
    assert str(handles[2].error) == "job pool[2] was cancelled: its pool was cancelled"


@pytest.mark.parametrize("in_the_block", [True, False])
async def test_a_cancellation_cancels_the_rest(in_the_block: bool) -> None:
    held = Held()
    handles: list[JobHandle[int]] = []
    pools: list[Pool] = []

    async def use() -> None:
        async with Pool(max_concurrent=2) as pool:
            pools.append(pool)
            handles.extend(pool.submit_nowait(held.job, number) for number in range(5))
            if in_the_block:
                await anyio.sleep_forever()

    async with anyio.create_task_group() as task_group:
        waiting = await start(task_group, use)
        waiting_for_result = await start(task_group, handles[4].wait)
        waiting.scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert waiting.result == "cancelled"
        assert isinstance(waiting_for_result.result, JobCancelledError)
    assert [handle.status for handle in handles] == ["cancelled"] * 5
    assert len(held.begun) == 2
    assert (pools[0].statistics().cancelled, pools[0].statistics().running) == (5, 0)


async def test_no_job_begins_in_a_pool_that_is_being_cancelled() -> None:
    """Also when a worker becomes free in that very moment."""
    begun: list[int] = []
    handles: list[JobHandle[None]] = []

    async def cancel_all(scope: anyio.CancelScope) -> None:
        scope.cancel()

    async def begin(number: int) -> None:
        begun.append(number)

    with anyio.CancelScope() as scope:
        async with Pool(max_concurrent=1) as pool:
            handles.append(pool.submit_nowait(cancel_all, scope))
            handles.extend(pool.submit_nowait(begin, number) for number in range(3))
    assert begun == []
    assert [handle.status for handle in handles] == ["completed", "cancelled", "cancelled", "cancelled"]


async def test_what_a_job_does_while_it_is_cancelled_is_waited_for() -> None:
    cleaned_up = False

    async def clean_up() -> None:
        nonlocal cleaned_up
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.wait_all_tasks_blocked()
            cleaned_up = True

    with pytest.raises(OSError, match="broken"):
        await break_block(Pool(max_concurrent=1), lambda pool: pool.submit_nowait(clean_up))
    assert cleaned_up


async def test_a_job_that_fails_while_its_pool_is_cancelled_has_failed() -> None:
    async def fail_in_cleanup() -> None:
        async with anyio.create_task_group():
            try:
                await anyio.sleep_forever()
            finally:
                raise OSError("in cleanup")

    handles: list[JobHandle[None]] = []
    with pytest.raises(OSError, match="broken"):
        await break_block(
            Pool(max_concurrent=1), lambda pool: handles.append(pool.submit_nowait(fail_in_cleanup))
        )
    assert handles[0].status == "failed"
    with pytest.raises(ExceptionGroup) as caught:
        await handles[0]
    assert str(caught.value.exceptions[0]) == "in cleanup"


@pytest.mark.parametrize("how", ["scope", "error"])
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_a_job_whose_nursery_is_cancelled_with_the_pool_is_cancelled(how: str) -> None:
    """Trio's own nurseries raise the cancellations of all their tasks, in a group."""

    async def run_nursery() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(trio.sleep_forever)

    await check_cancelled_with_its_pool(run_nursery, how)


@pytest.mark.parametrize("how", ["scope", "error"])
async def test_a_job_that_raises_cancellations_in_groups_is_cancelled(how: str) -> None:
    async def group_cancellations() -> None:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class() as cancelled:
            inner = BaseExceptionGroup("inner", [cancelled])
            raise BaseExceptionGroup("outer", [inner, cancelled]) from None

    await check_cancelled_with_its_pool(group_cancellations, how)


@pytest.mark.parametrize("how", ["scope", "error"])
async def test_a_job_whose_task_group_is_cancelled_with_the_pool_is_cancelled(how: str) -> None:
    async def run_task_group() -> None:
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(anyio.sleep_forever)
            task_group.start_soon(anyio.sleep_forever)

    await check_cancelled_with_its_pool(run_task_group, how)


async def check_cancelled_with_its_pool(body: Callable[[], Awaitable[None]], how: str) -> None:
    """Run a job in a pool that is cancelled by a scope around it, or by an error in its block."""
    handles: list[JobHandle[None]] = []
    is_error = how == "error"
    with anyio.CancelScope() as scope, pytest.raises(OSError, match="broken") if is_error else nullcontext():
        async with Pool(max_concurrent=1) as pool:
            handles.extend(pool.submit_nowait(body) for _ in range(2))
            await anyio.wait_all_tasks_blocked()
            if is_error:
                raise OSError("broken")
            scope.cancel()
    assert scope.cancelled_caught == (not is_error)
    assert [handle.status for handle in handles] == ["cancelled", "cancelled"]
    for handle in handles:
        with pytest.raises(JobCancelledError, match="its pool was cancelled"):
            await handle


async def test_errors_and_cancellations_in_one_group_are_a_failure_with_the_errors() -> None:
    async def fail_while_cancelled() -> None:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class() as cancelled:
            raise BaseExceptionGroup("both", [cancelled, OSError("in cleanup")]) from None

    handles: list[JobHandle[None]] = []
    with pytest.raises(OSError, match="broken"):
        await break_block(
            Pool(max_concurrent=1), lambda pool: handles.append(pool.submit_nowait(fail_while_cancelled))
        )
    with pytest.raises(ExceptionGroup) as caught:
        await handles[0]
    assert [str(error) for error in caught.value.exceptions] == ["in cleanup"]


async def test_jobs_submit_more_while_their_pool_is_being_left() -> None:
    handles: list[JobHandle[None]] = []

    async def count_down(number: int) -> None:
        await anyio.wait_all_tasks_blocked()
        if number:
            handles.append(await pool.submit(count_down, number - 1))

    async with Pool(max_concurrent=1) as pool:
        handles.append(pool.submit_nowait(count_down, 3))
    assert [handle.status for handle in handles] == ["completed"] * 4


async def test_a_job_that_waits_for_room_gets_it_while_its_pool_is_being_left() -> None:
    held = Held()

    async def submit() -> int:
        return await (await pool.submit(held.job, 1))

    async with Pool(max_concurrent=2, max_queued=0) as pool:
        pool.submit_nowait(held.job, 0)
        submitting = pool.submit_nowait(submit)
        await anyio.wait_all_tasks_blocked()
        assert pool.statistics().waiting_submitters == 1
        held.release_all()
        pool.close()
    assert submitting.result == 1


async def test_queued_jobs_are_cancelled_at_once_though_a_running_one_takes_its_time() -> None:
    statuses: list[str] = []

    async def clean_up() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            statuses.append(queued[0].status)

    queued: list[JobHandle[None]] = []

    def submit(pool: Pool) -> None:
        pool.submit_nowait(clean_up)
        queued.append(pool.submit_nowait(checkpoint))

    with pytest.raises(OSError, match="broken"):
        await break_block(Pool(max_concurrent=1), submit)
    assert statuses == ["cancelled"]


async def test_nobody_else_submits_while_a_pool_is_being_left() -> None:
    held = Held()
    leave = anyio.Event()
    pools: list[Pool] = []

    async def use() -> None:
        async with Pool(max_concurrent=1, max_queued=0) as pool:
            pools.append(pool)
            await pool.submit(held.job, 0)
            await leave.wait()

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(use)
        await anyio.wait_all_tasks_blocked()
        blocked = await start(task_group, lambda: pools[0].submit(held.job, 1))
        leave.set()
        await anyio.wait_all_tasks_blocked()
        assert isinstance(blocked.result, PoolClosedError)
        assert pools[0].is_closed
        with pytest.raises(PoolClosedError):
            await pools[0].submit(held.job, 2)
        held.release_all()
    assert held.begun == [0]


async def test_whoever_waits_for_room_is_sent_away_when_the_pool_is_cancelled() -> None:
    """Also while its block goes on for a while."""
    held = Held()
    async with anyio.create_task_group() as task_group:
        with anyio.CancelScope() as scope:
            async with Pool(max_concurrent=1, max_queued=0) as pool:
                pool.submit_nowait(held.job, 0)
                waiting = await start(task_group, lambda: pool.submit(held.job, 1))
                scope.cancel()
                with anyio.CancelScope(shield=True):
                    await anyio.wait_all_tasks_blocked()
        assert isinstance(waiting.result, PoolClosedError)
    assert held.begun == [0]


async def test_a_task_of_a_job_that_has_ended_submits_no_more_than_an_outsider() -> None:
    held = Held()
    go = anyio.Event()
    errors: list[Exception] = []

    async def submit_late() -> None:
        await go.wait()
        try:
            pool.submit_nowait(held.job, 1)
        except PoolClosedError as error:
            errors.append(error)

    async def leave_a_task_behind() -> None:
        task_group.start_soon(submit_late)

    async with anyio.create_task_group() as task_group, Pool(max_concurrent=1) as pool:
        await pool.submit_nowait(leave_a_task_behind)
        pool.close()
        go.set()
    assert len(errors) == 1
    assert held.begun == []


async def test_a_cancelled_pool_takes_nothing_from_its_jobs_either() -> None:
    errors: list[Exception] = []
    pool = Pool(max_concurrent=2)

    async def submit_in_cleanup() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                try:
                    await pool.submit(checkpoint)
                except PoolClosedError as error:
                    errors.append(error)

    with pytest.raises(OSError, match="broken"):
        await break_block(pool, lambda _: pool.submit_nowait(submit_in_cleanup))
    assert len(errors) == 1


async def test_what_ends_the_program_ends_the_pool() -> None:
    class End(BaseException):
        """Like `KeyboardInterrupt`, which would end the test run."""

    async def leave() -> None:
        raise End

    held = Held()
    handles: list[JobHandle[object]] = []

    async def use() -> None:
        async with Pool(max_concurrent=2) as pool:
            handles.append(pool.submit_nowait(held.job, 0))
            handles.append(pool.submit_nowait(leave))
            handles.append(pool.submit_nowait(held.job, 1))
            await anyio.sleep_forever()

    with pytest.raises(End):
        await use()
    assert [handle.status for handle in handles] == ["cancelled", "failed", "cancelled"]
    assert isinstance(handles[1].error, End)


async def test_what_ends_the_program_is_not_lost_without_a_handle(caplog: pytest.LogCaptureFixture) -> None:
    class End(BaseException):
        """Like `KeyboardInterrupt`, which would end the test run."""

    async def leave() -> None:
        raise End

    with pytest.raises(End):
        async with Pool(max_concurrent=1) as pool:
            pool.submit_nowait(leave)
    assert caplog.records == []


async def test_handles_are_awaited_after_the_pool_too() -> None:
    async def answer() -> int:
        return 42

    async with Pool(max_concurrent=1) as pool:
        handles = [pool.submit_nowait(answer) for _ in range(3)]
    assert [await handle for handle in handles] == [42, 42, 42]
    assert not handles[0].cancel()


@pytest.mark.virtual_time
async def test_a_deadline_around_a_pool_ends_its_jobs() -> None:
    async with Pool(max_concurrent=1) as outer:
        with anyio.move_on_after(5) as scope:
            async with Pool(max_concurrent=2) as pool:
                handles = [pool.submit_nowait(anyio.sleep, 4) for _ in range(4)]
        assert scope.cancelled_caught
        assert [handle.status for handle in handles] == ["completed", "completed", "cancelled", "cancelled"]
        assert outer.statistics().submitted == 0

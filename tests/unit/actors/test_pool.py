"""Pools: what becomes of a job, in which order jobs run, and how many at the same time."""

import gc
import logging
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint

from nighthawk_async.actors import (
    JobCancelledError,
    JobHandle,
    NamespaceKind,
    Pool,
    PoolClosedError,
    QueueOrder,
    find_namespace,
    open_namespace,
)

from .pool_jobs import Held

pytestmark = pytest.mark.anyio

VARIABLE: ContextVar[str] = ContextVar("variable")


async def double(number: int, *, plus: int = 0) -> int:
    """Wait for nothing."""
    await checkpoint()
    return 2 * number + plus


async def fail(text: str) -> None:
    """Fail."""
    await checkpoint()
    raise OSError(text)


async def test_a_handle_gives_what_the_job_returned() -> None:
    async with Pool(max_concurrent=2) as pool:
        handle = await pool.submit(double, 4)
        assert await handle == 8
        assert await handle.wait() == 8
        assert (handle.status, handle.result, handle.error) == ("completed", 8, None)
        assert await (await pool.submit(partial(double, 4, plus=1))) == 9


async def test_a_handle_raises_what_the_job_raised_to_everybody_who_awaits_it() -> None:
    lengths: list[int] = []
    async with Pool(max_concurrent=1) as pool:
        handle = await pool.submit(fail, "broken")
        for _ in range(3):
            with pytest.raises(OSError, match="broken") as caught:
                await handle
            lengths.append(len(caught.traceback))
        assert (handle.status, handle.result) == ("failed", None)
        assert handle.error is caught.value
        assert caught.traceback[-1].name == "fail"
    assert len(set(lengths)) == 1, "the traceback grows with everybody who awaits the handle"


async def test_a_failing_job_disturbs_no_other() -> None:
    async with Pool(max_concurrent=1) as pool:
        handles = [pool.submit_nowait(fail, "broken"), pool.submit_nowait(double, 1)]
    assert [handle.status for handle in handles] == ["failed", "completed"]
    assert isinstance(handles[0].error, OSError)


async def test_jobs_have_ids_by_their_order_of_submission() -> None:
    async with Pool(max_concurrent=1, name="crawl") as pool, Pool(max_concurrent=1) as other:
        handles = [pool.submit_nowait(double, 1) for _ in range(3)]
        assert [handle.id for handle in handles] == ["crawl[0]", "crawl[1]", "crawl[2]"]
        assert repr(handles[1]) == "<job crawl[1], queued>"
        assert repr(pool) == "<pool 'crawl', open, 1 running, 2 queued>"
        assert (await other.submit(double, 1)).id == "pool[0]"


async def test_no_more_jobs_run_at_the_same_time_than_may() -> None:
    held = Held()
    async with Pool(max_concurrent=3) as pool:
        handles = [pool.submit_nowait(held.job, number) for number in range(10)]
        await anyio.wait_all_tasks_blocked()
        assert sorted(held.running) == [0, 1, 2]
        assert [handle.status for handle in handles].count("running") == 3
        held.release(1)
        await anyio.wait_all_tasks_blocked()
        assert sorted(held.running) == [0, 2, 3]
        held.release_all()
    assert held.greatest == 3
    assert [handle.result for handle in handles] == list(range(10))


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        pytest.param("fifo", "a0 b1 a2 c0 a1 b2", id="fifo"),
        pytest.param("lifo", "b2 a1 c0 a2 b1 a0", id="lifo"),
        pytest.param("priority", "a2 b2 b1 a1 a0 c0", id="priority"),
        pytest.param("fair_round_robin", "a0 b1 c0 a2 b2 a1", id="fair_round_robin"),
    ],
)
async def test_queued_jobs_run_in_the_order_of_the_queue(order: QueueOrder, expected: str) -> None:
    """The letter is the key and the digit the priority."""
    ran: list[str] = []

    async def note(name: str) -> None:
        ran.append(name)

    held = Held()
    async with Pool(max_concurrent=1, queue=order) as pool:
        pool.submit_nowait(held.job, 0)
        for name in ("a0", "b1", "a2", "c0", "a1", "b2"):
            pool.submit_nowait(note, name, key=name[0], priority=int(name[1]))
        held.release(0)
    assert ran == expected.split()


async def test_a_key_that_comes_back_does_not_overtake_those_that_wait() -> None:
    ran: list[str] = []

    async def note(name: str) -> None:
        ran.append(name)
        if name == "a":
            pool.submit_nowait(note, "a again", key="a")

    async with Pool(max_concurrent=1, queue="fair_round_robin") as pool:
        for name in ("first", "a", "b", "c"):
            pool.submit_nowait(note, name, key=name)
    assert ran == ["first", "a", "b", "c", "a again"]


async def test_jobs_without_a_key_take_turns_with_those_that_have_one() -> None:
    ran: list[str] = []

    async def note(name: str) -> None:
        ran.append(name)

    async with Pool(max_concurrent=1, queue="fair_round_robin") as pool:
        pool.submit_nowait(note, "first", key="first")
        for name in ("none", "none", "none"):
            pool.submit_nowait(note, name)
        pool.submit_nowait(note, "key", key="key")
    assert ran == ["first", "none", "key", "none", "none"]


async def test_a_job_has_the_context_variables_its_submitter_had() -> None:
    async def change(value: str) -> str:
        before = VARIABLE.get()
        VARIABLE.set(value)
        return before

    held = Held()
    async with Pool(max_concurrent=1) as pool:
        pool.submit_nowait(held.job, 0)
        VARIABLE.set("one")
        one = pool.submit_nowait(change, "changed")
        VARIABLE.set("two")
        two = pool.submit_nowait(change, "changed")
        held.release(0)
        assert [await one, await two] == ["one", "two"]
        assert VARIABLE.get() == "two"


async def test_nothing_but_its_context_variables_ties_a_job_to_its_submitter() -> None:
    async def look_around() -> tuple[NamespaceKind, bool]:
        await checkpoint()
        return find_namespace().kind, find_namespace().is_left

    held = Held()
    async with Pool(max_concurrent=1) as pool:
        pool.submit_nowait(held.job, 0)
        with anyio.CancelScope() as scope, open_namespace("run"):
            handle = pool.submit_nowait(look_around)
            scope.cancel()
            await checkpoint()
        assert scope.cancelled_caught
        held.release(0)
        assert await handle == ("run", True)


async def test_a_queued_job_that_is_cancelled_never_begins() -> None:
    held = Held()
    async with Pool(max_concurrent=1) as pool:
        first, second, third = (pool.submit_nowait(held.job, number) for number in range(3))
        await anyio.wait_all_tasks_blocked()
        assert second.cancel("not needed")
        assert not second.cancel("too late")
        with pytest.raises(JobCancelledError, match=r"job pool\[1\] was cancelled: not needed") as caught:
            await second
        assert (caught.value.job_id, caught.value.reason) == ("pool[1]", "not needed")
        held.release_all()
    assert [handle.status for handle in (first, second, third)] == ["completed", "cancelled", "completed"]
    assert held.begun == [0, 2]


async def test_a_cancelled_job_of_the_highest_priority_is_passed_over() -> None:
    held = Held()
    async with Pool(max_concurrent=1, queue="priority") as pool:
        handles = [pool.submit_nowait(held.job, number, priority=number) for number in (0, 1, 2)]
        handles[2].cancel()
        held.release_all()
    assert [handle.status for handle in handles] == ["completed", "completed", "cancelled"]


async def test_a_running_job_is_cancelled_and_its_worker_is_free() -> None:
    held = Held()
    async with Pool(max_concurrent=1) as pool:
        first, second = pool.submit_nowait(held.job, 0), pool.submit_nowait(held.job, 1)
        await anyio.wait_all_tasks_blocked()
        assert first.cancel()
        assert first.status == "running"
        await first.wait_ended()
        assert (first.status, str(first.error)) == ("cancelled", "job pool[0] was cancelled")
        await anyio.wait_all_tasks_blocked()
        assert held.running == {1}
        held.release_all()
        assert await second == 1


async def test_a_job_that_is_cancelled_before_its_task_runs_never_begins() -> None:
    held = Held()
    async with Pool(max_concurrent=1) as pool:
        handle = pool.submit_nowait(held.job, 0)
        assert handle.status == "running"
        handle.cancel("at once")
        with pytest.raises(JobCancelledError, match="at once"):
            await handle
    assert held.begun == []


async def test_a_job_that_returns_or_raises_all_the_same_has_done_so() -> None:
    async def resist(end: Callable[[], str]) -> str:
        with anyio.CancelScope(shield=True):
            await anyio.wait_all_tasks_blocked()
        return end()

    async with Pool(max_concurrent=2) as pool:
        completed = pool.submit_nowait(resist, lambda: "done")
        failed = pool.submit_nowait(resist, partial(int, "x"))
        await checkpoint()
        await checkpoint()
        completed.cancel()
        failed.cancel()
        assert await completed == "done"
        with pytest.raises(ValueError, match="invalid literal"):
            await failed


async def test_whoever_is_cancelled_while_awaiting_a_handle_does_not_cancel_the_job() -> None:
    held = Held()
    async with Pool(max_concurrent=1) as pool:
        handle = pool.submit_nowait(held.job, 0)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await handle
        assert scope.cancelled_caught
        held.release(0)
        assert await handle == 0


async def test_many_may_await_a_handle() -> None:
    held = Held()
    results: list[int] = []

    async def wait(handle: JobHandle[int]) -> None:
        results.append(await handle)

    async with anyio.create_task_group() as task_group, Pool(max_concurrent=1) as pool:
        handle = pool.submit_nowait(held.job, 7)
        for _ in range(3):
            task_group.start_soon(wait, handle)
        await anyio.wait_all_tasks_blocked()
        held.release(7)
    assert results == [7, 7, 7]


async def test_functions_that_are_not_async_are_called_through_threads() -> None:
    async with Pool(max_concurrent=1) as pool:
        assert await pool.submit_nowait(anyio.to_thread.run_sync, lambda: 5) == 5
        with pytest.raises(TypeError, match=r"is not async.*anyio\.to_thread"):
            await pool.submit_nowait(len, "text")  # type: ignore[arg-type]


async def test_a_job_that_awaited_something_cancelled_ends_cancelled_and_the_pool_goes_on() -> None:
    async def cancel_itself() -> None:
        raise anyio.get_cancelled_exc_class()("by somebody else")

    if anyio.get_cancelled_exc_class().__module__.startswith("trio"):
        pytest.skip("Trio raises its cancellations itself")
    async with Pool(max_concurrent=1) as pool:
        handle = pool.submit_nowait(cancel_itself)
        with pytest.raises(JobCancelledError, match="something that it awaited was cancelled"):
            await handle
        assert await pool.submit_nowait(double, 1) == 2


@pytest.fixture
def without_collector() -> Iterator[Callable[[], None]]:
    """Turns the garbage collector off: what goes, goes because nothing refers to it."""
    yield gc.disable
    gc.enable()


async def test_a_failure_that_nobody_asks_for_is_logged_as_soon_as_its_handle_is_gone(
    caplog: pytest.LogCaptureFixture, without_collector: Callable[[], None]
) -> None:
    with caplog.at_level(logging.WARNING, logger="nighthawk"):
        async with Pool(max_concurrent=1, name="quiet") as pool:
            asked = pool.submit_nowait(fail, "asked")
            looked_at = pool.submit_nowait(fail, "seen")
            lost = pool.submit_nowait(fail, "lost")
            with pytest.raises(OSError, match="asked"):
                await asked
        assert str(looked_at.error) == "seen"
        assert lost.status == "failed"
        assert caplog.records == []
        without_collector()
        del asked, looked_at, lost, pool
    assert [record.getMessage() for record in caplog.records] == [
        "job quiet[2] failed, and its error was never retrieved"
    ]
    assert "OSError: lost" in caplog.text


async def test_a_failure_whose_handle_nobody_kept_is_logged_when_it_happens(
    caplog: pytest.LogCaptureFixture, without_collector: Callable[[], None]
) -> None:
    without_collector()
    with caplog.at_level(logging.WARNING, logger="nighthawk"):
        async with Pool(max_concurrent=1, name="quiet") as pool:
            early = pool.submit_nowait(fail, "lost")
            assert early.error is None, "who asks before the end learns nothing"
            del early
            await pool.submit_nowait(double, 1)
            assert "OSError: lost" in caplog.text
    assert [record.getMessage() for record in caplog.records] == [
        "job quiet[0] failed, and its error was never retrieved"
    ]


async def test_whoever_waits_for_a_job_keeps_its_handle(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="nighthawk"):
        async with Pool(max_concurrent=1) as pool:
            with pytest.raises(OSError, match="awaited"):
                await pool.submit_nowait(fail, "awaited")
            with pytest.raises(OSError, match="waited for"):
                await pool.submit_nowait(fail, "waited for").wait()
    assert caplog.records == []


async def test_a_job_that_has_ended_holds_on_to_nothing_it_was_given() -> None:
    class Given:
        """Something large."""

    alive: list[str] = []

    class Watched(Given):
        def __del__(self) -> None:
            alive.append("gone")

    async def take(given: Given) -> None:
        await checkpoint()

    async with Pool(max_concurrent=1) as pool:
        handle = pool.submit_nowait(take, Watched())
        await handle
        await anyio.wait_all_tasks_blocked()
        gc.collect()
        assert alive == ["gone"]


async def test_statistics_tell_where_every_job_is() -> None:
    held = Held()
    async with Pool(max_concurrent=1, max_queued=3, backpressure="drop_newest") as pool:
        for number in range(5):
            pool.submit_nowait(held.job, number)
        figures = pool.statistics()
        assert (figures.submitted, figures.running, figures.queued, figures.rejected) == (5, 1, 3, 1)
        assert figures.greatest_queued == 3
        held.release_all()
    pool_figures = pool.statistics()
    assert (pool_figures.completed, pool_figures.rejected, pool_figures.queued) == (4, 1, 0)
    assert (pool_figures.running, pool_figures.greatest_queued) == (0, 3)


@pytest.mark.parametrize(
    "arguments",
    [
        {"max_concurrent": 0},
        {"max_concurrent": -1},
        {"max_concurrent": True},
        {"max_concurrent": 1.5},
        {"max_concurrent": "3"},
        {"max_concurrent": None},
        {"queue": "stack"},
        {"backpressure": "drop"},
        {"max_queued": -1},
        {"max_queued": 2.0},
        {"max_queued": True},
        {"max_queued": 0, "backpressure": "drop_oldest"},
        {"max_queued": 0, "backpressure": "ring_buffer"},
        {"max_queued": None, "backpressure": "ring_buffer"},
    ],
    ids=str,
)
async def test_limits_that_make_no_sense_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must"):
        Pool(**{"max_concurrent": 1, **arguments})  # type: ignore[arg-type]


async def test_a_submission_that_makes_no_sense_changes_nothing() -> None:
    async with Pool(max_concurrent=1, queue="priority") as pool:
        for arguments in ({"key": []}, {"idempotency_key": {}}, {"priority": "high"}, {"priority": 0.5}):
            with pytest.raises(TypeError):
                pool.submit_nowait(double, 1, **arguments)  # type: ignore[arg-type]
        assert pool.statistics().submitted == 0


async def test_a_pool_is_used_once_and_inside_its_block() -> None:
    pool = Pool(max_concurrent=1)
    with pytest.raises(PoolClosedError, match="not entered"):
        await pool.submit(double, 1)
    async with pool:
        with pytest.raises(PoolClosedError, match="entered"):
            await pool.__aenter__()
    with pytest.raises(PoolClosedError, match="no more jobs"):
        await pool.submit(double, 1)
    with pytest.raises(PoolClosedError, match="before"):
        await pool.__aenter__()
    assert pool.is_closed
    closed = Pool(max_concurrent=1)
    closed.close()
    with pytest.raises(PoolClosedError, match="closed before"):
        await closed.__aenter__()

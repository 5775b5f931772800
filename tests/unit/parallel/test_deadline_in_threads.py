"""`deadline` in threads: what they do on an event loop ends in time, and the end of the block is checked."""

import threading
import time

import anyio
import anyio.to_thread
import pytest
from anyio import from_thread
from anyio.from_thread import start_blocking_portal
from anyio.lowlevel import checkpoint
from trio.testing import MockClock

from nighthawk_async import parallel
from nighthawk_async.parallel import DeadlineExceededError, deadline, under_thread_deadlines

anyio_test = pytest.mark.anyio


class Recorder:
    """Sleeps on an event loop for longer than any test lasts."""

    def __init__(self) -> None:
        self.events: list[str] = []

    async def sleep(self) -> None:
        self.events.append("began")
        try:
            await anyio.sleep(1_000)
        finally:
            self.events.append("ended")


@anyio_test
@pytest.mark.virtual_time
async def test_a_block_in_a_worker_thread_ends_what_it_does_on_the_loop_by_the_clock_of_the_loop() -> None:
    recorder = Recorder()

    def work() -> None:
        with deadline(5, name="in the thread") as limit:
            with pytest.raises(DeadlineExceededError, match="in the thread"):
                from_thread.run(under_thread_deadlines(recorder.sleep))
            assert limit.remaining_seconds == 0

    with pytest.raises(DeadlineExceededError, match="in the thread exceeded its deadline of 5 seconds"):
        await anyio.to_thread.run_sync(work)
    assert recorder.events == ["began", "ended"]


@anyio_test
async def test_the_shortest_of_nested_deadlines_in_a_thread_comes_first() -> None:
    recorder = Recorder()

    def work() -> str | None:
        with deadline(1_000, name="outer"):
            try:
                with deadline(0, name="inner"):
                    from_thread.run(under_thread_deadlines(recorder.sleep))
            except DeadlineExceededError as error:
                return error.name
        return None

    assert await anyio.to_thread.run_sync(work) == "inner"


@anyio_test
async def test_outside_of_the_block_the_thread_has_no_deadline() -> None:
    async def answer() -> str:
        await checkpoint()
        return "answer"

    def work() -> None:
        with pytest.raises(DeadlineExceededError), deadline(0):
            from_thread.run(under_thread_deadlines(answer))
        assert from_thread.run(under_thread_deadlines(answer)) == "answer"

    await anyio.to_thread.run_sync(work)


@anyio_test
async def test_a_loop_that_stands_still_after_its_time_gives_a_portal_none() -> None:
    recorder = Recorder()
    with start_blocking_portal("asyncio") as portal, anyio.CancelScope() as scope:
        scope.cancel()
        with pytest.raises(DeadlineExceededError, match="of 0 seconds"):
            portal.call(under_thread_deadlines(recorder.sleep))
        await checkpoint()
    assert recorder.events in (["began", "ended"], [])


@anyio_test
async def test_the_end_of_the_block_is_checked_with_whatever_the_thread_did() -> None:
    def give(seconds: float) -> str:
        with deadline(seconds):
            return "given"

    def fail() -> None:
        with deadline(0):
            raise LookupError("own")

    def leave() -> None:
        with deadline(0):
            raise SystemExit(1)

    assert await anyio.to_thread.run_sync(give, 1_000) == "given"
    for function in (lambda: give(0), fail):
        with pytest.raises(DeadlineExceededError):
            await anyio.to_thread.run_sync(function)
    with pytest.raises(SystemExit):
        await anyio.to_thread.run_sync(leave)


@anyio_test
async def test_a_thread_can_ask_and_ends_when_its_caller_was_cancelled() -> None:
    begun = threading.Event()
    checks = 0

    def work() -> None:
        nonlocal checks
        with deadline(1_000) as limit:
            begun.set()
            while True:
                limit.check()
                checks += 1
                time.sleep(0.001)

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(anyio.to_thread.run_sync, work)
            await anyio.to_thread.run_sync(begun.wait)
            scope.cancel()
    assert scope.cancelled_caught


@anyio_test
@pytest.mark.virtual_time
async def test_a_worker_thread_can_ask_for_the_time_of_a_block_on_the_loop() -> None:
    def work() -> None:
        assert limit.remaining_seconds == 5
        from_thread.run(anyio.sleep, 3)
        limit.check()
        assert limit.remaining_seconds == 2
        from_thread.run(sleep_shielded, 4)
        with pytest.raises(DeadlineExceededError, match="the block exceeded its deadline of 5 seconds"):
            limit.check()
        assert limit.remaining_seconds == -2

    with pytest.raises(DeadlineExceededError):
        async with deadline(5, name="the block") as limit:
            await anyio.to_thread.run_sync(work)


async def sleep_shielded(seconds: float) -> None:
    with anyio.CancelScope(shield=True):
        await anyio.sleep(seconds)


@anyio_test
async def test_a_thread_can_ask_about_a_block_on_the_loop_and_ends_when_that_was_cancelled() -> None:
    begun = threading.Event()

    def work() -> None:
        begun.set()
        while True:
            limit.check()
            time.sleep(0.001)

    with anyio.CancelScope() as scope:
        async with deadline(1_000) as limit, anyio.create_task_group() as task_group:
            task_group.start_soon(anyio.to_thread.run_sync, work)
            await anyio.to_thread.run_sync(begun.wait)
            scope.cancel()
    assert scope.cancelled_caught


@anyio_test
async def test_a_thread_that_anyio_has_not_started_can_ask_too() -> None:
    answers: list[float] = []

    def ask() -> None:
        limit.check()
        answers.append(limit.remaining_seconds)

    async with deadline(1_000) as limit:
        thread = threading.Thread(target=ask)
        thread.start()
        await anyio.to_thread.run_sync(thread.join)
    assert 0 < answers[0] <= 1_000


@anyio_test
async def test_the_loop_can_ask_about_a_block_in_one_of_its_threads() -> None:
    async def ask(limit: parallel.Deadline) -> float:
        limit.check()
        return limit.remaining_seconds

    def work() -> float:
        with deadline(1_000) as limit:
            return from_thread.run(ask, limit)

    assert 0 < await anyio.to_thread.run_sync(work) <= 1_000


@anyio_test
async def test_on_another_loop_asking_is_refused_because_this_one_may_stand_still() -> None:
    async def ask_on_the_loop() -> None:
        limit.check()

    async def ask_in_a_thread_of_it() -> None:
        await anyio.to_thread.run_sync(limit.check)

    async with deadline(1_000) as limit:
        with start_blocking_portal("asyncio") as portal:
            for ask in (ask_on_the_loop, ask_in_a_thread_of_it):
                with pytest.raises(RuntimeError, match="cannot be read in a thread of another"):
                    portal.call(ask)
        await checkpoint()


@anyio_test
async def test_a_block_in_a_thread_holds_for_a_loop_that_the_thread_runs() -> None:
    recorder = Recorder()

    def sleep() -> None:
        from_thread.run(under_thread_deadlines(recorder.sleep))

    def work() -> None:
        with deadline(0.01, name="in the thread"):
            anyio.run(anyio.to_thread.run_sync, sleep)

    with pytest.raises(DeadlineExceededError, match="in the thread"):
        await anyio.to_thread.run_sync(work)


@anyio_test
async def test_the_deadline_of_the_caller_holds_for_the_thread() -> None:
    recorder = Recorder()

    def work() -> None:
        from_thread.run(under_thread_deadlines(recorder.sleep))

    with pytest.raises(DeadlineExceededError):
        async with deadline(0.05):
            await anyio.to_thread.run_sync(work)
    assert recorder.events in (["began", "ended"], [])


def test_a_thread_without_an_event_loop_has_a_clock_of_its_own() -> None:
    recorder = Recorder()
    jumping = {"clock": MockClock(autojump_threshold=0)}  # so that no machine is too busy to begin in time
    with (
        start_blocking_portal("trio", backend_options=jumping) as portal,
        pytest.raises(DeadlineExceededError, match="a script exceeded its deadline"),
        deadline(500, name="a script"),
    ):
        portal.call(under_thread_deadlines(recorder.sleep))
    assert recorder.events == ["began", "ended"]
    with pytest.raises(DeadlineExceededError), deadline(0) as limit:
        limit.check()


def test_a_decorated_synchronous_function_has_the_whole_time_in_every_call() -> None:
    @deadline(1_000)
    def answer() -> str:
        return "answer"

    @deadline(0)
    def late() -> str:
        return "answer"

    assert [answer(), answer()] == ["answer", "answer"]
    with pytest.raises(DeadlineExceededError, match="late"):
        late()


@anyio_test
async def test_a_portal_that_the_loop_stands_still_for_gets_the_rest_of_the_time() -> None:
    recorder = Recorder()
    with start_blocking_portal("asyncio") as portal, anyio.move_on_after(0.01):
        with pytest.raises(DeadlineExceededError, match="blocks its event loop"):
            portal.call(under_thread_deadlines(recorder.sleep))
        await checkpoint()
    assert recorder.events == ["began", "ended"]


@anyio_test
async def test_without_any_limit_nothing_is_wrapped() -> None:
    recorder = Recorder()
    assert under_thread_deadlines(recorder.sleep) == recorder.sleep


@anyio_test
async def test_synchronous_functions_in_a_map_may_have_deadlines() -> None:
    recorder = Recorder()

    @deadline(0.01)
    def work(number: int) -> None:
        from_thread.run(under_thread_deadlines(recorder.sleep))

    settled = await parallel.settle(work, range(3))
    assert [type(error) for error in settled.errors()] == [DeadlineExceededError] * 3


@anyio_test
async def test_what_a_thread_begins_on_the_loop_after_its_caller_was_cancelled_is_cancelled() -> None:
    is_cancelled = threading.Event()

    def come_late() -> None:
        is_cancelled.wait(240)
        from_thread.run(under_thread_deadlines(Recorder().sleep))

    with anyio.fail_after(240):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, come_late)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                for _ in range(10):  # until nobody delivers the cancellation any more
                    await checkpoint()
            is_cancelled.set()
    assert tasks.cancel_scope.cancelled_caught

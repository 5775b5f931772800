"""`map`: results in the order of the items, and the first failure."""

import signal
import threading
from collections.abc import AsyncGenerator

import anyio
import anyio.to_thread
import pytest
from anyio import from_thread
from anyio.lowlevel import checkpoint

from nighthawk_async import parallel
from nighthawk_async.parallel import CallCancelledError, DeadlineExceededError

pytestmark = pytest.mark.anyio


@pytest.mark.virtual_time
async def test_results_are_in_the_order_of_the_items() -> None:
    async def wait(seconds: int) -> int:
        await anyio.sleep(seconds)
        return seconds

    assert await parallel.map(wait, [3, 1, 2]) == [3, 1, 2]


@pytest.mark.virtual_time
async def test_the_first_failure_cancels_the_rest_and_arrives_bare() -> None:
    events: list[str] = []

    async def call(number: int) -> None:
        try:
            await anyio.sleep(number)
            raise ValueError(number)
        except anyio.get_cancelled_exc_class():
            events.append(f"{number} cancelled")
            raise

    began = anyio.current_time()
    with pytest.raises(ValueError, match="1") as caught:
        await parallel.map(call, [3, 1, 2])
    assert anyio.current_time() - began == pytest.approx(1)
    assert sorted(events) == ["2 cancelled", "3 cancelled"]
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


@pytest.mark.virtual_time
async def test_after_a_failure_no_call_begins() -> None:
    begun: list[int] = []

    async def call(number: int) -> None:
        begun.append(number)
        await anyio.sleep(1)
        if number == 1:
            raise ValueError(number)

    with pytest.raises(ValueError, match="1"):
        await parallel.map(call, range(100), max_concurrent=2)
    assert len(begun) <= 3


async def test_a_call_that_has_not_begun_when_another_fails_never_begins() -> None:
    events: list[str] = []

    async def call(number: int) -> None:
        events.append("begun")
        await checkpoint()
        events.append("failed")
        raise ValueError(number)

    with pytest.raises((ValueError, ExceptionGroup)):
        await parallel.map(call, range(5))
    assert "begun" not in events[events.index("failed") :]


async def test_several_failures_arrive_in_a_group_in_the_order_in_which_they_happened() -> None:
    second_has_failed = anyio.Event()

    async def call(number: int) -> None:
        if number == 2:
            second_has_failed.set()
            raise ValueError(2)
        with anyio.CancelScope(shield=True):
            await second_has_failed.wait()
        raise ValueError(number)

    with pytest.raises(ExceptionGroup, match=r"2 calls of parallel\.map failed") as caught:
        await parallel.map(call, [1, 2])
    assert [error.args for error in caught.value.exceptions] == [(2,), (1,)]


async def test_one_error_raised_by_several_calls_arrives_bare() -> None:
    error = ValueError("the same")
    everybody_is_there = anyio.Event()

    async def call(number: int) -> None:
        if number == 2:
            everybody_is_there.set()
        with anyio.CancelScope(shield=True):
            await everybody_is_there.wait()
        raise error

    with pytest.raises(ValueError, match="the same") as caught:
        await parallel.map(call, range(3))
    assert caught.value is error


async def test_an_exit_goes_before_failures() -> None:
    failed = anyio.Event()

    async def call(number: int) -> None:
        if number == 1:
            failed.set()
            raise ValueError(number)
        with anyio.CancelScope(shield=True):
            await failed.wait()
        raise SystemExit(3)

    with pytest.raises(SystemExit) as caught:
        await parallel.map(call, range(2))
    assert caught.value.code == 3


async def test_a_group_that_a_call_raises_stays_as_it_is() -> None:
    group = ExceptionGroup("own", [ValueError(1), ValueError(2)])

    async def call(number: int) -> None:
        raise group

    with pytest.raises(ExceptionGroup, match="own") as caught:
        await parallel.map(call, [1])
    assert caught.value is group


async def test_what_the_items_raise_while_a_failure_closes_them_is_dropped() -> None:
    async def items() -> AsyncGenerator[int, None]:
        try:
            yield 0
            await anyio.sleep_forever()
        finally:
            raise LookupError("closed badly")

    async def call(number: int) -> None:
        await anyio.wait_all_tasks_blocked()
        raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        await parallel.map(call, items())


async def test_what_the_items_raise_while_the_caller_is_cancelled_is_kept() -> None:
    async def items() -> AsyncGenerator[int, None]:
        try:
            yield 0
            await anyio.sleep_forever()
        finally:
            raise LookupError("closed badly")

    async def call(number: int) -> None:
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
        await anyio.sleep_forever()

    with anyio.CancelScope() as scope, pytest.raises(LookupError, match="closed badly"):
        await parallel.map(call, items())


async def test_errors_of_a_cancelled_call_are_kept_apart_from_its_cancellation() -> None:
    """On Trio a task group inside the call raises both in one group."""

    async def fail_in_cleanup() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise LookupError("cleanup")

    async def call(number: int) -> None:
        if number == 0:
            await anyio.wait_all_tasks_blocked()
            raise ValueError("first")
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(fail_in_cleanup)
            task_group.start_soon(anyio.sleep_forever)

    with pytest.raises(ExceptionGroup) as caught:
        await parallel.map(call, [0, 1])
    first, second = caught.value.exceptions
    assert isinstance(first, ValueError)
    assert isinstance(second, ExceptionGroup)
    assert [str(error) for error in second.exceptions] == ["cleanup"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_call_that_somebody_else_cancelled_is_a_failure() -> None:
    import asyncio

    async def wait_for_cancelled(number: int) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    with pytest.raises(CallCancelledError, match="other than its owner"):
        await parallel.map(wait_for_cancelled, [1])
    outcomes = (await parallel.settle(wait_for_cancelled, [1, 2])).errors()
    assert [type(error) for error in outcomes] == [CallCancelledError, CallCancelledError]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_that_somebody_else_cancelled_makes_no_other_call() -> None:
    import asyncio

    async def call(number: int) -> int:
        task = asyncio.current_task()
        assert task is not None
        if number == 1:
            task.cancel()
        await checkpoint()
        return task.cancelling()  # the count of requests to cancel stays with a task of asyncio

    for most in (1, 3, None):
        settled = await parallel.settle(call, range(4), max_concurrent=most)
        assert settled.values() == [0, 0, 0]
        assert [type(error) for error in settled.errors()] == [CallCancelledError]


@pytest.mark.virtual_time
async def test_the_deadline_bounds_everything_together() -> None:
    cancelled: list[int] = []

    async def call(number: int) -> None:
        try:
            await anyio.sleep(2)
        except anyio.get_cancelled_exc_class():
            cancelled.append(number)
            raise

    with pytest.raises(
        DeadlineExceededError, match=r"parallel\.map exceeded its deadline of 3 seconds"
    ) as caught:
        await parallel.map(call, range(4), max_concurrent=1, deadline=3)
    assert cancelled == [1]
    assert caught.value.seconds == 3
    assert isinstance(caught.value, TimeoutError)
    assert await parallel.map(call, range(2), deadline=3) == [None, None]


async def test_as_many_threads_run_at_once_as_allowed_even_more_than_anyio_would_allow() -> None:
    count = 45
    barrier = threading.Barrier(count, timeout=240)

    def meet(number: int) -> int:
        barrier.wait()
        return number

    assert await parallel.map(meet, range(count), max_concurrent=count) == list(range(count))


async def test_threads_that_wait_for_calls_in_threads_do_not_wait_forever() -> None:
    def inner(number: int) -> int:
        return number

    def outer(number: int) -> list[int]:
        return from_thread.run(parallel.map, inner, [number, number + 1])

    limiter = anyio.to_thread.current_default_thread_limiter()
    limiter.total_tokens = 1
    assert await parallel.map(outer, range(3)) == [[0, 1], [1, 2], [2, 3]]


async def test_what_a_thread_does_on_the_event_loop_is_cancelled_with_the_call() -> None:
    events: list[str] = []
    thread_is_there = anyio.Event()

    async def on_the_loop() -> None:
        thread_is_there.set()
        try:
            await anyio.sleep_forever()
        finally:
            events.append("cancelled")

    def wait_in_thread() -> None:
        from_thread.run(on_the_loop)

    async def call(number: int) -> None:
        if number == 1:
            await parallel.call_any(wait_in_thread)
        await thread_is_there.wait()
        raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        await parallel.map(call, [0, 1])
    assert events == ["cancelled"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_interrupt_cancels_the_calls_and_arrives_bare(backend: str) -> None:
    cancelled: list[int] = []

    async def call(number: int) -> None:
        try:
            if number == 1:
                await anyio.wait_all_tasks_blocked()
                signal.raise_signal(signal.SIGINT)
            await anyio.sleep_forever()
        finally:
            cancelled.append(number)

    async def main() -> None:
        await parallel.map(call, range(2))

    options = {"restrict_keyboard_interrupt_to_checkpoints": True} if backend == "trio" else {}
    with pytest.raises(KeyboardInterrupt):
        anyio.run(main, backend=backend, backend_options=options)
    assert sorted(cancelled) == [0, 1]

"""No other call begins for whoever was asked to end, or is out of time."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from itertools import count
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.parallel import raise_if_cancel_requested
from nighthawk_async.resilience import (
    RateLimit,
    Retrying,
    circuit_breaker,
    ensemble,
    fallback,
    rate_limit,
    retrying,
    vote,
)
from nighthawk_async.testing import pass_response
from tests.unit.resilience.ensemble_support import ModelsExecutor
from tests.unit.resilience.resilience_support import Script, wait_for_waiting

anyio_test = pytest.mark.anyio

Make = Callable[[Callable[[], Any]], Callable[[], Any]]

CALLING_AGAIN: dict[str, Make] = {
    "retrying": retrying(on=Exception, wait=0),
    "retrying with a wait": retrying(on=Exception, wait=0.001),
    "fallback to a default": fallback(on=Exception, default="default"),
}
AT_ONCE: dict[str, Make] = {
    "vote": vote(count=2),
    "vote of few": vote(count=2, min_success=1),
    "ensemble": ensemble(models={"test:a": 1, "test:b": 1}, allow_fail=1),
}


class Work:
    """Goes on until its task is asked to end, and then raises."""

    def __init__(self, end: Callable[[], None], *, calls: int = 1) -> None:
        self._end = end
        self._awaited = calls
        self.calls = 0
        self.begun = anyio.Event()

    async def do(self) -> str:
        self.calls += 1
        if self.calls == self._awaited:
            self.begun.set()
        while not nh.parallel.cancel_requested():
            await checkpoint()
        self._end()
        return "done"

    def do_here(self) -> str:
        return anyio.from_thread.run(self.do)


def on_other_thread(function: Callable[[], Any]) -> object:
    """Call a function in the context of the caller, on a thread that no event loop knows."""
    call = partial(copy_context().run, function)
    with ThreadPoolExecutor() as threads:
        return threads.submit(call).result()


def fail() -> None:
    raise nh.ExecutionError("failed")


async def asked_to_end(function: Callable[[], Any], begun: anyio.Event) -> str:
    """How a task ends that is asked to when it has begun."""
    async with nh.run(ModelsExecutor(lambda model, call: pass_response())), nh.open_tasks() as tasks:
        handle = tasks.start(function)
        await begun.wait()
        return await handle.cancel_gracefully(60)


@anyio_test
@pytest.mark.parametrize("name", [*CALLING_AGAIN, *AT_ONCE])
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_the_end_of_a_task_that_was_asked_to_is_no_failure_to_make_up_for(
    name: str, is_async: bool
) -> None:
    work = Work(raise_if_cancel_requested, calls=2 if name in AT_ONCE else 1)
    make = {**CALLING_AGAIN, **AT_ONCE}[name]
    assert await asked_to_end(make(work.do if is_async else work.do_here), work.begun) == "cancelled"
    assert work.calls == (2 if name in AT_ONCE else 1)


@anyio_test
@pytest.mark.parametrize("name", CALLING_AGAIN)
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_a_failure_leads_to_no_other_call_when_the_task_was_asked_to_end(
    name: str, is_async: bool
) -> None:
    work = Work(fail)
    function = CALLING_AGAIN[name](work.do if is_async else work.do_here)
    assert await asked_to_end(function, work.begun) == "cancelled"
    assert work.calls == 1


@anyio_test
async def test_another_function_is_not_called_when_the_task_was_asked_to_end() -> None:
    work, other = Work(fail), Script("other")
    assert await asked_to_end(fallback(work.do, other.call_async), work.begun) == "cancelled"
    assert other.calls == 0


def attempts_here(script: Script, waits: Retrying) -> object:
    for attempt in waits:
        with attempt:
            return script.call()
    raise AssertionError("a last attempt raises")


@anyio_test
@pytest.mark.parametrize("kind", ["async", "sync", "loop", "other thread"])
async def test_a_task_that_is_asked_to_end_does_not_wait_for_its_next_attempt(kind: str) -> None:
    script, waiting = Script(nh.ExecutionError("failed")), threading.Event()
    waits = retrying(wait=3_600, on_retry=lambda retry: waiting.set())
    functions: dict[str, Callable[[], Any]] = {
        "async": waits(script.call_async),
        "sync": partial(anyio.to_thread.run_sync, waits(script.call)),
        "loop": partial(anyio.to_thread.run_sync, partial(attempts_here, script, waits)),
        "other thread": partial(anyio.to_thread.run_sync, on_other_thread, waits(script.call)),
    }
    with anyio.fail_after(240):
        async with nh.open_tasks() as tasks:
            handle = tasks.start(functions[kind])
            await anyio.to_thread.run_sync(waiting.wait)
            assert await handle.cancel_gracefully(3_600) == "cancelled"
    assert script.calls == 1


async def ask_one_of_two_to_end(kind: str, limit: RateLimit, script: Script) -> int:
    """Two calls wait, the first is asked to end; tells how many wait then."""
    functions: dict[str, Callable[[], Any]] = {
        "async": limit(script.call_async),
        "sync": partial(anyio.to_thread.run_sync, limit(script.call)),
        "other thread": partial(anyio.to_thread.run_sync, on_other_thread, limit(script.call)),
    }
    async with nh.open_tasks() as tasks:
        handles: list[nh.parallel.TaskHandle[Any]] = []
        for waiting in (1, 2):
            handles.append(tasks.start(functions[kind]))
            await wait_for_waiting(limit, waiting)
        assert await handles[0].cancel_gracefully(3_600) == "cancelled"
        waiting = limit.statistics().waiting
        assert await handles[1].cancel_gracefully(3_600) == "cancelled"
    return waiting


@anyio_test
@pytest.mark.parametrize("kind", ["async", "sync", "other thread"])
async def test_a_task_that_is_asked_to_end_does_not_wait_for_its_turn(kind: str) -> None:
    limit, script = rate_limit(per_minute=1), Script("done")
    await limit(script.call_async)()
    with anyio.fail_after(240):
        assert await ask_one_of_two_to_end(kind, limit, script) == 1
    assert (script.calls, limit.statistics().waiting) == (1, 0)


@anyio_test
async def test_a_task_that_was_asked_to_end_takes_its_turn_when_it_need_not_wait() -> None:
    limit, script, begun = rate_limit(per_minute=1), Script("done"), anyio.Event()

    async def work() -> None:
        begun.set()
        while not nh.parallel.cancel_requested():
            await checkpoint()
        await limit(script.call_async)()
        await limit(script.call_async)()

    with anyio.fail_after(240):
        assert await asked_to_end(work, begun) == "cancelled"
    assert script.calls == 1


@anyio_test
@pytest.mark.parametrize("is_asked_before", [False, True], ids=["meanwhile", "before"])
@pytest.mark.parametrize("name", ["vote", "ensemble"])
async def test_calls_that_wait_for_a_thread_do_not_begin_when_the_task_is_asked_to_end_meanwhile(
    name: str, is_asked_before: bool
) -> None:
    numbers, full, go_on = count(1), threading.Event(), threading.Event()

    def call() -> str:
        if next(numbers) == 40:  # so many threads there are
            full.set()
        assert go_on.wait(240)
        return "done"

    make: dict[str, Make] = {
        "vote": vote(count=45, decide=len),
        "ensemble": ensemble(models={"test:a": 45}, reconcile=len),
    }

    begun = anyio.Event()

    async def work() -> object:
        begun.set()
        while is_asked_before and not nh.parallel.cancel_requested():
            await checkpoint()
        return await anyio.to_thread.run_sync(make[name](call))

    async with nh.run(ModelsExecutor(lambda model, call: pass_response())), nh.open_tasks() as tasks:
        handle = tasks.start(work)
        async with anyio.create_task_group() as others:
            await begun.wait()  # a task that is asked to end before it begins never does
            if not is_asked_before:
                await anyio.to_thread.run_sync(full.wait)
            others.start_soon(handle.cancel_gracefully, 3_600)
            await anyio.wait_all_tasks_blocked()
            await anyio.to_thread.run_sync(full.wait)
            go_on.set()
        assert handle.status == ("completed" if is_asked_before else "cancelled")
    assert next(numbers) - 1 == (45 if is_asked_before else 40)


@anyio_test
async def test_what_ends_the_attempts_comes_from_the_last_error() -> None:
    ended: list[BaseException | None] = []
    work = Work(fail)

    async def watched() -> None:
        try:
            await retrying(work.do)()
        except nh.parallel.TaskCancelledError as error:
            ended.append(error.__cause__)

    await asked_to_end(watched, work.begun)
    assert [str(error) for error in ended] == ["failed"]


@anyio_test
async def test_a_circuit_does_not_count_a_task_that_was_asked_to_end() -> None:
    work, breaker = Work(raise_if_cancel_requested), circuit_breaker(fail_threshold=1)
    await asked_to_end(breaker(work.do), work.begun)
    assert (breaker.state, breaker.statistics().failed) == ("closed", 0)


@anyio_test
async def test_the_end_of_another_task_is_an_error_like_any_other() -> None:
    calls = 0

    async def await_cancelled_task() -> str | None:
        nonlocal calls
        calls += 1
        if calls == 2:
            return "done"
        async with nh.open_tasks() as tasks:
            handle = tasks.start(anyio.sleep_forever)
            handle.cancel()
            return await handle

    assert await retrying(await_cancelled_task, on=nh.parallel.TaskCancelledError, wait=0)() == "done"


# Out of time, in a thread.


def late_calls(make: Make, script: Script) -> None:
    with nh.deadline(0):
        make(script.call)()


@pytest.mark.parametrize("name", CALLING_AGAIN)
def test_a_function_is_not_called_again_after_the_deadline_of_its_thread(name: str) -> None:
    script = Script(nh.ExecutionError("failed"))
    with pytest.raises(nh.parallel.DeadlineExceededError):
        late_calls(CALLING_AGAIN[name], script)
    assert script.calls == 1


@anyio_test
@pytest.mark.parametrize("name", CALLING_AGAIN)
async def test_a_function_is_not_called_again_after_the_deadline_of_its_worker_thread(name: str) -> None:
    script = Script(nh.ExecutionError("failed"))
    with pytest.raises(nh.parallel.DeadlineExceededError):
        await anyio.to_thread.run_sync(late_calls, CALLING_AGAIN[name], script)
    assert script.calls == 1


@anyio_test
async def test_another_function_is_not_called_after_the_deadline_of_its_worker_thread() -> None:
    script, other = Script(nh.ExecutionError("failed")), Script("other")
    with pytest.raises(nh.parallel.DeadlineExceededError):
        await anyio.to_thread.run_sync(late_calls, fallback(to=other.call), script)
    assert (script.calls, other.calls) == (1, 0)


@anyio_test
async def test_a_loop_of_attempts_ends_with_the_deadline_of_its_worker_thread() -> None:
    script = Script(nh.ExecutionError("failed"))

    def loop() -> None:
        with nh.deadline(0):
            for attempt in retrying(wait=0):
                with attempt:
                    script.call()

    with pytest.raises(nh.parallel.DeadlineExceededError):
        await anyio.to_thread.run_sync(loop)
    assert script.calls == 1


@anyio_test
async def test_a_circuit_does_not_count_what_fails_after_the_deadline_of_its_worker_thread() -> None:
    breaker = circuit_breaker(fail_threshold=1)
    with pytest.raises(nh.parallel.DeadlineExceededError):
        await anyio.to_thread.run_sync(late_calls, breaker, Script(OSError("late")))
    assert (breaker.state, breaker.statistics().failed) == ("closed", 0)


@anyio_test
async def test_a_deadline_inside_the_attempts_is_over_with_each() -> None:
    script = Script(nh.ExecutionError("failed"), "done")

    def late() -> object:
        with nh.deadline(0 if script.calls == 0 else 60):
            return script.call()

    assert (
        await anyio.to_thread.run_sync(retrying(late, on=nh.parallel.DeadlineExceededError, wait=0)) == "done"
    )


# Out of time, on an event loop that a call blocked, so that nothing was cancelled yet.


class LateScript(Script):
    """Fails when the deadline is over that it was given, and lets the event loop do nothing before."""

    def __init__(self) -> None:
        super().__init__(nh.ExecutionError("late"))
        self.deadline = nh.deadline(0.01)

    def call(self, value: object = None) -> object:
        while self.deadline.remaining_seconds > 0:
            time.sleep(0.001)
        return super().call(value)

    async def call_async(self, value: object = None) -> object:
        return self.call(value)


def block_until(instant: float) -> None:
    while anyio.current_time() < instant:
        time.sleep(0.001)


async def call_until_late(make: Make, script: LateScript, *, is_async: bool) -> None:
    async def call() -> None:
        with script.deadline:
            if is_async:
                await make(script.call_async)()
            else:
                make(script.call)()

    with pytest.raises(nh.parallel.DeadlineExceededError):
        await call()


@anyio_test
@pytest.mark.parametrize("name", CALLING_AGAIN)
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_a_function_is_not_called_again_after_a_deadline_on_the_event_loop(
    name: str, is_async: bool
) -> None:
    script = LateScript()
    await call_until_late(CALLING_AGAIN[name], script, is_async=is_async)
    assert script.calls == 1


@anyio_test
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_another_function_is_not_called_after_a_deadline_on_the_event_loop(is_async: bool) -> None:
    script, other = LateScript(), Script("other")
    alternative = other.call_async if is_async else other.call
    await call_until_late(fallback(to=alternative), script, is_async=is_async)
    assert (script.calls, other.calls) == (1, 0)


@anyio_test
async def test_a_scope_that_is_over_ends_the_calls_like_a_deadline() -> None:
    other = Script("other")

    async def fail_late() -> None:
        block_until(scope.deadline)
        fail()

    with anyio.move_on_after(0.01) as scope:
        await fallback(fail_late, other.call_async)()
    assert scope.cancelled_caught
    assert other.calls == 0


@anyio_test
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_a_circuit_does_not_count_what_fails_after_a_deadline_on_the_event_loop(is_async: bool) -> None:
    breaker = circuit_breaker(fail_threshold=1)
    await call_until_late(breaker, LateScript(), is_async=is_async)
    assert (breaker.state, breaker.statistics().failed) == ("closed", 0)


@anyio_test
async def test_a_deadline_inside_the_attempts_on_the_event_loop_is_over_with_each() -> None:
    late, breaker = LateScript(), circuit_breaker(fail_threshold=2)

    async def work() -> str:
        if late.calls == 0:
            with late.deadline:
                await late.call_async()
        return "done"

    assert await retrying(breaker(work), on=nh.parallel.DeadlineExceededError, wait=0)() == "done"
    assert breaker.statistics().failed == 1

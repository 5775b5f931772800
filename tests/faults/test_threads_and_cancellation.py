"""A cancellation that comes before, while and after a worker thread hands something over to its event loop.

The threads wait for the cancellation, so nothing here depends on how fast the machine is.
"""

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio import from_thread
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async import parallel
from nighthawk_async.actors import Actor, open_actor
from nighthawk_async.parallel import under_thread_deadlines
from nighthawk_async.parallel.calling import call_any
from nighthawk_async.resilience import fallback, rate_limit, retrying, timeout, vote
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response

anyio_test = pytest.mark.anyio

PATIENCE_SECONDS = 240


class Threads:
    """Threads that go to their event loop at a chosen moment, and the scope that is cancelled."""

    def __init__(self, moment: str, work: Callable[[], object]) -> None:
        self._moment = moment
        self._work = work
        self.scope = anyio.CancelScope()
        self.is_cancelled = threading.Event()
        self.begun = threading.Event()
        self.is_sleeping = threading.Event()
        self.slept = 0
        self.interrupted = 0

    def call(self, *_: object) -> str:
        """What runs in a thread; without end, unless it is cancelled."""
        self.begun.set()
        if self._moment == "before":
            assert self.is_cancelled.wait(PATIENCE_SECONDS)
        self._work()
        return "done"

    async def sleep(self) -> None:
        """What runs on the event loop."""
        self.slept += 1
        self.is_sleeping.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            self.interrupted += 1
            raise

    async def cancel(self) -> None:
        """Cancel the scope, and let the threads go on when nobody delivers the cancellation any more."""
        with anyio.CancelScope(shield=True):
            if self._moment == "meanwhile":
                await anyio.to_thread.run_sync(self.is_sleeping.wait, PATIENCE_SECONDS)
            else:
                assert await anyio.to_thread.run_sync(self.begun.wait, PATIENCE_SECONDS)
            self.scope.cancel()
            for _ in range(20):
                await checkpoint()
            self.is_cancelled.set()


def plainly(threads: Threads) -> None:
    from_thread.run(threads.sleep)


def under_deadlines(threads: Threads) -> None:
    from_thread.run(under_thread_deadlines(threads.sleep))


def twice(threads: Threads) -> None:
    try:
        from_thread.run(threads.sleep)
    finally:
        from_thread.run(threads.sleep)


async def in_an_actor(function: Callable[[Any], object]) -> None:
    async with open_actor(Actor) as actor:
        await actor.ask(function)


async def in_a_task(function: Callable[[], object]) -> None:
    async with nh.open_tasks() as tasks:
        await tasks.start(function)


CALLERS: dict[str, Callable[[Callable[..., Any]], Awaitable[object]]] = {
    "call_any": call_any,
    "map": lambda function: parallel.map(function, range(3)),
    "race": lambda function: parallel.race(function, range(3)),
    "actor": in_an_actor,
    "task": in_a_task,
    "blocking": lambda function: parallel.gather(nh.blocking(function)()),
    "vote": lambda function: call_any(vote(function)),
    "retrying": lambda function: call_any(retrying(function)),
    "fallback": lambda function: call_any(fallback(function, function)),
    "rate limit": lambda function: call_any(rate_limit(per_minute=60)(function)),
    "map in map": lambda function: parallel.map(lambda _: parallel.map(function, range(2)), range(2)),
}


@anyio_test
@pytest.mark.parametrize("way", [plainly, under_deadlines, twice])
@pytest.mark.parametrize("moment", ["before", "meanwhile"])
@pytest.mark.parametrize("caller", CALLERS)
async def test_what_a_thread_begins_on_its_loop_is_cancelled_with_the_caller(
    caller: str, moment: str, way: Callable[[Threads], None]
) -> None:
    threads = Threads(moment, lambda: way(threads))
    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(threads.cancel)
            with threads.scope:
                await CALLERS[caller](threads.call)
    assert threads.scope.cancelled_caught
    assert threads.slept == threads.interrupted


@anyio_test
@pytest.mark.parametrize("status", ["completed", "failed"])
async def test_what_a_thread_returns_or_raises_after_the_cancellation_counts(status: str) -> None:
    def work() -> None:
        if status == "failed":
            raise LookupError("failed")

    threads = Threads("before", work)
    handles: list[nh.parallel.TaskHandle[str]] = []

    async def start() -> None:
        async with nh.open_tasks() as tasks:
            handles.append(tasks.start(threads.call))
            await handles[0]

    async with anyio.create_task_group() as others:
        others.start_soon(threads.cancel)
        try:
            with threads.scope:
                await start()
        except LookupError:
            assert status == "failed"
    assert handles[0].status == status


@anyio_test
@pytest.mark.parametrize("caller", ["call_any", "map", "actor", "task", "blocking", "vote"])
async def test_a_function_whose_thread_has_not_begun_is_not_called(
    caller: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = Threads("after", lambda: from_thread.run(checkpoint))
    called: list[str] = []
    check_cancelled = from_thread.check_cancelled

    def check_late() -> None:
        threads.begun.set()
        assert threads.is_cancelled.wait(PATIENCE_SECONDS)
        check_cancelled()

    monkeypatch.setattr(from_thread, "check_cancelled", check_late)
    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(threads.cancel)
            with threads.scope:
                await CALLERS[caller](lambda *_: called.append("called"))
    assert threads.scope.cancelled_caught
    assert called == []


@nh.natural_function
def think(question: str) -> str:
    answer: str
    """natural
    Set <:answer> to the answer to <question>.
    """
    return answer


@anyio_test
@pytest.mark.parametrize("abandon_on_cancel", [False, True])
@pytest.mark.parametrize("moment", ["before", "meanwhile"])
async def test_a_step_that_a_thread_begins_is_cancelled_or_never_begins(
    moment: str, abandon_on_cancel: bool, anyio_backend_name: str
) -> None:
    if abandon_on_cancel and moment == "meanwhile" and anyio_backend_name == "trio":
        pytest.skip("Trio makes what an abandoned thread has begun a task of its own")
    threads = Threads(moment, lambda: think("Why?"))

    async def answer(call: StepCall) -> StepResponse:
        await threads.sleep()
        return pass_response()

    ended = threading.Event()

    def call() -> None:
        try:
            threads.call()
        finally:
            ended.set()

    run_in_thread = partial(anyio.to_thread.run_sync, call, abandon_on_cancel=abandon_on_cancel)
    with anyio.fail_after(PATIENCE_SECONDS):
        async with nh.run(CallbackExecutor(answer)), anyio.create_task_group() as tasks:
            tasks.start_soon(threads.cancel)
            with threads.scope:
                await run_in_thread()
            with anyio.CancelScope(shield=True):
                assert await anyio.to_thread.run_sync(ended.wait, PATIENCE_SECONDS)
    assert threads.scope.cancelled_caught
    assert (threads.slept, threads.interrupted) == ((0, 0) if moment == "before" else (1, 1))


def held_back(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Hold whatever threads hand over to event loops back until it is too late; says when it has come."""
    has_come, may_go_on = threading.Event(), threading.Event()
    run = from_thread.run

    def run_late(*args: Any, **kwargs: Any) -> Any:
        has_come.set()
        assert may_go_on.wait(PATIENCE_SECONDS)
        return run(*args, **kwargs)

    monkeypatch.setattr(from_thread, "run", run_late)
    return has_come, may_go_on


@anyio_test
async def test_a_step_that_is_handed_over_while_the_caller_is_cancelled_never_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[StepCall] = []

    def answer(call: StepCall) -> StepResponse:
        calls.append(call)
        return pass_response(answer="So.")

    has_come, may_go_on = held_back(monkeypatch)
    with anyio.fail_after(PATIENCE_SECONDS):
        async with nh.run(CallbackExecutor(answer)), anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:

                async def cancel() -> None:
                    with anyio.CancelScope(shield=True):
                        assert await anyio.to_thread.run_sync(has_come.wait, PATIENCE_SECONDS)
                        scope.cancel()
                        for _ in range(20):
                            await checkpoint()
                        may_go_on.set()

                tasks.start_soon(cancel)
                await anyio.to_thread.run_sync(think, "Why?")
    assert scope.cancelled_caught
    assert calls == []


@anyio_test
async def test_the_time_between_the_hand_over_and_the_beginning_on_the_loop_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds: list[float] = []
    move_on_after = anyio.move_on_after

    def note(delay: float, shield: bool = False) -> anyio.CancelScope:
        seconds.append(delay)
        return move_on_after(delay, shield)

    def hand_over() -> Callable[[], Awaitable[None]]:
        with nh.deadline(1_000):
            return under_thread_deadlines(checkpoint)

    here = await anyio.to_thread.run_sync(hand_over)
    with ThreadPoolExecutor() as others:  # of no event loop, so that the clock is another
        elsewhere = await anyio.to_thread.run_sync(others.submit(hand_over).result)
    await anyio.sleep(0.05)
    monkeypatch.setattr(anyio, "move_on_after", note)
    await here()
    await elsewhere()
    assert len(seconds) == 2
    assert max(seconds) <= 1_000 - 0.05


def test_a_deadline_reaches_threads_that_come_to_the_loop_after_it() -> None:
    slept: list[str] = []

    async def sleep() -> None:
        slept.append("slept")
        await anyio.sleep_forever()

    def come_late() -> None:
        threading.Event().wait(0.1)  # the deadline is over by then
        from_thread.run(sleep)

    for enter in (lambda: nh.run(CallbackExecutor(lambda call: pass_response())), threading.Lock):
        with enter(), pytest.raises(nh.parallel.DeadlineExceededError):
            timeout(vote(come_late), 0.01)()

"""The watch over event loops: it sees what blocks, says where, and leaves the rest alone."""

import gc
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import anyio
import anyio.lowlevel
import pytest
import trio

from .event_loop import EventLoopWatch, TrioSteps, seconds_in_run_queue, watching_asyncio

BOUND_SECONDS = 0.2
PATIENCE_SECONDS = 240


@pytest.fixture
def watch():
    watch = EventLoopWatch(bound_seconds=BOUND_SECONDS, interval_seconds=0.01)
    watch.start()
    yield watch
    watch.stop()


def run_watched(watch: EventLoopWatch, backend: str, function: Callable[[], object]) -> list[str]:
    """Run a function in one step of an event loop that is watched, and return the reports."""

    async def main() -> None:
        await anyio.lowlevel.checkpoint()
        function()

    is_trio = backend == "trio"
    watching: AbstractContextManager[None] = nullcontext() if is_trio else watching_asyncio(watch)
    with watching:
        anyio.run(
            main, backend=backend, backend_options={"instruments": [TrioSteps(watch)]} if is_trio else {}
        )
    return watch.take_reports()


def block_until_seen(watch: EventLoopWatch) -> None:
    """Hold the thread, idly, until the watchdog has looked at the step often enough."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not watch.sees_a_blocked_step() and time.monotonic() < deadline:
        threading.Event().wait(0.005)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_step_that_waits_without_awaiting_is_reported_with_its_stack(
    watch: EventLoopWatch, backend: str
) -> None:
    reports = run_watched(watch, backend, lambda: block_until_seen(watch))
    assert len(reports) == 1
    assert "block_until_seen" in reports[0]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_step_is_not_blamed_for_a_busy_machine(backend: str) -> None:
    looked = threading.Event()
    looks: list[float] = []

    def waiting_for_a_processor(native_id: int) -> float:
        looks.append(time.monotonic())
        if looks[-1] - looks[0] > 1.5 * BOUND_SECONDS:
            looked.set()
        return looks[-1] - looks[0]

    watch = EventLoopWatch(bound_seconds=BOUND_SECONDS, interval_seconds=0.01, queued=waiting_for_a_processor)
    watch.start()
    try:
        assert run_watched(watch, backend, lambda: looked.wait(PATIENCE_SECONDS)) == []
    finally:
        watch.stop()
    assert looked.is_set()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_the_time_in_the_run_queue_is_told_and_grows() -> None:
    before = seconds_in_run_queue(threading.get_native_id())
    time.sleep(0)
    assert 0 <= before <= seconds_in_run_queue(threading.get_native_id())
    assert seconds_in_run_queue(-1) == 0


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_step_that_computes_for_too_long_is_reported(watch: EventLoopWatch, backend: str) -> None:
    def compute() -> None:
        while time.thread_time() - began < 1.5 * BOUND_SECONDS:
            sum(range(1000))

    began = time.thread_time()
    assert len(run_watched(watch, backend, compute)) == 1


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(("is_collection", "reports"), [(True, 0), (False, 1)])
def test_a_step_is_not_blamed_for_garbage_collection(
    watch: EventLoopWatch, backend: str, is_collection: bool, reports: int
) -> None:
    def tell(phase: str) -> None:
        for callback in gc.callbacks if is_collection else ():
            callback(phase, {})

    def hold_the_interpreter() -> None:
        began = time.thread_time()
        tell("start")
        numbers = 10_000_000
        while time.thread_time() - began < 1.5 * BOUND_SECONDS:
            sum(range(numbers))  # one call that lets no other thread in, as a collection does
        tell("stop")

    assert len(run_watched(watch, backend, hold_the_interpreter)) == reports


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_step_that_is_short_is_not_reported(watch: EventLoopWatch, backend: str) -> None:
    assert run_watched(watch, backend, lambda: None) == []


def test_awaiting_for_long_is_not_blocking(watch: EventLoopWatch) -> None:
    async def main() -> None:
        await anyio.sleep(1.5 * BOUND_SECONDS)

    trio.run(main, instruments=[TrioSteps(watch)])
    with watching_asyncio(watch):
        anyio.run(main)
    assert watch.take_reports() == []

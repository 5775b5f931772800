"""Handles of event loops: what other threads call on them."""

from collections.abc import Callable

import anyio
import pytest

from nighthawk_async.parallel.event_loop import Clock, EventLoop, find_running_loop

pytestmark = pytest.mark.anyio


async def call_soon_from_thread(function: Callable[[], object]) -> list[object]:
    """What a function gives, or raises, that a worker thread calls soon on this loop."""
    loop, given, is_called = EventLoop(), list[object](), anyio.Event()

    def call() -> None:
        try:
            given.append(function())
        except RuntimeError as error:
            given.append(error)
        finally:
            is_called.set()

    await anyio.to_thread.run_sync(loop.call_soon, call)
    await is_called.wait()
    return given


async def test_what_a_thread_has_called_soon_finds_its_event_loop() -> None:
    token = find_running_loop()
    assert token is not None
    assert await call_soon_from_thread(find_running_loop) == [token]


async def test_what_a_thread_has_called_soon_can_read_the_clock() -> None:
    before = anyio.current_time()
    (of_anyio,) = await call_soon_from_thread(anyio.current_time)
    clock = Clock()
    (of_clock,) = await call_soon_from_thread(clock.now)
    assert before <= of_anyio <= of_clock <= anyio.current_time()

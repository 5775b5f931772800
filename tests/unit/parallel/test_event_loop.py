"""Handles of event loops: what other threads call on them."""

import sys
import threading
from collections.abc import Callable
from types import ModuleType

import anyio
import pytest

from nighthawk_async.parallel.event_loop import Clock, EventLoop, find_running_loop
from nighthawk_async.parallel.task_current import find_task

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


async def test_a_loop_that_another_thread_is_loading_does_not_run_here(
    anyio_backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module is in `sys.modules` from the beginning of its import, without what it has later."""
    other = {"trio": "asyncio", "asyncio": "trio.lowlevel"}[anyio_backend_name]
    own = find_task()
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, other, ModuleType(other))
        found = find_task()
    assert found is own
    assert found is not threading.current_thread()

"""Calls and events for an event loop, from any thread."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
from anyio.lowlevel import current_token

from ..parallel.clocks import find_running_loop


class LoopEvent:
    """An event of the event loop on which it is made."""

    __slots__ = ("_event", "_loop")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._loop = current_token().native_token

    async def wait(self) -> None:
        """Wait until it is set."""
        await self._event.wait()

    def set(self) -> None:
        """Set it, without waiting for the event loop to notice."""
        if is_running_here(self._loop):
            self._event.set()
            return
        with suppress(RuntimeError):  # the loop has ended, and whoever waited on it with it
            call_soon(self._loop, self._event.set)


def is_running_here(loop: object) -> bool:
    """Whether an event loop is the one that runs on the present thread.

    Args:
        loop: A Trio token or an asyncio loop.
    """
    running = find_running_loop()
    return running is not None and running.native_token is loop


def call_soon(loop: Any, call: Callable[[], object]) -> None:
    """Call something on an event loop. Does not wait for it, as AnyIO's own way would.

    Args:
        loop: A Trio token or an asyncio loop.
        call: What is called. What it raises may end the event loop.

    Raises:
        RuntimeError: The event loop has ended.
    """
    name = next(name for name in ("run_sync_soon", "call_soon_threadsafe") if hasattr(loop, name))
    getattr(loop, name)(call)

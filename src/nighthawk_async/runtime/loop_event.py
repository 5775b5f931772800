"""An event that is awaited on one event loop and set from any thread. Floor 3."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
from anyio.lowlevel import current_token

from ..parallel.clocks import is_loop_thread

__all__ = ["LoopEvent"]


class LoopEvent:
    """An event of the event loop on which it is made."""

    __slots__ = ("_event", "_loop")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._loop: Any = current_token().native_token

    async def wait(self) -> None:
        """Wait until it is set."""
        await self._event.wait()

    def set(self) -> None:
        """Set it, without waiting for the event loop to notice."""
        if is_loop_thread() and current_token().native_token is self._loop:
            self._event.set()
            return
        # A Trio token or an asyncio loop: AnyIO's own way would wait for the loop.
        names = ("run_sync_soon", "call_soon_threadsafe")
        call_soon: Callable[[Callable[[], object]], object] = next(
            getattr(self._loop, name) for name in names if hasattr(self._loop, name)
        )
        with suppress(RuntimeError):  # the loop has ended, and whoever waited on it with it
            call_soon(self._event.set)

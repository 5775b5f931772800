"""Turns of the event loop for a response that takes time to decode and to hand on.

A burst of bytes may hold thousands of events. Whoever decodes them all at once holds up every other task, and
no time limit and no cancellation reaches the request meanwhile.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter
from typing import TypeVar

import anyio
from anyio.lowlevel import checkpoint

__all__ = ["LoopTurns", "in_thread"]

_SECONDS_BETWEEN = 0.005
_SECONDS_OF_A_WAIT = 0.001

_Result = TypeVar("_Result")


class LoopTurns:
    """Knows when a response has kept the event loop for so long that other tasks are due a turn.

    Args:
        now: The clock, in seconds.
    """

    __slots__ = ("_due_at", "_now")

    def __init__(self, now: Callable[[], float] = perf_counter) -> None:
        self._now = now
        self._due_at = now() + _SECONDS_BETWEEN

    @property
    def is_due(self) -> bool:
        """Whether other tasks are due a turn."""
        return self._now() >= self._due_at

    async def give(self) -> None:
        """Let other tasks run, and whoever cancels this one."""
        await checkpoint()
        self._begin()

    async def wait_for(self, wait: Callable[[], Awaitable[_Result]]) -> _Result:
        """Wait for something, which gives a turn unless it is there already.

        Args:
            wait: Begins the wait.
        """
        since = self._now()
        result = await wait()
        if self._now() - since >= _SECONDS_OF_A_WAIT:  # decrypted bytes that were kept take no wait
            self._begin()
        return result

    def _begin(self) -> None:
        self._due_at = self._now() + _SECONDS_BETWEEN


async def in_thread(function: Callable[..., _Result], *arguments: object) -> _Result:
    """The result of a function that takes too long for the event loop, whose tasks run meanwhile.

    When the caller is cancelled, the function goes on and its result is lost. It waits for no other thread:
    those of the program may be busy for long.

    Args:
        function: The function; it must own what it changes.
        arguments: Its arguments.
    """
    return await anyio.to_thread.run_sync(
        partial(function, *arguments), abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
    )

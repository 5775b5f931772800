"""Measures for how long the event loop gives no turn to a task while something else goes on."""

import time
from collections.abc import Awaitable, Callable

import anyio

__all__ = ["longest_silence"]


async def longest_silence(act: Callable[[], Awaitable[object]]) -> float:
    """Return the longest time, in seconds, between two turns of a task beside an action.

    Args:
        act: The action.
    """
    longest = 0.0

    async def beat() -> None:
        nonlocal longest
        last = time.perf_counter()
        while True:
            await anyio.sleep(0.001)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    async with anyio.create_task_group() as group:
        group.start_soon(beat)
        await act()
        group.cancel_scope.cancel()
    return longest

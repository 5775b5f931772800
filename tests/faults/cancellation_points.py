"""Cancels a task at the n-th point at which it waits, on any event loop."""

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any

import anyio

__all__ = ["cancel_at"]


class _Counted:
    """Runs a coroutine, and calls a function each time it is about to wait, with the number of the wait."""

    def __init__(self, coroutine: Awaitable[object], on_wait: Callable[[int], None]) -> None:
        self._coroutine = coroutine
        self._on_wait = on_wait

    def __await__(self) -> Generator[Any, Any, None]:
        steps: Any = self._coroutine.__await__()
        resume: Callable[[], Any] = partial(next, steps)
        waits = 0
        while True:
            try:
                waited_for = resume()
            except StopIteration:
                return
            waits += 1
            self._on_wait(waits)
            try:
                resume = partial(steps.send, (yield waited_for))
            except BaseException as error:
                resume = partial(steps.throw, error)


async def cancel_at(wait: int, run: Callable[[], Awaitable[object]]) -> bool:
    """Run something and cancel it as it waits for the n-th time; returns whether it came that far.

    Args:
        wait: Which wait to cancel, from 1.
        run: Begins what is run.
    """
    is_reached = False

    def cancel(number: int) -> None:
        nonlocal is_reached
        if number == wait:
            is_reached = True
            scope.cancel()

    with anyio.CancelScope() as scope:
        await _Counted(run(), cancel)
    return is_reached

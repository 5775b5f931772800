"""A wait until the tasks of the event loop have done what they can do at once."""

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from anyio.lowlevel import checkpoint

_MOST_ROUNDS = 40
"""The rounds of the event loop after which a wait ends, where some tasks never rest."""

_ROUNDS_UNSEEN = 15
"""The rounds to wait on a loop that does not show whether tasks can run, such as that of uvloop."""


async def wait_settled() -> None:
    """Wait until no other task of the event loop can run, or for some rounds of the loop.

    Neither the clock of the loop nor that of the machine plays a part, so clocks that jump do not jump.
    """
    if _is_on_trio():
        await _wait_on_trio()
        return
    asyncio: Any = sys.modules["asyncio"]  # not imported here: it is loaded where it runs
    ready = getattr(asyncio.get_running_loop(), "_ready", None)
    for _ in range(_ROUNDS_UNSEEN if ready is None else _MOST_ROUNDS):
        await checkpoint()
        if ready is not None and not ready:  # tasks run in the order in which they became ready
            return


def _is_on_trio() -> bool:
    current_task: Any = getattr(sys.modules.get("trio.lowlevel"), "current_task", None)
    with suppress(RuntimeError):  # another loop runs on this thread
        return current_task is not None and current_task() is not None
    return False


async def _wait_on_trio() -> None:
    from trio import Event, lowlevel  # not trio.testing, which takes long to import

    settled = Event()
    wake = partial(lowlevel.current_trio_token().run_sync_soon, settled.set)
    rounds: Any = _Rounds(wake, lowlevel.current_statistics)
    lowlevel.add_instrument(rounds)
    try:
        await settled.wait()
    finally:
        lowlevel.remove_instrument(rounds)


class _Rounds:
    """An instrument of Trio that ends a wait when no task can run, or after some rounds of the loop.

    Args:
        end: Ends the wait, and wakes the loop, which is about to wait.
        statistics: Returns the statistics of the loop.
    """

    def __init__(self, end: Callable[[], object], statistics: Callable[[], Any]) -> None:
        self._end = end
        self._statistics = statistics
        self._left = _MOST_ROUNDS

    def before_io_wait(self, timeout: float) -> None:
        """Count a round. With a clock that jumps, the timeout is 0 also where nothing can run."""
        self._left -= 1
        if timeout > 0 or self._left == 0 or not self._statistics().tasks_runnable:
            self._end()

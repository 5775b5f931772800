"""The event loop on which something lives: its clock, and the way to it from other threads."""

import time
from collections.abc import Callable
from typing import TypeVarTuple

import anyio
from anyio import from_thread
from anyio.lowlevel import current_token

from ...errors import NighthawkError
from ...parallel.clocks import find_running_loop

__all__ = ["HomeLoop"]

Arguments = TypeVarTuple("Arguments")


class HomeLoop:
    """The event loop that is running where it is made.

    Raises:
        anyio.NoEventLoopError: No event loop is running.
    """

    __slots__ = ("_clock_offset", "_token")

    def __init__(self) -> None:
        self._token = current_token()
        self._clock_offset = anyio.current_time() - time.monotonic()

    def current_time(self) -> float:
        """Return `anyio.current_time` of this event loop, in seconds. Thread-safe."""
        if find_running_loop() == self._token:
            return anyio.current_time()
        return time.monotonic() + self._clock_offset

    def call(self, function: Callable[[*Arguments], None], *args: *Arguments) -> None:
        """Call a synchronous function on this event loop: at once there, and from a thread without a loop.

        Raises:
            anyio.RunFinishedError: The event loop has ended.
            NighthawkError: Another event loop is running in the present thread.
        """
        here = find_running_loop()
        if here == self._token:
            function(*args)
        elif here is None:
            from_thread.run_sync(function, *args, token=self._token)
        else:
            raise NighthawkError(
                "A request is answered on the event loop on which it was made, or from a thread without one; "
                "go through `anyio.to_thread.run_sync`."
            )

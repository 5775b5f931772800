"""One clock for all threads and event loops of the process. Floor 5.

A transformer may be shared by functions on several event loops and in threads. Event loops have clocks of
their own, which start anywhere, and in tests may jump; so the clock of an event loop is followed from the
moment it was first read, and brought in line with the clock of the machine, which threads read.
"""

import time

import anyio
from anyio.lowlevel import RunVar

from ..runtime.portals import is_loop_thread

__all__ = ["shared_time"]

_ahead: RunVar[float] = RunVar("nighthawk_async_resilience_clock")


def shared_time() -> float:
    """Seconds, for comparing with other results of this function."""
    if not is_loop_thread():
        return time.monotonic()
    now = anyio.current_time()
    ahead = _ahead.get(None)
    if ahead is None:
        ahead = time.monotonic() - now
        _ahead.set(ahead)
    return now + ahead

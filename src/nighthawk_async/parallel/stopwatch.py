"""A stopwatch for any event loop and any thread."""

import threading
import time

import anyio
from anyio.lowlevel import RunVar

from .clocks import is_loop_thread

__all__ = ["Stopwatch", "shared_time"]

_ahead: RunVar[float] = RunVar("nighthawk_async_stopwatch")


def shared_time() -> float:
    """Seconds, for comparing with other results of this function, from whatever thread or event loop.

    Event loops have clocks of their own, which start anywhere, and in tests may jump. So the clock of an
    event loop is followed from the moment it was first read, and brought in line with that of the machine.
    """
    if not is_loop_thread():
        return time.monotonic()
    now = anyio.current_time()
    ahead = _ahead.get(None)
    if ahead is None:
        ahead = time.monotonic() - now
        _ahead.set(ahead)
    return now + ahead


class Stopwatch:
    """Runs while anybody holds it started."""

    __slots__ = ("_elapsed", "_lock", "_started_at", "_users")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._started_at = 0.0
        self._elapsed = 0.0

    def __getstate__(self) -> float:
        """Return the elapsed time for copies and pickles. They are not started."""
        return self.elapsed_seconds

    def __setstate__(self, elapsed_seconds: float) -> None:
        self._elapsed = elapsed_seconds
        self._lock, self._users, self._started_at = threading.Lock(), 0, 0.0

    @property
    def elapsed_seconds(self) -> float:
        """For how long it has run, in seconds."""
        with self._lock:
            return self._elapsed + (self._since_start() if self._users else 0.0)

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._started_at = shared_time()
            self._users += 1

    def __exit__(self, *exc_details: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._elapsed += self._since_start()

    def _since_start(self) -> float:
        return max(shared_time() - self._started_at, 0.0)

"""Handles, events and clocks of an event loop, for any thread."""

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, TypeVarTuple

import anyio
from anyio import NoEventLoopError, from_thread
from anyio.lowlevel import EventLoopToken, RunVar, current_token

from ..pickling import PicklableError

Arguments = TypeVarTuple("Arguments")


class OtherLoopError(PicklableError, RuntimeError):
    """Another event loop is running in the current thread, and must not wait for this one."""


class EventLoop:
    """A handle of the event loop on which it is made; any thread may use it.

    Raises:
        anyio.NoEventLoopError: No event loop is running.
    """

    __slots__ = ("_token",)

    def __init__(self) -> None:
        self._token = current_token()

    @property
    def is_here(self) -> bool:
        """Whether it runs on the current thread."""
        return find_running_loop() == self._token

    def call(self, function: Callable[[*Arguments], None], *args: *Arguments) -> None:
        """Call a synchronous function on it: directly on its thread, or from a thread without an event loop.

        Raises:
            anyio.RunFinishedError: It has ended.
            OtherLoopError: Another event loop is running in the current thread.
        """
        if self.is_here:
            function(*args)
        elif is_loop_thread():
            raise OtherLoopError("another event loop is running in this thread")
        else:
            from_thread.run_sync(function, *args, token=self._token)

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call a synchronous function on it soon. Unlike AnyIO's own function, it does not wait.

        Args:
            function: The function. An exception from it may end the event loop.

        Raises:
            RuntimeError: It has ended.
        """
        loop: Any = self._token.native_token
        if hasattr(loop, "run_sync_soon"):  # Trio's
            loop.run_sync_soon(function)
        else:
            loop.call_soon_threadsafe(function, context=_context_on_asyncio())


def _context_on_asyncio() -> Context:
    """The context of the caller for a callback on asyncio.

    AnyIO marks the context of a worker thread as one without an event loop. A callback in it that read the
    clock would ask the loop's thread from the loop's thread, and wait for ever
    (`test_what_a_thread_has_called_soon_finds_its_event_loop`).
    """
    context = copy_context()
    if (sniffio := sys.modules.get("sniffio")) is not None:
        context.run(sniffio.current_async_library_cvar.set, "asyncio")
    return context


class LoopEvent:
    """An event of the event loop on which it is made; any thread may set it."""

    __slots__ = ("_event", "_loop", "_thread")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._loop = EventLoop()
        self._thread = threading.get_ident()

    async def wait(self) -> None:
        """Wait until it is set."""
        await self._event.wait()

    def set(self) -> None:
        """Set it, without waiting for the event loop to notice."""
        # In a thread without a loop, AnyIO makes an error of finding none, which takes long.
        if threading.get_ident() == self._thread and self._loop.is_here:
            self._event.set()
            return
        with suppress(RuntimeError):  # the loop and its waiting tasks have ended
            self._loop.call_soon(self._event.set)


def find_running_loop() -> EventLoopToken | None:
    """Return the token of the event loop that runs on the current thread; None when none does."""
    try:
        return current_token()
    except RuntimeError:  # NoEventLoopError, or AnyIO's error in a thread with the context of a loop
        return None


def is_loop_thread() -> bool:
    """Whether an event loop runs on the current thread."""
    return find_running_loop() is not None


def is_worker_thread() -> bool:
    """Whether the current thread works for an event loop in another thread, which waits for it.

    Raises:
        BaseException: The cancellation of the task that waits for it.
    """
    try:
        from_thread.check_cancelled()
    except NoEventLoopError:
        return False
    return True


class Clock:
    """The time, in seconds, of the event loop that the current thread runs or works for.

    A thread that belongs to no event loop has the clock of the machine.

    Attributes:
        is_of_loop_thread: Whether it was made on the thread of the event loop.
    """

    __slots__ = ("_loop", "is_of_loop_thread")

    def __init__(self) -> None:
        self.is_of_loop_thread = is_loop_thread()
        self._loop = _find_loop()

    @property
    def is_at_hand(self) -> bool:
        """Whether it can be read here without asking another thread."""
        return self._loop is None or find_running_loop() == self._loop

    def now(self) -> float:
        """Return the current time, from the thread of the event loop or from any other.

        Raises:
            RuntimeError: It was made on the thread of one event loop and is read in a thread of another. The
                first may be blocked until the other has ended, so reading could wait for ever.
            anyio.RunFinishedError: The event loop has ended.
        """
        if self._loop is None:
            return time.monotonic()
        if find_running_loop() == self._loop:
            return anyio.current_time()
        if self.is_of_loop_thread and _find_loop() not in (None, self._loop):
            raise RuntimeError("a deadline of one event loop cannot be read in a thread of another")
        return from_thread.run_sync(anyio.current_time, token=self._loop)


def _find_loop() -> EventLoopToken | None:
    """Return the event loop that the current thread runs, or works for; None for a thread without one."""
    running = find_running_loop()
    if running is not None:
        return running
    try:
        return from_thread.run_sync(current_token)
    except NoEventLoopError:
        return None


_ahead: RunVar[float] = RunVar("nighthawk_async_stopwatch")


def shared_time() -> float:
    """Return seconds that can be compared with other results of this function, from any thread or event loop.

    Event loops have clocks of their own, which start anywhere, and in tests may jump. So the clock of an
    event loop is followed from its first reading, and aligned with the clock of the machine.
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
    """A stopwatch that runs while at least one holder keeps it started."""

    __slots__ = ("_elapsed", "_lock", "_started_at", "_users")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._started_at = 0.0
        self._elapsed = 0.0

    def __getstate__(self) -> float:
        """Return the elapsed time for copies and pickles, which are not started."""
        return self.elapsed_seconds

    def __setstate__(self, elapsed_seconds: float) -> None:
        self._elapsed = elapsed_seconds
        self._lock, self._users, self._started_at = threading.Lock(), 0, 0.0

    @property
    def elapsed_seconds(self) -> float:
        """The time for which it has run, in seconds."""
        with self._lock:
            return self._elapsed + (self._since_start() if self._users else 0.0)

    def add(self, seconds: float) -> None:
        """Add time for which it did not run.

        Args:
            seconds: The number of seconds.
        """
        with self._lock:
            self._elapsed += seconds

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

"""A promise of the store's thread, which tasks and threads can wait for."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from ..parallel.event_loop import LoopEvent

Result = TypeVar("Result")


class Acknowledgement(Generic[Result]):
    """The result of a job of the store's thread: that records are durable, for example."""

    __slots__ = ("_error", "_is_done", "_lock", "_result", "_waiters")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_done = False
        self._result: Result | None = None
        self._error: Exception | None = None
        self._waiters: list[LoopEvent | threading.Event | _Callback] = []

    def succeed(self, result: Result) -> None:
        """Deliver the result."""
        self._result = result
        self._finish()

    def fail(self, error: Exception) -> None:
        """Deliver a failure."""
        self._error = error
        self._finish()

    async def wait(self) -> Result:
        """Wait for the result on an event loop; raises the failure that was delivered."""
        if not self._is_done and (waiter := self._add(LoopEvent())) is not None:
            await waiter.wait()
        return self._get()

    def wait_in_thread(self) -> Result:
        """Wait for the result, and block the thread meanwhile; raises the failure that was delivered."""
        if not self._is_done and (waiter := self._add(threading.Event())) is not None:
            waiter.wait()
        return self._get()

    @property
    def is_done(self) -> bool:
        """Whether there is a result or a failure."""
        return self._is_done

    def call_when_done(self, function: Callable[[Exception | None], object]) -> None:
        """Call a function with the failure, or with None, when there is one of them.

        Args:
            function: Called on the thread of the store, or here at once. It must not raise.
        """
        callback = _Callback(lambda: function(self._error))
        if self._add(callback) is None:
            callback.set()

    def _add(self, waiter: "Waiter") -> "Waiter | None":
        with self._lock:
            if self._is_done:
                return None
            self._waiters.append(waiter)
            return waiter

    def _finish(self) -> None:
        with self._lock:
            self._is_done = True
            waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.set()

    def _get(self) -> Result:
        if self._error is not None:
            raise self._error
        return cast("Result", self._result)


class _Callback:
    """A waiter that calls a function."""

    __slots__ = ("set",)

    def __init__(self, function: Callable[[], object]) -> None:
        self.set = function


Waiter = TypeVar("Waiter", LoopEvent, threading.Event, _Callback)

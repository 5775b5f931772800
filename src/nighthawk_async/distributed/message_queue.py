"""`MessageQueue`: messages from one event loop, or thread, to another."""

import threading
from collections import deque
from collections.abc import Iterable

from ..parallel.event_loop import LoopEvent

_MOST_BYTES = 1024 * 1024
"""The size from which on no more messages are taken together, in bytes."""


class MessageQueue:
    """Messages in order; put from any thread, and taken by one task at a time, on any event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: deque[bytes] = deque()
        self._waiters: list[LoopEvent | threading.Event] = []
        self._is_closed = False

    def put(self, messages: Iterable[bytes]) -> None:
        """Put messages in."""
        with self._lock:
            self._messages.extend(messages)
            self._wake()

    def close(self) -> None:
        """Let `take` return nothing once the queue is empty."""
        with self._lock:
            self._is_closed = True
            self._wake()

    async def take(self) -> list[bytes]:
        """Wait for messages, and return the first ones; none once the queue is closed and empty."""
        while True:
            with self._lock:
                if self._messages or self._is_closed:
                    return self._first()
                filled = LoopEvent()
                self._waiters.append(filled)
            await filled.wait()

    def take_blocking(self, seconds: float) -> list[bytes]:
        """Wait for messages likewise, for some seconds at most, and block the thread."""
        with self._lock:
            if self._messages or self._is_closed:
                return self._first()
            filled = threading.Event()
            self._waiters.append(filled)
        filled.wait(seconds)
        with self._lock:
            if filled in self._waiters:
                self._waiters.remove(filled)
            return self._first()

    def _wake(self) -> None:
        for each in self._waiters:
            each.set()
        self._waiters.clear()

    def _first(self) -> list[bytes]:
        taken: list[bytes] = []
        size = 0
        while self._messages and size < _MOST_BYTES:
            taken.append(self._messages.popleft())
            size += len(taken[-1])
        return taken

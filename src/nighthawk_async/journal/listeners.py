"""Events that tasks of this process wait for, until another part of the process sets them."""

import threading
from collections.abc import Generator, Hashable
from contextlib import contextmanager

from ..parallel.event_loop import LoopEvent

FIRST_PAUSE_SECONDS = 0.05
MOST_PAUSE_SECONDS = 1.0
"""The time between two looks into the store for news of other processes, which wake no task here."""


class Listeners:
    """Tasks that wait for news about keys. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: dict[Hashable, set[LoopEvent]] = {}

    @contextmanager
    def listening(self, key: Hashable) -> Generator[LoopEvent, None, None]:
        """Yield an event that is set at the next news about a key."""
        event = LoopEvent()
        with self._lock:
            self._events.setdefault(key, set()).add(event)
        try:
            yield event
        finally:
            with self._lock:
                events = self._events[key]
                events.remove(event)
                if not events:
                    del self._events[key]

    def wake(self, key: Hashable) -> None:
        """Wake the tasks that wait for news about a key."""
        with self._lock:
            events = tuple(self._events.get(key, ()))
        for event in events:
            event.set()

"""Events of the children of a supervisor, as a bounded list and as a stream. Floor 1."""

from collections import deque
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

import anyio

__all__ = ["SupervisorEvent", "SupervisorEventKind", "SupervisorEventLog", "SupervisorEventStream"]

SupervisorEventKind: TypeAlias = Literal[
    "started",
    "restarted",
    "stopped",
    "failed",
    "waiting",
    "circuit_opened",
    "suppressed",
    "escalated",
    "stopping",
    "ended",
]
"""`stopped`: a child ended without an error. `waiting`: it will be restarted. `suppressed`: it would be, or
would be started, but is not any more. `escalated`: the supervisor gives up. `stopping` and `ended` are the
supervisor's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorEvent:
    """Something that happened.

    Args:
        kind: What.
        time: When, in seconds on the clock of the event loop (`anyio.current_time`).
        child: The name of the child; None when it is about the supervisor.
        error: The error that has to do with it, if any.
        restart_count: How often the child has been restarted.
        restart_at: When it will be restarted, on the same clock; None for never or not known.
    """

    kind: SupervisorEventKind
    time: float
    child: str | None = None
    error: Exception | None = None
    restart_count: int = 0
    restart_at: float | None = None


class SupervisorEventLog:
    """The latest events.

    Args:
        max_events: How many are kept.
    """

    def __init__(self, *, max_events: int) -> None:
        self._events: deque[SupervisorEvent] = deque(maxlen=max_events)
        self._count = 0
        self._changed = anyio.Event()
        self._is_closed = False

    @property
    def events(self) -> tuple[SupervisorEvent, ...]:
        """The latest events, oldest first."""
        return tuple(self._events)

    def record(self, event: SupervisorEvent) -> None:
        """Add an event and wake whoever waits."""
        self._events.append(event)
        self._count += 1
        self._wake()

    def close(self) -> None:
        """There will be no more events."""
        self._is_closed = True
        self._wake()

    async def wait_changed(self) -> None:
        """Wait for the next event, or for the end."""
        if not self._is_closed:
            await self._changed.wait()

    def stream(self) -> "SupervisorEventStream":
        """The events from now on."""
        return SupervisorEventStream(self, self._count)

    async def next_after(self, position: int) -> tuple[SupervisorEvent, int] | None:
        """Wait for the first event at or after a position; it, and the next position. None at the end."""
        while position >= self._count:
            if self._is_closed:
                return None
            await self._changed.wait()
        oldest = self._count - len(self._events)
        position = max(position, oldest)
        return self._events[position - oldest], position + 1

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class SupervisorEventStream:
    """An iterator over events as they happen; it ends when the supervisor has ended.

    Who is so slow that more events happen than are kept misses the oldest.
    """

    def __init__(self, log: SupervisorEventLog, position: int) -> None:
        self._log = log
        self._position = position

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SupervisorEvent:
        found = await self._log.next_after(self._position)
        if found is None:
            raise StopAsyncIteration
        event, self._position = found
        return event

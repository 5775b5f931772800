"""What the server has done since it was last asked to forget. No input or output here."""

import time
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Counts"]


@dataclass(slots=True, kw_only=True)
class Counts:
    """The server's counters; those of requests leave out what controls the server itself.

    Args:
        requests: Requests for an answer, the refused ones included.
        turns: Answers that were sent to their end.
        errors: Requests that were refused, and connections that were lost while an answer was due.
        connections: Connections that were opened.
        open_connections: Connections that are open now.
        most_connections: The most that were open at once.
        first_request_at: `time.monotonic()` when the first of the requests had arrived; 0.0 without one.
    """

    requests: int = 0
    turns: int = 0
    errors: int = 0
    connections: int = 0
    open_connections: int = 0
    most_connections: int = 0
    first_request_at: float = 0.0
    _cpu_before: float = field(default_factory=time.process_time)
    _wall_before: float = field(default_factory=time.monotonic)

    def forget(self) -> None:
        """Begin anew, but keep what is open."""
        self.requests = self.turns = self.errors = self.connections = 0
        self.most_connections = self.open_connections
        self.first_request_at = 0.0
        self._cpu_before, self._wall_before = time.process_time(), time.monotonic()

    def note_request(self) -> None:
        """A request for an answer has arrived."""
        if not self.requests:
            self.first_request_at = time.monotonic()
        self.requests += 1

    def note_connection(self) -> None:
        """A connection was opened."""
        self.connections += 1
        self.open_connections += 1
        self.most_connections = max(self.most_connections, self.open_connections)

    def as_json(self) -> dict[str, Any]:
        """The counters and the times since `forget`, in seconds, as plain data."""
        return {
            "requests": self.requests,
            "turns": self.turns,
            "errors": self.errors,
            "connections": self.connections,
            "open_connections": self.open_connections,
            "most_connections": self.most_connections,
            "first_request_at": self.first_request_at,
            "cpu_seconds": time.process_time() - self._cpu_before,
            "wall_seconds": time.monotonic() - self._wall_before,
        }

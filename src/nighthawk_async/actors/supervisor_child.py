"""What a supervisor knows of one child: plain state. Floor 1.

waiting ──► running ──► stopped | failed
   ▲           │
   └───────────┴──► waiting | circuit_open | suppressed
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from .restart import Restart, RestartHistory

__all__ = ["ChildEnding", "ChildRecord", "ChildState", "ChildStatus"]

ChildStatus: TypeAlias = Literal["running", "waiting", "circuit_open", "stopped", "failed", "suppressed"]
"""`waiting`: it is started soon, or restarted after its delay. `circuit_open`: it was restarted too often
and stays down for a while. `stopped`: it ended without an error, or was stopped. `failed`: it raised, and its
mode does not restart it. `suppressed`: it raised, and its mode would, but it or the supervisor stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEnding:
    """How a child ended.

    Args:
        kind: `finished` is a return on purpose, after which it cannot be started again (a closed actor).
        error: What it raised.
    """

    kind: Literal["returned", "finished", "cancelled", "failed"]
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildState:
    """A child at one moment.

    Args:
        name: Its name.
        status: How it is.
        restart_count: How often it has been restarted.
        last_error: The latest error it raised; None for none.
        restart_at: When it will be restarted, in seconds on the clock of the event loop
            (`anyio.current_time`); None unless it waits.
        is_stopping: Whether it was asked to stop, or will be when those after it have stopped.
    """

    name: str
    status: ChildStatus
    restart_count: int
    last_error: Exception | None
    restart_at: float | None
    is_stopping: bool


class ChildRecord:
    """A child.

    Args:
        name: Its name.
        restart: Its policy.
        now: When it was added.
        must_begin: Whether it is started even when it is to stop before.
    """

    __slots__ = (
        "has_failed",
        "history",
        "is_alive",
        "is_alone",
        "is_asked",
        "is_cancelled",
        "is_concluded",
        "is_over",
        "last_error",
        "must_begin",
        "must_stop",
        "name",
        "restart",
        "start_at",
        "start_count",
        "status",
        "stop_by",
    )

    def __init__(self, name: str, restart: Restart, now: float, *, must_begin: bool) -> None:
        self.name = name
        self.must_begin = must_begin
        self.restart = restart
        self.history = RestartHistory(restart)
        self.status: ChildStatus = "waiting"
        self.start_at: float | None = now
        self.start_count = 0
        self.last_error: Exception | None = None
        self.has_failed = False  # the last time it ran
        self.is_alive = False
        self.must_stop = self.is_asked = self.is_cancelled = False
        self.is_alone = False  # stopped by itself, and not in its turn with others
        self.stop_by = 0.0
        self.is_over = self.is_concluded = False

    @property
    def is_down_for_good(self) -> bool:
        """Whether it does not run and is not going to."""
        return not self.is_alive and self.start_at is None

    @property
    def restart_count(self) -> int:
        """How often it has been restarted, by itself or along with others."""
        return max(self.start_count - 1, 0)

    def begin(self) -> None:
        """It runs from now on."""
        self.is_alive = True
        self.is_asked = self.is_cancelled = False
        self.status, self.start_at = "running", None
        self.start_count += 1

    def stop(self, stop_by: float) -> None:
        """It is to stop, and is cancelled when it has not until then."""
        self.stop_by = min(stop_by, self.stop_by) if self.must_stop else stop_by
        self.must_stop = True

    def schedule(self, status: ChildStatus, start_at: float) -> None:
        """It is started again at that time, when it is down."""
        self.start_at = start_at
        if not self.is_alive:
            self.status = status

    def rest(self, status: ChildStatus, *, is_over: bool) -> None:
        """It is down and not started again.

        Args:
            status: How it is.
            is_over: Whether it is over for good, and not merely while no sibling takes it along in a restart.
        """
        self.status, self.start_at = status, None
        self.is_over = is_over

    def view(self) -> ChildState:
        """How it is now."""
        return ChildState(
            name=self.name,
            status=self.status,
            restart_count=self.restart_count,
            last_error=self.last_error,
            restart_at=None if self.is_alive else self.start_at,
            is_stopping=self.must_stop,
        )

"""State of one child of a supervisor. Floor 1.

    waiting ─► running ─► to_stop ─► asked ─► cancelled        it runs in the last four
       ▲          │          └─────────┴──────────┤
       │          └───────────────────────────────┤ it has ended
       ├──────────────────────────────────────────┤
       └─ down ◄──────────────────────────────────┴─► over ─► concluded

What has to begin, and is to stop before it has, goes from `waiting` through `begins_to_stop` to `to_stop`.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from .restart import Restart, RestartHistory

__all__ = [
    "ALIVE",
    "STOPPING",
    "UP",
    "ChildEnding",
    "ChildPhase",
    "ChildRecord",
    "ChildState",
    "ChildStatus",
]

ChildStatus: TypeAlias = Literal["running", "waiting", "circuit_open", "stopped", "failed", "suppressed"]
"""`waiting`: it is started soon, or restarted after its delay. `circuit_open`: there were too many restarts,
and it stays down for a while. `stopped`: it ended without an error, or was stopped. `failed`: it raised, and
its mode does not restart it, or it was closed and has nothing left to do. `suppressed`: it raised, and its
mode would restart it, but it or the supervisor stops."""

ChildPhase: TypeAlias = Literal[
    "waiting", "begins_to_stop", "running", "to_stop", "asked", "cancelled", "down", "over", "concluded"
]
"""How far the supervisor is with it. `to_stop`: its turn to be asked has not come. `down`: only a sibling
that takes it along starts it again. `over`: nothing does; `concluded`: and those who wait for it know."""

ALIVE: tuple[ChildPhase, ...] = ("running", "to_stop", "asked", "cancelled")
STOPPING: tuple[ChildPhase, ...] = ("begins_to_stop", "to_stop", "asked", "cancelled")
UP: tuple[ChildPhase, ...] = ("waiting", "begins_to_stop", *ALIVE)
"""It runs, or is going to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEnding:
    """The end of a child.

    Args:
        kind: `finished`, whatever it raised, when it has nothing to do in another run (a closed actor).
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
    """A child. Its phase is changed by `ChildTable.move` only.

    Args:
        name: Its name.
        restart: Its policy.
        history: Its restarts.
        start_at: When it is to be started.
        must_begin: Whether it is started even when it is to stop before: it has something to finish.
    """

    __slots__ = (
        "has_failed",
        "history",
        "is_alone",
        "last_error",
        "must_begin",
        "name",
        "phase",
        "position",
        "restart",
        "start_at",
        "start_count",
        "status",
        "stop_by",
    )

    def __init__(
        self, name: str, restart: Restart, history: RestartHistory, start_at: float, *, must_begin: bool
    ) -> None:
        self.name = name
        self.restart = restart
        self.history = history
        self.must_begin = must_begin
        self.phase: ChildPhase = "waiting"
        self.position = 0  # in the order of starting; set by the table
        self.status: ChildStatus = "waiting"
        self.start_at: float | None = start_at  # of one that runs: it is to be stopped and started again then
        self.start_count = 0
        self.stop_by = 0.0
        self.is_alone = False  # stopped by itself, and not in its turn with others
        self.last_error: Exception | None = None
        self.has_failed = False  # the last time it ran

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self.phase in ALIVE

    @property
    def is_stopping(self) -> bool:
        """Whether it runs, or is about to, and is to stop."""
        return self.phase in STOPPING

    @property
    def is_down_for_good(self) -> bool:
        """Whether it does not run and is not going to, unless a sibling takes it along in a restart."""
        return self.phase not in UP

    @property
    def is_over(self) -> bool:
        """Whether it is never started again."""
        return self.phase in ("over", "concluded")

    @property
    def is_unbegun(self) -> bool:
        """Whether it has something to finish and was never started."""
        return self.must_begin and self.start_count == 0

    @property
    def restart_count(self) -> int:
        """The number of its restarts, alone or together with siblings."""
        return max(self.start_count - 1, 0)

    def delay_seconds(self, now: float) -> float:
        """The delay before its next restart, in seconds."""
        return self.restart.delay_seconds(
            self.name, recent_restarts=self.history.recent(now), restart_number=self.history.count + 1
        )

    def view(self) -> ChildState:
        """A snapshot of its present state."""
        return ChildState(
            name=self.name,
            status=self.status,
            restart_count=self.restart_count,
            last_error=self.last_error,
            restart_at=None if self.is_alive else self.start_at,
            is_stopping=self.is_stopping,
        )

"""State of one child of a supervisor, and when it is started again.

    waiting ─► running ─► to_stop ─► asked ─► cancelled        it runs in the last four
       ▲          │          └─────────┴──────────┤
       │          └───────────────────────────────┤ it has ended
       ├──────────────────────────────────────────┤
       └─ down ◄──────────────────────────────────┴─► over ─► concluded

A child that must start, even if it is to stop first, goes from `waiting` through `begins_to_stop` to
`to_stop`.

Plain values and arithmetic. `supervisor_state` makes the supervisor's decisions with them.
"""

import math
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Literal, Self, TypeAlias, cast, get_args

import anyio

from ..backoff import backoff_seconds
from .errors import check_seconds, check_whole_number

RestartMode: TypeAlias = Literal["never", "on_failure", "always"]
"""`on_failure`: when it raised. `always`: when it returned, too. A cancellation is no failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Conditions and delay of a child's restarts. The limit for restarts belongs to the supervisor.

    The delay grows (by `factor`) with every restart of the child within the window of its supervisor. A
    deterministic jitter, which depends on the child's name and on how often it was restarted, keeps children
    apart that fail together.

    Args:
        mode: The endings after which it is restarted.
        backoff_seconds: The delay before the first restart within the window, in seconds.
        max_backoff_seconds: The longest delay, jitter not included, in seconds.
        factor: The factor by which the delay grows from one restart to the next.
        jitter_seconds: The greatest addition to the delay, in seconds.

    Raises:
        ValueError: A value is out of range or not a number.
    """

    mode: RestartMode = "on_failure"
    backoff_seconds: float = 0.25
    max_backoff_seconds: float = 30.0
    factor: float = 2.0
    jitter_seconds: float = 0.1

    def __post_init__(self) -> None:
        if self.mode not in get_args(RestartMode):
            raise ValueError(f"mode must be one of {get_args(RestartMode)}, not {self.mode!r}")
        for name in ("backoff_seconds", "max_backoff_seconds", "jitter_seconds"):
            _check_finite_seconds(name, getattr(self, name))
        _check_factor(self.factor)

    def applies_to(self, *, is_failure: bool) -> bool:
        """Whether a child that ended is restarted."""
        return self.mode == "always" or (is_failure and self.mode == "on_failure")

    def delay_seconds(self, child: str, *, recent_restarts: int, restart_number: int) -> float:
        """The delay before a restart, in seconds.

        Args:
            child: The name of the child.
            recent_restarts: The number of its restarts within the window before this one.
            restart_number: The number of the restart, from 1.
        """
        backoff = backoff_seconds(
            recent_restarts,
            first=self.backoff_seconds,
            longest=self.max_backoff_seconds,
            factor=self.factor,
        )
        return backoff + random.Random(f"{child} {restart_number}").uniform(0, self.jitter_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartLimit:
    """Limit for the restarts of all children together, and what a supervisor does when it is reached.

    Args:
        max_restarts: The greatest number of restarts within the window.
        window_seconds: The length of the rolling window, in seconds.
        circuit_open_seconds: The delay before a child that needs one more restart is restarted, in seconds.
            None: the supervisor gives up instead.

    Raises:
        ValueError: A value is out of range or not a number.
    """

    max_restarts: int
    window_seconds: float
    circuit_open_seconds: float | None

    def __post_init__(self) -> None:
        check_whole_number("max_restarts", self.max_restarts, least=0)
        check_seconds("window_seconds", self.window_seconds)
        if self.window_seconds == 0:
            raise ValueError("window_seconds must be more than 0")
        if self.circuit_open_seconds is not None:
            _check_finite_seconds("circuit_open_seconds", self.circuit_open_seconds)


class RestartHistory:
    """The latest restarts, as far back as a limit needs them.

    Args:
        limit: The limit.
    """

    __slots__ = ("_times", "_window_seconds", "count")

    def __init__(self, limit: RestartLimit) -> None:
        self._window_seconds = limit.window_seconds
        self._times: deque[float] = deque(maxlen=limit.max_restarts)
        self.count = 0

    def recent(self, now: float) -> int:
        """The number of restarts within the window that ends now; never more than the limit allows."""
        while self._times and self._times[0] <= now - self._window_seconds:
            self._times.popleft()
        return len(self._times)

    def add(self, now: float) -> None:
        """Record a restart."""
        self.count += 1
        self._times.append(now)


def check_restart(restart: Restart) -> None:
    """Check a restart policy.

    Raises:
        TypeError: It is not a `Restart`.
    """
    if not isinstance(cast("object", restart), Restart):
        raise TypeError(f"restart must be a Restart, not {restart!r}")


def _check_finite_seconds(name: str, seconds: object) -> None:
    check_seconds(name, seconds)
    if seconds == math.inf:
        raise ValueError(f"{name} must be finite")


def _check_factor(factor: object) -> None:
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor < math.inf:
        raise ValueError(f"factor must be a finite number of at least 1, not {factor!r}")


ChildStatus: TypeAlias = Literal["running", "waiting", "circuit_open", "stopped", "failed", "suppressed"]
"""`waiting`: it is started soon, or restarted after its delay. `circuit_open`: there were too many restarts,
and it is not restarted for a while. `stopped`: it ended without an error, or was stopped. `failed`: it
raised, and its mode does not restart it, or it was closed and has nothing left to do. `suppressed`: it
raised, and its mode would restart it, but it or the supervisor stops."""

ChildPhase: TypeAlias = Literal[
    "waiting", "begins_to_stop", "running", "to_stop", "asked", "cancelled", "down", "over", "concluded"
]
"""Progress of the supervisor with a child. `to_stop`: its turn to be asked has not come. `down`: it starts
again only if it is restarted with a sibling. `over`: it never starts again; `concluded`: and the tasks that
wait for it were notified."""

ALIVE: tuple[ChildPhase, ...] = ("running", "to_stop", "asked", "cancelled")
STOPPING: tuple[ChildPhase, ...] = ("begins_to_stop", "to_stop", "asked", "cancelled")
UP: tuple[ChildPhase, ...] = ("waiting", "begins_to_stop", *ALIVE)
"""The phases in which it runs, or will run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEnding:
    """The end of a child.

    Args:
        kind: `finished`, whatever it raised, when it has nothing to do in another run (a closed actor).
        error: The error that it raised.
    """

    kind: Literal["returned", "finished", "cancelled", "failed"]
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildState:
    """A snapshot of a child.

    Args:
        name: Its name.
        status: Its status.
        restart_count: The number of its restarts.
        last_error: The latest error it raised; None for none.
        restart_at: The time of its next restart, in seconds on the clock of the event loop
            (`anyio.current_time`); None unless it waits.
        is_stopping: Whether it was asked to stop, or will be when the children after it have stopped.
    """

    name: str
    status: ChildStatus
    restart_count: int
    last_error: Exception | None
    restart_at: float | None
    is_stopping: bool


class ChildRecord:
    """A child. Only `ChildTable.move` changes its phase.

    Args:
        name: Its name.
        restart: Its policy.
        history: Its restarts.
        start_at: The time of its start.
        must_begin: Whether it is started even if it is to stop first, because it has something to finish.
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
        self.start_at: float | None = start_at  # if it runs, it is stopped and restarted then
        self.start_count = 0
        self.stop_by = 0.0
        self.is_alone = False  # stopped on its own, not in turn with the others
        self.last_error: Exception | None = None
        self.has_failed = False  # in its last run

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
        """Whether it does not run and will not, unless it is restarted with a sibling."""
        return self.phase not in UP

    @property
    def is_over(self) -> bool:
        """Whether it is never started again."""
        return self.phase in ("over", "concluded")

    @property
    def is_unstarted(self) -> bool:
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
        """Return a snapshot of its current state."""
        return ChildState(
            name=self.name,
            status=self.status,
            restart_count=self.restart_count,
            last_error=self.last_error,
            restart_at=None if self.is_alive else self.start_at,
            is_stopping=self.is_stopping,
        )


class ChildTable:
    """The children, in the order in which they were first started."""

    def __init__(self) -> None:
        self._children: dict[str, ChildRecord] = {}
        self._by_phase: dict[ChildPhase, dict[str, ChildRecord]] = {
            phase: {} for phase in get_args(ChildPhase)
        }
        self._positions = count()

    def __iter__(self) -> Iterator[ChildRecord]:
        return iter(self._children.values())

    def __getitem__(self, name: str) -> ChildRecord:
        return self._children[name]

    def find(self, name: str) -> ChildRecord | None:
        """Return the child of that name, if there is one."""
        return self._children.get(name)

    def add(self, child: ChildRecord) -> None:
        """Add a child after the others. Its name must be free."""
        child.position = next(self._positions)
        self._children[child.name] = self._by_phase[child.phase][child.name] = child

    def remove(self, child: ChildRecord) -> None:
        """Remove a child."""
        del self._children[child.name], self._by_phase[child.phase][child.name]

    def move(self, child: ChildRecord, phase: ChildPhase) -> None:
        """Move a child to another phase."""
        del self._by_phase[child.phase][child.name]
        child.phase = phase
        self._by_phase[phase][child.name] = child

    def are_any(self, *phases: ChildPhase) -> bool:
        """Whether any child is in one of these phases."""
        return any(self._by_phase[phase] for phase in phases)

    def in_phase(self, phase: ChildPhase) -> tuple[ChildRecord, ...]:
        """Return the children in a phase, in the order in which they entered it."""
        return tuple(self._by_phase[phase].values())


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
    """An event of a supervisor.

    Args:
        kind: The kind of event.
        time: The time, in seconds on the clock of the event loop (`anyio.current_time`).
        child: The name of the child; None if the event is about the supervisor.
        error: The related error, if any.
        restart_count: The number of restarts of the child.
        restart_at: The time of its next restart, on the same clock; None if there is none or it is unknown.
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
        max_events: The number of events that are kept.
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
        """Add an event and wake the waiting tasks."""
        self._events.append(event)
        self._count += 1
        self._wake()

    def close(self) -> None:
        """Record no more events."""
        self._is_closed = True
        self._wake()

    async def wait_changed(self) -> None:
        """Wait for the next event, or for the end."""
        if not self._is_closed:
            await self._changed.wait()

    def stream(self) -> "SupervisorEventStream":
        """Return a stream of the events from now on."""
        return SupervisorEventStream(self, self._count)

    async def next_after(self, position: int) -> tuple[SupervisorEvent, int] | None:
        """Wait for the first event at or after a position; return it and the next position, or None."""
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

    A consumer that falls behind by more events than are kept misses the oldest.
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

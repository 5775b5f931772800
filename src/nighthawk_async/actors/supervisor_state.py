"""Decisions of a supervisor: starting, stopping, giving up.

Plain state without waiting: the supervisor reports events and the current time, `advance` returns the actions
to take, and `next_time` the time of the next call. Unspecified cases follow Erlang's supervisors.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..causes import ends_run
from .errors import NameConflictError, RestartLimitError
from .supervisor_child import (
    STOPPING,
    UP,
    ChildEnding,
    ChildRecord,
    ChildStatus,
    ChildTable,
    Restart,
    RestartHistory,
    RestartLimit,
    SupervisorEvent,
    SupervisorEventKind,
)

SupervisorStrategy: TypeAlias = Literal["one_for_one", "one_for_all", "rest_for_one", "escalate"]
"""The children that are restarted with a failed one: none, all, or those started after it. `escalate`: a
failure restarts nothing and ends the supervisor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An action to take on a child.

    Args:
        kind: `start` it; `ask` it to stop; `cancel` it; `conclude` it: it is never started again.
        child: Its name.
        is_final: Whether a child that is asked to stop is not started again.
        error: The reason for its conclusion; None for none.
    """

    kind: Literal["start", "ask", "cancel", "conclude"]
    child: str
    is_final: bool = False
    error: Exception | None = None


class SupervisorState:
    """The children of a supervisor, in the order in which they were first started.

    Args:
        strategy: The children that are restarted together.
        limit: The limit for restarts.
        grace_seconds: The time that children have to stop before they are cancelled, in seconds.
        record: A callback for events.
    """

    def __init__(
        self,
        strategy: SupervisorStrategy,
        *,
        limit: RestartLimit,
        grace_seconds: float,
        record: Callable[[SupervisorEvent], None],
    ) -> None:
        self._strategy = strategy
        self._limit = limit
        self._history = RestartHistory(limit)
        self._grace_seconds = grace_seconds
        self._record = record
        self._children = ChildTable()
        self._takes_along = strategy in ("one_for_all", "rest_for_one")
        self._turns: list[ChildRecord] | None = []  # children to be asked to stop, the next one last
        self._in_turn: ChildRecord | None = None  # the child that was asked to stop last
        self.is_stopping = False
        self.failure: Exception | None = None
        self.failures = self.restarts = self.circuit_openings = 0

    @property
    def children(self) -> tuple[ChildRecord, ...]:
        """The children, in the order in which they were first started."""
        return tuple(self._children)

    @property
    def is_idle(self) -> bool:
        """Whether no child runs, or will be started."""
        return not self._children.are_any(*UP)

    @property
    def is_ended(self) -> bool:
        """Whether it has ended."""
        return self.is_stopping and self.is_idle

    # ---- events

    def add(self, name: str, restart: Restart, now: float, *, must_begin: bool = False) -> ChildRecord | None:
        """Add a child to be started. One of its name that is down permanently is replaced, and returned.

        Args:
            name: Its name.
            restart: Its policy.
            now: The current time.
            must_begin: Whether it is started even if it is to stop first, because it has something to finish.

        Raises:
            NameConflictError: Another child has the name.
        """
        known = self._children.find(name)
        if known is not None:
            if not known.is_down_for_good:
                raise NameConflictError(f"the supervisor has a child {name!r} already")
            self._children.remove(known)
        history = RestartHistory(self._limit)
        self._children.add(ChildRecord(name, restart, history, now, must_begin=must_begin))
        return known

    def remove(self, name: str) -> ChildRecord:
        """Remove a child and return it.

        Raises:
            KeyError: There is no such child.
            NameConflictError: It is not down permanently.
        """
        child = self._children[name]
        if not child.is_down_for_good:
            raise NameConflictError(f"the child {name!r} is running or will be started")
        self._children.remove(child)
        return child

    def stop_child(self, name: str, now: float, grace_seconds: float) -> None:
        """Stop a child permanently.

        Raises:
            KeyError: There is no such child.
        """
        child = self._children[name]
        child.is_alone = True
        self._take_down(child, now, grace_seconds)

    def stop(self, now: float, grace_seconds: float) -> None:
        """Stop all children, the last one first."""
        if not self.is_stopping:
            self.is_stopping = True
            self._emit("stopping", now)
        for child in self._children:
            self._take_down(child, now, grace_seconds)

    def end(self, now: float) -> None:
        """Record the end: children still running were cancelled from outside before they started."""
        self.stop(now, 0)
        for child in self._children:
            if not child.is_down_for_good:
                self._rest(child, "stopped", is_over=True)
        self._emit("ended", now)

    def child_ended(self, name: str, ending: ChildEnding, now: float) -> None:
        """Record that a child that was started has ended."""
        child = self._children[name]
        child.has_failed = ending.error is not None
        if ending.error is not None:
            child.last_error = ending.error
            self.failures += 1
            self._emit("failed", now, child, ending.error)
        else:
            self._emit("stopped", now, child)
        if child.is_stopping:
            self._settle_stopped(child, ending)
        else:
            self._settle_ended(child, ending, now)

    def child_closed(self, name: str, now: float, *, is_finished: bool) -> None:
        """Record that a child is to end by itself, or has ended; if it waits to be started, it stops waiting.

        Args:
            name: Its name.
            now: The current time.
            is_finished: Whether it has nothing to do in another run; otherwise it is started at once.
        """
        child = self._children[name]
        if child.phase != "waiting":
            return
        if is_finished and not child.is_unstarted:
            self._suppress(child, now)
        else:
            child.start_at = now

    # ---- actions

    def advance(self, now: float) -> list[Action]:
        """Return the actions to take now. There may be more once these are done."""
        return [*self._asks(), *self._cancels(now), *self._starts(now), *self._conclusions()]

    def next_time(self) -> float:
        """Return the time of the next action that needs no event before it; infinity for none."""
        deadlines = [child.stop_by for child in self._children.in_phase("asked")]
        waiting = self._children.in_phase("waiting") if self._may_start() else ()
        starts = [child.start_at for child in waiting if child.start_at is not None]
        return min([*deadlines, *starts], default=math.inf)

    def _asks(self) -> Iterable[Action]:
        """Ask the children to stop that are stopped on their own, and of the others the next one."""
        if self._turns is None:  # the set of children to stop has changed
            to_stop = self._children.in_phase("to_stop")
            self._turns = sorted(to_stop, key=lambda child: (child.is_alone, child.position))
        while self._turns:
            child = self._turns[-1]
            if child.phase == "to_stop":
                if not child.is_alone:
                    if self._is_turn_taken():
                        return
                    self._in_turn = child
                self._children.move(child, "asked")
                yield Action(kind="ask", child=child.name, is_final=child.start_at is None)
            self._turns.pop()

    def _is_turn_taken(self) -> bool:
        child = self._in_turn
        return child is not None and child.phase in ("asked", "cancelled") and not child.is_alone

    def _cancels(self, now: float) -> Iterable[Action]:
        for child in self._children.in_phase("asked"):
            if child.stop_by <= now:
                self._children.move(child, "cancelled")
                yield Action(kind="cancel", child=child.name)

    def _starts(self, now: float) -> Iterable[Action]:
        due = list(self._children.in_phase("begins_to_stop"))
        if self._may_start():
            waiting = self._children.in_phase("waiting")
            due += [child for child in waiting if child.start_at is not None and child.start_at <= now]
        for child in sorted(due, key=lambda child: child.position):
            self._begin(child, now)
            yield Action(kind="start", child=child.name)

    def _may_start(self) -> bool:
        """Whether children may start: those restarted together start when all of them have stopped."""
        return not self._takes_along or not self._children.are_any(*STOPPING)

    def _conclusions(self) -> Iterable[Action]:
        for child in self._children.in_phase("over"):
            self._children.move(child, "concluded")
            yield Action(kind="conclude", child=child.name, error=child.last_error)

    # ---- endings

    def _settle_stopped(self, child: ChildRecord, ending: ChildEnding) -> None:
        """Handle the end of a child that was to stop."""
        if child.start_at is not None and ending.kind != "finished":
            self._wait(child, "waiting", child.start_at)
        else:
            self._rest(child, "failed" if ending.error is not None else "stopped", is_over=True)

    def _settle_ended(self, child: ChildRecord, ending: ChildEnding, now: float) -> None:
        """Handle the end of a child that ended by itself."""
        error = ending.error
        if error is not None and (self._strategy == "escalate" or ends_run(error)):
            self._rest(child, "failed", is_over=True)
            self._give_up(child, error, now)
        elif ending.kind in ("returned", "failed") and child.restart.applies_to(is_failure=error is not None):
            self._restart(child, error, now)
        else:
            is_over = ending.kind != "returned" or not self._takes_along
            self._rest(child, "stopped" if error is None else "failed", is_over=is_over)

    def _restart(self, child: ChildRecord, error: Exception | None, now: float) -> None:
        limit = self._limit
        if self._history.recent(now) < limit.max_restarts:
            self._schedule(child, "waiting", now + child.delay_seconds(now), now)
        elif limit.circuit_open_seconds is not None:
            self.circuit_openings += 1
            self._schedule(child, "circuit_open", now + limit.circuit_open_seconds, now)
        else:
            self._suppress(child, now)
            reason = RestartLimitError(
                child=child.name, max_restarts=limit.max_restarts, window_seconds=limit.window_seconds
            )
            reason.__cause__ = error
            self._give_up(child, reason, now)

    def _schedule(self, child: ChildRecord, status: ChildStatus, start_at: float, now: float) -> None:
        """Restart it, together with its siblings where the strategy says so."""
        companions = self._companions(child)
        start_at = max([start_at, *(each.start_at for each in companions if each.start_at is not None)])
        self._history.add(now)
        child.history.add(now)
        self._wait(child, status, start_at)
        self._emit("waiting" if status == "waiting" else "circuit_opened", now, child, child.last_error)
        for companion in companions:
            self._take_along(companion, start_at, now)

    def _companions(self, child: ChildRecord) -> list[ChildRecord]:
        if self._strategy == "one_for_all":
            return [each for each in self._children if each is not child]
        if self._strategy == "rest_for_one":
            return [each for each in self._children if each.position > child.position]
        return []

    def _take_along(self, child: ChildRecord, start_at: float, now: float) -> None:
        """Stop it, and restart it with another child, unless it is not to run again."""
        if child.is_alive:
            self._stop(child, now + self._grace_seconds)
        if child.restart.mode == "never" or child.is_over or child.is_alone:
            return
        if child.is_alive:
            child.start_at = start_at
        else:
            self._wait(child, "circuit_open" if child.status == "circuit_open" else "waiting", start_at)

    # ---- changes of a child

    def _wait(self, child: ChildRecord, status: ChildStatus, start_at: float) -> None:
        """Mark it as not running, to be started at that time."""
        child.status, child.start_at = status, start_at
        self._children.move(child, "waiting")

    def _begin(self, child: ChildRecord, now: float) -> None:
        """Mark it as running."""
        is_restart = child.start_count > 0
        child.status, child.start_at = "running", None
        child.start_count += 1
        if child.phase == "begins_to_stop":
            self._turns = None
            self._children.move(child, "to_stop")
        else:
            self._children.move(child, "running")
        self.restarts += is_restart
        self._emit("restarted" if is_restart else "started", now, child)

    def _stop(self, child: ChildRecord, stop_by: float) -> None:
        """Stop it, and cancel it if it has not ended by that time."""
        self._turns = None
        if child.is_stopping:
            child.stop_by = min(stop_by, child.stop_by)
        else:
            child.stop_by = stop_by
            self._children.move(child, "to_stop" if child.is_alive else "begins_to_stop")

    def _take_down(self, child: ChildRecord, now: float, grace_seconds: float) -> None:
        """Bring it down permanently."""
        if child.is_alive or child.is_stopping or (child.phase == "waiting" and child.is_unstarted):
            child.start_at = None
            self._stop(child, now + grace_seconds)
        elif child.phase == "waiting":
            self._suppress(child, now)
        elif child.phase == "down":
            self._children.move(child, "over")

    def _suppress(self, child: ChildRecord, now: float) -> None:
        """Cancel its pending start."""
        self._rest(child, "suppressed" if child.has_failed else "stopped", is_over=True)
        self._emit("suppressed", now, child, child.last_error if child.has_failed else None)

    def _rest(self, child: ChildRecord, status: ChildStatus, *, is_over: bool) -> None:
        """Mark it as not running and not to be started again.

        Args:
            child: The child.
            status: Its status.
            is_over: Whether it is over permanently, and not merely until it is restarted with a sibling.
        """
        child.status, child.start_at = status, None
        self._children.move(child, "over" if is_over else "down")

    def _give_up(self, child: ChildRecord, error: Exception, now: float) -> None:
        self.failure = error
        self._emit("escalated", now, child, error)
        self.stop(now, self._grace_seconds)

    def _emit(
        self,
        kind: SupervisorEventKind,
        now: float,
        child: ChildRecord | None = None,
        error: Exception | None = None,
    ) -> None:
        if child is None:
            self._record(SupervisorEvent(kind=kind, time=now, error=error))
            return
        self._record(
            SupervisorEvent(
                kind=kind,
                time=now,
                child=child.name,
                error=error,
                restart_count=child.restart_count,
                restart_at=child.start_at if kind in ("waiting", "circuit_opened") else None,
            )
        )

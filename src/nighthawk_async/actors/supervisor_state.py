"""What a supervisor decides: who is started, who is stopped, when it gives up. Floor 1.

Plain state without waiting: the supervisor says what happened and what time it is, `advance` says what is to
be done, and `next_time` when to ask again. Where in doubt it decides as Erlang's supervisors do.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .errors import NameConflictError
from .restart import Restart
from .supervisor_child import ChildEnding, ChildRecord, ChildStatus
from .supervisor_errors import RestartLimitError
from .supervisor_events import SupervisorEvent, SupervisorEventKind

__all__ = ["Action", "SupervisorState", "SupervisorStrategy"]

SupervisorStrategy: TypeAlias = Literal["one_for_one", "one_for_all", "rest_for_one", "escalate"]
"""What a restart takes along: nothing, all children, or those started after. `escalate`: a failure restarts
nothing and ends the supervisor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something to be done with a child.

    Args:
        kind: `start` it; `ask` it to stop; `cancel` it; `conclude` it: it is never started again.
        child: Its name.
        is_final: Whether a child that is asked to stop is not started again.
        error: Why it is concluded; None for nothing special.
    """

    kind: Literal["start", "ask", "cancel", "conclude"]
    child: str
    is_final: bool = False
    error: Exception | None = None


class SupervisorState:
    """The children of a supervisor, in the order in which they were first started.

    Args:
        strategy: What a restart takes along.
        grace_seconds: How many seconds children have to stop before they are cancelled.
        record: Takes the events.
    """

    def __init__(
        self, strategy: SupervisorStrategy, *, grace_seconds: float, record: Callable[[SupervisorEvent], None]
    ) -> None:
        self._strategy = strategy
        self._grace_seconds = grace_seconds
        self._record = record
        self._children: dict[str, ChildRecord] = {}
        self.is_stopping = False
        self.failure: Exception | None = None
        self.failures = self.restarts = self.suppressions = self.circuit_openings = 0

    @property
    def children(self) -> tuple[ChildRecord, ...]:
        """The children, in the order in which they were first started."""
        return tuple(self._children.values())

    @property
    def is_idle(self) -> bool:
        """Whether no child runs, or will be started."""
        return all(child.is_down_for_good for child in self._children.values())

    @property
    def is_ended(self) -> bool:
        """Whether it is over."""
        return self.is_stopping and self.is_idle

    # ---- what happens

    def add(self, name: str, restart: Restart, now: float, *, must_begin: bool = False) -> ChildRecord | None:
        """A child is to be started; it may replace one of its name that is down for good, which is given back.

        Args:
            name: Its name.
            restart: Its policy.
            now: What time it is.
            must_begin: Whether it is started even when it is to stop before: it has something to finish.

        Raises:
            NameConflictError: Another child has the name.
        """
        known = self._children.get(name)
        if known is not None and not known.is_down_for_good:
            raise NameConflictError(f"the supervisor has a child {name!r} already")
        self._children.pop(name, None)
        self._children[name] = ChildRecord(name, restart, now, must_begin=must_begin)
        return known

    def remove(self, name: str) -> ChildRecord:
        """Forget a child, which is given back.

        Raises:
            KeyError: There is no such child.
            NameConflictError: It is not down for good.
        """
        if not self._children[name].is_down_for_good:
            raise NameConflictError(f"the child {name!r} runs, or is going to")
        return self._children.pop(name)

    def stop_child(self, name: str, now: float, grace_seconds: float) -> ChildRecord:
        """A child is to stop, and not to be started again.

        Raises:
            KeyError: There is no such child.
        """
        child = self._children[name]
        child.is_alone = True
        self._take_down(child, now, grace_seconds)
        return child

    def stop(self, now: float, grace_seconds: float) -> None:
        """All children are to stop, the last one first."""
        if not self.is_stopping:
            self.is_stopping = True
            self._tell("stopping", now)
        for child in self._children.values():
            self._take_down(child, now, grace_seconds)
            child.is_over = child.is_over or child.is_down_for_good

    def end(self, now: float) -> None:
        """Nothing runs any more: what runs at this moment was cancelled from outside before it began."""
        self.stop(now, 0)
        for child in self._children.values():
            if not child.is_down_for_good:
                child.is_alive = False
                child.rest("stopped", is_over=True)
        self._tell("ended", now)

    def child_ended(self, name: str, ending: ChildEnding, now: float) -> None:
        """A child that was started has ended."""
        child = self._children[name]
        child.is_alive = False
        child.has_failed = ending.error is not None
        if ending.error is not None:
            child.last_error = ending.error
            self.failures += 1
            self._tell("failed", now, child, ending.error)
        else:
            self._tell("stopped", now, child)
        if child.must_stop:
            self._settle_stopped(child, ending)
        else:
            self._settle_ended(child, ending, now)

    # ---- what is to be done

    def advance(self, now: float) -> list[Action]:
        """What is to be done now. When that is done, there may be more."""
        return [*self._stops(now), *self._starts(now), *self._conclusions()]

    def next_time(self) -> float:
        """When there will be something to be done though nothing happens; infinity for never."""
        deadlines = [
            child.stop_by
            for child in self._children.values()
            if child.is_alive and child.is_asked and not child.is_cancelled
        ]
        starts = [
            child.start_at
            for child in self._children.values()
            if child.start_at is not None and not child.is_alive and self._may_start()
        ]
        return min([*deadlines, *starts], default=math.inf)

    def _stops(self, now: float) -> Iterable[Action]:
        is_blocked = False  # by one that has to stop first
        for child in reversed(self._children.values()):
            if not (child.is_alive and child.must_stop):
                continue
            if is_blocked and not child.is_alone:
                continue
            is_blocked = is_blocked or not child.is_alone
            if not child.is_asked:
                child.is_asked = True
                yield Action(kind="ask", child=child.name, is_final=child.start_at is None)
            if now >= child.stop_by and not child.is_cancelled:
                child.is_cancelled = True
                yield Action(kind="cancel", child=child.name)

    def _starts(self, now: float) -> Iterable[Action]:
        may_start = self._may_start()
        for child in self._children.values():
            if child.is_alive or child.start_at is None or child.start_at > now:
                continue
            if may_start or child.must_stop:
                is_restart = child.start_count > 0
                child.begin()
                self.restarts += is_restart
                self._tell("restarted" if is_restart else "started", now, child)
                yield Action(kind="start", child=child.name)

    def _may_start(self) -> bool:
        """Children that are restarted together start when all of them have stopped."""
        if self._strategy in ("one_for_one", "escalate"):
            return True
        return not any(child.is_alive and child.must_stop for child in self._children.values())

    def _conclusions(self) -> Iterable[Action]:
        for child in self._children.values():
            if child.is_over and child.is_down_for_good and not child.is_concluded:
                child.is_concluded = True
                yield Action(kind="conclude", child=child.name, error=child.last_error)

    # ---- how an ending is settled

    def _settle_stopped(self, child: ChildRecord, ending: ChildEnding) -> None:
        """It was to stop, and has."""
        child.must_stop = False
        if child.start_at is not None and ending.kind != "finished":
            child.status = "waiting"
        else:
            child.rest("failed" if ending.error is not None else "stopped", is_over=True)

    def _settle_ended(self, child: ChildRecord, ending: ChildEnding, now: float) -> None:
        """It ended by itself."""
        error = ending.error
        if error is not None and self._strategy == "escalate":
            child.rest("failed", is_over=True)
            self._give_up(child, error, now)
        elif ending.kind == "finished" or not child.restart.applies_to(is_failure=error is not None):
            child.rest("stopped" if error is None else "failed", is_over=ending.kind != "returned")
        else:
            self._restart(child, ending, now)

    def _restart(self, child: ChildRecord, ending: ChildEnding, now: float) -> None:
        restart = child.restart
        recent = child.history.recent(now)
        if recent < restart.max_restarts:
            number = child.history.count + 1
            delay = restart.delay_seconds(child.name, recent_restarts=recent, restart_number=number)
            self._schedule(child, "waiting", now + delay, now)
        elif restart.circuit_open_seconds is not None:
            self.circuit_openings += 1
            self._schedule(child, "circuit_open", now + restart.circuit_open_seconds, now)
        elif ending.kind == "cancelled":
            child.rest("stopped", is_over=True)  # no reason to give up
        else:
            self._suppress(child, now)
            limit = RestartLimitError(
                child=child.name, max_restarts=restart.max_restarts, window_seconds=restart.window_seconds
            )
            limit.__cause__ = ending.error
            self._give_up(child, limit, now)

    def _schedule(self, child: ChildRecord, status: ChildStatus, start_at: float, now: float) -> None:
        """It is restarted, and takes others along."""
        companions = self._companions(child)
        start_at = max([start_at, *(each.start_at for each in companions if each.start_at is not None)])
        child.history.add(start_at)
        child.schedule(status, start_at)
        kind: SupervisorEventKind = "waiting" if status == "waiting" else "circuit_opened"
        self._tell(kind, now, child, child.last_error)
        for companion in companions:
            if companion.is_alive:
                companion.stop(now + self._grace_seconds)
            if companion.restart.mode != "never" and not companion.is_over and not companion.is_alone:
                circuit_open = companion.status == "circuit_open"
                companion.schedule("circuit_open" if circuit_open else "waiting", start_at)

    def _companions(self, child: ChildRecord) -> list[ChildRecord]:
        children = list(self._children.values())
        if self._strategy == "one_for_all":
            return [each for each in children if each is not child]
        if self._strategy == "rest_for_one":
            return children[children.index(child) + 1 :]
        return []

    def _take_down(self, child: ChildRecord, now: float, grace_seconds: float) -> None:
        """It is to be down for good."""
        if child.is_alive:
            child.start_at = None
            child.stop(now + grace_seconds)
        elif child.start_at is not None and child.must_begin and child.start_count == 0:
            child.start_at = now
            child.stop(now + grace_seconds)
        elif child.start_at is not None:
            self._suppress(child, now)

    def _suppress(self, child: ChildRecord, now: float) -> None:
        """It would be started, and is not."""
        if not child.has_failed:
            child.rest("stopped", is_over=True)
            return
        child.rest("suppressed", is_over=True)
        self.suppressions += 1
        self._tell("suppressed", now, child, child.last_error)

    def _give_up(self, child: ChildRecord, error: Exception, now: float) -> None:
        self.failure = error
        self._tell("escalated", now, child, error)
        self.stop(now, self._grace_seconds)

    def _tell(
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

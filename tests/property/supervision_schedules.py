"""A supervisor's decisions, carried out by children that are mere numbers, and what must always be true."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from nighthawk_async.actors import Restart, SupervisorEvent, SupervisorStrategy
from nighthawk_async.actors.supervisor_child import ChildEnding, ChildRecord, RestartLimit
from nighthawk_async.actors.supervisor_state import Action, SupervisorState

Kind: TypeAlias = Literal["returned", "failed", "cancelled", "finished"]

GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """A running child ends by itself, if there is one."""

    child: int
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Obey:
    """A child that was asked to stop does, if there is one."""

    child: int
    is_failing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StopChild:
    """A child is stopped by itself."""

    child: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """A child is to end by itself, while it waits or later; it has nothing to do any more, or something."""

    child: int
    is_finished: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """Time passes, as far as the next thing to be done at most."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The supervisor is stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """A new child gets the name of one, if that is down for good or was forgotten."""

    child: int
    must_begin: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """A child is forgotten, if it is down for good."""

    child: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hurry:
    """The next step comes before the supervisor has done anything about the one before."""


Step: TypeAlias = End | Obey | StopChild | Close | Pass | Stop | Replace | Forget | Hurry


@dataclass(slots=True)
class World:
    """The children of a supervisor, and checks of what it wants done with them."""

    strategy: SupervisorStrategy
    limit: RestartLimit
    policies: Sequence[Restart]
    now: float = 0.0
    alive: dict[str, None] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    concluded: set[str] = field(default_factory=set)
    begun: set[str] = field(default_factory=set)
    hastened: set[str] = field(default_factory=set)
    events: list[SupervisorEvent] = field(default_factory=list)
    up: set[str] = field(default_factory=set)
    told: int = 0
    names: list[str] = field(init=False)
    state: SupervisorState = field(init=False)

    def __post_init__(self) -> None:
        self.state = SupervisorState(
            self.strategy, limit=self.limit, grace_seconds=GRACE_SECONDS, record=self.events.append
        )
        self.names = [f"child {index}" for index in range(len(self.policies))]

    def play(self, steps: Sequence[Step]) -> None:
        """Carry a schedule out, then stop."""
        for index, (name, policy) in enumerate(zip(self.names, self.policies, strict=True)):
            self.state.add(name, policy, self.now, must_begin=index % 2 == 0)
        self._advance()
        assert list(self.alive) == self.names
        is_hurried = False
        for step in steps:
            self._take(step)
            self._check_that_it_is_told()
            if not is_hurried:
                self._advance()
                self._check_that_nothing_is_forgotten()
            is_hurried = isinstance(step, Hurry)
        self.state.stop(self.now, GRACE_SECONDS)
        self._advance()
        while not self.state.is_ended:
            self._pass(GRACE_SECONDS)
            self._advance()
        assert not self.alive
        assert self.concluded == {child.name for child in self.state.children}
        self._check_the_limit()

    def _take(self, step: Step) -> None:
        match step:
            case End(child=child, kind=kind):
                self._end([name for name in self.alive if name not in self.asked], child, kind)
            case Obey(child=child, is_failing=is_failing):
                kind = "failed" if is_failing else "returned"
                self._end([name for name in self.alive if name in self.asked], child, kind)
            case StopChild(child=child):
                name = self._name(child)
                if self._find(name) is not None:
                    self.state.stop_child(name, self.now, GRACE_SECONDS)
            case Close(child=child, is_finished=is_finished):
                self._close(self._name(child), is_finished)
            case Replace(child=child, must_begin=must_begin):
                self._replace(self._name(child), self.policies[child % len(self.names)], must_begin)
            case Forget(child=child):
                self._forget(self._name(child))
            case Pass(seconds=seconds):
                self._pass(seconds)
            case Stop():
                self.state.stop(self.now, GRACE_SECONDS)
            case Hurry():
                pass

    def _name(self, child: int) -> str:
        return self.names[child % len(self.names)]

    def _find(self, name: str) -> ChildRecord | None:
        return next((child for child in self.state.children if child.name == name), None)

    def _replace(self, name: str, policy: Restart, must_begin: bool) -> None:
        """As the driver does: it concludes the child that is replaced, and adds none when it stops."""
        known = self._find(name)
        if self.state.is_stopping or (known is not None and not known.is_down_for_good):
            return
        assert self.state.add(name, policy, self.now, must_begin=must_begin) is known
        self.concluded.discard(name)
        self.begun.discard(name)
        self.hastened.discard(name)

    def _forget(self, name: str) -> None:
        known = self._find(name)
        if known is not None and known.is_down_for_good:
            assert self.state.remove(name) is known
            self.concluded.discard(name)

    def _close(self, name: str, is_finished: bool) -> None:
        known = self._find(name)
        if known is not None:
            if known.phase == "waiting":
                self.hastened.add(name)
            self.state.child_closed(name, self.now, is_finished=is_finished)
            assert known.phase != "waiting" or known.start_at == self.now

    def _end(self, names: Sequence[str], child: int, kind: Kind) -> None:
        if names:
            self._child_ends(names[child % len(names)], kind)

    def _child_ends(self, name: str, kind: Kind) -> None:
        del self.alive[name]
        self.asked.discard(name)
        error = ValueError(name) if kind == "failed" else None
        self.state.child_ended(name, ChildEnding(kind=kind, error=error), self.now)

    def _pass(self, seconds: float) -> None:
        self.now = max(self.now, min(self.now + seconds, self.state.next_time()))

    def _advance(self) -> None:
        while actions := self.state.advance(self.now):
            for action in actions:
                self._carry_out(action)

    def _carry_out(self, action: Action) -> None:
        name = action.child
        match action.kind:
            case "start":
                assert name not in self.alive
                assert name not in self.concluded
                self._check_the_start(name)
                self.alive[name] = None
                self.begun.add(name)
            case "ask":
                assert name in self.alive
                assert name not in self.asked
                self.asked.add(name)
            case "cancel":
                assert name in self.asked
                self._child_ends(name, "cancelled")
            case "conclude":
                assert name not in self.alive
                assert name not in self.concluded
                self.concluded.add(name)

    def _check_the_start(self, name: str) -> None:
        """Children that are restarted together begin when all have stopped, and in their order."""
        child = self._find(name)
        assert child is not None
        if child.is_stopping:
            assert child.must_begin
            assert name not in self.begun
            return
        assert not self.state.is_stopping
        if self.strategy in ("one_for_all", "rest_for_one"):
            assert not self.asked
            later = [each.name for each in self.state.children if each.position > child.position]
            if self.strategy == "rest_for_one" and name in self.begun:
                assert not [each for each in later if each in self.alive and each not in self.hastened]

    def _check_that_it_is_told(self) -> None:
        """Who waits until no child runs, or is going to, looks again after events only."""
        up = {child.name for child in self.state.children if not child.is_down_for_good}
        told = {event.child for event in self.events[self.told :]}
        assert self.up - up <= told
        self.up, self.told = up, len(self.events)

    def _check_that_nothing_is_forgotten(self) -> None:
        """Each child runs, is down for good, or will be started at a time that comes."""
        for child in self.state.children:
            assert child.is_alive == (child.name in self.alive)
            assert child.is_alive == (child.status == "running")
            assert not (child.is_stopping and not child.is_alive)
            assert child.is_over == (child.name in self.concluded)
            if child.start_at is not None and not child.is_alive:
                assert self.asked or self.state.next_time() <= child.start_at
        assert self.state.is_idle == all(child.is_down_for_good for child in self.state.children)
        if self.asked:
            assert self.state.next_time() <= self.now + GRACE_SECONDS
        assert self.state.next_time() > self.now

    def _check_the_limit(self) -> None:
        """No child is restarted after its delay when there were enough restarts of all within the window."""
        times: list[float] = []
        for event in self.events:
            if event.kind in ("waiting", "circuit_opened"):
                recent = [time for time in times if time > event.time - self.limit.window_seconds]
                assert (len(recent) < self.limit.max_restarts) == (event.kind == "waiting")
                times.append(event.time)

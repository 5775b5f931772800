"""A supervisor's decisions, carried out by children that are mere numbers, and what must always be true."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from nighthawk_async.actors import Restart, SupervisorEvent, SupervisorStrategy
from nighthawk_async.actors.supervisor_child import ChildEnding
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
class Pass:
    """Time passes, as far as the next thing to be done at most."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The supervisor is stopped."""


Step: TypeAlias = End | Obey | StopChild | Pass | Stop


@dataclass(slots=True)
class World:
    """The children of a supervisor, and checks of what it wants done with them."""

    strategy: SupervisorStrategy
    policies: Sequence[Restart]
    now: float = 0.0
    alive: dict[str, None] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    concluded: set[str] = field(default_factory=set)
    starts: dict[str, list[float]] = field(default_factory=dict)
    events: list[SupervisorEvent] = field(default_factory=list)
    names: list[str] = field(init=False)
    state: SupervisorState = field(init=False)

    def __post_init__(self) -> None:
        self.state = SupervisorState(self.strategy, grace_seconds=GRACE_SECONDS, record=self.events.append)
        self.names = [f"child {index}" for index in range(len(self.policies))]

    def play(self, steps: Sequence[Step]) -> None:
        """Carry a schedule out, then stop."""
        for index, (name, policy) in enumerate(zip(self.names, self.policies, strict=True)):
            self.state.add(name, policy, self.now, must_begin=index % 2 == 0)
        self._advance()
        assert list(self.alive) == self.names
        for step in steps:
            self._take(step)
            self._advance()
            self._check_that_nothing_is_forgotten()
        self.state.stop(self.now, GRACE_SECONDS)
        self._advance()
        while not self.state.is_ended:
            self._pass(GRACE_SECONDS)
            self._advance()
        assert not self.alive
        assert self.concluded == set(self.names)
        self._check_the_limits()

    def _take(self, step: Step) -> None:
        match step:
            case End(child=child, kind=kind):
                self._end([name for name in self.alive if name not in self.asked], child, kind)
            case Obey(child=child, is_failing=is_failing):
                kind = "failed" if is_failing else "returned"
                self._end([name for name in self.alive if name in self.asked], child, kind)
            case StopChild(child=child):
                self.state.stop_child(self.names[child % len(self.names)], self.now, GRACE_SECONDS)
            case Pass(seconds=seconds):
                self._pass(seconds)
            case Stop():
                self.state.stop(self.now, GRACE_SECONDS)

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
                self.starts.setdefault(name, []).append(self.now)
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
        assert not self.state.is_stopping
        if self.strategy in ("one_for_all", "rest_for_one"):
            assert not self.asked
            later = self.names[self.names.index(name) + 1 :]
            if self.strategy == "rest_for_one" and name in self.starts:
                assert not [each for each in later if each in self.alive]

    def _check_that_nothing_is_forgotten(self) -> None:
        """Each child runs, is down for good, or will be started at a time that comes."""
        for child in self.state.children:
            assert child.is_alive == (child.name in self.alive)
            assert child.is_alive == (child.status == "running")
            assert not (child.must_stop and not child.is_alive)
            if child.start_at is not None and not child.is_alive:
                assert self.asked or self.state.next_time() <= child.start_at
        if self.asked:
            assert self.state.next_time() <= self.now + GRACE_SECONDS
        assert self.state.next_time() > self.now

    def _check_the_limits(self) -> None:
        """Without companions, no child is restarted more often within its window than it may be."""
        if self.strategy not in ("one_for_one", "escalate"):
            return
        for name, policy in zip(self.names, self.policies, strict=True):
            if policy.circuit_open_seconds is not None:
                continue  # each trial of an open circuit is one more
            restarts = self.starts[name][1:]
            for index, time in enumerate(restarts):
                window = [each for each in restarts[: index + 1] if each > time - policy.window_seconds]
                assert len(window) <= policy.max_restarts + 1

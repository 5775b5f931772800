"""A supervisor that runs, and children that end while others are started, stopped and forgotten.

Whatever comes when: a child runs once at a time, and those that are said to run do.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from nighthawk_async.actors import (
    Actor,
    ActorEndedError,
    ActorHandle,
    NameConflictError,
    Restart,
    RestartLimitError,
    Supervisor,
    SupervisorEndedError,
    SupervisorStrategy,
    current_child,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A child is started."""

    child: int
    kind: Literal["deaf", "polite", "actor"]
    is_patient: bool
    is_restarted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """A child ends by itself, if it runs."""

    child: int
    is_failing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StopChild:
    """A task stops a child."""

    child: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """A child is forgotten."""

    child: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """The tasks run for some turns of the loop."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The supervisor is to stop."""


Step: TypeAlias = Start | End | StopChild | Forget | Turns | Stop


MANY_TURNS = 60  # more than all that is under way can take


async def take_turns(count: int) -> None:
    """Let the tasks run for some turns of the loop."""
    for _ in range(count):
        await checkpoint()


class Obedient(Actor):
    """Notes how many of its name live.

    Args:
        world: Where to note it.
        name: The name.
    """

    def __init__(self, world: "World", name: str) -> None:
        self.world = world
        self.name = name

    async def started(self) -> None:
        self.world.running[self.name] += 1

    async def stopping(self) -> None:
        self.world.running[self.name] -= 1

    async def fail(self) -> None:
        """Crash."""
        raise ValueError(self.name)


@dataclass(slots=True)
class World:
    """A supervisor and its children."""

    strategy: SupervisorStrategy
    max_restarts: int
    circuit_open_seconds: float | None
    running: Counter[str] = field(default_factory=Counter)
    orders: dict[str, anyio.Event] = field(default_factory=dict)
    failing: set[str] = field(default_factory=set)
    handles: dict[str, ActorHandle[Obedient]] = field(default_factory=dict)
    stops: int = 0

    async def play(self, steps: Sequence[Step]) -> None:
        """Carry a schedule out and check what became of the children."""
        supervisor = Supervisor(
            strategy=self.strategy,
            max_restarts=self.max_restarts,
            circuit_open_seconds=self.circuit_open_seconds,
            grace_seconds=0,
        )
        reason: Exception | None = None
        async with anyio.create_task_group() as task_group:
            try:
                async with supervisor:
                    for step in steps:
                        await self._take(step, supervisor, task_group)
                        assert all(number in (0, 1) for number in self.running.values())
                    await take_turns(MANY_TURNS)
                    self._check(supervisor)
            except (RestartLimitError, ValueError) as error:
                reason = error
        expected = ValueError if self.strategy == "escalate" else RestartLimitError
        assert reason is None or type(reason) is expected
        assert supervisor.status == ("stopped" if reason is None else "failed")
        assert self.stops == 0
        assert not +self.running
        assert all(child.status not in ("running", "waiting") for child in supervisor.children)
        assert all(handle.status == "ended" for handle in self.handles.values())

    def _check(self, supervisor: Supervisor) -> None:
        """What is said to run runs, and nothing else does."""
        said = {child.name for child in supervisor.children if child.status == "running"}
        assert said == set(+self.running)
        for name, handle in self.handles.items():
            assert (handle.status == "running") == (name in said)
            mailbox = handle.statistics().mailbox
            assert handle.status != "waiting" or not mailbox.is_closed or mailbox.depth

    async def _take(self, step: Step, supervisor: Supervisor, task_group: TaskGroup) -> None:
        try:
            match step:
                case Start():
                    self._start(step, f"{step.child}", supervisor)
                case End(child=child, is_failing=is_failing):
                    self._end(f"{child}", is_failing)
                case StopChild(child=child):
                    self.stops += 1
                    task_group.start_soon(self._stop_child, f"{child}", supervisor)
                case Forget(child=child):
                    supervisor.forget_child(f"{child}")
                    self.handles.pop(f"{child}", None)
                case Turns(count=count):
                    await take_turns(count)
                case Stop():
                    supervisor.request_stop()
        except (NameConflictError, KeyError, SupervisorEndedError, ActorEndedError):
            pass  # as documented

    def _start(self, step: Start, name: str, supervisor: Supervisor) -> None:
        seconds = 1000 if step.is_patient else 0
        mode = "on_failure" if step.is_restarted else "never"
        restart = Restart(mode=mode, backoff_seconds=seconds, max_backoff_seconds=seconds, jitter_seconds=0)
        if step.kind == "actor":
            make = partial(Obedient, self, name)
            self.handles[name] = supervisor.start_actor(name, make, restart=restart)
        else:
            supervisor.start(name, partial(self._run, name, step.kind == "polite"), restart=restart)
            self.handles.pop(name, None)

    async def _run(self, name: str, is_polite: bool) -> None:
        self.running[name] += 1
        order = self.orders[name] = anyio.Event()
        try:
            if is_polite:
                async with anyio.create_task_group() as task_group:
                    task_group.start_soon(self._obey, order)
                    await order.wait()
                    task_group.cancel_scope.cancel()
            else:
                await order.wait()
        finally:
            self.running[name] -= 1
        if name in self.failing:
            self.failing.discard(name)
            raise ValueError(name)

    async def _obey(self, order: anyio.Event) -> None:
        await current_child().wait_stop_requested()
        order.set()

    def _end(self, name: str, is_failing: bool) -> None:
        if name in self.handles:
            handle = self.handles[name]
            handle.tell_nowait(Obedient.fail) if is_failing else handle.close()
        elif self.running[name]:
            if is_failing:
                self.failing.add(name)
            self.orders[name].set()

    async def _stop_child(self, name: str, supervisor: Supervisor) -> None:
        try:
            await supervisor.stop_child(name)
        except KeyError:
            pass
        finally:
            self.stops -= 1

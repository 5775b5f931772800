"""Executes the decisions of `supervisor_state`: starts children, stops them, and reports how they ended.

A single task does all of it, so the actions have one order. Each decision is executed before anything else
can happen: there is no await in between.

The children are functions and actors; a runner runs one of them, whenever `supervisor_state` decides so.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import ClassVar

import anyio
from anyio.abc import TaskGroup

from .actor_core import ActorCore
from .errors import ActorError, SupervisorDeadlockError, SupervisorEndedError
from .nodes import LivesNode
from .supervisor_child import (
    ChildEnding,
    Restart,
    RestartLimit,
    SupervisorEvent,
    SupervisorEventLog,
    check_restart,
)
from .supervisor_state import Action, SupervisorState, SupervisorStrategy
from .task_group import raising_foreign_cancellations


class SupervisorPosition:
    """The position of a supervisor: the child of another supervisor that has entered it, if any."""

    __slots__ = ("outer",)

    def __init__(self) -> None:
        self.outer: ChildRunner | None = None


class ChildRunner(ABC):
    """Runs a child, once or several times in sequence."""

    must_begin: ClassVar[bool] = False
    """Whether it is started even if it is to stop first."""

    def __init__(self) -> None:
        self.context = copy_context()
        self.scope = anyio.CancelScope()
        self.has_concluded = anyio.Event()
        self.place = SupervisorPosition()
        self._task_id: int | None = None

    @property
    def is_caller(self) -> bool:
        """Whether the caller is the child itself, not merely a task that it started."""
        return self._task_id is not None and self._task_id == anyio.get_current_task().id

    @contextmanager
    def owned(self) -> Generator[None, None, None]:
        """Mark the current task, which ends with the child, as the one that runs it."""
        _current.set(self)
        self._task_id = anyio.get_current_task().id
        try:
            yield
        finally:
            self._task_id = None

    def prepare(self) -> None:
        """Get ready to run, again or for the first time."""
        self.scope = anyio.CancelScope()

    @abstractmethod
    async def run(self) -> None:
        """Run."""

    @abstractmethod
    def ask_to_stop(self, *, is_final: bool) -> bool:
        """Ask it to end soon; return whether it can notice the request.

        Args:
            is_final: Whether it will not be started again.
        """

    @property
    def is_finished(self) -> bool:
        """Whether it is to end, or has ended, and has nothing to do in another run."""
        return False

    def call_when_closed(self, call: Callable[[], object]) -> None:
        """Register a callback for when it is closed while not running. Only some children can be closed."""
        return

    def call_to_stop(self, call: Callable[[], object]) -> None:
        """Register a callback for when an observer wants it to end. Some children then end by themselves."""
        return

    def conclude(self, error: Exception | None) -> None:
        """Note that it will not be started again. Calling it again has no effect.

        Args:
            error: The last error that it raised; None for none.
        """
        self.has_concluded.set()


class SupervisedChild:
    """The supervised child in which the caller runs; `current_child` returns it.

    Args:
        name: The name of the child.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_stop_requested = anyio.Event()

    @property
    def name(self) -> str:
        """The name of the child."""
        return self._name

    @property
    def is_stop_requested(self) -> bool:
        """Whether the supervisor has asked the child to return. If it does not, it is cancelled later."""
        return self._is_stop_requested.is_set()

    async def wait_stop_requested(self) -> None:
        """Wait until the supervisor asks the child to return."""
        await self._is_stop_requested.wait()

    def request_stop(self) -> None:
        """Ask the child to return."""
        self._is_stop_requested.set()


class FunctionRunner(ChildRunner):
    """An async function.

    Args:
        name: The name of the child.
        function: The function.
    """

    def __init__(self, name: str, function: Callable[[], Awaitable[object]]) -> None:
        super().__init__()
        self._name = name
        self._function = function
        self._child = SupervisedChild(name)
        self._has_asked = False
        self._stop: Callable[[], object] | None = None
        self._node = LivesNode("task", name, self._stop_now)

    def prepare(self) -> None:
        """Get ready to run."""
        super().prepare()
        self._child = SupervisedChild(self._name)
        self._has_asked = False

    def find_child(self) -> SupervisedChild:
        """Return the child that runs this function, as its supervisor knows it."""
        self._has_asked = True
        return self._child

    async def run(self) -> None:
        """Call the function."""
        with self._node.life(), raising_foreign_cancellations():
            await self._function()

    def ask_to_stop(self, *, is_final: bool) -> bool:
        """Ask the function to return; return False if it never called `current_child`."""
        self._child.request_stop()
        return self._has_asked

    def call_to_stop(self, call: Callable[[], object]) -> None:
        """Register a callback for when an observer wants the function to end."""
        self._stop = call

    def conclude(self, error: Exception | None) -> None:
        """Note that the function will not be called again."""
        self._node.end()
        self._stop = None  # it references the runner
        super().conclude(error)

    def _stop_now(self) -> None:
        if self._stop is not None:
            self._stop()


class ActorRunner(ChildRunner):
    """Runs an actor, one life per run.

    Args:
        core: The actor.
    """

    must_begin = True  # it handles the messages sent before it was stopped

    def __init__(self, core: ActorCore) -> None:
        super().__init__()
        self.core = core

    @property
    def is_finished(self) -> bool:
        """Whether the actor was closed and has nothing to handle."""
        return self.core.is_finished

    def prepare(self) -> None:
        """Get ready for another life."""
        super().prepare()
        self.core.renew()

    async def run(self) -> None:
        """Live."""
        with raising_foreign_cancellations():
            await self.core.live()

    def ask_to_stop(self, *, is_final: bool) -> bool:
        """Let the actor handle the messages sent to it, or only the current one if it will live again."""
        if is_final:
            self.core.close()
        else:
            self.core.pause()
        return True

    def call_when_closed(self, call: Callable[[], object]) -> None:
        """Register a callback for when the actor is closed between two lives."""
        self.core.when_closed = call

    def conclude(self, error: Exception | None) -> None:
        """Refuse the messages that wait in the mailbox."""
        self.core.end(error)
        super().conclude(error)


# Supervisors know nothing of runs. A child and a holder begin and end apart from each other.
_current: ContextVar[ChildRunner | None] = ContextVar("nighthawk_async_supervised_child", default=None)


def find_child() -> SupervisedChild | None:
    """Return the supervised child in which the caller runs; None when it runs in none."""
    runner = _current.get()
    return runner.find_child() if isinstance(runner, FunctionRunner) else None


def enclosing_runners() -> Iterator[ChildRunner]:
    """Iterate over the child that is the caller, the one that has entered its supervisor, and so on."""
    runner = _current.get()
    if runner is None or not runner.is_caller:
        return
    while runner is not None:
        yield runner
        runner = runner.place.outer


def current_child() -> SupervisedChild:
    """Return the supervised child in which the caller runs: a function passed to `Supervisor.start`.

    A function that calls this is expected to return when a stop is requested, and is given time for that. One
    that never calls it is cancelled at once.

    Raises:
        ActorError: The caller does not run in such a function.
    """
    child = find_child()
    if child is None:
        raise ActorError("the caller is not a function that a supervisor runs")
    return child


_logger = logging.getLogger("nighthawk")


class SupervisorDriver:
    """Drives the children of one supervisor.

    Args:
        name: The name of the supervisor.
        strategy: The children that are restarted together.
        limit: The limit for restarts.
        grace_seconds: The time that children have to stop before they are cancelled, in seconds.
        max_events: The number of events that are kept.
    """

    def __init__(
        self,
        name: str,
        strategy: SupervisorStrategy,
        *,
        limit: RestartLimit,
        grace_seconds: float,
        max_events: int,
    ) -> None:
        self.name = name
        self.log = SupervisorEventLog(max_events=max_events)
        self.state = SupervisorState(strategy, limit=limit, grace_seconds=grace_seconds, record=self._record)
        self.runners: dict[str, ChildRunner] = {}
        self.task_group: TaskGroup | None = None
        self._place = SupervisorPosition()
        self._happened = anyio.Event()
        self._has_begun = anyio.Event()  # the child that was started last
        self._has_begun.set()
        self._has_ended = anyio.Event()

    @property
    def has_ended(self) -> bool:
        """Whether no child runs any more."""
        return self._has_ended.is_set()

    def check_running(self) -> None:
        """Raise unless the supervisor is entered and not stopping, so that it can start children."""
        if self.task_group is None or self.state.is_stopping:
            raise SupervisorEndedError(f"the supervisor {self.name!r} is not running, so it starts nothing")

    def check_entered(self) -> None:
        """Raise unless the supervisor is entered, so that it can be stopped or waited for."""
        if self.task_group is None:
            raise SupervisorEndedError(f"the supervisor {self.name!r} is not entered")

    def start_in(self, task_group: TaskGroup) -> None:
        """Run in a task group from now on, together with the children."""
        self.task_group = task_group
        self._place.outer = next(enclosing_runners(), None)
        task_group.start_soon(self.drive, name=f"supervisor {self.name}")

    def add(self, name: str, restart: Restart, runner: ChildRunner) -> None:
        """Start a child soon.

        Raises:
            TypeError: The policy is not a `Restart`.
        """
        check_restart(restart)
        now = anyio.current_time()
        replaced = self.state.add(name, restart, now, must_begin=runner.must_begin)
        if replaced is not None:
            self.runners[name].conclude(replaced.last_error)
        runner.place = self._place
        runner.call_when_closed(lambda: self._child_closed(name, runner))
        runner.call_to_stop(lambda: self._child_unwanted(name, runner))
        self.runners[name] = runner
        self._happened.set()

    def forget(self, name: str) -> None:
        """Remove a child that has ended permanently."""
        forgotten = self.state.remove(name)
        self.runners.pop(name).conclude(forgotten.last_error)

    def request_stop(self, grace_seconds: float) -> None:
        """Stop all children soon."""
        self.state.stop(anyio.current_time(), grace_seconds)
        self._happened.set()

    async def stop_child(self, name: str, grace_seconds: float) -> None:
        """Stop a child, and wait until it has ended."""
        runner = self.runners[name]
        if runner in enclosing_runners():
            raise SupervisorDeadlockError(f"the child {name!r} waits for its own end")
        self.state.stop_child(name, anyio.current_time(), grace_seconds)
        self._happened.set()
        await runner.has_concluded.wait()

    async def wait_children_ended(self) -> None:
        """Wait until every child has ended permanently."""
        self.check_waiter()
        while not (self.state.is_idle or self.has_ended):
            await self.log.wait_changed()

    async def wait_ended(self) -> None:
        """Wait until no child runs any more."""
        await self._has_ended.wait()

    def check_waiter(self) -> None:
        """Raise when a child would wait for all children, and so for itself."""
        for runner in enclosing_runners():
            if runner.place is self._place:
                raise SupervisorDeadlockError(
                    f"a child of the supervisor {self.name!r} waits for the end of all its children, and so "
                    "for its own; `request_stop` does not wait"
                )

    async def drive(self) -> None:
        """Execute the decisions of the state until it has ended.

        Raises:
            Exception: The reason why it has given up.
        """
        while True:
            self._happened = anyio.Event()
            while actions := self.state.advance(anyio.current_time()):
                for action in actions:
                    self._carry_out(action)
            if self.state.is_ended:
                break
            with anyio.CancelScope(deadline=self.state.next_time()):
                await self._happened.wait()
        self.end()
        if self.state.failure is not None:
            raise self.state.failure

    def end(self) -> None:
        """End, also after a cancellation from outside. Calling it again has no effect."""
        if self.has_ended:
            return
        self.state.end(anyio.current_time())
        for runner in self.runners.values():
            runner.conclude(self.state.failure)
        self._has_ended.set()
        self.log.close()

    def _carry_out(self, action: Action) -> None:
        runner = self.runners[action.child]
        match action.kind:
            case "start":
                self._start(action.child, runner)
            case "ask":
                if not runner.ask_to_stop(is_final=action.is_final):
                    runner.scope.cancel()
            case "cancel":
                runner.scope.cancel()
            case "conclude":
                runner.conclude(action.error)

    def _start(self, name: str, runner: ChildRunner) -> None:
        assert self.task_group is not None, "the supervisor is entered before it starts children"
        runner.prepare()
        earlier, self._has_begun = self._has_begun, anyio.Event()
        # The task copies the active context.
        runner.context.run(
            self.task_group.start_soon, self._run_child, name, runner, earlier, self._has_begun
        )

    async def _run_child(
        self, name: str, runner: ChildRunner, earlier: anyio.Event, has_begun: anyio.Event
    ) -> None:
        ending = ChildEnding(kind="cancelled")
        try:
            with runner.scope, runner.owned():
                await _take_turn(earlier, has_begun)
                await runner.run()
                ending = ChildEnding(kind="returned")
        except Exception as error:  # the policy decides how to handle any error
            ending = ChildEnding(kind="failed", error=error)
        finally:
            if runner.is_finished:
                ending = ChildEnding(kind="finished", error=ending.error)
            self.state.child_ended(name, ending, anyio.current_time())
            self._happened.set()

    def _child_closed(self, name: str, runner: ChildRunner) -> None:
        if not self.has_ended and self.runners.get(name) is runner:
            self.state.child_closed(name, anyio.current_time(), is_finished=runner.is_finished)
            self._happened.set()

    def _child_unwanted(self, name: str, runner: ChildRunner) -> None:
        if not self.has_ended and self.runners.get(name) is runner:
            self.state.stop_child(name, anyio.current_time(), 0)
            self._happened.set()

    def _record(self, event: SupervisorEvent) -> None:
        if event.kind == "failed":
            _logger.warning("supervisor %s: child %s failed", self.name, event.child, exc_info=event.error)
        self.log.record(event)


async def _take_turn(earlier: anyio.Event, has_begun: anyio.Event) -> None:
    """Start after the child that was started before, so that children start in their order."""
    try:
        await earlier.wait()
    finally:
        has_begun.set()

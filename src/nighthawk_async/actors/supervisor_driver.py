"""Carries out what `supervisor_state` decides: starts children, stops them, and says how they ended.

One task does it all, so that what is done to the children is done in one order. What is decided is carried
out before anything else can happen: nothing is awaited in between.
"""

import logging
from functools import partial

import anyio
from anyio.abc import TaskGroup

from .errors import SupervisorDeadlockError, SupervisorEndedError
from .restart import Restart, RestartLimit, check_restart
from .supervisor_child import ChildEnding, SupervisorEvent, SupervisorEventLog
from .supervisor_runners import ChildRunner, SupervisorPlace, runners_around
from .supervisor_state import Action, SupervisorState, SupervisorStrategy

__all__ = ["SupervisorDriver"]

_logger = logging.getLogger("nighthawk")


class SupervisorDriver:
    """Drives the children of one supervisor.

    Args:
        name: What the supervisor is called.
        strategy: What a restart takes along.
        limit: How many restarts are too many.
        grace_seconds: How many seconds children have to stop before they are cancelled.
        max_events: How many events are kept.
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
        self._place = SupervisorPlace()
        self._happened = anyio.Event()
        self._has_begun = anyio.Event()  # the child that was started last
        self._has_begun.set()
        self._has_ended = anyio.Event()

    @property
    def has_ended(self) -> bool:
        """Whether nothing runs any more."""
        return self._has_ended.is_set()

    def check_running(self) -> None:
        """Refuse to start children in a supervisor that is not entered, or is stopping."""
        if self.task_group is None or self.state.is_stopping:
            raise SupervisorEndedError(f"the supervisor {self.name!r} does not run, and starts nothing")

    def check_entered(self) -> None:
        """Refuse to stop or to be waited for before it runs."""
        if self.task_group is None:
            raise SupervisorEndedError(f"the supervisor {self.name!r} is not entered")

    def start_in(self, task_group: TaskGroup) -> None:
        """Run in a task group from now on, and so do the children."""
        self.task_group = task_group
        self._place.outer = next(runners_around(), None)
        task_group.start_soon(self.drive, name=f"supervisor {self.name}")

    def add(self, name: str, restart: Restart, runner: ChildRunner) -> None:
        """Start a child soon.

        Raises:
            TypeError: The policy is no `Restart`.
        """
        check_restart(restart)
        now = anyio.current_time()
        replaced = self.state.add(name, restart, now, must_begin=runner.must_begin)
        if replaced is not None:
            self.runners[name].conclude(replaced.last_error)
        runner.place = self._place
        runner.call_when_closed(partial(self._child_closed, name, runner))
        runner.call_to_stop(partial(self._child_unwanted, name, runner))
        self.runners[name] = runner
        self._happened.set()

    def forget(self, name: str) -> None:
        """Forget a child that has ended for good."""
        forgotten = self.state.remove(name)
        self.runners.pop(name).conclude(forgotten.last_error)

    def request_stop(self, grace_seconds: float) -> None:
        """Stop all children soon."""
        self.state.stop(anyio.current_time(), grace_seconds)
        self._happened.set()

    async def stop_child(self, name: str, grace_seconds: float) -> None:
        """Stop a child, and wait until it has ended."""
        runner = self.runners[name]
        if runner in runners_around():
            raise SupervisorDeadlockError(f"the child {name!r} waits for its own end")
        self.state.stop_child(name, anyio.current_time(), grace_seconds)
        self._happened.set()
        await runner.has_concluded.wait()

    async def wait_children_ended(self) -> None:
        """Wait until every child has ended for good."""
        self.check_waiter()
        while not (self.state.is_idle or self.has_ended):
            await self.log.wait_changed()

    async def wait_ended(self) -> None:
        """Wait until nothing runs any more."""
        await self._has_ended.wait()

    def check_waiter(self) -> None:
        """Refuse to let a child wait for all children, and so for itself."""
        for runner in runners_around():
            if runner.place is self._place:
                raise SupervisorDeadlockError(
                    f"a child of the supervisor {self.name!r} waits for the end of all its children, and so "
                    "for its own; `request_stop` does not wait"
                )

    async def drive(self) -> None:
        """Do what the state decides, until it has ended.

        Raises:
            Exception: Why it has given up.
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
        """Nothing runs any more, also when it was cancelled from outside. Again changes nothing."""
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
        assert self.task_group is not None, "who is not entered starts nothing"
        runner.prepare()
        earlier, self._has_begun = self._has_begun, anyio.Event()
        # The task copies the context in force.
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
        except Exception as error:  # whatever it is, the policy decides what becomes of it
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
    """Begin after the one that was started before, so that children begin in their order."""
    try:
        await earlier.wait()
    finally:
        has_begun.set()

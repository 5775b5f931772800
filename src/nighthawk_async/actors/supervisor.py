"""Supervisors: they start children, and restart those that fail.

`supervisor_state` makes the decisions about children, and `supervisor_driver` executes them.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar, TypeVarTuple, cast, get_args

import anyio

from .actor import Actor, ActorHandle, make_core
from .errors import NameConflictError, SupervisorEndedError, check_seconds, check_whole_number
from .supervisor_child import (
    ChildState,
    Restart,
    RestartLimit,
    SupervisorEvent,
    SupervisorEventStream,
    check_restart,
)
from .supervisor_driver import ActorRunner, ChildRunner, FunctionRunner, SupervisorDriver, find_child
from .supervisor_state import SupervisorStrategy
from .task_group import BareTaskGroup

Instance = TypeVar("Instance", bound=Actor)
Arguments = TypeVarTuple("Arguments")

SupervisorStatus: TypeAlias = Literal["new", "running", "stopping", "stopped", "failed"]
"""`failed`: it gave up, because children ended too often, or because its strategy is `escalate`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A function for a supervisor to run.

    Args:
        name: Its name.
        function: An async function without arguments.
        restart: The restart policy.
    """

    name: str
    function: Callable[[], Awaitable[object]]
    restart: Restart = field(default_factory=Restart)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorChild(Generic[Instance]):
    """An actor for a supervisor to run.

    Args:
        name: Its name.
        make: Makes an instance, one after each crash: the class, or a function without arguments.
        restart: The restart policy.
        capacity: The greatest number of waiting messages; None for no limit.
    """

    name: str
    make: Callable[[], Instance]
    restart: Restart = field(default_factory=Restart)
    capacity: int | None = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorStatistics:
    """Statistics of a supervisor at one moment.

    Args:
        running: Children that run.
        waiting: Children that will be started or restarted.
        circuit_open: Children that are not restarted for a while because there were too many restarts.
        stopped: Children that ended without an error or were stopped.
        failed: Children that failed and will not be restarted.
        suppressed: Children that would be restarted if the supervisor were not stopping.
        failures: The number of failures of children so far.
        restarts: The number of restarts of children so far.
        circuit_openings: The number of times that a child was not restarted for a while for that reason.
    """

    running: int
    waiting: int
    circuit_open: int
    stopped: int
    failed: int
    suppressed: int
    failures: int
    restarts: int
    circuit_openings: int


class Supervisor:
    """Runs children and restarts those that fail. Enter it once, with `async with`.

    Leaving the block stops the children, the last one first: each is asked to end, and cancelled if it has
    not ended after the grace. Work of a child in a worker thread cannot be cancelled and is waited for. An
    error or a cancellation in the block cancels all children at once. A supervisor that gives up stops them
    as leaving does and raises from the block, so supervisors can supervise each other: run the inner one with
    `run`.

    - `one_for_one`: a child that fails is restarted.
    - `one_for_all`: the others are stopped and restarted with it, including those that had returned.
    - `rest_for_one`: those that were started after it are stopped and restarted with it.
    - `escalate`: the first failure ends the supervisor, which raises that error.

    The cancellation of a child is never a failure. If others cancel something that it awaits, that is a
    failure on asyncio, where the cancellation arrives in the child. A child that is stopped (`stop_child`) is
    never restarted; an actor that was closed is restarted only while messages wait that were sent before.
    Children with the mode `never` are stopped with others and not restarted with them.

    Restarts are counted over all children, as in Erlang; a restart of a child with its siblings counts once.
    If one more is needed than `max_restarts` within `window_seconds`, the supervisor gives up and raises
    `RestartLimitError`. With `circuit_open_seconds` it does not: the child is restarted after that time,
    which counts as a restart, too. Under `escalate` there are no restarts to count.

    Args:
        strategy: The children that are restarted together.
        children: Children to start when it is entered, in order.
        max_restarts: The greatest number of restarts within the window.
        window_seconds: The length of the rolling window, in seconds.
        circuit_open_seconds: The delay before a child that needs one more restart is restarted, in seconds.
            None: the supervisor gives up.
        grace_seconds: The time that children have to stop before they are cancelled, in seconds.
        name: Its name in logs.
        max_events: The number of events that are kept.

    Raises:
        NameConflictError: Two of the children have the same name.
        TypeError: The policy of a child is not a `Restart`, or `make` of an actor cannot be called.
        ValueError: A value is out of range or not a number.
    """

    def __init__(
        self,
        *,
        strategy: SupervisorStrategy = "one_for_one",
        children: Iterable[Child | ActorChild[Any]] = (),
        max_restarts: int = 5,
        window_seconds: float = 60.0,
        circuit_open_seconds: float | None = None,
        grace_seconds: float = 5.0,
        name: str = "supervisor",
        max_events: int = 1000,
    ) -> None:
        if strategy not in get_args(SupervisorStrategy):
            raise ValueError(f"strategy must be one of {get_args(SupervisorStrategy)}, not {strategy!r}")
        check_seconds("grace_seconds", grace_seconds)
        check_whole_number("max_events", max_events, least=1)
        limit = RestartLimit(
            max_restarts=max_restarts,
            window_seconds=window_seconds,
            circuit_open_seconds=circuit_open_seconds,
        )
        self._grace_seconds = grace_seconds
        self._first_children = _checked_children(children)
        self._driver = SupervisorDriver(
            name, strategy, limit=limit, grace_seconds=grace_seconds, max_events=max_events
        )
        self._task_group = BareTaskGroup()

    @property
    def name(self) -> str:
        """The name of the supervisor."""
        return self._driver.name

    @property
    def status(self) -> SupervisorStatus:
        """The state of the supervisor."""
        if self._driver.has_ended:
            return "stopped" if self._driver.state.failure is None else "failed"
        if self._driver.task_group is None:
            return "new"
        return "stopping" if self._driver.state.is_stopping else "running"

    @property
    def children(self) -> tuple[ChildState, ...]:
        """The children at this moment, in the order in which they were first started."""
        return tuple(child.view() for child in self._driver.state.children)

    @property
    def events(self) -> tuple[SupervisorEvent, ...]:
        """The latest events, oldest first."""
        return self._driver.log.events

    def watch(self) -> SupervisorEventStream:
        """Return an async iterator over the events from now on; it ends when the supervisor has ended."""
        return self._driver.log.stream()

    def statistics(self) -> SupervisorStatistics:
        """Return the current statistics."""
        counts = Counter(child.status for child in self._driver.state.children)
        return SupervisorStatistics(
            running=counts["running"],
            waiting=counts["waiting"],
            circuit_open=counts["circuit_open"],
            stopped=counts["stopped"],
            failed=counts["failed"],
            suppressed=counts["suppressed"],
            failures=self._driver.state.failures,
            restarts=self._driver.state.restarts,
            circuit_openings=self._driver.state.circuit_openings,
        )

    # ---- children

    def start(
        self, name: str, function: Callable[[], Awaitable[object]], *, restart: Restart | None = None
    ) -> None:
        """Run a function as a child. It has the context variables of the caller, each time it runs.

        Args:
            name: The name of the child. It may be that of a child that has ended permanently.
            function: An async function without arguments.
            restart: The restart policy; None for the default one.

        Raises:
            NameConflictError: Another child has the name.
            SupervisorEndedError: The supervisor is not entered, or is stopping.
        """
        self._driver.check_running()
        self._driver.add(name, restart or Restart(), FunctionRunner(name, function))

    def start_actor(
        self,
        name: str,
        make: Callable[[*Arguments], Instance],
        *args: *Arguments,
        restart: Restart | None = None,
        capacity: int | None = 256,
    ) -> ActorHandle[Instance]:
        """Run an actor as a child.

        The handle stays the same over restarts, and waiting messages are not lost. The asker of a message
        that crashes the actor gets the error. An actor that is closed or stopped handles the messages sent to
        it before: one that is closed while it waits for its restart is started at once for that. One that its
        supervisor stops while it is being restarted refuses the waiting messages.

        Args:
            name: The name of the child, and of the actor.
            make: Makes an instance, one after each crash: the class, or a function.
            args: Its arguments. For keyword arguments, use `functools.partial`.
            restart: The restart policy; None for the default one.
            capacity: The greatest number of waiting messages; None for no limit.

        Raises:
            NameConflictError: Another child has the name.
            SupervisorEndedError: The supervisor is not entered, or is stopping.
            ValueError: The capacity is not at least 1.
        """
        self._driver.check_running()
        make_alone = partial(make, *args) if args else cast("Callable[[], Instance]", make)
        core = make_core(make_alone, name=name, capacity=capacity)
        self._driver.add(name, restart or Restart(), ActorRunner(core))
        return ActorHandle(core)

    def find_actor(self, name: str) -> ActorHandle[Any] | None:
        """Return the handle of the actor child of that name; None when there is no such actor."""
        runner = self._driver.runners.get(name)
        return ActorHandle(runner.core) if isinstance(runner, ActorRunner) else None

    async def stop_child(self, name: str, *, grace_seconds: float | None = None) -> None:
        """Stop a child, and wait until it has ended. It is not restarted.

        Args:
            name: Its name.
            grace_seconds: The time before it is cancelled, in seconds; None for that of the supervisor.

        Raises:
            KeyError: There is no such child.
            SupervisorDeadlockError: The caller is this child, or a descendant of it.
            ValueError: The grace is negative or not a number.
        """
        await self._driver.stop_child(name, self._checked_grace(grace_seconds))

    def forget_child(self, name: str) -> None:
        """Remove a child that has ended permanently, so that it uses no memory.

        Raises:
            KeyError: There is no such child.
            NameConflictError: It has not ended permanently.
        """
        self._driver.forget(name)

    # ---- the supervisor itself

    async def __aenter__(self) -> Self:
        if self._driver.task_group is not None:
            raise SupervisorEndedError("a supervisor can be entered once")
        task_group = await self._task_group.__aenter__()
        for name, restart, make_runner in self._first_children:
            self._driver.add(name, restart, make_runner())
        self._driver.start_in(task_group)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        if exc is None:
            self._driver.request_stop(self._grace_seconds)
        try:
            return await self._task_group.__aexit__(exc_type, exc, traceback)
        finally:
            self._driver.end()

    async def stop(self, grace_seconds: float | None = None) -> None:
        """Stop the children, the last one first, and wait until all have ended.

        Args:
            grace_seconds: The total time before they are cancelled, in seconds; None for that of the
                supervisor. Of two calls the shorter grace counts.

        Raises:
            SupervisorDeadlockError: The caller is a child or a descendant of one; see `request_stop`.
            SupervisorEndedError: The supervisor is not entered.
            ValueError: The grace is negative or not a number.
        """
        self._driver.check_waiter()
        self.request_stop(grace_seconds)
        await self._driver.wait_ended()

    def request_stop(self, grace_seconds: float | None = None) -> None:
        """Stop the children, the last one first, without waiting. A child may call this, too.

        Args:
            grace_seconds: As with `stop`.

        Raises:
            SupervisorEndedError: The supervisor is not entered.
            ValueError: The grace is negative or not a number.
        """
        grace = self._checked_grace(grace_seconds)
        self._driver.check_entered()
        self._driver.request_stop(grace)

    async def wait_ended(self) -> None:
        """Wait until every child has ended permanently.

        Raises:
            SupervisorDeadlockError: The caller is a child or a descendant of one.
            SupervisorEndedError: The supervisor is not entered.
        """
        self._driver.check_entered()
        await self._driver.wait_children_ended()

    async def run(self) -> None:
        """Enter, and leave when every child has ended permanently, or when a parent supervisor asks to stop.

        This makes a supervisor the child of another one: `outer.start("inner", lambda:
        Supervisor(children=[…]).run())`.
        """
        outer = find_child()
        async with self:
            if outer is None:
                await self.wait_ended()
                return
            async with anyio.create_task_group() as task_group:
                task_group.start_soon(self._wait_ended_then_cancel, task_group.cancel_scope)
                await outer.wait_stop_requested()
                task_group.cancel_scope.cancel()

    async def _wait_ended_then_cancel(self, scope: anyio.CancelScope) -> None:
        await self.wait_ended()
        scope.cancel()

    def _checked_grace(self, seconds: float | None) -> float:
        check_seconds("grace_seconds", seconds, or_none=True)
        return self._grace_seconds if seconds is None else seconds


_FirstChild: TypeAlias = tuple[str, Restart, Callable[[], ChildRunner]]


def _checked_children(children: Iterable[Child | ActorChild[Any]]) -> tuple[_FirstChild, ...]:
    """Return the name, policy and runner factory of each child, in the context of the code that enters."""
    checked: dict[str, _FirstChild] = {}
    for child in children:
        check_restart(child.restart)
        if child.name in checked:
            raise NameConflictError(f"two children have the name {child.name!r}")
        if isinstance(child, Child):
            make = partial(FunctionRunner, child.name, child.function)
        else:
            make = partial(ActorRunner, make_core(child.make, name=child.name, capacity=child.capacity))
        checked[child.name] = (child.name, child.restart, make)
    return tuple(checked.values())

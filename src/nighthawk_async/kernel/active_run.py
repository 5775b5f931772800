"""A run where it was not entered: in other tasks, threads and event loops of the process.

What is called there is part of the run: it counts in its budgets, its policies decide, and the end of the run
ends its steps. It is part of the caller too, whose cancellation reaches it as ever.
"""

import threading
from collections.abc import Callable, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    contextmanager,
    suppress,
)
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

import anyio

from ..errors import NighthawkError
from ..observation import NodeWriter, find_node_writer, using_node_writer
from ..parallel.event_loop import EventLoop
from ..parallel.task_current import find_place, open_task_of
from .environment import Environment, using_environment
from .policy import Policy, Position

if TYPE_CHECKING:
    from .fold import StepEnd, StepProceed
    from .step import Step
else:
    Step = StepEnd = StepProceed = object


class Hosting(Protocol):
    """A run, as far as its guests see it; see `run.Run`."""

    @property
    def guests(self) -> "Guests":
        """The guests of the run."""
        ...

    def extent(self, name: str = ...) -> AbstractAsyncContextManager[None]:
        """Join it from a task that was not started in it."""
        ...


HostingRun = TypeVar("HostingRun", bound=Hosting)


class _EndingWithRun(Policy):
    """Ends the steps of guests when the run ends."""

    __slots__ = ("_has_ended", "_scopes")

    position: ClassVar[Position] = Position.RUN
    holds_in_inner_runs: ClassVar[bool] = True

    def __init__(self) -> None:
        self._scopes: dict[anyio.CancelScope, EventLoop] = {}
        self._has_ended = False

    async def around_step(self, step: Step, proceed: StepProceed) -> StepEnd:
        """Execute a step in a cancel scope that the end of the run cancels."""
        with anyio.CancelScope() as scope:
            self._scopes[scope] = EventLoop()
            try:
                if self._has_ended:
                    scope.cancel()
                return await proceed()
            finally:
                del self._scopes[scope]
        raise NighthawkError("The run has ended, and with it this step, which was in progress.")

    def end(self) -> None:
        """Cancel the steps, on the event loops on which they run."""
        self._has_ended = True
        for scope, loop in list(self._scopes.items()):
            if loop.is_here:
                scope.cancel()
                continue
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon(scope.cancel)


class Guests:
    """The guests of a run: callers that were not started in it.

    Args:
        environment: The environment of the run.
        changed: Sets the context variables that the run has changed.
        around: The node of observers that was current where the run was entered; None for none.
        writer: The node of the run; None without observers.

    Attributes:
        environment: The environment of the guests.
    """

    def __init__(
        self,
        environment: Environment,
        changed: Callable[[], AbstractContextManager[None]],
        around: NodeWriter | None,
        writer: NodeWriter | None,
    ) -> None:
        self._around = around
        self._writer = writer
        self._policy = _EndingWithRun()
        self._changed = changed
        self._lock = threading.Lock()  # guests on several threads take their positions in the run
        self.environment = replace(environment, policies=environment.policies.with_policy(self._policy))

    def end(self) -> None:
        """End the steps of the guests, because the run ends."""
        self._policy.end()

    @contextmanager
    def admitted(self, name: str) -> Generator[None, None, None]:
        """Make the caller a guest during the `with` statement, in a task of the run with a name."""
        caller = find_place()
        with self._changed(), ExitStack() as stack:
            with self._lock:
                stack.enter_context(open_task_of(caller, name))
            stack.enter_context(using_environment(self.environment))
            yield

    @contextmanager
    def observed(self) -> Generator[None, None, None]:
        """Let those who observe the run observe the caller, who may have observers of its own."""
        own = find_node_writer()
        with using_node_writer(self._writer if own is None or own is self._around else own):
            yield


class ActiveRun(Generic[HostingRun]):
    """Makes an open run the active one, for `with` and for `async with`. Made by `Run.active`.

    With `async with`, the steps inside share connections on this event loop; with `with`, they share those
    of the run where it was entered on this loop, and otherwise open their own.

    Args:
        run: The run.
        name: The name of the caller's part among the tasks of the run.
    """

    def __init__(self, run: HostingRun, name: str) -> None:
        self._run = run
        self._name = name
        self._stack = ExitStack()
        self._async_stack = AsyncExitStack()

    def __enter__(self) -> HostingRun:
        with ExitStack() as stack:
            stack.enter_context(self._run.guests.observed())
            stack.enter_context(self._run.guests.admitted(self._name))
            self._stack = stack.pop_all()
        return self._run

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.__exit__(exc_type, exc, traceback)

    async def __aenter__(self) -> HostingRun:
        async with AsyncExitStack() as stack:
            stack.enter_context(self._run.guests.observed())
            await stack.enter_async_context(self._run.extent(self._name))
            self._async_stack = stack.pop_all()
        return self._run

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._async_stack.__aexit__(exc_type, exc, traceback)

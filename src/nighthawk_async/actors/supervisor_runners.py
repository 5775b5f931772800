"""Children of a supervisor: functions and actors.

It does not decide when: `supervisor_state` does.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import ClassVar

import anyio

from .actor_core import ActorCore
from .errors import ActorError
from .foreign_cancellation import raising_foreign_cancellations
from .told import ToldLives

__all__ = [
    "ActorRunner",
    "ChildRunner",
    "FunctionRunner",
    "SupervisedChild",
    "SupervisorPlace",
    "current_child",
    "find_child",
    "runners_around",
]


class SupervisorPlace:
    """The position of a supervisor: the child of another supervisor that has entered it, if one has."""

    __slots__ = ("outer",)

    def __init__(self) -> None:
        self.outer: ChildRunner | None = None


class ChildRunner(ABC):
    """Runs a child, once or several times, one time after the other."""

    must_begin: ClassVar[bool] = False
    """Whether it is started even when it is to stop before."""

    def __init__(self) -> None:
        self.context = copy_context()
        self.scope = anyio.CancelScope()
        self.has_concluded = anyio.Event()
        self.place = SupervisorPlace()
        self._task_id: int | None = None

    @property
    def is_caller(self) -> bool:
        """Whether the caller is the child, and not merely a task that it started."""
        return self._task_id is not None and self._task_id == anyio.get_current_task().id

    @contextmanager
    def owned(self) -> Generator[None, None, None]:
        """The current task, which ends with the child, runs it."""
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
        """Ask it to end soon; whether it can hear that.

        Args:
            is_final: Whether it will not be started again.
        """

    @property
    def is_finished(self) -> bool:
        """Whether it is to end, or has ended, and has nothing to do in another run."""
        return False

    def call_when_closed(self, call: Callable[[], object]) -> None:
        """Call something when it is to end, or has ended, while it does not run. Only some can be closed."""
        return

    def call_to_stop(self, call: Callable[[], object]) -> None:
        """Call something when whoever watches wants it to end. Some end by themselves then."""
        return

    def conclude(self, error: Exception | None) -> None:
        """It will not be started again. Concluding again changes nothing.

        Args:
            error: What it raised last; None for nothing.
        """
        self.has_concluded.set()


class SupervisedChild:
    """The child of a supervisor in which the caller runs; `current_child` gives it.

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
        """Whether the supervisor asks the child to return. When it does not, it is cancelled later."""
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
        self._told = ToldLives("task", name, self._stop_now)

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
        with self._told.life(), raising_foreign_cancellations():
            await self._function()

    def ask_to_stop(self, *, is_final: bool) -> bool:
        """Ask the function to return; False when it never asked for its `current_child`."""
        self._child.request_stop()
        return self._has_asked

    def call_to_stop(self, call: Callable[[], object]) -> None:
        """Call something when whoever watches wants the function to end."""
        self._stop = call

    def conclude(self, error: Exception | None) -> None:
        """The function will not be called again."""
        self._told.end()
        self._stop = None  # it holds the runner
        super().conclude(error)

    def _stop_now(self) -> None:
        if self._stop is not None:
            self._stop()


class ActorRunner(ChildRunner):
    """An actor, one life each time.

    Args:
        core: The actor.
    """

    must_begin = True  # it handles what was sent before it was stopped

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
        """Let the actor handle what was sent to it, or only what it has in hand when it will live again."""
        if is_final:
            self.core.close()
        else:
            self.core.pause()
        return True

    def call_when_closed(self, call: Callable[[], object]) -> None:
        """Call something when the actor is closed between two lives."""
        self.core.when_closed = call

    def conclude(self, error: Exception | None) -> None:
        """Refuse what waits in the mailbox."""
        self.core.end(error)
        super().conclude(error)


_current: ContextVar[ChildRunner | None] = ContextVar("nighthawk_async_supervised_child", default=None)


def find_child() -> SupervisedChild | None:
    """The child of a supervisor in which the caller runs; None when it runs in none."""
    runner = _current.get()
    return runner.find_child() if isinstance(runner, FunctionRunner) else None


def runners_around() -> Iterator[ChildRunner]:
    """The child that is the caller, the one that has entered the supervisor of that child, and so on."""
    runner = _current.get()
    if runner is None or not runner.is_caller:
        return
    while runner is not None:
        yield runner
        runner = runner.place.outer


def current_child() -> SupervisedChild:
    """The child of a supervisor in which the caller runs: a function that `Supervisor.start` was given.

    A function that asks for it is expected to return when a stop is requested, and is given time for that.
    One that never does is cancelled at once.

    Raises:
        ActorError: The caller does not run in such a function.
    """
    child = find_child()
    if child is None:
        raise ActorError("the caller is not a function that a supervisor runs")
    return child

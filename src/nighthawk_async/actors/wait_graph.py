"""The graph of who waits for whom: actors, and running jobs of pools.

A handler that asks an actor, or a job that awaits another one, holds its actor or its worker while it waits.
When such waits close a circle, none of them ever ends, whatever is free. So each is registered, and the one
that would close a circle raises instead.

A wait with a deadline of its own, inside the handler or job, ends anyway and does not count. One whose only
deadline is around it counts: it would end with everything else there. That somebody might cancel a wait later
cannot be known; until then it counts.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar, Token
from typing import ClassVar

import anyio
from anyio import TaskInfo

from .errors import ActorDeadlockError, ActorError


class Waiter(ABC):
    """An actor in one of its lives, or a running job: others wait for it, and it may wait itself.

    Attributes:
        waits: Its waits that count.
    """

    __slots__ = ("_around", "_deadline", "_task", "waits")

    kind: ClassVar[str]
    """The plural of what it is, for errors."""
    has_tasks: ClassVar[bool]
    """Whether waits of the tasks that it starts hold it too."""
    checks_limited: ClassVar[bool]
    """Whether a wait that a deadline inside it ends raises too, at once, when it is in vain."""

    def __init__(self) -> None:
        self.waits: list[Wait] = []
        self._task: TaskInfo | None = None
        self._deadline = math.inf
        self._around: Waiter | None = None

    @property
    @abstractmethod
    def label(self) -> str:
        """The name of it in errors."""

    def enter(self) -> "Token[Waiter | None]":
        """The current task runs it from now on."""
        self._task = anyio.get_current_task()
        self._deadline = anyio.current_effective_deadline()
        self._around = _innermost.get()
        return _innermost.set(self)

    def leave(self) -> None:
        """It has ended. What tasks of it wait for, if some live on, holds it no more."""
        self._task = None
        self.waits.clear()

    def find_around(self) -> "Waiter | None":
        """The waiter in which it runs; None for none."""
        return self._around

    def is_held_by(self, task: TaskInfo) -> bool:
        """Whether a task that waits here may hold it: surely so when it is its own."""
        return self._task is not None and (self.has_tasks or task == self._task)

    def is_limited(self) -> bool:
        """Whether a deadline inside it ends what the caller waits for."""
        return self._deadline != anyio.current_effective_deadline() < math.inf

    def contains(self, task: TaskInfo, parents: Mapping[int, int | None]) -> bool:
        """Whether it cannot end before a task does: one in a task group around it may outlive it.

        Args:
            task: The task.
            parents: The ids of all tasks, and of the tasks whose task groups they run in.
        """
        if self._task is None:
            return False
        task_id: int | None = task.id
        while task_id is not None and task_id != self._task.id:
            task_id = parents.get(task_id)
        return task_id is not None


_innermost: ContextVar[Waiter | None] = ContextVar("nighthawk_async_waiter", default=None)


def leave_context(token: "Token[Waiter | None]") -> None:
    """Take back what `Waiter.enter` has done to the context."""
    _innermost.reset(token)


def waiters() -> Iterator[Waiter]:
    """The waiters in which the caller runs, in tasks that they started too; innermost first."""
    waiter = _innermost.get()
    while waiter is not None:
        yield waiter
        waiter = waiter.find_around()


class Wait:
    """A task waits for a waiter. Ending it twice is fine.

    Args:
        target: The waiter that is waited for.
        is_over: Whether what is waited for has come, although the task may not have run since. It changes
            nothing, and may be called at any time.
    """

    __slots__ = ("_is_over", "_lists", "_task", "target")

    def __init__(self, target: Waiter, is_over: Callable[[], bool]) -> None:
        self.target = target
        self._is_over = is_over
        self._task = anyio.get_current_task()
        self._lists: list[list[Wait]] = []

    def hold(self, waits: "list[Wait]") -> None:
        """Join a list of waits, until it ends."""
        waits.append(self)
        self._lists.append(waits)

    def release(self, waits: "list[Wait]") -> None:
        """Leave a list of waits."""
        waits.remove(self)
        self._lists.remove(waits)

    def end(self) -> None:
        """End it: what is waited for is there, or the wait was cancelled."""
        for waits in self._lists:
            if self in waits:
                waits.remove(self)
        self._lists.clear()

    def may_hold(self, waiter: Waiter) -> bool:
        """Whether a waiter may be unable to end before it: a task that is being cancelled goes on anyway."""
        return (
            waiter.is_held_by(self._task)
            and not self._is_over()
            and not self._task.has_pending_cancellation()
        )

    def holds(self, waiter: Waiter, parents: Mapping[int, int | None]) -> bool:
        """Whether a waiter cannot end before it.

        Args:
            waiter: The waiter.
            parents: As for `Waiter.contains`.
        """
        return self.may_hold(waiter) and waiter.contains(self._task, parents)


def task_parents() -> Mapping[int, int | None]:
    """The ids of all tasks, and of the tasks whose task groups they run in. Slow where there are many."""
    return {task.id: task.parent_id for task in anyio.get_running_tasks()}


def begin_wait(
    target: Waiter,
    *,
    is_over: Callable[[], bool] = lambda: False,
    error_type: type[ActorError] = ActorDeadlockError,
) -> Wait | None:
    """Register that the caller waits for a waiter; to be ended. None when the caller is in none itself.

    Args:
        target: The waiter.
        is_over: As for `Wait`.
        error_type: The error to raise.

    Raises:
        ActorError: The wait closes a circle.
    """
    if _innermost.get() is None:
        return None
    wait = Wait(target, is_over)
    innermost: dict[type[Waiter], Waiter] = {}  # of each kind
    for waiter in waiters():
        innermost.setdefault(type(waiter), waiter)
    for waiter in innermost.values():
        is_limited = waiter.is_limited()
        if not wait.may_hold(waiter) or (is_limited and not waiter.checks_limited):
            continue
        wait.hold(waiter.waits)
        if circle := _find_circle(waiter):
            wait.end()
            kinds = " and ".join(sorted({each.kind for each in circle}))
            way = " -> ".join(each.label for each in circle)
            raise error_type(f"{kinds} would wait for each other for ever: {way}")
        if is_limited:
            wait.release(waiter.waits)
    return wait


def _find_circle(waiter: Waiter) -> list[Waiter]:
    """The waiters from one to itself of which each waits for the next; empty when there are none."""
    if not _circle(waiter, Wait.may_hold):
        return []
    parents = task_parents()
    return _circle(waiter, lambda wait, each: wait.holds(each, parents))


def _circle(waiter: Waiter, counts: Callable[[Wait, Waiter], bool]) -> list[Waiter]:
    reached_from: dict[Waiter, Waiter] = {}
    unseen = [waiter]
    while unseen and waiter not in reached_from:
        each = unseen.pop()
        for wait in each.waits:
            if wait.target not in reached_from and counts(wait, each):
                reached_from[wait.target] = each
                unseen.append(wait.target)
    if waiter not in reached_from:
        return []
    circle = [waiter, reached_from[waiter]]
    while circle[-1] is not waiter:
        circle.append(reached_from[circle[-1]])
    return circle[::-1]

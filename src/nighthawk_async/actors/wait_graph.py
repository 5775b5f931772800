"""The wait-for graph of actors and running jobs of pools.

A handler that asks an actor, or a job that awaits another one, holds its actor or its worker while it waits.
When such waits form a circle, none of them ever ends, whatever is free. So each wait is registered, and the
one that would close a circle raises instead.

A wait with a deadline of its own, inside the handler or job, ends anyway and does not count. One whose only
deadline is around the handler or job counts: it would end together with everything else there. Whether
another task might cancel a wait later cannot be known; until then it counts.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar, Token
from typing import ClassVar

import anyio
from anyio import TaskInfo

from .errors import ActorDeadlockError, ActorError


class Holder(ABC):
    """An actor in one of its lives, or a running job: others wait for it, and its own waits hold it.

    Attributes:
        waits: The waits that hold it.
        parent: The holder in which it runs; None for none, and while it does not run.
    """

    __slots__ = ("_deadline", "_task", "parent", "waits")

    kind: ClassVar[str]
    """The plural of its kind, for errors."""
    has_tasks: ClassVar[bool]
    """Whether waits of the tasks that it starts hold it too."""
    checks_limited: ClassVar[bool]
    """Whether a wait that a deadline inside it ends also raises, at once, when it is in vain."""

    def __init__(self) -> None:
        self.waits: list[Wait] = []
        self.parent: Holder | None = None
        self._task: TaskInfo | None = None
        self._deadline = math.inf

    @property
    @abstractmethod
    def label(self) -> str:
        """Its name in errors."""

    def enter(self) -> "Token[Holder | None]":
        """Mark the current task as running it."""
        self._task = anyio.get_current_task()
        self._deadline = anyio.current_effective_deadline()
        self.parent = _innermost.get()
        return _innermost.set(self)

    def leave(self, token: "Token[Holder | None] | None" = None) -> None:
        """Note that it has ended. Waits of tasks that outlive it no longer hold it.

        Args:
            token: The token from `enter`, to be reset; None if the context ends as well.
        """
        self._task = self.parent = None  # otherwise each job would keep its submitter alive
        self.waits.clear()
        if token is not None:
            _innermost.reset(token)

    def is_held_by(self, task: TaskInfo) -> bool:
        """Whether a task that waits here may hold it: certainly if it is its own."""
        return self._task is not None and (self.has_tasks or task == self._task)

    def is_limited(self) -> bool:
        """Whether a deadline inside it ends the wait of the caller."""
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


# Actors know nothing of runs. Handlers, jobs and what they start wait as their holder, with or without a run.
_innermost: ContextVar[Holder | None] = ContextVar("nighthawk_async_holder", default=None)


def holders() -> Iterator[Holder]:
    """Iterate over the holders in which the caller runs, including through started tasks; innermost first."""
    holder = _innermost.get()
    while holder is not None:
        yield holder
        holder = holder.parent


class Wait:
    """A wait of the current task for a holder.

    Args:
        target: The holder that is waited for.
        is_over: Whether the wait is over, although the task may not have run since. It changes nothing, and
            may be called at any time.
    """

    __slots__ = ("_held", "_is_over", "_task", "target")

    def __init__(self, target: Holder, is_over: Callable[[], bool]) -> None:
        self.target = target
        self._is_over = is_over
        self._task = anyio.get_current_task()
        self._held: list[Holder] = []

    def hold(self, holder: Holder) -> None:
        """Hold a holder until the wait ends."""
        holder.waits.append(self)
        self._held.append(holder)

    def release(self, holder: Holder) -> None:
        """Stop holding a holder."""
        holder.waits.remove(self)
        self._held.remove(holder)

    def end(self) -> None:
        """End it: it is satisfied, or was cancelled. Calling it again has no effect."""
        for holder in self._held:
            if self in holder.waits:
                holder.waits.remove(self)
        self._held.clear()

    def may_hold(self, holder: Holder) -> bool:
        """Whether a holder may be unable to end before it: a task that is being cancelled resumes anyway."""
        return (
            holder.is_held_by(self._task)
            and not self._is_over()
            and not self._task.has_pending_cancellation()
        )

    def holds(self, holder: Holder, parents: Mapping[int, int | None]) -> bool:
        """Whether a holder cannot end before it.

        Args:
            holder: The holder.
            parents: As for `Holder.contains`.
        """
        return self.may_hold(holder) and holder.contains(self._task, parents)


def task_parents() -> Mapping[int, int | None]:
    """Return the ids of all tasks, and of the tasks whose task groups they run in. Slow with many tasks."""
    return {task.id: task.parent_id for task in anyio.get_running_tasks()}


def begin_wait(
    target: Holder,
    *,
    is_over: Callable[[], bool] = lambda: False,
    error_type: type[ActorError] = ActorDeadlockError,
) -> Wait | None:
    """Register a wait of the caller for a holder, and return it; None if the caller runs in no holder.

    Args:
        target: The holder.
        is_over: As for `Wait`.
        error_type: The error to raise.

    Raises:
        ActorError: The wait closes a circle.
    """
    if _innermost.get() is None:
        return None
    wait = Wait(target, is_over)
    innermost: dict[type[Holder], Holder] = {}  # of each kind
    for holder in holders():
        innermost.setdefault(type(holder), holder)
    for holder in innermost.values():
        is_limited = holder.is_limited()
        if not wait.may_hold(holder) or (is_limited and not holder.checks_limited):
            continue
        wait.hold(holder)
        if circle := _find_circle(holder):
            wait.end()
            kinds = " and ".join(sorted({each.kind for each in circle}))
            way = " -> ".join(each.label for each in circle)
            raise error_type(f"{kinds} would wait for each other for ever: {way}")
        if is_limited:
            wait.release(holder)
    return wait


def _find_circle(holder: Holder) -> list[Holder]:
    """Return the holders from one to itself, each waiting for the next; empty when there are none."""
    if not _circle(holder, Wait.may_hold):
        return []
    parents = task_parents()
    return _circle(holder, lambda wait, each: wait.holds(each, parents))


def _circle(holder: Holder, counts: Callable[[Wait, Holder], bool]) -> list[Holder]:
    reached_from: dict[Holder, Holder] = {}
    unseen = [holder]
    while unseen and holder not in reached_from:
        each = unseen.pop()
        for wait in each.waits:
            if wait.target not in reached_from and counts(wait, each):
                reached_from[wait.target] = each
                unseen.append(wait.target)
    if holder not in reached_from:
        return []
    circle = [holder, reached_from[holder]]
    while circle[-1] is not holder:
        circle.append(reached_from[circle[-1]])
    return circle[::-1]

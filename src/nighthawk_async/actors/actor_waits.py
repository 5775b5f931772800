"""Actors that wait for each other, and the detection of waits that can never end.

An actor handles one message at a time. When a handler waits for another actor, which waits for the first one,
none of them ever goes on. The wait that would close such a circle raises instead, also when it has a timeout,
since it would wait in vain. A wait that is already there and has a timeout of its own closes no circle: it
ends by itself. Only what handlers wait for themselves is known; the waits of tasks and threads that they
start are not.
"""

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import anyio

from .errors import ActorDeadlockError

__all__ = ["WaitingActor"]


class WaitingActor:
    """An actor, as far as it waits for others.

    Args:
        name: What the actor is called.
    """

    __slots__ = ("_deadline", "_name", "_task", "_wait")

    def __init__(self, name: str) -> None:
        self._name = name
        self._task: anyio.TaskInfo | None = None
        self._deadline = math.inf
        self._wait: _Wait | None = None

    @contextmanager
    def owned(self) -> Generator[None, None, None]:
        """The current task owns the actor."""
        self._task = anyio.get_current_task()
        self._deadline = anyio.current_effective_deadline()
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)
            self._task = None

    @contextmanager
    def awaited(self, is_over: Callable[[], bool]) -> Generator[None, None, None]:
        """The caller waits for what the actor can do only when its handler has returned.

        Args:
            is_over: Whether what is waited for has come, although the caller may not have run since. It
                changes nothing: others ask it, at any time.

        Raises:
            ActorDeadlockError: It would wait for ever.
        """
        asker = _current.get()
        if asker is None or asker._task != anyio.get_current_task():
            yield
            return
        asker._check_circle(self)
        if anyio.current_effective_deadline() >= asker._deadline:
            asker._wait = _Wait(self, is_over)
        try:
            yield
        finally:
            asker._wait = None

    def _check_circle(self, awaited: "WaitingActor") -> None:
        names = [self._name]
        actor: WaitingActor | None = awaited
        while actor is not None:
            names.append(actor._name)
            if actor is self:
                raise ActorDeadlockError(f"actors would wait for each other for ever: {' -> '.join(names)}")
            actor = actor._find_awaited()

    def _find_awaited(self) -> "WaitingActor | None":
        """The actor without which it cannot go on; None when it can, or will in its next turn."""
        wait, task = self._wait, self._task
        if wait is None or task is None or wait.is_over() or task.has_pending_cancellation():
            return None
        return wait.actor


@dataclass(slots=True)
class _Wait:
    actor: WaitingActor
    is_over: Callable[[], bool]


_current: ContextVar[WaitingActor | None] = ContextVar("nighthawk_async_actor", default=None)

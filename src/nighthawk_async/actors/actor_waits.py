"""Which actors wait for each other, and when that can never end. Floor 1.

An actor handles one message at a time. When a handler waits for another actor, which waits for the first one,
none of them ever goes on. The wait that would close such a circle raises instead. Only what handlers wait for
themselves is known; the waits of tasks and threads that they start are not.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

import anyio

from .actor_errors import ActorDeadlockError

__all__ = ["WaitingActor"]


class WaitingActor:
    """An actor, as far as it waits for others.

    Args:
        name: What the actor is called.
    """

    __slots__ = ("_name", "_task_id", "_waits_for")

    def __init__(self, name: str) -> None:
        self._name = name
        self._task_id: int | None = None
        self._waits_for: WaitingActor | None = None

    @property
    def is_caller(self) -> bool:
        """Whether the caller is a handler of this actor, and not merely a task that one started."""
        return self._task_id is not None and self._task_id == anyio.get_current_task().id

    @contextmanager
    def owned(self) -> Generator[None, None, None]:
        """The current task owns the actor."""
        self._task_id = anyio.get_current_task().id
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)
            self._task_id = None

    @contextmanager
    def awaited(self, *, is_certain: bool) -> Generator[None, None, None]:
        """The caller waits for the actor.

        Args:
            is_certain: Whether it has to wait, or only may have to.

        Raises:
            ActorDeadlockError: It would wait for ever.
        """
        asker = _current.get()
        if asker is None or not asker.is_caller:
            yield
            return
        if is_certain:
            asker._check_circle(self)
        asker._waits_for = self
        try:
            yield
        finally:
            asker._waits_for = None

    def _check_circle(self, awaited: "WaitingActor") -> None:
        names = [self._name]
        actor: WaitingActor | None = awaited
        while actor is not None:
            names.append(actor._name)
            if actor is self:
                raise ActorDeadlockError(f"actors would wait for each other for ever: {' -> '.join(names)}")
            actor = actor._waits_for


_current: ContextVar[WaitingActor | None] = ContextVar("nighthawk_async_actor", default=None)

"""Actors: objects whose methods are called one at a time, by one task, in the order of messages.

An actor has the context variables of whoever opened it (of whoever started it, under a supervisor), and not
those of its askers: it serves many of them, may outlive each, and is restarted without any. So a natural
function as a handler belongs to the run in which the actor was opened. What a handler needs of its asker is
an argument. The trace alone is that of the asker, who wants to see there what was done.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import ClassVar, Generic, Self, TypeVar

import anyio

from .actor_core import ActorCore
from .actor_handle import ActorHandle
from .foreign_cancellation import ForeignCancellationError, is_cancelled
from .task_group import BareTaskGroup

__all__ = ["Actor", "OpenedActor", "make_core", "open_actor"]


class Actor:
    """Base class of actors: derive, and write methods.

    Nobody calls the methods of an instance but its own task; others send messages through a handle:

        class Counter(Actor):
            def __init__(self) -> None:
                self.total = 0

            async def add(self, number: int) -> int:
                self.total += number
                return self.total

        async with open_actor(Counter) as counter:
            total = await counter.ask(Counter.add, 5)

    An exception that a handler raises goes to the asker and ends the actor: its state may be broken. A
    supervisor then makes another instance. Exceptions that are mere answers are named by the class. A handler
    fails too, with `ForeignCancellationError`, when it awaits what others cancel, which on asyncio looks like
    a cancellation of the actor.

    A context variable that a handler sets stays set for the next message, like every state of the actor.
    """

    answers: ClassVar[tuple[type[Exception], ...]] = ()
    """Exceptions of handlers that go to the asker and do not end the actor."""

    stopping_seconds: ClassVar[float] = 5.0
    """How many seconds `stopping` may take; then it is cancelled."""

    _core: ActorCore

    @property
    def handle(self) -> ActorHandle[Self]:
        """The handle of this actor, to be given to others. There is none in `__init__`, before `started`."""
        return ActorHandle(self._core)

    async def started(self) -> None:
        """Called in the actor's task before the first message. What it raises is a crash."""

    async def stopping(self) -> None:
        """Called in the actor's task after the last message, however it ended: stopped, crashed or cancelled.

        Not called when `started` failed. It is not cancelled with the actor, but has `stopping_seconds`.
        """


Instance = TypeVar("Instance", bound=Actor)


def make_core(make: Callable[[], Instance], *, name: str | None, capacity: int | None) -> ActorCore:
    """An actor that has not begun to live."""

    def make_bound(core: ActorCore) -> Instance:
        instance = make()
        instance._core = core  # pyright: ignore[reportPrivateUsage]
        return instance

    if not callable(make):
        raise TypeError(f"an actor is made by its class or a function, not by {make!r}")
    if name is None:
        made = make.func if isinstance(make, partial) else make
        name = made.__name__ if isinstance(made, type) else "actor"
    return ActorCore(make_bound, name=name, capacity=capacity)


class OpenedActor(Generic[Instance]):
    """The extent of an actor; made by `open_actor`, entered once. Entering gives the handle."""

    def __init__(self, core: ActorCore) -> None:
        self._core = core
        self._task_group = BareTaskGroup()

    async def __aenter__(self) -> ActorHandle[Instance]:
        task_group = await self._task_group.__aenter__()
        task_group.start_soon(self._own, name=f"actor {self._core.name}")
        return ActorHandle(self._core)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        if exc is None:
            self._core.close()
        try:
            with _giving_way(exc):
                return await self._task_group.__aexit__(exc_type, exc, traceback)
            return False
        finally:
            self._core.end(None)  # when it was cancelled before it began

    async def _own(self) -> None:
        try:
            await self._core.live()
        except Exception as error:
            self._core.end(error)
            if not await self._core.wait_told(error):
                raise
        finally:
            self._core.end(None)


@contextmanager
def _giving_way(exc: BaseException | None) -> Generator[None, None, None]:
    """Let a block that asyncio itself cancels end cancelled when it cancels the actor with it.

    As `asyncio.run` does with all tasks at its end. For the actor it is a foreign cancellation.

    Args:
        exc: With what the body of the block ended.
    """
    is_native = isinstance(exc, anyio.get_cancelled_exc_class()) and not is_cancelled()
    try:
        yield
    except ForeignCancellationError:
        if not is_native:
            raise


def open_actor(
    make: Callable[[], Instance], *, name: str | None = None, capacity: int | None = 256
) -> OpenedActor[Instance]:
    """Start an actor that lives as long as the `async with` block, at most.

    Leaving the block closes the actor and waits until it has handled what was sent before; leaving it with an
    error or a cancellation cancels the actor, but waits for a function that runs in a worker thread. A crash
    whose error an asker got ends the actor and nothing else; a crash that nobody was told (of a `tell`, of a
    hook, or because the asker was cancelled) is raised from the block.

    Args:
        make: Makes the instance: the class, or a function without arguments.
        name: What to call it in errors; None for the name of the class.
        capacity: How many messages may wait; None for no limit.

    Returns:
        A context manager, for `async with`, that gives the handle.

    Raises:
        TypeError: Nothing can be made, as what makes it cannot be called.
        ValueError: The capacity is not a whole number of at least 1.
    """
    return OpenedActor(make_core(make, name=name, capacity=capacity))

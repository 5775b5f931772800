"""Actors: objects whose methods are called one at a time, by one task, in the order of messages.

An actor has the context variables of whoever opened it (of whoever started it, under a supervisor), and not
those of its askers: it serves many of them, may outlive each, and is restarted without any. So a natural
function as a handler belongs to the run in which the actor was opened. What a handler needs of its asker is
an argument. The trace alone is that of the asker, who wants to see there what was done.

Its handle is the only way to an actor. A method is passed as a function, `reviewer.ask(Reviewer.review,
"text")`, because this is the one form whose arguments and result a type checker can check: Python cannot say
"the same methods, but asked".
"""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, Self, TypeVar, cast, overload

import anyio

from .actor_core import ActorCore, ActorStatistics, ActorStatus
from .actor_life import ActorMessage, Ask
from .task_group import BareTaskGroup, ForeignCancellationError, is_cancelled

Actor_co = TypeVar("Actor_co", covariant=True)
Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")


class ActorHandle(Generic[Actor_co]):
    """An actor, for those who talk to it. `open_actor` and `Supervisor.start_actor` give it.

    A message is a function and its arguments: a method of the actor's class, as overridden in the class of
    the actor at hand, or any other function that takes the actor first. It is called in the actor's own task,
    one message at a time, in the order of sending. A function that is not async is called in a worker thread,
    because it may block. It cannot be cancelled there: whatever cancels the actor waits until it returns, and
    the asker gets the reply.

    The handle of a supervised actor stays the same when the actor is restarted.
    """

    __slots__ = ("_core",)

    def __init__(self, core: ActorCore) -> None:
        self._core = core

    def __repr__(self) -> str:
        return f"<actor {self.name!r}, {self.status}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorHandle) and self._core is cast("ActorHandle[Any]", other)._core

    def __hash__(self) -> int:
        return hash(self._core)

    @property
    def name(self) -> str:
        """The name of the actor."""
        return self._core.name

    @property
    def status(self) -> ActorStatus:
        """`running`, `waiting` to be started or restarted, or `ended` for good."""
        return self._core.status

    @overload
    async def ask(
        self,
        function: Callable[Concatenate[Actor_co, Parameters], Awaitable[Result]],
        /,
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Result: ...
    @overload
    async def ask(
        self,
        function: Callable[Concatenate[Actor_co, Parameters], Result],
        /,
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Result: ...
    async def ask(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Have a function called with the actor, and wait for what it gives.

        Waits for room in the mailbox too. Who is cancelled while waiting abandons the message: when the actor
        has not taken it yet, it is never handled; when it has, it is handled to its end.

        Args:
            function: The function to call.
            *args: Its arguments after the actor.
            **kwargs: Its keyword arguments.

        Raises:
            ActorDeadlockError: The caller is a handler of this actor, or one for which this actor waits.
            ActorEndedError: The actor has ended, or ended before it took the message.
            ActorInterruptedError: The actor was stopped while it handled the message.
            TypeError: The given object is no function.
            Exception: Whatever the function raised. The actor has ended then, or is restarted by its
                supervisor, unless its class says that the exception is an answer only.
        """
        return await self._core.ask(Ask(function, args, kwargs))

    async def tell(
        self,
        function: Callable[Concatenate[Actor_co, Parameters], object],
        /,
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> None:
        """Have a function called with the actor, without waiting for that.

        Waits for room in the mailbox. A cancelled wait has sent nothing.

        Args:
            function: The function to call.
            *args: Its arguments after the actor.
            **kwargs: Its keyword arguments.

        Raises:
            ActorDeadlockError: There is no room, and the caller is a handler of this actor, or one for which
                this actor waits.
            ActorEndedError: The actor has ended, or did while the caller waited for room.
            TypeError: The given object is no function.
        """
        await self._core.tell(ActorMessage(function, args, kwargs))

    def tell_nowait(
        self,
        function: Callable[Concatenate[Actor_co, Parameters], object],
        /,
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> None:
        """Have a function called with the actor, without any waiting.

        Raises:
            ActorEndedError: The actor has ended.
            MailboxFullError: There is no room in the mailbox.
            TypeError: The given object is no function.
        """
        self._core.tell_nowait(ActorMessage(function, args, kwargs))

    def close(self) -> None:
        """Send nothing more: the actor handles what was sent before and ends. Handlers may do so too."""
        self._core.close()

    async def stop(self) -> None:
        """Close, and wait until the actor has handled what was sent before and ended.

        Raises:
            ActorDeadlockError: The caller is a handler of this actor, or one for which this actor waits.
        """
        await self._core.stop()

    def stop_now(self) -> None:
        """Cancel what the actor is handling, and refuse what waits. A supervisor does not restart it.

        A function in a worker thread is not cancelled: the actor ends when it returns.
        """
        self._core.stop_now()

    async def wait_ended(self) -> None:
        """Wait until the actor has ended for good.

        Raises:
            ActorDeadlockError: The caller is a handler of this actor, or one for which this actor waits.
        """
        await self._core.wait_ended()

    def statistics(self) -> ActorStatistics:
        """Figures at this moment."""
        return self._core.statistics()


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
            if not await self._core.wait_delivered(error):
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
        name: Its name in errors; None for the name of the class.
        capacity: The greatest number of waiting messages; None for no limit.

    Returns:
        A context manager, for `async with`, that gives the handle.

    Raises:
        TypeError: Nothing can be made, as what makes it cannot be called.
        ValueError: The capacity is not a whole number of at least 1.
    """
    return OpenedActor(make_core(make, name=name, capacity=capacity))

"""Actors: objects whose methods are called one at a time, by one task, in the order of messages.

An actor has the context variables of the code that opened it (under a supervisor, that started it), and not
those of its askers: it serves many of them, may outlive each, and is restarted without any. So a natural
function used as a handler belongs to the run in which the actor was opened. Anything else that a handler
needs from its asker is passed as an argument. The exception is the trace, which is the asker's, so the work
shows up where it was requested.

Its handle is the only way to reach an actor. A method is passed as a function, `reviewer.ask(Reviewer.review,
"text")`, because only this form lets a type checker check the arguments and the result: Python cannot express
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
    """Handle for sending messages to an actor. `open_actor` and `Supervisor.start_actor` return it.

    A message is a function and its arguments: a method of the actor's class, as overridden in the class of
    the given instance, or any other function that takes the actor first. It is called in the actor's own
    task, one message at a time, in the order of sending. A function that is not async is called in a worker
    thread, because it may block. It cannot be cancelled there: a cancellation of the actor waits until it
    returns, and the asker gets the reply.

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
        """`running`, `waiting` to be started or restarted, or `ended` permanently."""
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
        """Have a function called with the actor, and wait for its result.

        Waits for room in the mailbox too. A caller that is cancelled while waiting abandons the message: if
        the actor has not taken it yet, it is never handled; if it has, it is handled to its end.

        Args:
            function: The function to call.
            *args: Its arguments after the actor.
            **kwargs: Its keyword arguments.

        Raises:
            ActorDeadlockError: The caller is a handler of this actor, or one for which this actor waits.
            ActorEndedError: The actor has ended, or ended before it took the message.
            ActorInterruptedError: The actor was stopped while it handled the message.
            TypeError: The given object is not a function.
            Exception: Any exception raised by the function. The actor has ended then, or is restarted by its
                supervisor, unless its class lists the exception in `answers`.
        """
        return await self._core.ask(Ask(function, args, kwargs))

    async def tell(
        self,
        function: Callable[Concatenate[Actor_co, Parameters], object],
        /,
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> None:
        """Have a function called with the actor, without waiting for the call.

        Waits for room in the mailbox. A cancelled wait has sent nothing.

        Args:
            function: The function to call.
            *args: Its arguments after the actor.
            **kwargs: Its keyword arguments.

        Raises:
            ActorDeadlockError: There is no room, and the caller is a handler of this actor, or one for which
                this actor waits.
            ActorEndedError: The actor has ended, or ended while the caller waited for room.
            TypeError: The given object is not a function.
        """
        await self._core.tell(ActorMessage(function, args, kwargs))

    def tell_nowait(
        self,
        function: Callable[Concatenate[Actor_co, Parameters], object],
        /,
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> None:
        """Have a function called with the actor, without waiting at all.

        Raises:
            ActorEndedError: The actor has ended.
            MailboxFullError: There is no room in the mailbox.
            TypeError: The given object is not a function.
        """
        self._core.tell_nowait(ActorMessage(function, args, kwargs))

    def close(self) -> None:
        """Accept no more messages: the actor handles those already sent and ends. Handlers may call this."""
        self._core.close()

    async def stop(self) -> None:
        """Close the actor, and wait until it has handled the messages already sent and ended.

        Raises:
            ActorDeadlockError: The caller is a handler of this actor, or one for which this actor waits.
        """
        await self._core.stop()

    def stop_now(self) -> None:
        """Cancel the message being handled, and refuse the waiting ones. A supervisor does not restart it.

        A function in a worker thread is not cancelled: the actor ends when it returns.
        """
        self._core.stop_now()

    async def wait_ended(self) -> None:
        """Wait until the actor has ended permanently.

        Raises:
            ActorDeadlockError: The caller is a handler of this actor, or one for which this actor waits.
        """
        await self._core.wait_ended()

    def statistics(self) -> ActorStatistics:
        """Return the current statistics."""
        return self._core.statistics()


class Actor:
    """Base class of actors: derive, and write methods.

    Only the actor's own task calls the methods of an instance; others send messages through a handle:

        class Counter(Actor):
            def __init__(self) -> None:
                self.total = 0

            async def add(self, number: int) -> int:
                self.total += number
                return self.total

        async with open_actor(Counter) as counter:
            total = await counter.ask(Counter.add, 5)

    An exception that a handler raises goes to the asker and ends the actor, because its state may be broken.
    A supervisor then makes another instance. The class lists in `answers` the exceptions that only go to the
    asker. A handler also fails, with `ForeignCancellationError`, when something that it awaits is cancelled
    by others, which on asyncio looks like a cancellation of the actor.

    A context variable that a handler sets stays set for the next message, like all state of the actor.
    """

    answers: ClassVar[tuple[type[Exception], ...]] = ()
    """Exceptions of handlers that go to the asker and do not end the actor."""

    stopping_seconds: ClassVar[float] = 5.0
    """Time limit for `stopping`, in seconds; it is cancelled after that."""

    _core: ActorCore

    @property
    def handle(self) -> ActorHandle[Self]:
        """The handle of this actor, to pass to others. Available from `started` on, not in `__init__`."""
        return ActorHandle(self._core)

    async def started(self) -> None:
        """Called in the actor's task before the first message. An exception from it is a crash."""

    async def stopping(self) -> None:
        """Called in the actor's task after the last message, whether it was stopped, crashed or cancelled.

        Not called when `started` failed. It is not cancelled with the actor, but limited by
        `stopping_seconds`.
        """


Instance = TypeVar("Instance", bound=Actor)


def make_core(make: Callable[[], Instance], *, name: str | None, capacity: int | None) -> ActorCore:
    """Make an actor that is not started yet."""

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
    """Context manager that runs an actor; made by `open_actor`, entered once. Entering gives the handle."""

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
            self._core.end(None)  # when it was cancelled before it started

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
    """Let a block that asyncio itself cancels end cancelled when asyncio cancels the actor with it.

    `asyncio.run` does so with all tasks at its end. For the actor it is a foreign cancellation.

    Args:
        exc: The exception with which the body of the block ended.
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

    Leaving the block closes the actor and waits until it has handled the messages already sent; leaving it
    with an error or a cancellation cancels the actor, but waits for a function that runs in a worker thread.
    A crash whose error reached an asker ends the actor and nothing else; a crash whose error reached nobody
    (in a `tell`, in a hook, or because the asker was cancelled) is raised from the block.

    Args:
        make: Makes the instance: the class, or a function without arguments.
        name: Its name in errors; None for the name of the class.
        capacity: The greatest number of waiting messages; None for no limit.

    Returns:
        A context manager, for `async with`, that gives the handle.

    Raises:
        TypeError: `make` cannot be called.
        ValueError: The capacity is not a whole number of at least 1.
    """
    return OpenedActor(make_core(make, name=name, capacity=capacity))

"""One life of an actor: an instance, and the task that calls its methods message by message.

A message is a function to be called with the actor, and the reply on its way back.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import CancelledError as CallFromThreadCancelledError
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Protocol

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..executions import find_execution, using_execution
from ..threads import call_in_thread
from ..tracing import find_trace_context, using_trace_context
from .errors import ActorInterruptedError, MailboxClosedError
from .mailbox import Mailbox
from .ordering import DONE, NOTHING, find_orders
from .task_group import raising_foreign_cancellations


class ActorMessage:
    """A function for the actor to call with itself. Nobody waits for its result.

    The call belongs to the trace that is active where the message was made, and to the step in progress
    there.

    Args:
        function: A method of the actor's class, or any function that takes the actor first.
        args: The other arguments.
        kwargs: The keyword arguments.

    Raises:
        TypeError: The given object is not a function.
    """

    __slots__ = ("_args", "_execution", "_function", "_kwargs", "_trace_context")

    def __init__(
        self, function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> None:
        if not callable(function):
            raise TypeError(f"an actor is sent a function, not {function!r}")
        self._function = function
        self._args = args
        self._kwargs = kwargs
        self._trace_context = find_trace_context()
        self._execution = find_execution()

    def __str__(self) -> str:
        return getattr(self._function, "__qualname__", repr(self._function))

    @property
    def is_abandoned(self) -> bool:
        """Whether its sender no longer wants it handled."""
        return False

    async def carry_out(self, actor: object, limiter: anyio.CapacityLimiter) -> object:
        """Call the function: on the event loop when it is async, otherwise in a worker thread.

        Args:
            actor: The actor.
            limiter: Bounds the worker threads.

        Raises:
            Exception: Any exception raised by the function.
        """
        with using_trace_context(self._trace_context), using_execution(self._execution):
            return await self._call(actor, limiter)

    async def _call(self, actor: object, limiter: anyio.CapacityLimiter) -> object:
        function = _find_override(self._function, type(actor))
        if inspect.iscoroutinefunction(function):
            return await function(actor, *self._args, **self._kwargs)
        value = await _call_in_thread(lambda: function(actor, *self._args, **self._kwargs), limiter)
        return await value if inspect.isawaitable(value) else value

    def resolve(self, value: object) -> None:
        """Accept the result of the function."""

    def fail(self, error: Exception) -> None:
        """Accept the error that the function raised, or the reason why it was not called."""

    async def wait_delivered(self) -> bool:
        """Wait until its sender has the reply or never will; return whether the reply was received."""
        return False


class Ask(ActorMessage):
    """A message whose sender waits for the reply.

    A caller that is cancelled while waiting abandons the message: if the actor has not taken it yet, it never
    does.
    """

    __slots__ = ("_answered", "_error", "_is_delivered", "_left", "_traceback", "_value")

    def __init__(
        self, function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> None:
        super().__init__(function, args, kwargs)
        self._answered = anyio.Event()
        self._left = anyio.Event()
        self._is_delivered = False
        self._value: object = None
        self._error: Exception | None = None
        self._traceback: TracebackType | None = None

    @property
    def is_abandoned(self) -> bool:
        """Whether the asker has stopped waiting."""
        return self._left.is_set()

    def is_answered(self) -> bool:
        """Whether there is a reply, although the asker may not have read it yet."""
        return self._answered.is_set()

    def resolve(self, value: object) -> None:
        """Give the asker the value."""
        self._value = value
        self._answered.set()

    def fail(self, error: Exception) -> None:
        """Give the asker an error."""
        self._error, self._traceback = error, error.__traceback__
        self._answered.set()

    async def wait_delivered(self) -> bool:
        """Wait until the asker resumes; return whether it received the reply.

        It was woken already: it resumes in its next turn, although it may be cancelled there.
        """
        with anyio.CancelScope(shield=True):
            await self._left.wait()
        return self._is_delivered

    def leave(self) -> None:
        """Note that the asker resumes, with the reply or without."""
        self._left.set()

    async def wait(self) -> Any:
        """Wait for the reply.

        Raises:
            ActorEndedError: The actor ended before it took the message.
            ActorInterruptedError: The actor was stopped while it handled the message.
            Exception: Any exception raised by the handler.
        """
        await self._answered.wait()
        if self._error is not None:
            await checkpoint_if_cancelled()  # the end of the actor may have cancelled the caller, too
        self._is_delivered = True
        if self._error is not None:
            # The asker sees where the error was raised, without the frames of the actor's owner.
            raise self._error.with_traceback(self._traceback)
        return self._value


async def _call_in_thread(call: Callable[[], object], limiter: anyio.CapacityLimiter) -> object:
    try:
        return await call_in_thread(call, limiter=limiter)
    except CallFromThreadCancelledError:
        # A cancellation that came through the thread looks like this on asyncio.
        await checkpoint()
        raise


def _find_override(function: Callable[..., Any], actor_class: type) -> Callable[..., Any]:
    """Return the method of that name in the class of the actor, as in every method call in Python."""
    name = getattr(function, "__name__", "")
    if any(vars(base).get(name) is function for base in actor_class.__mro__):
        return getattr(actor_class, name)
    return function


_logger = logging.getLogger("nighthawk")


class ActorInstance(Protocol):
    """The instance as one life of an actor uses it.

    Args:
        answers: Exceptions of handlers that only go to the asker.
        stopping_seconds: The time limit for `stopping`, in seconds.
    """

    answers: ClassVar[tuple[type[Exception], ...]]
    stopping_seconds: ClassVar[float]

    def started(self) -> Awaitable[None]:
        """Called before the first message."""
        ...

    def stopping(self) -> Awaitable[None]:
        """Called after the last message."""
        ...


@dataclass(slots=True, kw_only=True)
class ActorFigures:
    """Counts over all lives of an actor."""

    lives: int = 0
    handled: int = 0
    failed: int = 0
    abandoned: int = 0
    refused: int = 0


class ActorLife:
    """One life. It ends when the mailbox is closed and empty, or when it is paused, crashes or is cancelled.

    Args:
        name: The name of the actor.
        mailbox: Its messages; it outlives this life.
        figures: The counters to update.
        place: Its name for the orders of operations; empty where they are not kept.
    """

    def __init__(
        self, name: str, mailbox: Mailbox[ActorMessage], figures: ActorFigures, place: str = ""
    ) -> None:
        self._name = name
        self._place = place
        self._mailbox = mailbox
        self._figures = figures
        self._limiter = anyio.CapacityLimiter(1)
        self._scope = anyio.CancelScope()
        self._idle: anyio.CancelScope | None = None
        self._is_paused = False
        self._crash: tuple[Exception, ActorMessage] | None = None

    async def wait_delivered(self, error: Exception) -> bool:
        """Wait until it is known whether the error with which it crashed has reached an asker."""
        if self._crash is None or self._crash[0] is not error:
            return False  # a hook raised it
        return await self._crash[1].wait_delivered()

    def pause(self) -> None:
        """End after the current message."""
        self._is_paused = True
        if self._idle is not None:
            self._idle.cancel()

    def cancel(self) -> None:
        """End now."""
        self._scope.cancel()

    async def run(self, make: Callable[[], ActorInstance]) -> None:
        """Make an instance and run it.

        Raises:
            Exception: Any exception raised by a hook, or by a handler unless it is in `answers`.
        """
        self._figures.lives += 1
        orders = find_orders()
        if orders is not None and self._place:
            orders.enter_task(self._place)
        with self._scope:
            instance = make()
            with raising_foreign_cancellations():
                await instance.started()
            try:
                await self._serve(instance)
            finally:
                await self._stop(instance)

    async def _serve(self, instance: ActorInstance) -> None:
        while not self._is_paused:
            message = await self._next()
            if message is None:
                return
            if self._is_abandoned(message):
                self._figures.abandoned += 1
            else:
                await self._handle(instance, message)

    def _is_abandoned(self, message: ActorMessage) -> bool:
        """Whether a message is not handled, as in an earlier life of the run where that was so."""
        orders = find_orders()
        turn = (
            None if orders is None or not self._place else orders.begin(f"{self._place} handles", self._place)
        )
        if turn is None:
            return message.is_abandoned
        is_abandoned = message.is_abandoned if turn.recorded is None else turn.recorded == NOTHING
        turn.end(NOTHING if is_abandoned else DONE)
        return is_abandoned

    async def _stop(self, instance: ActorInstance) -> None:
        bound = anyio.move_on_after(instance.stopping_seconds, shield=True)
        with bound, raising_foreign_cancellations():
            await instance.stopping()
        if bound.cancelled_caught:
            _logger.warning("actor %s: `stopping` was cancelled after its time limit", self._name)

    async def _next(self) -> ActorMessage | None:
        """The next message; None when there will be none in this life."""
        try:
            await checkpoint()  # before a message is taken, so that a cancelled life has taken nothing
            return self._mailbox.receive_nowait()
        except anyio.WouldBlock:
            return await self._wait_for_next()
        except MailboxClosedError:
            return None

    async def _wait_for_next(self) -> ActorMessage | None:
        message = None
        if self._is_paused:
            return message
        try:
            with anyio.CancelScope() as self._idle:
                message = await self._mailbox.receive()
        except MailboxClosedError:
            return None
        finally:
            self._idle = None
        return message

    async def _handle(self, instance: ActorInstance, message: ActorMessage) -> None:
        try:
            with raising_foreign_cancellations():
                value = await message.carry_out(instance, self._limiter)
        except Exception as error:
            self._figures.failed += 1
            message.fail(error)
            if not isinstance(error, instance.answers):
                self._crash = (error, message)
                raise
            if not await message.wait_delivered():
                _logger.warning(
                    "actor %s: %s failed, and no caller received the error",
                    self._name,
                    message,
                    exc_info=error,
                )
        except BaseException:  # cancelled, or the program is ending
            self._figures.failed += 1
            message.fail(ActorInterruptedError(self._name))
            raise
        else:
            self._figures.handled += 1
            message.resolve(value)

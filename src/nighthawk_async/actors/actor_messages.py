"""Messages to an actor: a function to be called with it, and the reply on its way back."""

import inspect
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError as CallFromThreadCancelledError
from functools import partial
from types import TracebackType
from typing import Any, cast

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..executions import find_execution, using_execution
from ..threads import call_in_thread
from ..trace_context import find_trace_context, using_trace_context

__all__ = ["ActorMessage", "Ask"]


class ActorMessage:
    """A function that the actor is told to call with itself. Nobody waits for what it gives.

    What it brings about belongs to the trace in force where the message was made, and to the step in progress
    there.

    Args:
        function: A method of the actor's class, or any function that takes the actor first.
        args: The other arguments.
        kwargs: The keyword arguments.

    Raises:
        TypeError: The function is none.
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
        """Whether whoever sent it does not want it any more."""
        return False

    async def carry_out(self, actor: object, limiter: anyio.CapacityLimiter) -> object:
        """Call the function: on the event loop when it is async, otherwise in a worker thread.

        Args:
            actor: The actor.
            limiter: Bounds the worker threads.

        Raises:
            Exception: Whatever the function raised.
        """
        with using_trace_context(self._trace_context), using_execution(self._execution):
            return await self._call(actor, limiter)

    async def _call(self, actor: object, limiter: anyio.CapacityLimiter) -> object:
        function = _find_override(self._function, type(actor))
        if inspect.iscoroutinefunction(function):
            return await function(actor, *self._args, **self._kwargs)
        value = await _call_in_thread(partial(function, actor, *self._args, **self._kwargs), limiter)
        return cast("object", await value) if inspect.isawaitable(value) else value

    def resolve(self, value: object) -> None:
        """The function gave this."""

    def fail(self, error: Exception) -> None:
        """The function raised this, or was not called for this reason."""

    async def wait_told(self) -> bool:
        """Wait until whoever sent it has the reply, or will never have; whether somebody has it."""
        return False


class Ask(ActorMessage):
    """A message whose sender waits for the reply.

    Who is cancelled while waiting has abandoned it: when the actor has not taken it yet, it never does.
    """

    __slots__ = ("_answered", "_error", "_is_told", "_left", "_traceback", "_value")

    def __init__(
        self, function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> None:
        super().__init__(function, args, kwargs)
        self._answered = anyio.Event()
        self._left = anyio.Event()
        self._is_told = False
        self._value: object = None
        self._error: Exception | None = None
        self._traceback: TracebackType | None = None

    @property
    def is_abandoned(self) -> bool:
        """Whether the asker waits no more."""
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

    async def wait_told(self) -> bool:
        """Wait until the asker goes on; whether it does so with the reply.

        It has been woken: it goes on in its next turn, although it may be cancelled there.
        """
        with anyio.CancelScope(shield=True):
            await self._left.wait()
        return self._is_told

    def leave(self) -> None:
        """The asker goes on, with the reply or without."""
        self._left.set()

    async def wait(self) -> Any:
        """Wait for the reply.

        Raises:
            ActorEndedError: The actor ended before it took the message.
            ActorInterruptedError: The actor was stopped while it handled the message.
            Exception: Whatever the handler raised.
        """
        await self._answered.wait()
        if self._error is not None:
            await checkpoint_if_cancelled()  # what ended the actor may have cancelled the caller, too
        self._is_told = True
        if self._error is not None:
            # The asker sees where it was raised, and not the way it took through the actor's owner.
            raise self._error.with_traceback(self._traceback)
        return self._value


async def _call_in_thread(call: Callable[[], object], limiter: anyio.CapacityLimiter) -> object:
    try:
        return await call_in_thread(call, limiter=limiter)
    except CallFromThreadCancelledError:
        # How a cancellation looks on asyncio after its way through the thread.
        await checkpoint()
        raise


def _find_override(function: Callable[..., Any], actor_class: type) -> Callable[..., Any]:
    """The method of that name in the class of the actor, as with every method call in Python."""
    name = getattr(function, "__name__", "")
    if any(vars(base).get(name) is function for base in actor_class.__mro__):
        return cast("Callable[..., Any]", getattr(actor_class, name))
    return function

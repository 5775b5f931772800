"""Calls a function, async or synchronous in a worker thread, and checks limits beforehand.

A function counts as async if it is `async def`, however wrapped in `functools.partial`, bound to an object,
or the `__call__` of one. Every other callable is called in a worker thread, because it may block; if it
returns an awaitable (a lambda around an `async def` function does), that is awaited on the event loop.

`wrap_calls` puts a context manager around each call of a function.
"""

import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial, wraps
from types import CoroutineType
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from anyio import CapacityLimiter

from ..threads import call_in_thread
from ..types.json import is_number, is_whole_number
from .errors import InvalidLimitError


def checked_max_concurrent(max_concurrent: object) -> int | None:
    """Check the number of calls that may be in flight at once; None for no limit.

    Raises:
        InvalidLimitError: It is neither None nor a positive integer.
    """
    if max_concurrent is None or (is_whole_number(max_concurrent) and max_concurrent > 0):
        return max_concurrent
    raise InvalidLimitError(f"max_concurrent is a positive integer or None, not {max_concurrent!r}")


def checked_seconds(seconds: object, *, what: str = "a deadline") -> float:
    """Check a time limit in seconds; infinity is no limit.

    Args:
        seconds: The limit.
        what: The name of the limit, for the error message.

    Raises:
        InvalidLimitError: It is not a number, `nan`, or negative.
    """
    if is_number(seconds):
        number = float(seconds)
        if number >= 0:  # false for `nan`
            return number
    raise InvalidLimitError(f"{what} is a number of seconds, at least 0, not {seconds!r}")


Item = TypeVar("Item")
Result = TypeVar("Result")

AnyFunction: TypeAlias = Callable[[Item], Awaitable[Result]] | Callable[[Item], Result]
"""A function of one argument, async or not."""


def is_async_callable(function: object) -> bool:
    """Whether calling certainly returns a coroutine, so that the call itself cannot block."""
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        inspect.getattr_static(type(function), "__call__", None)
    )


async def call_any(
    function: Callable[..., Any], *args: object, limiter: CapacityLimiter | None = None
) -> Any:
    """Call a function, async or not, and wait for its result.

    The context variables of the caller flow into the worker thread. A running thread cannot be interrupted:
    when the caller is cancelled, it waits for the function to return. Calls that the function makes through
    `anyio.from_thread` (a synchronous natural function runs its steps so) are cancelled, whether they have
    started by then or start later. A function whose thread has not started is not called.

    Args:
        function: The function.
        args: Its arguments.
        limiter: Limits the worker threads; None for that of `thread_limiter`. Calls that wait for other
            calls need a limiter of their own, or all threads may end up waiting.

    Raises:
        Exception: Any exception raised by the function.
    """
    if is_async_callable(function):
        return await function(*args)
    value = await call_in_thread(function, *args, limiter=limiter)
    return await value if inspect.isawaitable(value) else value


class EachCall(AbstractContextManager[Any], AbstractAsyncContextManager[Any], Protocol):
    """A context manager for `with` and for `async with`."""


def wrap_calls(function: Any, fresh: Callable[[], EachCall], *, subject: str) -> Any:
    """Wrap a function so that each call runs inside a context manager of its own.

    Args:
        function: The function, async or not; a static or class method stays one.
        fresh: Makes the context manager of a call.
        subject: The name of the context manager in errors, such as `A budget`.

    Raises:
        TypeError: It cannot be called, or it is a generator, whose caller runs between its values.
    """
    if isinstance(function, staticmethod | classmethod):
        method = cast("Any", function)
        return type(method)(wrap_calls(method.__func__, fresh, subject=subject))
    if not callable(function):
        raise TypeError(f"{subject} is for a function, not for {function!r}.")
    for each in (function, inspect.getattr_static(type(function), "__call__", None)):
        if inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each):
            raise TypeError(
                f"{subject} cannot be for the generator {function!r}: use it where that is consumed."
            )
    return _wrap_async(function, fresh) if is_async_callable(function) else _wrap(function, fresh, subject)


def _wrap_async(function: Callable[..., Any], fresh: Callable[[], EachCall]) -> Callable[..., Any]:
    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        async with fresh():
            return await function(*args, **kwargs)

    return call


def _wrap(function: Callable[..., Any], fresh: Callable[[], EachCall], subject: str) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with fresh():
            result = function(*args, **kwargs)
        if inspect.isawaitable(result):  # it would be awaited outside the context manager
            if isinstance(result, CoroutineType):
                cast("CoroutineType[Any, Any, Any]", result).close()
            raise TypeError(
                f"{function!r} is not `async def` but gave an awaitable: {subject[0].lower()}{subject[1:]} "
                "cannot hold for it."
            )
        return result

    return call

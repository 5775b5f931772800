"""Calls a function, async or synchronous in a worker thread, and checks limits beforehand.

A function counts as async if it is `async def`, however wrapped in `functools.partial`, bound to an object,
or the `__call__` of one. Every other callable is called in a worker thread, because it may block; if it
returns an awaitable (a lambda around an `async def` function does), that is awaited on the event loop.
"""

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias, TypeVar

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

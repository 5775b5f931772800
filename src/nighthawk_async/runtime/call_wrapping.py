"""Decorators that run every call of a function inside a context manager; for scopes and budgets."""

import inspect
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import wraps
from types import CoroutineType
from typing import Any, Protocol, cast

from ..parallel import is_async_callable
from .awaitable import is_awaitable


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
        if is_awaitable(result):  # it would be awaited outside the context manager
            if isinstance(result, CoroutineType):
                cast("CoroutineType[Any, Any, Any]", result).close()
            raise TypeError(
                f"{function!r} is not `async def` but gave an awaitable: {subject[0].lower()}{subject[1:]} "
                "cannot hold for it."
            )
        return result

    return call

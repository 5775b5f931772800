"""Functions whose every call is made within a budget of its own."""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from types import CoroutineType
from typing import Any, cast

from ...parallel import is_async_callable
from ...runtime.awaitable import is_awaitable

__all__ = ["budgeted"]


def budgeted(function: Any, fresh: Callable[[], AbstractContextManager[object]]) -> Any:
    """A function that does the same, each call within a budget of its own.

    Args:
        function: The function, async or not; a static or class method stays one.
        fresh: Gives the budget of a call.

    Raises:
        TypeError: It cannot be called, or it is a generator, which hands out values while it runs.
    """
    if isinstance(function, staticmethod | classmethod):
        method = cast("Any", function)
        return type(method)(budgeted(method.__func__, fresh))
    if not callable(function):
        raise TypeError(f"A budget is for a function, not for {function!r}.")
    for each in (function, inspect.getattr_static(type(function), "__call__", None)):
        if inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each):
            raise TypeError(
                f"A budget cannot be for the generator {function!r}: use it where that is consumed."
            )
    return (_async_call if is_async_callable(function) else _call)(function, fresh)


def _async_call(
    function: Callable[..., Any], fresh: Callable[[], AbstractContextManager[object]]
) -> Callable[..., Any]:
    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        with fresh():
            return await function(*args, **kwargs)

    return call


def _call(
    function: Callable[..., Any], fresh: Callable[[], AbstractContextManager[object]]
) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with fresh():
            result = function(*args, **kwargs)
        if is_awaitable(result):  # it would be awaited outside of the budget
            if isinstance(result, CoroutineType):
                cast("CoroutineType[Any, Any, Any]", result).close()
            raise TypeError(
                f"{function!r} is not `async def` but gave an awaitable: a budget cannot hold for it."
            )
        return result

    return call

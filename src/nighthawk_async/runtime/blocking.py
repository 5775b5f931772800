"""Waiting of a step's code outside of its actor: for worker threads, and for people."""

import functools
import inspect
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, ParamSpec, TypeVar

from ..threads import call_in_thread

__all__ = ["BlockingCall", "PausedCode", "blocking"]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class BlockingCall(Generic[Result]):
    """A call that waits to be carried out in a worker thread. Await it, or hand it to a step as the value."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], Result]) -> None:
        self._call = call

    def __await__(self) -> Generator[Any, Any, Result]:
        return call_in_thread(self._call).__await__()


class PausedCode:
    """Guarded code that has to wait for people. Await it, outside of the actor, to go on with it."""

    __slots__ = ("_coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, object]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, object]:
        return self._coroutine.__await__()


def blocking(function: Callable[Parameters, Result]) -> Callable[Parameters, BlockingCall[Result]]:
    """Make a synchronous function run in a worker thread when a block calls it.

    A block's synchronous binding functions run on the event loop, where one that takes long holds up every
    other step. The wrapped function keeps its signature and docstring. Unlike other awaitables, its calls
    also work in synchronous natural functions.

    Args:
        function: The synchronous function.

    Raises:
        TypeError: The function is `async def`; it needs no thread.
    """
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"{function.__qualname__} is async and needs no thread; pass it as it is")

    @functools.wraps(function)
    def call_later(*args: Parameters.args, **kwargs: Parameters.kwargs) -> BlockingCall[Result]:
        return BlockingCall(functools.partial(function, *args, **kwargs))

    vars(call_later)["__nighthawk_async_call__"] = True  # so that prompts show it as `async`
    return call_later

"""Waiting for threads and people in a step's code, and warnings about code that holds the event loop."""

import functools
import gc
import inspect
import logging
import textwrap
import time
import types
from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import Any, Generic, Literal, ParamSpec, TypeAlias, TypeVar, cast

from msgspec import Struct

from ..natural.tree import CLOSURE_NAMES
from ..prompt.callables import describe_callable, find_function
from ..threads import call_in_thread

_LOGGER = logging.getLogger("nighthawk")
_SLOW_SECONDS = 0.1
_QUOTED_CHARACTERS = 80

Kind: TypeAlias = Literal["function", "class", "natural function", "tool", "code before an await", "code"]

_ADVICE: Mapping[Kind, str] = types.MappingProxyType(
    {
        "function": "wrap it with nighthawk_async.blocking, so that it runs in a worker thread",
        "class": "make it in a synchronous function that is wrapped with nighthawk_async.blocking",
        "natural function": "make it `async def`, or wrap it with nighthawk_async.blocking",
        "tool": "make it `async def`, or register nighthawk_async.blocking(function) as the tool",
        "code before an await": (
            "its awaits are fine; move slow computation into a synchronous function that is wrapped with "
            "nighthawk_async.blocking (on a busy machine it may only have waited for a processor)"
        ),
        "code": "move slow parts into a synchronous function that is wrapped with nighthawk_async.blocking",
    }
)


class SlowCall(Struct, frozen=True):
    """A call that held the event loop.

    Args:
        title: Its name.
        kind: The kind of code, for the advice.
    """

    title: str
    kind: Kind


class Stretch:
    """A period during which code of the user or the model holds the event loop."""

    __slots__ = ("_collections", "_started")

    def __init__(self) -> None:
        self._started, self._collections = time.perf_counter(), _full_collections()

    def end(self, call: Callable[[], SlowCall]) -> None:
        """Warn, once for each call, if it held the event loop for long.

        Args:
            call: Identifies the call; used only if it took long.
        """
        seconds = time.perf_counter() - self._started
        if seconds <= _SLOW_SECONDS or _full_collections() != self._collections:
            return
        slow = call()
        if slow.title not in _reported:
            _reported.add(slow.title)
            details = (slow.title, seconds * 1000, _ADVICE[slow.kind])
            _LOGGER.warning("%s held the event loop for %.0f ms; %s", *details)


_reported: set[str] = set()


def _full_collections() -> int:
    """Return the number of full garbage collections, which take long with thousands of steps in flight."""
    return gc.get_stats()[-1]["collections"]


def slow_code(text: str, called: Mapping[str, Any]) -> SlowCall:
    """Identify code by the only function that it calls, if that runs on the event loop; else by its text.

    Args:
        text: The code.
        called: The callables that the code mentions, by name.
    """
    title = textwrap.shorten(text, _QUOTED_CHARACTERS)
    if len(called) == 1:
        ((name, value),) = called.items()
        kind = _kind_of(value)
        return SlowCall(title if kind == "code before an await" else name, kind)
    return SlowCall(title, "code")


def slow_tool(name: str) -> SlowCall:
    """Identify a tool call.

    Args:
        name: The name of the tool.
    """
    return SlowCall(name, "tool")


def _kind_of(value: Any) -> Kind:
    if isinstance(value, type):
        return "class"
    if describe_callable(value).asynchrony:
        return "code before an await"
    code = getattr(find_function(value), "__code__", None)
    is_natural = CLOSURE_NAMES[0] in cast("tuple[str, ...]", getattr(code, "co_freevars", ()))
    return "natural function" if is_natural else "function"


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class BlockingCall(Generic[Result]):
    """A call that will run in a worker thread. Await it, or pass it to a step as the value."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], Result]) -> None:
        self._call = call

    def __await__(self) -> Generator[Any, Any, Result]:
        return call_in_thread(self._call).__await__()


class PausedCode:
    """Guarded code that has to wait for people. Await it outside the actor to continue it."""

    __slots__ = ("_coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, object]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, object]:
        return self._coroutine.__await__()


def blocking(function: Callable[Parameters, Result]) -> Callable[Parameters, BlockingCall[Result]]:
    """Make a synchronous function run in a worker thread when a block calls it.

    A block's synchronous binding functions run on the event loop, where a slow one blocks every
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

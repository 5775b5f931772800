"""Telling of code that holds the event loop, with advice that fits what was called."""

import gc
import logging
import textwrap
import time
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct

from ..natural.generated import CLOSURE_NAMES
from ..prompt.callables import describe_callable
from ..prompt.signatures import find_function

__all__ = ["SlowCall", "Stretch", "slow_code", "slow_tool"]

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
            "what it awaits needs nothing; move slow computing beside that into a synchronous function that "
            "is wrapped with nighthawk_async.blocking (on a busy machine it may have waited for a processor)"
        ),
        "code": "move what is slow into a synchronous function that is wrapped with nighthawk_async.blocking",
    }
)


class SlowCall(Struct, frozen=True):
    """A call that held the event loop.

    Args:
        title: What it is called.
        kind: What it is, for the advice.
    """

    title: str
    kind: Kind


class Stretch:
    """A stretch of time in which code of the user, or of the model, has the event loop for itself."""

    __slots__ = ("_collections", "_started")

    def __init__(self) -> None:
        self._started, self._collections = time.perf_counter(), _full_collections()

    def end(self, call: Callable[[], SlowCall]) -> None:
        """Say once of each call that it holds the event loop.

        Args:
            call: Finds out which one it was, when it took long.
        """
        seconds = time.perf_counter() - self._started
        if seconds <= _SLOW_SECONDS or _full_collections() != self._collections:
            return
        slow = call()
        if slow.title not in _reported:
            _reported.add(slow.title)
            told = (slow.title, seconds * 1000, _ADVICE[slow.kind])
            _LOGGER.warning("%s held the event loop for %.0f ms; %s", *told)


_reported: set[str] = set()


def _full_collections() -> int:
    """Return the number of full garbage collections: with thousands of steps in flight they take long."""
    return gc.get_stats()[-1]["collections"]


def slow_code(text: str, called: Mapping[str, Any]) -> SlowCall:
    """Code by the one function that it calls, where that runs on the event loop; else by its text.

    Args:
        text: The code.
        called: The callables that it mentions, by name.
    """
    title = textwrap.shorten(text, _QUOTED_CHARACTERS)
    if len(called) == 1:
        ((name, value),) = called.items()
        kind = _kind_of(value)
        return SlowCall(title if kind == "code before an await" else name, kind)
    return SlowCall(title, "code")


def slow_tool(name: str) -> SlowCall:
    """A tool.

    Args:
        name: Its name.
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

"""`gather`: waiting for several awaitables at once, on every event loop."""

import inspect
from collections.abc import Awaitable, Coroutine
from typing import Any, Literal, TypeVar, overload

from .calls import CallOptions, Calls
from .outcomes import Failed, Outcome

__all__ = ["gather"]

Result = TypeVar("Result")
First = TypeVar("First")
Second = TypeVar("Second")
Third = TypeVar("Third")
Fourth = TypeVar("Fourth")


# Heterogeneous awaitables have the types of a tuple, as in the type stubs of asyncio.gather. These ignore the
# overlaps too: `return_exceptions=True` fits the last alone.
@overload
async def gather(  # type: ignore[overload-overlap]
    first: Awaitable[First], second: Awaitable[Second], /, *, return_exceptions: Literal[False] = False
) -> tuple[First, Second]: ...
@overload
async def gather(  # type: ignore[overload-overlap]
    first: Awaitable[First],
    second: Awaitable[Second],
    third: Awaitable[Third],
    /,
    *,
    return_exceptions: Literal[False] = False,
) -> tuple[First, Second, Third]: ...
@overload
async def gather(  # type: ignore[overload-overlap]
    first: Awaitable[First],
    second: Awaitable[Second],
    third: Awaitable[Third],
    fourth: Awaitable[Fourth],
    /,
    *,
    return_exceptions: Literal[False] = False,
) -> tuple[First, Second, Third, Fourth]: ...
@overload
async def gather(
    *awaitables: Awaitable[Result], return_exceptions: Literal[False] = False
) -> list[Result]: ...
@overload
async def gather(*awaitables: Awaitable[Result], return_exceptions: bool) -> list[Result | Exception]: ...
async def gather(*awaitables: Awaitable[Any], return_exceptions: bool = False) -> Any:
    """Wait for several awaitables at once, like `asyncio.gather` and on every event loop.

    Unlike asyncio's, it is structured: the first failure cancels the others and waits until they have ended,
    so nothing is still running afterwards. A coroutine that was never begun is closed. An awaitable that is
    given twice is awaited once and gives its result twice.

    Args:
        awaitables: Coroutines, or anything else that can be awaited.
        return_exceptions: Whether exceptions take the place of results instead of being raised. An awaitable
            that somebody else cancelled has a `CallCancelledError`.

    Returns:
        A list of the results, in the order of the awaitables.

    Raises:
        TypeError: Something cannot be awaited. Nothing was started.
        Exception: What the first to fail raised; a group when several had failed before they were cancelled.
    """
    different = list({id(awaitable): awaitable for awaitable in awaitables}.values())
    results: dict[int, object] = {}

    def take(index: int, outcome: Outcome[object]) -> None:
        if not isinstance(outcome, Failed):
            results[id(different[index])] = outcome.value
        elif return_exceptions:
            results[id(different[index])] = outcome.error
        else:
            calls.fail(outcome.error)

    try:
        _check(different)
        calls = Calls(_wait_for, different, take, CallOptions(title="parallel.gather"))
        await calls.run()
    finally:
        for awaitable in different:
            if isinstance(awaitable, Coroutine):
                awaitable.close()  # one that was never begun would complain that nobody awaited it
    return [results[id(awaitable)] for awaitable in awaitables]


def _check(awaitables: list[Awaitable[Any]]) -> None:
    for awaitable in awaitables:
        if not inspect.isawaitable(awaitable):
            raise TypeError(f"parallel.gather waits for awaitables, not for {awaitable!r}")


async def _wait_for(awaitable: Awaitable[Any]) -> Any:
    return await awaitable

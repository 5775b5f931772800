"""`map`, `settle` and `race` call one function many times; `gather` waits for several awaitables at once."""

import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Iterable
from typing import Any, Literal, TypeVar, overload

from ..placements import Placement
from .calls import CallOptions, Calls
from .errors import DeadlineExceededError, NothingToRaceError
from .item_source import KeptItems
from .outcomes import Failed, Outcome, Settled
from .progress import ProgressTarget

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
    so nothing is still running afterwards. A coroutine that was never started is closed. An awaitable that is
    passed twice is awaited once, and its result appears twice.

    Args:
        awaitables: Coroutines, or anything else that can be awaited.
        return_exceptions: Whether exceptions are returned in place of results instead of being raised. An
            awaitable that was cancelled by other code gives a `CallCancelledError`.

    Returns:
        A list of the results, in the order of the awaitables.

    Raises:
        TypeError: An argument cannot be awaited. Nothing was started.
        Exception: The error of the first failure; a group if several failed before they were cancelled.
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
                awaitable.close()  # avoids a "never awaited" warning
    return [results[id(awaitable)] for awaitable in awaitables]


def _check(awaitables: list[Awaitable[Any]]) -> None:
    for awaitable in awaitables:
        if not inspect.isawaitable(awaitable):
            raise TypeError(f"parallel.gather waits for awaitables, not for {awaitable!r}")


async def _wait_for(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


Item = TypeVar("Item")


@overload
async def map(
    function: Callable[[Item], Awaitable[Result]],
    items: Iterable[Item] | AsyncIterable[Item],
    *,
    max_concurrent: int | None = None,
    deadline: float | None = None,
    progress: ProgressTarget | None = None,
    on: Placement | None = None,
) -> list[Result]: ...
@overload
async def map(
    function: Callable[[Item], Result],
    items: Iterable[Item] | AsyncIterable[Item],
    *,
    max_concurrent: int | None = None,
    deadline: float | None = None,
    progress: ProgressTarget | None = None,
    on: Placement | None = None,
) -> list[Result]: ...
async def map(
    function: Callable[[Item], Any],
    items: Iterable[Item] | AsyncIterable[Item],
    *,
    max_concurrent: int | None = None,
    deadline: float | None = None,
    progress: ProgressTarget | None = None,
    on: Placement | None = None,
) -> list[Any]:
    """Call a function for every item, many at a time.

    The first failure cancels the calls in flight, starts no more, and is raised as it is. An exception group
    is raised only if more calls failed, before they could be cancelled or while they ended. An exception of
    the iterable itself counts as a failure; one raised later, while the iterable is closed, is dropped.

    Args:
        function: An async function, natural or not, or a synchronous one, which runs in worker threads: up to
            `max_concurrent` of them, or 40. A running thread cannot be interrupted, so the end of a cancelled
            call waits for it.
        items: The items, from an iterable or an async iterable. Each is taken when there is room for its
            call, so a million items do not become a million tasks. An async generator is closed at the end.
        max_concurrent: The greatest number of calls in flight at once; None for as many as there are items.
        deadline: The total time, in seconds; None for no limit. To limit each call, wrap the
            function: `nh.deadline(5)(function)`.
        progress: True for one line in the terminal or notebook, with what is done, the tokens, the cost and
            the remaining time; a callback that gets a `Progress` when a call begins or ends; or a
            `rich.progress.Progress`. An exception from the callback ends everything. An async callback is
            awaited by the task of the call, so a slow one holds up the calls. For the call that ends
            everything, the callback has 10 seconds, and no longer than the deadline.
        on: The placement of the calls, such as `nighthawk_async.distributed.Processes`; None for this event
            loop. Without `max_concurrent`, as many are in flight as the placement can run at once.

    Returns:
        The results of the calls, in the order of the items.

    Raises:
        InvalidLimitError: A limit is invalid. Nothing was started.
        DeadlineExceededError: The calls did not end in time.
        Exception: The error of the first failing call, or of the iterable.
    """
    results: dict[int, Any] = {}

    def take(index: int, outcome: Outcome[Any]) -> None:
        if isinstance(outcome, Failed):
            calls.fail(outcome.error)
        else:
            results[index] = outcome.value

    options = CallOptions(
        title="parallel.map", max_concurrent=max_concurrent, deadline=deadline, progress=progress, on=on
    )
    calls = Calls(function, items, take, options)
    await calls.run()
    return [results[index] for index in range(len(results))]


@overload
async def settle(
    function: Callable[[Item], Awaitable[Result]],
    items: Iterable[Item] | AsyncIterable[Item],
    *,
    max_concurrent: int | None = None,
    deadline: float | None = None,
    progress: ProgressTarget | None = None,
    on: Placement | None = None,
) -> Settled[Result]: ...
@overload
async def settle(
    function: Callable[[Item], Result],
    items: Iterable[Item] | AsyncIterable[Item],
    *,
    max_concurrent: int | None = None,
    deadline: float | None = None,
    progress: ProgressTarget | None = None,
    on: Placement | None = None,
) -> Settled[Result]: ...
async def settle(
    function: Callable[[Item], Any],
    items: Iterable[Item] | AsyncIterable[Item],
    *,
    max_concurrent: int | None = None,
    deadline: float | None = None,
    progress: ProgressTarget | None = None,
    on: Placement | None = None,
) -> Settled[Any]:
    """Call a function for every item, many at a time, and return the outcome of each call.

    A failing call does not raise here. A cancellation of the caller is not a failure of a call: it
    propagates, and there is no result. A call that was cancelled by other code counts as failed, with a
    `CallCancelledError`. An exception that is not an `Exception`, for example `SystemExit`, ends everything.

    Args:
        function: The function; see `map`.
        items: The items; see `map`.
        max_concurrent: The greatest number of calls in flight at once; None for as many as there are items.
        deadline: The total time, in seconds; None for no limit. When it expires, calls in flight are
            cancelled, and count as `Failed(DeadlineExceededError(…))`, as do the items that are left: all
            those of a collection, and those that were taken from another iterable.
        progress: The receiver of progress; see `map`.
        on: The placement of the calls; see `map`.

    Returns:
        The outcomes, in the order of the items. Each has its `item`.

    Raises:
        InvalidLimitError: A limit is invalid. Nothing was started.
        DeadlineExceededError: The calls did not end in time, in a run with a journal: a later life could not
            tell which of them had. There, limit each call: `nh.deadline(5)(function)`.
        Exception: An error of the iterable or of the progress callback.
    """
    outcomes: dict[int, Outcome[Any]] = {}
    options = CallOptions(
        title="parallel.settle", max_concurrent=max_concurrent, deadline=deadline, progress=progress, on=on
    )
    if deadline is None:
        await Calls(function, items, outcomes.__setitem__, options).run()
        return Settled(outcomes=tuple(outcomes[index] for index in range(len(outcomes))))
    source = KeptItems(items)
    calls = Calls(function, items, outcomes.__setitem__, options, source=source)
    try:
        await calls.run()
    except DeadlineExceededError as error:
        if error is not calls.exceeded:
            raise
    late = calls.exceeded
    known = range(len(outcomes)) if late is None else source.known()
    return Settled(
        outcomes=tuple(
            outcomes[index] if late is None or index in outcomes else Failed(late, item)
            for index, item in enumerate(known)
        )
    )


@overload
async def race(
    function: Callable[[Item], Awaitable[Result]],
    items: Iterable[Item] | AsyncIterable[Item],
    *,
    max_concurrent: int | None = None,
    deadline: float | None = None,
    progress: ProgressTarget | None = None,
    on: Placement | None = None,
) -> Result: ...
@overload
async def race(
    function: Callable[[Item], Result],
    items: Iterable[Item] | AsyncIterable[Item],
    *,
    max_concurrent: int | None = None,
    deadline: float | None = None,
    progress: ProgressTarget | None = None,
    on: Placement | None = None,
) -> Result: ...
async def race(
    function: Callable[[Item], Any],
    items: Iterable[Item] | AsyncIterable[Item],
    *,
    max_concurrent: int | None = None,
    deadline: float | None = None,
    progress: ProgressTarget | None = None,
    on: Placement | None = None,
) -> Any:
    """Call a function for every item, many at a time, and return the first result.

    A call that fails leaves the race to the others. Once a call has returned, the others are cancelled and
    awaited, no more are started, and exceptions that the others and the iterable raise while they end are
    dropped. A call that wins in time has won, however long the others take to end.

    Args:
        function: The function; see `map`.
        items: The items, possibly infinite; see `map`.
        max_concurrent: The greatest number of calls in flight at once; None for as many as there are items.
        deadline: The time for the race, in seconds; None for no limit.
        progress: The receiver of progress; see `map`.
        on: The placement of the calls; see `map`.

    Returns:
        The result of the first call to succeed.

    Raises:
        InvalidLimitError: A limit is invalid. Nothing was started.
        NothingToRaceError: There are no items.
        ExceptionGroup: Every call failed; the errors are in the order of the items, even if there is only
            one.
        DeadlineExceededError: No call succeeded in time.
        Exception: An error of the iterable or of the progress callback.
    """
    winners: list[Any] = []
    errors: dict[int, Exception] = {}

    def take(index: int, outcome: Outcome[Any]) -> None:
        if isinstance(outcome, Failed):
            errors[index] = outcome.error
        else:
            winners.append(outcome.value)
            calls.decide()

    options = CallOptions(
        title="parallel.race", max_concurrent=max_concurrent, deadline=deadline, progress=progress, on=on
    )
    calls = Calls(function, items, take, options)
    await calls.run()
    if winners:
        return winners[0]
    if not errors:
        raise NothingToRaceError("parallel.race needs at least one item")
    raise ExceptionGroup(
        "every call of parallel.race failed", [errors[index] for index in range(len(errors))]
    )

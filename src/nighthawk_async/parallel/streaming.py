"""`stream`: results in the order in which the calls end."""

from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Generic, Literal, TypeVar, overload

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..placements import Placement
from .calls import CallOptions, Calls
from .outcomes import Failed, Outcome
from .progress import ProgressTarget

Item = TypeVar("Item")
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


@overload
def stream(
    function: Callable[[Item], Awaitable[Result]],
    items: Iterable[Item] | AsyncIterable[Item],
    *,
    max_concurrent: int | None = None,
    deadline: float | None = None,
    progress: ProgressTarget | None = None,
    on: Placement | None = None,
) -> "Stream[Result]": ...
@overload
def stream(
    function: Callable[[Item], Result],
    items: Iterable[Item] | AsyncIterable[Item],
    *,
    max_concurrent: int | None = None,
    deadline: float | None = None,
    progress: ProgressTarget | None = None,
    on: Placement | None = None,
) -> "Stream[Result]": ...
def stream(
    function: Callable[[Item], Any],
    items: Iterable[Item] | AsyncIterable[Item],
    *,
    max_concurrent: int | None = None,
    deadline: float | None = None,
    progress: ProgressTarget | None = None,
    on: Placement | None = None,
) -> "Stream[Any]":
    """Call a function for every item, many at a time, and give each result as soon as it is available.

        async with parallel.stream(fetch, urls, max_concurrent=8) as results:
            async for page in results:
                ...

    Leaving the block early cancels the calls in flight and waits for them; exceptions that they raise are
    dropped. The first failure cancels the rest, too. It is raised to every iterating task once the earlier
    results have been taken; the block itself is not interrupted.

    Args:
        function: The function; see `map`.
        items: The items, possibly infinite; see `map`.
        max_concurrent: The greatest number of calls that are in flight or have a result that was not taken
            yet, so that the waiting results are bounded; None for as many as there are items.
        deadline: The time from entering the block until the last call has ended, in seconds; None for no
            limit. Exceeding it is raised like a failure.
        progress: The receiver of progress; see `map`.
        on: The placement of the calls; see `map`.

    Returns:
        An asynchronous context manager.

    Raises:
        InvalidLimitError: A limit is invalid.
    """
    options = CallOptions(
        title="parallel.stream", max_concurrent=max_concurrent, deadline=deadline, progress=progress, on=on
    )
    return Stream(function, items, options)


class Stream(Generic[Result_co]):
    """Results in the order in which the calls end. Made by `stream`.

    Enter it once, then iterate; several tasks may take results, and each result is given once. A task that is
    cancelled while waiting for a result has taken none. After the last result, each iterating task gets the
    exception of a call or of the iterable, or `DeadlineExceededError`. A task that iterates after the block
    was left or cancelled before its end gets `anyio.ClosedResourceError`.
    """

    def __init__(
        self,
        function: Callable[[Item], Any],
        items: Iterable[Item] | AsyncIterable[Item],
        options: CallOptions,
    ) -> None:
        self._calls = Calls(function, items, self._take, options, frees_room=False)
        self._title = options.title
        self._task_group: TaskGroup | None = None
        self._phase: Literal["open", "ended", "left"] = "open"  # left: before its end
        self._results: deque[tuple[int, Result_co]] = deque()
        self._waiters: dict[anyio.Event, None] = {}
        self._error: BaseException | None = None
        self._traceback: TracebackType | None = None
        self._is_error_delivered = False

    async def __aenter__(self) -> "Stream[Result_co]":
        if self._task_group is not None:
            raise RuntimeError("a stream can be entered once; make a new one")
        self._calls.begin()
        self._task_group = anyio.create_task_group()
        await self._task_group.__aenter__()
        self._task_group.start_soon(self._run, name=self._title)
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        task_group = self._entered()
        if self._phase == "open" or self._results or self._error is not None:
            self._enter("left")
        task_group.cancel_scope.cancel()
        try:
            # Not with the error of the block: that propagates as it is, and not in a group.
            await task_group.__aexit__(None, None, None)
        finally:
            self._calls.end_unstarted()
            self._results.clear()
            undelivered = None if self._is_error_delivered else self._error
            self._error = self._traceback = None  # they would keep each other alive
        if undelivered is not None and not isinstance(undelivered, Exception):
            raise undelivered  # the block must not miss SystemExit, for example

    def __aiter__(self) -> "Stream[Result_co]":
        return self

    async def __anext__(self) -> Result_co:
        return (await self._pull())[1]

    def indexed(self) -> AsyncIterator[tuple[int, Result_co]]:
        """Return the same results, each with the position of its item, counted from 0."""
        return _Indexed(self)

    async def _pull(self) -> tuple[int, Result_co]:
        self._entered()
        await checkpoint()
        while not self._results and self._phase == "open":
            await self._wait_for_turn()
        if self._phase != "open":
            await checkpoint_if_cancelled()  # the end of the calls may have cancelled the caller, too
        if self._phase == "left":
            raise anyio.ClosedResourceError
        if self._error is not None and not self._results:
            self._is_error_delivered = True
            # Each caller sees where the error was raised, without the frames of other callers.
            raise self._error.with_traceback(self._traceback)
        if not self._results:
            raise StopAsyncIteration
        self._calls.free_room()
        return self._results.popleft()

    async def _wait_for_turn(self) -> None:
        """Wait until there may be a result to take. Nothing is taken here, so no cancellation loses it."""
        waiter = anyio.Event()
        self._waiters[waiter] = None
        try:
            await waiter.wait()
        except BaseException:
            self._waiters.pop(waiter, None)
            if waiter.is_set() and self._results:
                self._wake_next()  # pass the turn on
            raise

    def _wake_next(self) -> None:
        if self._waiters:
            waiter = next(iter(self._waiters))
            del self._waiters[waiter]
            waiter.set()

    def _take(self, index: int, outcome: Outcome[Result_co]) -> None:
        if isinstance(outcome, Failed):
            self._calls.fail(outcome.error)
        else:
            self._results.append((index, outcome.value))
            self._wake_next()

    async def _run(self) -> None:
        """Make the calls. Nothing is raised here: that would cancel the block of the consumer."""
        try:
            await self._calls.run()
        except anyio.get_cancelled_exc_class():
            self._enter("left")
            raise
        except BaseException as error:
            self._error, self._traceback = error, error.__traceback__
        if self._phase == "open":
            self._enter("ended")

    def _enter(self, phase: Literal["ended", "left"]) -> None:
        self._phase = phase
        while self._waiters:
            self._wake_next()

    def _entered(self) -> TaskGroup:
        if self._task_group is None:
            raise RuntimeError("a stream must be entered with `async with` before it is iterated over")
        return self._task_group


class _Indexed(Generic[Result_co]):
    """Results with positions. Not an async generator: those cannot be left in time."""

    def __init__(self, stream: Stream[Result_co]) -> None:
        self._stream = stream

    def __aiter__(self) -> "_Indexed[Result_co]":
        return self

    async def __anext__(self) -> tuple[int, Result_co]:
        return await self._stream._pull()  # pyright: ignore[reportPrivateUsage]

"""Making many calls at once until their rest makes no difference."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

from anyio import CapacityLimiter

from ..parallel import Outcome, call_any, cancel_requested, raise_if_cancel_requested
from ..parallel.calls import CallOptions, Calls
from ..runtime.bridge import run_from_sync
from ..runtime.environment import find_environment
from .transforming import Call
from .vote_tally import Tally
from .waiting import wait_from_sync

__all__ = ["MakeCall", "make_calls", "make_calls_from_sync"]

MakeCall: TypeAlias = Callable[[int, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Makes one of the calls: gets its position, from 0, and what is to be awaited for it."""

_MOST_THREADS = 40


async def make_calls(
    call: Call[Awaitable[Any]], tally: Tally[Any], *, title: str, around: MakeCall | None = None
) -> None:
    """Make the calls of an async function at once. Cancels and awaits the rest when all is settled.

    Args:
        call: What is called.
        tally: Says how many, takes the outcomes, and knows when all is settled.
        title: What the calls are for.
        around: Makes each call, in the task of the call; None to await it as it is.

    Raises:
        Exception: What somebody decided, and is not for other calls to make up for.
    """
    await _make_calls(call, tally, title, around)


def make_calls_from_sync(
    call: Call[Any], tally: Tally[Any], *, title: str, around: MakeCall | None = None
) -> None:
    """The same with a synchronous function, in worker threads. Waits for those that it cannot interrupt.

    In a worker thread of an event loop, the calls belong to that loop. Anywhere else within a run, they
    belong to the run's portal, and without a run to an event loop for as long as they last.

    Raises:
        TaskCancelledError: The task of the caller was asked to end when calls waited for a thread.
    """

    async def make_in_threads() -> None:
        # Of their own: calls may make such calls in turn, and would wait for the threads that they hold.
        threads = CapacityLimiter(min(tally.count, _MOST_THREADS))
        in_thread = call if cancel_requested() else partial(_begin_unless_ending, call)
        await _make_calls(partial(call_any, in_thread, limiter=threads), tally, title, around)

    if find_environment() is None:
        wait_from_sync(make_in_threads)
    else:
        run_from_sync(make_in_threads)


def _begin_unless_ending(call: Call[Any]) -> Any:
    """Call, unless the task of the caller was asked to end while the call waited for a thread."""
    raise_if_cancel_requested()
    return call()


async def _make_calls(
    call: Callable[[], Awaitable[Any]], tally: Tally[Any], title: str, around: MakeCall | None
) -> None:
    async def make_one(position: int) -> Any:
        return await (call() if around is None else around(position, call))

    def take(position: int, outcome: Outcome[Any]) -> None:
        tally.take(position, outcome)
        if tally.is_settled:
            calls.decide()

    calls = Calls(make_one, range(tally.count), take, CallOptions(title=title))
    await calls.run()
    if tally.final_error is not None:
        raise tally.final_error

"""Waits of synchronous code that respect deadlines and cancellation.

In a worker thread of an event loop the wait happens on that loop, so cancelling the task that waits for the
thread cancels the wait. Any other thread gets an event loop for the duration of the wait. In a thread that
runs an event loop, the wait blocks that loop, as every synchronous wait does, and a warning is given.
"""

import warnings
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple, cast

import anyio
from anyio import from_thread
from anyio.from_thread import start_blocking_portal
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..parallel import raise_if_cancel_requested, under_thread_deadlines
from ..parallel.deadlines import find_deadline_error
from ..parallel.event_loop import LoopEvent, is_loop_thread, is_worker_thread
from ..parallel.task_current import asked_to_end
from ..threads import wait_interruptibly

_SECONDS_TO_CANCEL = 1.0
"""The seconds a loop has to cancel work that is out of time: it needs one or two of its own iterations."""

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


def wait_from_sync(
    function: Callable[[*Arguments], Coroutine[Any, Any, Result]], *args: *Arguments
) -> Result:
    """Run an async function that waits, and wait for it.

    Args:
        function: The async function.
        args: Its arguments.

    Raises:
        DeadlineExceededError: A deadline of the caller expired first.
    """
    bounded = cast("Callable[[*Arguments], Coroutine[Any, Any, Result]]", under_thread_deadlines(function))
    if is_loop_thread():
        warnings.warn(
            "A synchronous function waits on the thread of a running event loop and blocks it; make the "
            "function `async def`, or call it with anyio.to_thread.run_sync.",
            RuntimeWarning,
            stacklevel=2,
        )
        return _wait_elsewhere(bounded, *args)
    if is_worker_thread():
        return from_thread.run(bounded, *args)
    return anyio.run(bounded, *args)


async def sleep_unless_ending(seconds: float) -> None:
    """Sleep until the time is over or the task of the caller is asked to end.

    Args:
        seconds: The number of seconds to sleep.

    Raises:
        BaseException: The caller was cancelled, or is out of time.
        TaskCancelledError: The task of the caller was asked to end.
    """
    if seconds > 0:
        asked = LoopEvent()  # the request may come from another event loop when the caller is in a thread
        with asked_to_end(asked.set), anyio.move_on_after(seconds):
            await asked.wait()
    else:
        await checkpoint()
    await raise_if_ending_async()


def sleep_from_sync(seconds: float) -> None:
    """Sleep in synchronous code; see `sleep_unless_ending`.

    Args:
        seconds: The number of seconds to sleep.

    Raises:
        BaseException: The task that waits for the present worker thread was cancelled.
        DeadlineExceededError: A deadline of the caller expired first.
        TaskCancelledError: The task of the caller was asked to end.
    """
    if seconds > 0:
        wait_from_sync(sleep_unless_ending, seconds)
    raise_if_ending()


def raise_if_ending() -> None:
    """Raise if the caller is cancelled, out of time or asked to end. Called before each call after the first.

    Raises:
        BaseException: The task that waits for the present worker thread was cancelled.
        DeadlineExceededError: A deadline of the present thread has expired or, on the thread of an event
            loop, that of an enclosing cancel scope.
        TaskCancelledError: The task of the caller was asked to end.
    """
    _raise_if_cancelled()
    late = find_deadline_error()
    if late is not None:
        raise late
    raise_if_cancel_requested()


async def raise_if_ending_async() -> None:
    """Raise in async code, where an expired cancel scope cancels; see `raise_if_ending`.

    Raises:
        BaseException: The caller was cancelled, or is out of time.
        DeadlineExceededError: The caller is out of time, and its event loop does not cancel it.
        TaskCancelledError: The task of the caller was asked to end.
    """
    await checkpoint_if_cancelled()
    late = find_deadline_error()
    if late is not None:  # the previous call blocked the loop, which could not cancel yet
        await anyio.sleep(_SECONDS_TO_CANCEL)
        raise late
    raise_if_cancel_requested()


def _raise_if_cancelled() -> None:
    if not is_loop_thread():
        is_worker_thread()


def _wait_elsewhere(
    function: Callable[[*Arguments], Coroutine[Any, Any, Result]], *args: *Arguments
) -> Result:
    with start_blocking_portal(name="nighthawk-async waiter") as portal:
        future = portal.start_task_soon(function, *args)
        try:
            return wait_interruptibly(future)
        finally:
            future.cancel()  # interrupted by Ctrl-C: otherwise the portal would wait for the end

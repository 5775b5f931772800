"""Waiting in synchronous code as asynchronous code does: within deadlines, cancellable.

In a worker thread of an event loop the waiting is done on that loop, so the cancellation of whoever waits
for the thread reaches it. Any other thread gets an event loop for as long as it waits. A thread that runs an
event loop is blocked, as by every synchronous function that waits, and warned.
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
"""For how long a loop may take to cancel what is out of time: it needs no more than its next step or two."""

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


def wait_from_sync(
    function: Callable[[*Arguments], Coroutine[Any, Any, Result]], *args: *Arguments
) -> Result:
    """Carry out an async function that waits, and wait for it.

    Args:
        function: The async function.
        args: Its arguments.

    Raises:
        DeadlineExceededError: A deadline around the caller came first.
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
    """Sleep until the time is over, or the task of the caller is asked to end.

    Args:
        seconds: For how long.

    Raises:
        BaseException: The caller was cancelled, or is out of time.
        TaskCancelledError: The task of the caller was asked to end.
    """
    if seconds > 0:
        asked = LoopEvent()  # whoever asks may be on another event loop, when the caller is in a thread
        with asked_to_end(asked.set), anyio.move_on_after(seconds):
            await asked.wait()
    else:
        await checkpoint()
    await raise_if_ending_async()


def sleep_from_sync(seconds: float) -> None:
    """The same in synchronous code.

    Args:
        seconds: For how long.

    Raises:
        BaseException: The task that waits for the present worker thread was cancelled.
        DeadlineExceededError: A deadline around the caller came first.
        TaskCancelledError: The task of the caller was asked to end.
    """
    if seconds > 0:
        wait_from_sync(sleep_unless_ending, seconds)
    raise_if_ending()


def raise_if_ending() -> None:
    """Do nothing, unless the caller has come to its end: what is said here before each call after the first.

    Raises:
        BaseException: The task that waits for the present worker thread was cancelled.
        DeadlineExceededError: A deadline of the present thread is over, or on the thread of an event loop
            that of a cancel scope around the caller.
        TaskCancelledError: The task of the caller was asked to end.
    """
    _raise_if_cancelled()
    late = find_deadline_error()
    if late is not None:
        raise late
    raise_if_cancel_requested()


async def raise_if_ending_async() -> None:
    """The same in async code, where the end of a cancel scope's time cancels.

    Raises:
        BaseException: The caller was cancelled, or is out of time.
        DeadlineExceededError: The caller is out of time, and its event loop does not cancel it.
        TaskCancelledError: The task of the caller was asked to end.
    """
    await checkpoint_if_cancelled()
    late = find_deadline_error()
    if late is not None:  # the call before blocked the loop, which could not cancel yet
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

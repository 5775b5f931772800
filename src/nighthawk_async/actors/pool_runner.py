"""Running one job of a pool to its end, whatever that is. Floor 1."""

import inspect
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from types import TracebackType
from typing import Any, cast

import anyio
from anyio import get_cancelled_exc_class
from anyio.lowlevel import checkpoint_if_cancelled

from ..observation import using_node_writer
from .foreign_cancellation import is_cancelled
from .pool_job import Job
from .pool_waits import current_worker

__all__ = ["run_job"]


async def run_job(job: Job[Any]) -> None:
    """Run a job. How it ends is kept in its state, and goes no further.

    Raises:
        BaseException: A cancellation from outside, and what ends the program (Ctrl-C, `sys.exit`).
    """
    try:
        with anyio.CancelScope() as job.scope:
            await _run(job)
    except BaseException as error:
        failure = _without_cancellations(error)
        if failure is not None:
            job.fail(_without_runner(failure))
            if not isinstance(failure, Exception):
                raise
        elif not is_cancelled():
            job.end_cancelled("something that it awaited was cancelled")
        else:
            job.end_cancelled("its pool was cancelled")
            raise
    if not job.is_ended:  # its own scope has caught the cancellation
        job.end_cancelled()


async def _run(job: Job[Any]) -> None:
    if job.is_asked_to_end:
        return
    await checkpoint_if_cancelled()  # what is around the pool may be cancelled before the job begins
    current_worker.set(job)
    function, args = job.begin()
    with nullcontext() if job.node is None else using_node_writer(job.node):
        job.complete(await _call(function, args))


async def _call(function: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> Any:
    awaitable = function(*args)
    if not inspect.isawaitable(awaitable):
        raise TypeError(
            f"{function!r} is not async; a pool calls others through anyio.to_thread: "
            "submit(anyio.to_thread.run_sync, function, ...)"
        )
    return await awaitable


def _without_cancellations(error: BaseException) -> BaseException | None:
    """The errors in it; None when it is cancellations only. Nurseries raise both in groups."""
    cancelled = get_cancelled_exc_class()
    if isinstance(error, BaseExceptionGroup):
        return cast("BaseExceptionGroup[BaseException]", error).split(cancelled)[1]
    return None if isinstance(error, cancelled) else error


def _without_runner(error: BaseException) -> BaseException:
    """An error whose traceback begins in the body of the job."""
    traceback: TracebackType | None = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    return error.with_traceback(traceback)

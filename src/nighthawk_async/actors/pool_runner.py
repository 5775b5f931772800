"""Running one job of a pool to its end, whatever that is. Floor 1."""

import inspect
import math
from types import TracebackType
from typing import Any

import anyio
from anyio import get_cancelled_exc_class
from anyio.lowlevel import checkpoint_if_cancelled

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
    except get_cancelled_exc_class():
        if anyio.current_effective_deadline() != -math.inf:
            job.end_cancelled("something that it awaited was cancelled")
            return
        job.end_cancelled("its pool was cancelled")
        raise
    except Exception as error:
        job.fail(_without_runner(error))
    except BaseExceptionGroup as group:
        _fail_with_group(job, group)
    except BaseException as error:
        job.fail(_without_runner(error))
        raise
    if not job.is_ended:  # its own scope has caught the cancellation
        job.end_cancelled()


async def _run(job: Job[Any]) -> None:
    if job.is_asked_to_end:
        return
    await checkpoint_if_cancelled()  # what is around the pool may be cancelled before the job begins
    current_worker.set(job)
    function, args = job.begin()
    awaitable = function(*args)
    if not inspect.isawaitable(awaitable):
        raise TypeError(
            f"{function!r} is not async; a pool calls others through anyio.to_thread: "
            "submit(anyio.to_thread.run_sync, function, ...)"
        )
    job.complete(await awaitable)


def _fail_with_group(job: Job[Any], group: BaseExceptionGroup[BaseException]) -> None:
    """On Trio, errors raised during a cancellation from outside come in one group with it."""
    _, errors = group.split(get_cancelled_exc_class())
    if isinstance(errors, Exception):
        job.fail(_without_runner(errors))
        return
    job.fail(_without_runner(group))
    raise group


def _without_runner(error: BaseException) -> BaseException:
    """An error whose traceback begins in the body of the job, so that it does not keep the job alive."""
    traceback: TracebackType | None = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    return error.with_traceback(traceback)

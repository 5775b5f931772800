"""The jobs of one pool: which are taken, started, dropped, refused and counted.

Nearly everything is synchronous: it changes plain state, and notifies waiting tasks. Tasks and names are
handled by `pool`.
"""

import inspect
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from contextlib import nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple

import anyio
from anyio import get_cancelled_exc_class
from anyio.lowlevel import checkpoint_if_cancelled

from ..causes import ends_run, without
from ..observation import NodeWriter, using_node_writer
from .errors import PoolClosedError, PoolFullError
from .nodes import begin_job
from .pool_job import Admission, Job, JobHandle, PoolWaits
from .pool_queue import PoolQueue
from .task_group import is_cancelled

REMEMBERED_JOBS = 1_024
"""The number of ended jobs with a key that a pool remembers: those that ended, or were requested, last."""


class Submitted(NamedTuple):
    """A job, and the one handle that all its submitters share."""

    job: Job[Any]
    handle: JobHandle[Any]

    def hand_out(self) -> JobHandle[Any]:
        """Return the handle for a submitter."""
        self.job.is_handed_out = True
        return self.handle


class KeyMemory:
    """The jobs that were submitted with a key."""

    def __init__(self) -> None:
        self._alive: dict[Hashable, Submitted] = {}
        self._ended: OrderedDict[Hashable, Submitted] = OrderedDict()

    def find(self, key: Hashable) -> Submitted | None:
        """The job of a key; None when the key is free."""
        if key is None:
            return None
        submitted = self._alive.get(key)
        if submitted is None and (submitted := self._ended.get(key)) is not None:
            self._ended.move_to_end(key)
        return submitted

    def remember(self, submitted: Submitted) -> None:
        """Remember a submitted job."""
        key = submitted.job.idempotency_key
        if key is not None:
            self._alive[key] = submitted

    def end(self, job: Job[Any]) -> None:
        """Record that a job has ended, or was never taken. Its key is free when its body never ran."""
        key = job.idempotency_key
        submitted = self._alive.pop(key, None)
        if submitted is None or not job.has_begun:
            return
        self._ended[key] = submitted
        if len(self._ended) > REMEMBERED_JOBS:
            self._ended.popitem(last=False)


async def run_job(job: Job[Any]) -> None:
    """Run a job. Its outcome is kept in its state, and not raised.

    Raises:
        BaseException: A cancellation from outside, or an exception that ends the program (Ctrl-C,
            `sys.exit`) or the run.
    """
    try:
        with anyio.CancelScope() as job.scope:
            await _run(job)
    except BaseException as error:
        failure = _without_cancellations(error)
        if failure is not None:
            job.fail(_without_runner(failure))
            if not isinstance(failure, Exception) or ends_run(failure):
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
    await checkpoint_if_cancelled()  # a scope around the pool may be cancelled before the job starts
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
    """Return the errors in it; None when it holds cancellations only. Nurseries raise both in groups."""
    return without(error, get_cancelled_exc_class())


def _without_runner(error: BaseException) -> BaseException:
    """Return an error whose traceback begins in the body of the job."""
    traceback: TracebackType | None = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    return error.with_traceback(traceback)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStatistics:
    """Statistics of a pool at one moment. `submitted` is always the sum of the six that follow it.

    Args:
        submitted: Jobs for which there is a handle.
        queued: Jobs that wait for a worker.
        running: Jobs that have a worker.
        completed: Jobs that returned.
        failed: Jobs that raised.
        rejected: Jobs that were dropped because the pool was full.
        cancelled: Jobs that were cancelled, running or not.
        refused: The submissions that raised `PoolFullError`, or `PoolClosedError` while waiting for room.
        waiting_submitters: Jobs whose submitters wait for room.
        greatest_queued: The greatest number of jobs that have been queued at the same time.
    """

    submitted: int
    queued: int
    running: int
    completed: int
    failed: int
    rejected: int
    cancelled: int
    refused: int
    waiting_submitters: int
    greatest_queued: int


class PoolJobs:
    """The jobs of a pool.

    Args:
        queue: Its limits.
        pool: Its name.
        start: Starts the task of a job.
    """

    def __init__(self, queue: PoolQueue[Job[Any]], *, pool: str, start: Callable[[Job[Any]], None]) -> None:
        self.pool = pool
        self.waits = PoolWaits(queue.max_concurrent)
        self.is_closed = False
        self.node: NodeWriter | None = None  # when there are observers
        self._is_over = False
        self._queue = queue
        self._start_task = start
        self._keys = KeyMemory()
        self._started: dict[Job[Any], None] = {}
        self._ended: Counter[str] = Counter()
        self._submitted = self._refused = 0

    def check_open(self) -> None:
        """Check that the caller may submit.

        Raises:
            PoolClosedError: The pool is over, or it is closed and the caller is not one of its jobs.
        """
        if self._is_over or (self.is_closed and self.waits.find_worker() is None):
            raise PoolClosedError(f"the pool {self.pool!r} takes no more jobs")

    def find(self, idempotency_key: Hashable) -> Submitted | None:
        """Return the job that was submitted with a key; None when the key is free."""
        return self._keys.find(idempotency_key)

    def submit(self, job: Job[Any]) -> Submitted:
        """Take a new job, or let it wait for a slot: then its phase is `blocked`.

        Raises:
            PoolFullError: It is not taken, and does not wait.
        """
        if not self._place(job):
            job.admission = Admission()
            self._queue.block(job)
        submitted = Submitted(job, JobHandle(job))
        if not job.is_ended:
            self._keys.remember(submitted)
        return submitted

    async def wait_for_place(self, job: Job[Any]) -> None:
        """Wait until a blocked job is taken. The last of its submitters to be cancelled here takes it back.

        Raises:
            PoolClosedError: The pool takes no more jobs.
            PoolDeadlockError: The caller is a job of the pool, and would wait for ever.
        """
        admission = job.admission
        assert admission is not None, "a blocked job has an admission"
        try:
            is_inside = self.waits.find_worker() is not None
            await admission.wait(self.waits.begin(job), is_inside=is_inside)
        except BaseException:
            if admission.is_given_up:
                self._take_back(job)
            raise
        if admission.is_refused:
            await checkpoint_if_cancelled()  # the cancellation of the pool may have cancelled the caller, too
            raise PoolClosedError(f"the pool {self.pool!r} takes no more jobs")

    def leave_waiting(self, job: Job[Any]) -> PoolFullError:
        """Stop waiting for a blocked job; return the error to raise. Others may go on waiting for it."""
        if job.admission is not None and job.admission.is_given_up:
            self._take_back(job)
        self._refused += 1
        return self._full()

    def cancel_job(self, job: Job[Any], reason: str | None) -> bool:
        """Cancel a job; return False when it has already ended."""
        if job.is_ended:
            return False
        job.note_reason(reason)
        if job.phase == "queued":
            self._queue.withdraw(job)
            self._end_queued(job)
            self._advance()
        else:
            job.ask_to_end()
        return True

    def end(self, job: Job[Any]) -> None:
        """Record that the task of a job has ended."""
        del self._started[job]
        self.waits.forget(job)
        self._queue.free_worker()
        self._account(job)
        self._advance()

    def close(self) -> None:
        """Take no more jobs from outside."""
        self.is_closed = True
        for job in self._queue.blocked_items():
            if job.admission is not None and not job.admission.is_from_inside:
                self._refuse(job)

    def abort(self) -> None:
        """Cancel every job that has not been started, and take no more jobs."""
        self.is_closed = self._is_over = True
        for job in self._queue.blocked_items():
            self._refuse(job)
        for job in self._queue.drain():
            job.note_reason("its pool was cancelled")
            self._end_queued(job)

    def end_unstarted(self) -> None:
        """End the jobs whose tasks asyncio has cancelled before their first step, so that they never ran."""
        for job in tuple(self._started):
            job.end_cancelled("its pool was cancelled")
            self.end(job)

    def statistics(self) -> PoolStatistics:
        """Return the current statistics."""
        return PoolStatistics(
            submitted=self._submitted,
            queued=self._queue.queued,
            running=self._queue.running,
            completed=self._ended["completed"],
            failed=self._ended["failed"],
            rejected=self._ended["rejected"],
            cancelled=self._ended["cancelled"],
            refused=self._refused,
            waiting_submitters=self._queue.blocked,
            greatest_queued=self._queue.greatest_queued,
        )

    def _place(self, job: Job[Any]) -> bool:
        """Take a job if there is a slot for it; return False when it may wait for one."""
        placement = self._queue.place(job)
        if placement.where == "blocked":
            return False
        if placement.where == "refused":
            self._refused += 1
            raise self._full()
        job.index = self._submitted
        self._submitted += 1
        if self.node is not None:

            def cancel(reason: str | None) -> object:
                return self.cancel_job(job, reason)

            job.node = begin_job(self.node, job.id, job.function, job.args, cancel)
        if placement.where == "started":
            self._start(job)
        elif placement.where == "queued":
            job.phase = "queued"
        else:
            self._reject(job, "no worker and no queue slot was free")
        if placement.evicted is not None:
            self._reject(placement.evicted, f"it was the oldest queued job when job {job.id} was submitted")
        return True

    def _start(self, job: Job[Any]) -> None:
        job.phase = "running"
        self._started[job] = None
        self._start_task(job)

    def _reject(self, job: Job[Any], reason: str) -> None:
        job.reject(self._queue.backpressure, reason)
        self._account(job)

    def _end_queued(self, job: Job[Any]) -> None:
        job.end_cancelled()
        self._account(job)

    def _account(self, job: Job[Any]) -> None:
        self._ended[job.phase] += 1
        self._keys.end(job)

    def _advance(self) -> None:
        """Give free workers and free slots to the next jobs."""
        while (job := self._queue.next_started()) is not None:
            self._start(job)
        while (job := self._queue.next_admitted()) is not None:
            self._admit(job)

    def _admit(self, job: Job[Any]) -> None:
        admission = job.admission
        if admission is not None and admission.is_wanted():
            # The submitter is woken first: if asyncio cancels it anyway, the job has not started.
            admission.decide(refused=False)
            self._place(job)
        else:  # all its submitters are being cancelled
            self._keys.end(job)

    def _refuse(self, job: Job[Any]) -> None:
        if self._queue.withdraw(job) and job.admission is not None:
            self._refused += 1
            self._keys.end(job)
            job.admission.decide(refused=True)

    def _take_back(self, job: Job[Any]) -> None:
        """Withdraw a job for whose slot no caller waits any more."""
        if job.phase == "blocked":
            if self._queue.withdraw(job):
                self._keys.end(job)
        elif not job.is_handed_out:  # asyncio cancelled the submitter in the turn in which it was taken
            self.cancel_job(job, "its submitter was cancelled")

    def _full(self) -> PoolFullError:
        return PoolFullError(pool=self.pool, policy=self._queue.backpressure, queued=self._queue.queued)

"""One job of a pool from its submission to its end: plain state, and the wait for its end.

    blocked ──► queued ──► running ──► completed | failed | cancelled
       │           └─────────────────► cancelled | rejected
       ├──► running | rejected
       └──► (withdrawn: it was never submitted)

The pool decides (`pool_jobs`), its runner reports what happened, holders of the handle query it. `blocked`
is never visible from outside: the submitter has no handle yet.
"""

import logging
from collections.abc import Awaitable, Callable, Generator, Hashable
from contextvars import Context
from types import TracebackType
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, cast

import anyio
from anyio import TaskInfo
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..observation import NodeWriter
from .errors import JobCancelledError, JobRejectedError, PoolDeadlockError
from .nodes import end_job
from .wait_graph import Holder, Wait, begin_wait, holders, task_parents

_logger = logging.getLogger("nighthawk")

Result = TypeVar("Result")

JobStatus: TypeAlias = Literal["queued", "running", "completed", "failed", "rejected", "cancelled"]
"""`running`: it has a worker. `rejected`: it was dropped because the pool was full; its body never ran."""


class Admission:
    """The callers that wait for a slot for one job."""

    __slots__ = ("_event", "_inside", "_tasks", "_waits", "is_refused")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._tasks: list[TaskInfo] = []
        self._waits: list[Wait] = []
        self._inside = 0
        self.is_refused = False

    @property
    def is_given_up(self) -> bool:
        """Whether no caller waits any more."""
        return not self._tasks

    @property
    def is_from_inside(self) -> bool:
        """Whether a job of the pool waits."""
        return bool(self._inside)

    def is_wanted(self) -> bool:
        """Whether a caller waits that is not being cancelled."""
        return any(not task.has_pending_cancellation() for task in self._tasks)

    async def wait(self, wait: Wait | None, *, is_inside: bool) -> None:
        """Wait until the pool has decided.

        Args:
            wait: The registered wait of the caller; None when the caller holds nothing.
            is_inside: Whether the caller is a job of the pool.
        """
        task = anyio.get_current_task()
        self._tasks.append(task)
        self._inside += is_inside
        if wait is not None:
            self._waits.append(wait)
        try:
            await self._event.wait()
        finally:
            self._tasks.remove(task)
            self._inside -= is_inside
            if wait is not None:
                wait.end()
                self._waits.remove(wait)

    def decide(self, *, refused: bool) -> None:
        """Wake the waiting callers: the pool has taken the job, or refuses it."""
        self.is_refused = refused
        for wait in self._waits:
            wait.end()
        self._event.set()


class JobOwner(Protocol):
    """The pool as seen by its jobs: its name, and the jobs that wait for it."""

    pool: str
    waits: "PoolWaits"

    def cancel_job(self, job: "Job[Any]", reason: str | None) -> bool:
        """Cancel a job of the pool."""
        ...


class Job(Holder, Generic[Result]):
    """The state of one job. Not for several threads.

    Args:
        owner: The pool.
        function: The function to call.
        args: Its arguments.
        context: The context variables of the submitter.
        key: The fairness key.
        priority: The priority.
        idempotency_key: The key that finds it when it is submitted again.
    """

    __slots__ = (
        "_awaited_by",
        "_ended",
        "_is_abandoned",
        "_is_claimed",
        "_reason",
        "_result",
        "_traceback",
        "admission",
        "args",
        "context",
        "error",
        "function",
        "has_begun",
        "idempotency_key",
        "index",
        "is_asked_to_end",
        "is_handed_out",
        "key",
        "node",
        "order_name",
        "owner",
        "phase",
        "priority",
        "scope",
    )

    kind = "jobs"
    has_tasks = True
    checks_limited = False

    def __init__(
        self,
        owner: JobOwner,
        function: Callable[..., Awaitable[Result]],
        args: tuple[Any, ...],
        *,
        context: Context,
        key: Hashable,
        priority: int,
        idempotency_key: Hashable,
    ) -> None:
        super().__init__()
        self.owner = owner
        self.function: Callable[..., Awaitable[Result]] | None = function
        self.args = args
        self.context: Context | None = context
        self.key = key
        self.priority = priority
        self.idempotency_key = idempotency_key
        self.admission: Admission | None = None
        self.index = -1  # given when the pool takes it
        self.phase: Literal["blocked"] | JobStatus = "blocked"
        self.has_begun = False
        self.node: NodeWriter | None = None  # if observed, once the pool has taken the job
        self.order_name: str | None = None  # for the orders of operations
        self.is_asked_to_end = False
        self.is_handed_out = False  # whether a caller has received the handle
        self.scope: anyio.CancelScope | None = None
        self.error: BaseException | None = None
        self._traceback: TracebackType | None = None
        self._result: Result | None = None
        self._reason: str | None = None
        self._is_claimed = False
        self._is_abandoned = False
        self._ended: anyio.Event | None = None
        self._awaited_by: list[Wait] | None = None

    @property
    def id(self) -> str:
        """The id of the job: the name of the pool, and the number of jobs submitted before it."""
        return f"{self.owner.pool}[{self.index}]"

    @property
    def label(self) -> str:
        """The id of the job."""
        return self.id

    @property
    def is_ended(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self.phase not in ("blocked", "queued", "running")

    @property
    def result(self) -> Result | None:
        """The result; None while there is none."""
        return self._result

    def claim(self) -> None:
        """Note that a caller has learned how it ended."""
        if self.is_ended:
            self._is_claimed = True

    def abandon(self) -> None:
        """Note that its handle is dropped: its outcome can no longer be retrieved."""
        self._is_abandoned = True
        self._warn_of_lost_failure()

    def begin(self) -> tuple[Callable[..., Awaitable[Result]], tuple[Any, ...]]:
        """Mark it as started; return the function and the arguments to call."""
        self.has_begun = True
        if self.node is not None:
            self.node.change_state("running")
        self.enter()  # permanently: its context is its own
        assert self.function is not None, "a job begins once"
        return self.function, self.args

    def complete(self, result: Result) -> None:
        """Record that it returned."""
        self._result = result
        self._end("completed")

    def fail(self, error: BaseException) -> None:
        """Record that it raised."""
        self.error, self._traceback = error, error.__traceback__
        self._end("failed")

    def reject(self, policy: str, reason: str) -> None:
        """Record that there is no slot for it."""
        self.error = JobRejectedError(job_id=self.id, policy=policy, reason=reason)
        self._end("rejected")

    def note_reason(self, reason: str | None) -> None:
        """Remember why it is cancelled, unless a reason is known."""
        if self._reason is None:
            self._reason = reason

    def ask_to_end(self) -> None:
        """Cancel it at its next checkpoint. It must be running."""
        self.is_asked_to_end = True
        if self.scope is not None:
            self.scope.cancel(self._reason)

    def end_cancelled(self, reason: str | None = None) -> None:
        """Record that it ended because it was cancelled, or never starts for that reason."""
        self.note_reason(reason)
        self.error = JobCancelledError(job_id=self.id, reason=self._reason)
        self._end("cancelled")

    async def wait_ended(self) -> None:
        """Wait until it has ended.

        Raises:
            PoolDeadlockError: The caller is a job of the same pool, and would wait for ever.
        """
        if self.is_ended:
            await checkpoint()
            return
        if self._ended is None:
            self._ended = anyio.Event()
        wait = self.owner.waits.begin(self)
        if wait is not None:
            if self._awaited_by is None:
                self._awaited_by = []
            self._awaited_by.append(wait)
        try:
            await self._ended.wait()
        finally:
            if wait is not None:
                wait.end()
        await checkpoint_if_cancelled()  # the cancellation of the job may have cancelled the caller, too

    async def wait_result(self) -> Result:
        """Wait until it has ended, and return or raise its outcome.

        Raises:
            JobCancelledError: It was cancelled.
            JobRejectedError: It was dropped.
            PoolDeadlockError: The caller is a job of the same pool, and would wait for ever.
            BaseException: Any exception that it raised.
        """
        await self.wait_ended()
        self._is_claimed = True
        if self.error is not None:
            # Each caller sees where the error was raised, without the frames of other callers.
            raise self.error.with_traceback(self._traceback)
        return cast("Result", self._result)

    def _end(self, phase: JobStatus) -> None:
        self.phase = phase
        if self.node is not None:
            end_job(self.node, phase, self._result, self.error)
            self.node = None
        self.function, self.args, self.context, self.scope = None, (), None, None
        if self._ended is not None:
            self._ended.set()
        for wait in self._awaited_by or ():
            wait.end()  # at once: the waiting task will resume, though it has not run yet
        self._awaited_by = None
        self._warn_of_lost_failure()

    def _warn_of_lost_failure(self) -> None:
        is_lost = self._is_abandoned and not self._is_claimed
        if is_lost and isinstance(self.error, Exception) and self.phase == "failed":  # others end the pool
            _logger.warning("job %s failed, and its error was never retrieved", self.id, exc_info=self.error)


Result_co = TypeVar("Result_co", covariant=True)


class PoolWaits:
    """The waits of the jobs of one pool for that pool.

    A job that awaits another one, or submits to its pool and is blocked, holds a worker while it waits. When
    every worker is held that way, none of them is ever free again.

    Args:
        max_concurrent: The greatest number of running jobs.
    """

    def __init__(self, max_concurrent: int) -> None:
        self._max_concurrent = max_concurrent
        self._waiting: set[Job[Any]] = set()  # those that have waited for the pool

    def find_worker(self) -> "Job[Any] | None":
        """The running job of this pool in which the caller runs; None when it runs in none."""
        for holder in holders():
            if isinstance(holder, Job):
                job = cast("Job[Any]", holder)
                return job if job.owner.waits is self and job.phase == "running" else None
        return None

    def begin(self, target: "Job[Any]") -> Wait | None:
        """Register that the caller waits for the pool; None when that holds nothing.

        Args:
            target: The job that is waited for, or for which there is no slot yet.

        Raises:
            PoolDeadlockError: The wait closes a circle, or every worker now waits for the pool.
        """
        wait = begin_wait(target, error_type=PoolDeadlockError)
        worker = self.find_worker()
        if wait is None or worker is None or wait not in worker.waits:
            return wait
        self._waiting.add(worker)
        if self._is_stuck():
            wait.end()
            raise PoolDeadlockError(
                f"job {worker.id} waits for its own pool, as do all {self._max_concurrent} that run: "
                "none of them would ever end"
            )
        return wait

    def forget(self, worker: "Job[Any]") -> None:
        """Note that a job has ended. Waits of tasks that outlive it hold no worker."""
        self._waiting.discard(worker)
        worker.leave()

    def _is_stuck(self) -> bool:
        if len(self._waiting) < self._max_concurrent or not self._all_held(Wait.may_hold):
            return False
        parents = task_parents()
        return self._all_held(lambda wait, job: wait.holds(job, parents))

    def _all_held(self, counts: "Callable[[Wait, Job[Any]], bool]") -> bool:
        return all(
            any(self._is_for_pool(wait) and counts(wait, job) for wait in job.waits) for job in self._waiting
        )

    def _is_for_pool(self, wait: Wait) -> bool:
        target = wait.target
        return isinstance(target, Job) and cast("Job[Any]", target).owner.waits is self


class JobHandle(Generic[Result_co]):
    """Handle of a submitted job. `Pool.submit` returns it.

    `await handle` returns what the job returned, or raises what it raised; any number of tasks may await it,
    at any time, also after the pool is left. A cancelled await does not cancel the job. Awaiting a job that
    was cancelled or rejected raises `JobCancelledError` or `JobRejectedError`: ordinary errors that cancel
    nothing.

    A handle belongs to the event loop of its pool.
    """

    __slots__ = ("_job",)

    def __init__(self, job: Job[Result_co]) -> None:
        self._job = job

    def __del__(self) -> None:
        self._job.abandon()

    def __repr__(self) -> str:
        return f"<job {self.id}, {self.status}>"

    def __await__(self) -> Generator[Any, Any, Result_co]:
        return self.wait().__await__()

    @property
    def id(self) -> str:
        """The id of the job: the name of its pool, and the number of jobs submitted before: `crawl[3]`."""
        return self._job.id

    @property
    def status(self) -> JobStatus:
        """The state of the job."""
        return cast("JobStatus", self._job.phase)

    @property
    def result(self) -> Result_co | None:
        """The result of the job; None unless it is `completed`."""
        return self._job.result

    @property
    def error(self) -> BaseException | None:
        """The exception of a job that failed, was rejected or was cancelled; None for others."""
        self._job.claim()
        return self._job.error

    @property
    def rejection_policy(self) -> str | None:
        """The backpressure policy that rejected the job; None unless it is `rejected`."""
        error = self._job.error
        return error.policy if self.status == "rejected" and isinstance(error, JobRejectedError) else None

    @property
    def rejection_reason(self) -> str | None:
        """The reason for the rejection; None unless the job is `rejected`."""
        error = self._job.error
        return error.reason if self.status == "rejected" and isinstance(error, JobRejectedError) else None

    async def wait(self) -> Result_co:
        """Wait until the job has ended, and return its result.

        Raises:
            JobCancelledError: The job was cancelled.
            JobRejectedError: The job was dropped because the pool was full.
            PoolDeadlockError: The caller is a job of the same pool, and would wait for ever.
            BaseException: Any exception that the job raised.
        """
        return await self._job.wait_result()

    async def wait_ended(self) -> None:
        """Wait until the job has ended, in whatever way. This does not count as retrieving its failure.

        Raises:
            PoolDeadlockError: The caller is a job of the same pool, and would wait for ever.
        """
        await self._job.wait_ended()

    def cancel(self, reason: str | None = None) -> bool:
        """Cancel the job. One that has not started never runs; a running one is cancelled.

        A running job is cancelled at its next checkpoint; if it returns or raises anyway, it counts as
        completed or failed.

        Args:
            reason: The reason, for those who await the job. The first reason counts.

        Returns:
            Whether it was in time: False when the job had already ended.
        """
        return self._job.owner.cancel_job(self._job, reason)

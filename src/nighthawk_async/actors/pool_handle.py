"""The handle of a job in a pool: its result, its status, and the way to cancel it. Floor 1."""

from collections.abc import Generator
from typing import Any, Generic, TypeVar, cast

from .pool_errors import JobRejectedError
from .pool_job import Job, JobStatus

__all__ = ["JobHandle"]

Result_co = TypeVar("Result_co", covariant=True)


class JobHandle(Generic[Result_co]):
    """A job, for those who submitted it. `Pool.submit` gives it.

    `await handle` gives what the job returned, or raises what it raised; any number of tasks may await it, at
    any time, also when the pool is left. Who is cancelled while awaiting it does not cancel the job. Awaiting
    a job that was cancelled or rejected raises `JobCancelledError` or `JobRejectedError`: plain errors, that
    cancel nobody.

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
        """The id of the job: the name of its pool, and how many jobs were submitted before: `crawl[3]`."""
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
        """Wait until the job has ended; what it returned.

        Raises:
            JobCancelledError: The job was cancelled.
            JobRejectedError: The job was dropped because the pool was full.
            PoolDeadlockError: The caller is a job of the same pool, and would wait for ever.
            BaseException: Whatever the job raised.
        """
        return await self._job.wait_result()

    async def wait_ended(self) -> None:
        """Wait until the job has ended, in whatever way. Its failure still counts as noticed by nobody.

        Raises:
            PoolDeadlockError: The caller is a job of the same pool, and would wait for ever.
        """
        await self._job.wait_ended()

    def cancel(self, reason: str | None = None) -> bool:
        """Cancel the job. The body of one that has not begun never runs; a running one is cancelled.

        A running job is cancelled at its next checkpoint; when it returns or raises all the same, it has
        completed or failed.

        Args:
            reason: Why; told to those who await the job. The first reason counts.

        Returns:
            Whether it was in time: False when the job had ended.
        """
        return self._job.owner.cancel_job(self._job, reason)

"""The errors of pools. Floor 1.

ActorError
└── PoolError
    ├── JobCancelledError       the job was cancelled: what those get who await its handle
    ├── JobRejectedError        the job was dropped because the pool was full: likewise
    ├── PoolClosedError         the pool is not entered, or takes nothing more
    ├── PoolDeadlockError       jobs wait for each other, or all of a full pool for the pool itself
    └── PoolFullError           the pool has no place for the job
"""

from .errors import ActorError

__all__ = [
    "JobCancelledError",
    "JobRejectedError",
    "PoolClosedError",
    "PoolDeadlockError",
    "PoolError",
    "PoolFullError",
]


class PoolError(ActorError):
    """A pool was used in a way, or is in a state, that does not allow it."""


class JobCancelledError(PoolError):
    """A job was cancelled, and somebody awaits its handle.

    It is an ordinary error: who awaits the handle of a cancelled job is not cancelled for that.

    Args:
        job_id: Which job.
        reason: Why; None when nobody said.
    """

    def __init__(self, *, job_id: str, reason: str | None) -> None:
        super().__init__(f"job {job_id} was cancelled" + ("" if reason is None else f": {reason}"))
        self.job_id = job_id
        self.reason = reason


class JobRejectedError(PoolError):
    """A job was dropped because the pool was full, and somebody awaits its handle. Its body never ran.

    Args:
        job_id: Which job.
        policy: What the pool does when it is full: `drop_oldest`, `drop_newest` or `ring_buffer`.
        reason: Why it was this job.
    """

    def __init__(self, *, job_id: str, policy: str, reason: str) -> None:
        super().__init__(f"job {job_id} was rejected ({policy}): {reason}")
        self.job_id = job_id
        self.policy = policy
        self.reason = reason


class PoolClosedError(PoolError):
    """The pool is not entered yet, or takes no more jobs."""


class PoolDeadlockError(PoolError):
    """A job would wait for ever for its own pool.

    Either jobs wait for each other in a circle, or every running job of a full pool waits for it. The error
    is raised in the job whose wait would make it so, and only where that wait has no deadline of its own.
    """


class PoolFullError(PoolError):
    """The pool has no place for the job, which was not submitted.

    Args:
        pool: What the pool is called.
        policy: What the pool does when it is full.
        queued: How many jobs wait in its queue.
    """

    def __init__(self, *, pool: str, policy: str, queued: int) -> None:
        super().__init__(f"the pool {pool!r} is full ({policy}): no worker is free, and {queued} jobs wait")
        self.pool = pool
        self.policy = policy
        self.queued = queued

"""The errors of actors.

    ActorError
    ├── ChannelClosedError          nothing can be sent through the channel any more
    ├── LockReentryError            a task in a block that holds a mutex asks for it again
    ├── LockTimeoutError            a lock was not there in time
    ├── MailboxClosedError          nothing can be sent to the mailbox, or nothing is left to receive
    ├── MailboxFullError            the mailbox holds as many messages as it may
    ├── NameConflictError           the name stands for something that was made differently
    ├── NamespaceLeftError          the namespace was left: nothing can be named in it
    ├── UnknownMailboxError         no mailbox in reach has the name
    ├── UnknownNamespaceError       no namespace of that kind surrounds the caller
    └── UpdateConflictError         the function of an update changes what it updates

The room knows nothing of natural functions, so its errors have a base class of their own.
"""

from ..pickling import PicklableError


class ActorError(PicklableError):
    """Something that actors share was used in a way, or in a state, that does not allow it."""


class ChannelClosedError(ActorError):
    """The channel is closed: nothing goes through it any more."""


class LockReentryError(ActorError):
    """A task in a block that holds a mutex asked for it again: it would wait for itself."""


class LockTimeoutError(ActorError, TimeoutError):
    """A lock was not there in time.

    Args:
        kind: The kind of lock: `mutex`, `semaphore` or `gate`.
        key: Its key.
        seconds: The wait for it, in seconds.
    """

    def __init__(self, *, kind: str, key: str, seconds: float) -> None:
        super().__init__(f"the {kind} {key!r} could not be acquired within {seconds:g} seconds")
        self.kind = kind
        self.key = key
        self.seconds = seconds


class MailboxClosedError(ActorError):
    """The mailbox is closed: nothing can be sent, or nothing is left to receive."""


class MailboxFullError(ActorError):
    """The mailbox holds as many messages as it may, or others wait before the caller to send theirs."""


class NameConflictError(ActorError):
    """The name stands for something that was made differently."""


class NamespaceLeftError(ActorError):
    """The namespace was left: nothing can be named in it any more."""


class UnknownMailboxError(ActorError, LookupError):
    """No mailbox in reach has the name."""


class UnknownNamespaceError(ActorError, LookupError):
    """No namespace of that kind surrounds the caller."""


class UpdateConflictError(ActorError):
    """The function of an update changed what it updates, again and again, so that nothing could be set."""


class ActorDeadlockError(ActorError):
    """A handler would wait for its own actor, directly or through actors and jobs that wait for each other.

    For a reply, for room in a mailbox, or for the end of an actor. Who waits under its own timeout will go
    on, so nobody who waits for it is told; it is told itself, at once, when its wait is in vain.
    """


class ActorEndedError(ActorError):
    """The actor has ended. The message was never taken; what made the actor end is the cause.

    Args:
        name: The name of the actor.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"the actor {name!r} takes no more messages: it was closed, or has ended")
        self.name = name


class ActorInterruptedError(ActorError):
    """The actor was stopped or restarted while it handled the message: nobody knows how far it came.

    Args:
        name: The name of the actor.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"the actor {name!r} was stopped while it handled the message")
        self.name = name


class PoolError(ActorError):
    """A pool was used in a way, or is in a state, that does not allow it."""


class JobCancelledError(PoolError):
    """A job was cancelled, and somebody awaits its handle.

    It is an ordinary error: who awaits the handle of a cancelled job is not cancelled for that.

    Args:
        job_id: The job.
        reason: The reason; None when nobody gave one.
    """

    def __init__(self, *, job_id: str, reason: str | None) -> None:
        super().__init__(f"job {job_id} was cancelled" + ("" if reason is None else f": {reason}"))
        self.job_id = job_id
        self.reason = reason


class JobRejectedError(PoolError):
    """A job was dropped because the pool was full, and somebody awaits its handle. Its body never ran.

    Args:
        job_id: The job.
        policy: The policy of the full pool: `drop_oldest`, `drop_newest` or `ring_buffer`.
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
        pool: The name of the pool.
        policy: The policy of the full pool.
        queued: The number of jobs in its queue.
    """

    def __init__(self, *, pool: str, policy: str, queued: int) -> None:
        super().__init__(f"the pool {pool!r} is full ({policy}): no worker is free, and {queued} jobs wait")
        self.pool = pool
        self.policy = policy
        self.queued = queued


class SupervisorError(ActorError):
    """A supervisor was used in a state that does not allow it, or has given up."""


class RestartLimitError(SupervisorError):
    """Children ended too often, so the supervisor has given up. The cause is the error of the last one.

    Args:
        child: The name of the child that ended last.
        max_restarts: The number of restarts that is allowed to all children together.
        window_seconds: Within how many seconds.
    """

    def __init__(self, *, child: str, max_restarts: int, window_seconds: float) -> None:
        super().__init__(
            f"the child {child!r} needs a restart, which is one more than the {max_restarts} that its "
            f"supervisor allows within {window_seconds:g} seconds"
        )
        self.child = child
        self.max_restarts = max_restarts
        self.window_seconds = window_seconds


class SupervisorDeadlockError(SupervisorError):
    """A child would wait for its own end: directly, or for the end of the supervisor that runs it.

    Only what a child waits for itself is known; the waits of tasks and threads that it starts are not.
    """


class SupervisorEndedError(SupervisorError):
    """The supervisor is not entered, is stopping or has ended."""

"""The errors of actors.

    ActorError
    ├── ChannelClosedError          nothing can be sent through the channel any more
    ├── LockReentryError            a task in a block that holds a mutex asks for it again
    ├── LockTimeoutError            a lock could not be acquired in time
    ├── MailboxClosedError          nothing can be sent to the mailbox, or nothing is left to receive
    ├── MailboxFullError            the mailbox holds as many messages as it may
    ├── NameConflictError           the name is already used with other settings
    ├── NamespaceLeftError          the namespace has ended: nothing can be named in it
    ├── UnknownMailboxError         no mailbox in scope has the name
    ├── UnknownNamespaceError       no namespace of that kind encloses the caller
    └── UpdateConflictError         the function of an update changes the value that it updates

This package knows nothing of natural functions, so its errors have a base class of their own.

Also checks of numbers that callers pass: invalid ones raise at once, with the same messages for all actors.
"""

from ..pickling import PicklableError, set_public_module


class ActorError(PicklableError):
    """Misuse of something that actors share, or use of it in the wrong state."""


class ChannelClosedError(ActorError):
    """The channel is closed: it delivers no more messages."""


class LockReentryError(ActorError):
    """A task in a block that holds a mutex asked for it again: it would wait for itself."""


class LockTimeoutError(ActorError, TimeoutError):
    """A lock could not be acquired in time.

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
    """The mailbox is full, or other senders are waiting ahead of the caller."""


class NameConflictError(ActorError):
    """The name is already used for something with other settings."""


class NamespaceLeftError(ActorError):
    """The namespace has ended: nothing can be named in it any more."""


class UnknownMailboxError(ActorError, LookupError):
    """No mailbox in scope has the name."""


class UnknownNamespaceError(ActorError, LookupError):
    """No namespace of that kind encloses the caller."""


class UpdateConflictError(ActorError):
    """The function of an update repeatedly changed the value that it updates, so nothing could be set."""


class ActorDeadlockError(ActorError):
    """A handler would wait for its own actor, directly or through actors and jobs that wait for each other.

    The wait may be for a reply, for room in a mailbox, or for the end of an actor. A caller that waits under
    its own timeout will resume, so nothing is raised in those that wait for it; it gets the error itself, at
    once, when its wait is in vain.
    """


class ActorEndedError(ActorError):
    """The actor has ended and never took the message. The cause is the error that ended the actor.

    Args:
        name: The name of the actor.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"the actor {name!r} takes no more messages: it was closed, or has ended")
        self.name = name


class ActorInterruptedError(ActorError):
    """The actor was stopped or restarted while it handled the message, which may be partly done.

    Args:
        name: The name of the actor.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"the actor {name!r} was stopped while it handled the message")
        self.name = name


class PoolError(ActorError):
    """Misuse of a pool, or use of it in the wrong state."""


class JobCancelledError(PoolError):
    """Raised by awaiting the handle of a cancelled job.

    It is an ordinary error: awaiting the handle of a cancelled job does not cancel the caller.

    Args:
        job_id: The job.
        reason: The reason; None when none was given.
    """

    def __init__(self, *, job_id: str, reason: str | None) -> None:
        super().__init__(f"job {job_id} was cancelled" + ("" if reason is None else f": {reason}"))
        self.job_id = job_id
        self.reason = reason


class JobRejectedError(PoolError):
    """Raised by awaiting the handle of a job that was dropped because the pool was full. It never ran.

    Args:
        job_id: The job.
        policy: The policy of the full pool: `drop_oldest`, `drop_newest` or `ring_buffer`.
        reason: Why this job was dropped.
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
    is raised in the job whose wait would complete the deadlock, and only where that wait has no deadline of
    its own.
    """


class PoolFullError(PoolError):
    """The pool has no slot for the job, which was not submitted.

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
    """A supervisor was used in the wrong state, or has given up."""


class RestartLimitError(SupervisorError):
    """Children ended too often, so the supervisor has given up. The cause is the error of the last one.

    Args:
        child: The name of the child that ended last.
        max_restarts: The number of restarts allowed for all children together.
        window_seconds: The length of the window, in seconds.
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

    Only waits of the child itself are known, not those of tasks and threads that it starts.
    """


class SupervisorEndedError(SupervisorError):
    """The supervisor is not entered, is stopping or has ended."""


def check_whole_number(name: str, number: object, *, least: int, or_none: bool = False) -> None:
    """Raise unless the object is a whole number and large enough.

    Args:
        name: The name of the number in the error: usually that of the argument.
        number: The given number.
        least: The smallest number that is accepted.
        or_none: Whether None is accepted, too.

    Raises:
        ValueError: The number is invalid. True and False do not count as numbers.
    """
    if number is None and or_none:
        return
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise ValueError(
            f"{name} must be a whole number of at least {least}{_or_none(or_none)}, not {number!r}"
        )


def check_seconds(name: str, seconds: object, *, or_none: bool = False) -> None:
    """Raise unless the object is a non-negative number of seconds. Infinity is accepted.

    Args:
        name: The name of the number in the error: usually that of the argument.
        seconds: The given number.
        or_none: Whether None is accepted, too.

    Raises:
        ValueError: The number is invalid. True and False do not count as numbers.
    """
    if seconds is None and or_none:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:  # not even NaN
        raise ValueError(
            f"{name} must be a number of seconds of at least 0{_or_none(or_none)}, not {seconds!r}"
        )


def _or_none(or_none: bool) -> str:
    return " or None" if or_none else ""


set_public_module("actors", globals())

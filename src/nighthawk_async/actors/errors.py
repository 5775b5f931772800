"""The errors of actors. Floor 1.

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

__all__ = [
    "ActorError",
    "ChannelClosedError",
    "LockReentryError",
    "LockTimeoutError",
    "MailboxClosedError",
    "MailboxFullError",
    "NameConflictError",
    "NamespaceLeftError",
    "UnknownMailboxError",
    "UnknownNamespaceError",
    "UpdateConflictError",
]


class ActorError(PicklableError):
    """Something that actors share was used in a way, or in a state, that does not allow it."""


class ChannelClosedError(ActorError):
    """The channel is closed: nothing goes through it any more."""


class LockReentryError(ActorError):
    """A task in a block that holds a mutex asked for it again: it would wait for itself."""


class LockTimeoutError(ActorError, TimeoutError):
    """A lock was not there in time.

    Args:
        kind: What kind of lock: `mutex`, `semaphore` or `gate`.
        key: Its key.
        seconds: How many seconds were waited for it.
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

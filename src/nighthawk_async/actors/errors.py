"""The errors of actors. Floor 1.

    ActorError
    ├── ChannelClosedError          nothing can be sent through the channel any more
    ├── MailboxClosedError          nothing can be sent to the mailbox, or nothing is left to receive
    ├── MailboxFullError            the mailbox holds as many messages as it may
    ├── NameConflictError           the name stands for something that was made differently
    ├── NamespaceLeftError          the namespace was left: nothing can be named in it
    ├── UnknownMailboxError         no mailbox in reach has the name
    └── UnknownNamespaceError       no namespace of that kind surrounds the caller

The room knows nothing of the rest of the house, so its errors have a base class of their own.
"""

__all__ = [
    "ActorError",
    "ChannelClosedError",
    "MailboxClosedError",
    "MailboxFullError",
    "NameConflictError",
    "NamespaceLeftError",
    "UnknownMailboxError",
    "UnknownNamespaceError",
]


class ActorError(Exception):
    """Something that actors share was used in a way, or in a state, that does not allow it."""


class ChannelClosedError(ActorError):
    """The channel is closed: nothing goes through it any more."""


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

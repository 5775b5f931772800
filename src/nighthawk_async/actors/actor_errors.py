"""The errors of asking actors. Floor 1.

    ActorError
    ├── ActorDeadlockError          a handler would wait for its own actor, directly or in a circle
    ├── ActorEndedError             the actor has ended: it never took the message
    └── ActorInterruptedError       the actor was stopped while it handled the message

What a handler raises arrives at the asker as it is, and is none of these.
"""

from .errors import ActorError

__all__ = ["ActorDeadlockError", "ActorEndedError", "ActorInterruptedError"]


class ActorDeadlockError(ActorError):
    """A handler would wait for its own actor, directly or through actors that wait for each other.

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

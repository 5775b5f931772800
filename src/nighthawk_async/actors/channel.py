"""A typed channel: a message goes from hand to hand.

A mailbox belongs to whoever reads it and holds messages; a channel joins tasks of equal rank and holds none.
"""

from typing import TypeVar

from .errors import ChannelClosedError
from .message_queue import MessageQueue

__all__ = ["Channel"]

Message = TypeVar("Message")


class Channel(MessageQueue[Message]):
    """Hands each message from a sender to a receiver: `send` returns once a receiver has it.

    It may have several senders and several receivers. Closing makes waiting senders fail and waiting
    receivers end: then both raise `ChannelClosedError`, and iterations end.

    Args:
        name: What to call it in errors; None for nothing.
    """

    _closed_error = ChannelClosedError

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(capacity=0, name=name)

"""A typed mailbox: the one way into an actor. Floor 1."""

from typing import Any, TypeVar

from .argument_checks import check_whole_number
from .errors import MailboxClosedError, MailboxFullError
from .message_queue import MessageQueue
from .namespaces import Family

__all__ = ["MAILBOXES", "Mailbox"]

Message = TypeVar("Message")


class Mailbox(MessageQueue[Message]):
    """A bounded first-in-first-out queue: whoever sends goes on while it has room.

    It may have several senders and several receivers; each message goes to exactly one receiver. What was
    sent before `close` is still delivered; then receiving raises `MailboxClosedError` and iterations end.
    `send` waits for room, `send_nowait` raises, `try_send` says whether there was room.

    Args:
        capacity: How many messages may wait; None for no limit.
        name: What to call it in errors; None for nothing. `open_mailbox` makes mailboxes found by name.

    Raises:
        ValueError: The capacity is not a whole number of at least 1.
    """

    _closed_error = MailboxClosedError

    def __init__(self, *, capacity: int | None = 256, name: str | None = None) -> None:
        check_whole_number("capacity", capacity, least=1, or_none=True)
        super().__init__(capacity=capacity, name=name)

    @property
    def capacity(self) -> int | None:
        """The number of messages that may wait; None for no limit."""
        return self._state.capacity

    def send_nowait(self, message: Message) -> None:
        """Send a message.

        Raises:
            MailboxClosedError: The mailbox is closed.
            MailboxFullError: The mailbox is full.
        """
        state = self._state
        if not state.is_closed and state.has_room():
            state.put(message)
            return
        state.failed_sends += 1
        if state.is_closed:
            raise self._closed()
        raise MailboxFullError(f"the {self._label()} holds {state.capacity} messages already")

    def try_send(self, message: Message) -> bool:
        """Send a message; False when the mailbox is closed or full."""
        try:
            self.send_nowait(message)
        except (MailboxClosedError, MailboxFullError):
            return False
        return True

    def drain(self) -> list[Message]:
        """Take every message that was sent and not received, oldest first."""
        return self._state.drain()


MAILBOXES: Family[Mailbox[Any]] = Family(title="mailbox", close=Mailbox[Any].close)
"""The mailboxes that have names; one is closed when its namespace is left."""

"""A typed mailbox: the one way into an actor. Floor 1."""

from collections import deque
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

import anyio

from .errors import MailboxClosedError, MailboxFullError

__all__ = ["Mailbox", "MailboxStatistics"]

Message = TypeVar("Message")


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxStatistics:
    """Figures of a mailbox at one moment.

    Args:
        waiting: Messages sent and not yet received.
        capacity: How many may wait; None for no limit.
        is_closed: Whether the mailbox is closed.
    """

    waiting: int
    capacity: int | None
    is_closed: bool


class Mailbox(Generic[Message]):
    """A first-in-first-out queue with one receiver.

    What was sent before `close` is still delivered; then the receiver's iteration ends.

    Args:
        capacity: How many messages may wait; None for no limit.
    """

    def __init__(self, *, capacity: int | None = 256) -> None:
        if capacity is not None and capacity < 1:
            raise ValueError(f"capacity must be at least 1 or None, not {capacity}")
        self._capacity = capacity
        self._messages: deque[Message] = deque()
        self._changed = anyio.Event()
        self._is_closed = False

    def send_nowait(self, message: Message) -> None:
        """Put a message into the mailbox.

        Raises:
            MailboxClosedError: The mailbox is closed.
            MailboxFullError: The mailbox is full.
        """
        if self._is_closed:
            raise MailboxClosedError("the mailbox is closed")
        if self._capacity is not None and len(self._messages) >= self._capacity:
            raise MailboxFullError(f"the mailbox holds {self._capacity} messages already")
        self._messages.append(message)
        self._changed.set()

    def receive_nowait(self) -> Message:
        """Take the oldest message.

        Raises:
            anyio.WouldBlock: The mailbox is empty and open.
            MailboxClosedError: The mailbox is empty and closed.
        """
        if self._messages:
            return self._messages.popleft()
        if self._is_closed:
            raise MailboxClosedError("the mailbox is closed")
        raise anyio.WouldBlock

    async def receive(self) -> Message:
        """Wait for the oldest message and take it. A cancelled wait takes nothing.

        Raises:
            MailboxClosedError: The mailbox is empty and closed.
        """
        while True:
            try:
                return self.receive_nowait()
            except anyio.WouldBlock:
                if self._changed.is_set():
                    self._changed = anyio.Event()
                await self._changed.wait()

    def close(self) -> None:
        """Accept no more messages. Closing twice is fine."""
        self._is_closed = True
        self._changed.set()

    def drain(self) -> list[Message]:
        """Take every waiting message, oldest first."""
        messages = list(self._messages)
        self._messages.clear()
        return messages

    def statistics(self) -> MailboxStatistics:
        """Figures at this moment."""
        return MailboxStatistics(
            waiting=len(self._messages), capacity=self._capacity, is_closed=self._is_closed
        )

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.receive()
        except MailboxClosedError:
            raise StopAsyncIteration from None

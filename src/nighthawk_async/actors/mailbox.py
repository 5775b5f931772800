"""A typed mailbox: the only way to send messages to an actor."""

from typing import Any, TypeVar

from .argument_checks import check_whole_number
from .errors import MailboxClosedError, MailboxFullError, NameConflictError, UnknownMailboxError
from .message_queue import MessageQueue
from .namespaces import Family, NamespaceKind, find_namespace

Message = TypeVar("Message")


class Mailbox(MessageQueue[Message]):
    """A bounded first-in-first-out queue: senders only wait when it is full.

    It may have several senders and several receivers; each message goes to exactly one receiver. Messages
    sent before `close` are still delivered; then receiving raises `MailboxClosedError` and iterations end.
    `send` waits for room, `send_nowait` raises, `try_send` returns whether there was room.

    Args:
        capacity: The greatest number of waiting messages; None for no limit.
        name: Its name in errors; None for none. `open_mailbox` makes mailboxes found by name.

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
        """Send a message; return False when the mailbox is closed or full."""
        try:
            self.send_nowait(message)
        except (MailboxClosedError, MailboxFullError):
            return False
        return True

    def drain(self) -> list[Message]:
        """Take all messages that were sent and not received, oldest first."""
        return self._state.drain()


MAILBOXES: Family[Mailbox[Any]] = Family(title="mailbox", close=Mailbox[Any].close)
"""The named mailboxes; each is closed when its namespace ends."""


def open_mailbox(
    name: str, *, capacity: int | None = 256, scope: NamespaceKind | None = None
) -> Mailbox[Any]:
    """Return the mailbox of a name; make it when the name is free or its mailbox is closed.

    The mailbox is closed, and its name free, when the scope ends. Messages sent to a closed mailbox whose
    name is opened again can still be received through that mailbox; by name only the new one is found.

    Args:
        name: Its name.
        capacity: The greatest number of waiting messages; None for no limit.
        scope: The kind of scope that the name belongs to; None for the innermost one around the caller.

    Raises:
        NameConflictError: The name belongs to a mailbox with another capacity.
        NamespaceLeftError: The scope has ended.
        UnknownNamespaceError: The caller is in no such scope.
        ValueError: The capacity is not a whole number of at least 1.
    """
    namespace = find_namespace(scope)
    known = namespace.find(MAILBOXES, name)
    if known is not None and known.is_closed:
        namespace.remove(MAILBOXES, name)
    mailbox = namespace.get_or_add(MAILBOXES, name, lambda: Mailbox[Any](capacity=capacity, name=name))
    if mailbox.capacity != capacity:
        raise NameConflictError(
            f"the mailbox {name!r} has the capacity {mailbox.capacity} already, not {capacity}"
        )
    return mailbox


def find_mailbox(name: str) -> Mailbox[Any] | None:
    """Return the mailbox of a name, closed or not; None when no scope around the caller has one.

    Of several with the same name it is that of the innermost scope: even a closed one hides an open one of
    an enclosing scope until its name is opened again.
    """
    return find_namespace().search(MAILBOXES, name)


async def send(name: str, message: object) -> None:
    """Send a message to the mailbox that `find_mailbox` finds, waiting while it is full.

    A cancelled wait sends nothing.

    Raises:
        UnknownMailboxError: No mailbox has the name.
        MailboxClosedError: The mailbox is closed, or was while waiting.
    """
    mailbox = find_mailbox(name)
    if mailbox is None:
        raise UnknownMailboxError(f"no mailbox has the name {name!r}")
    await mailbox.send(message)


def try_send(name: str, message: object) -> bool:
    """Send a message to the mailbox that `find_mailbox` finds; False when there is none or it refuses it."""
    mailbox = find_mailbox(name)
    return mailbox is not None and mailbox.try_send(message)

"""A typed mailbox: the one way into an actor."""

from typing import Any, TypeVar

from .argument_checks import check_whole_number
from .errors import MailboxClosedError, MailboxFullError, NameConflictError, UnknownMailboxError
from .message_queue import MessageQueue
from .namespaces import Family, NamespaceKind, find_namespace

Message = TypeVar("Message")


class Mailbox(MessageQueue[Message]):
    """A bounded first-in-first-out queue: whoever sends goes on while it has room.

    It may have several senders and several receivers; each message goes to exactly one receiver. What was
    sent before `close` is still delivered; then receiving raises `MailboxClosedError` and iterations end.
    `send` waits for room, `send_nowait` raises, `try_send` says whether there was room.

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


def open_mailbox(
    name: str, *, capacity: int | None = 256, scope: NamespaceKind | None = None
) -> Mailbox[Any]:
    """The mailbox of a name; made when the name is free, or that of a closed mailbox.

    The mailbox is closed, and its name free, when the extent is left. What was sent to a closed mailbox whose
    name is opened again is still received by those who have that mailbox; by name only the new one is found.

    Args:
        name: Its name.
        capacity: The greatest number of waiting messages; None for no limit.
        scope: In which extent the name stands for it; None for the innermost around the caller.

    Raises:
        NameConflictError: The name stands for a mailbox with another capacity.
        NamespaceLeftError: The extent has ended.
        UnknownNamespaceError: The caller is in no such extent.
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
    """The mailbox of a name, closed or not; None when no extent around the caller has one.

    Of several with the same name it is that of the innermost extent: a closed one, too, hides an open one of
    an outer extent until its name is opened again.
    """
    return find_namespace().search(MAILBOXES, name)


async def send(name: str, message: object) -> None:
    """Send a message to the mailbox that `find_mailbox` finds, waiting while that is full.

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
    """Send a message to the mailbox that `find_mailbox` finds; False when none is, or when it takes none."""
    mailbox = find_mailbox(name)
    return mailbox is not None and mailbox.try_send(message)

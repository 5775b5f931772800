"""Mailboxes found by name, so that actors need not hand each other around. Floor 1."""

from typing import Any

from .errors import NameConflictError, UnknownMailboxError
from .mailbox import MAILBOXES, Mailbox
from .namespaces import NamespaceKind, find_namespace

__all__ = ["find_mailbox", "open_mailbox", "send", "try_send"]


def open_mailbox(
    name: str, *, capacity: int | None = 256, scope: NamespaceKind | None = None
) -> Mailbox[Any]:
    """The mailbox of a name; made when the name is free, or that of a closed mailbox.

    The mailbox is closed, and its name free, when the extent is left. What was sent to a closed mailbox whose
    name is opened again is still received by those who have that mailbox; by name only the new one is found.

    Args:
        name: Its name.
        capacity: How many messages may wait; None for no limit.
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

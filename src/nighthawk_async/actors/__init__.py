"""Mailboxes and actors. Floor 1: plain AnyIO, knows nothing of language models."""

from .errors import (
    ActorError,
    ChannelClosedError,
    MailboxClosedError,
    MailboxFullError,
    NameConflictError,
    NamespaceLeftError,
    UnknownMailboxError,
    UnknownNamespaceError,
)
from .mailbox import Mailbox
from .namespaces import Family, Namespace, NamespaceKind, find_namespace, open_namespace
from .task_group import BareTaskGroup

__all__ = [
    "ActorError",
    "BareTaskGroup",
    "ChannelClosedError",
    "Family",
    "Mailbox",
    "MailboxClosedError",
    "MailboxFullError",
    "NameConflictError",
    "Namespace",
    "NamespaceKind",
    "NamespaceLeftError",
    "UnknownMailboxError",
    "UnknownNamespaceError",
    "find_namespace",
    "open_namespace",
]

"""Mailboxes and actors. Floor 1: plain AnyIO, knows nothing of language models."""

from .channel import Channel
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
from .message_queue import MessageQueue, QueueStatistics, Receiving, Sending
from .named_mailboxes import find_mailbox, open_mailbox, send, try_send
from .namespaces import Family, Namespace, NamespaceKind, find_namespace, open_namespace
from .select import Fired, NothingReady, Received, Select, Sent, SourceClosed, TimedOut, select
from .task_group import BareTaskGroup

__all__ = [
    "ActorError",
    "BareTaskGroup",
    "Channel",
    "ChannelClosedError",
    "Family",
    "Fired",
    "Mailbox",
    "MailboxClosedError",
    "MailboxFullError",
    "MessageQueue",
    "NameConflictError",
    "Namespace",
    "NamespaceKind",
    "NamespaceLeftError",
    "NothingReady",
    "QueueStatistics",
    "Received",
    "Receiving",
    "Select",
    "Sending",
    "Sent",
    "SourceClosed",
    "TimedOut",
    "UnknownMailboxError",
    "UnknownNamespaceError",
    "find_mailbox",
    "find_namespace",
    "open_mailbox",
    "open_namespace",
    "select",
    "send",
    "try_send",
]

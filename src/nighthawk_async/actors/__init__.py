"""Mailboxes and actors. Floor 1: plain AnyIO, knows nothing of language models."""

from .mailbox import Mailbox, MailboxClosedError, MailboxFullError
from .task_group import BareTaskGroup

__all__ = ["BareTaskGroup", "Mailbox", "MailboxClosedError", "MailboxFullError"]

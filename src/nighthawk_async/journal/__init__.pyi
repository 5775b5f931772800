"""Exports of `nighthawk_async.journal`. Each name is loaded when it is first used."""

from .clock import now, patched, random, sleep
from .effects import Happened, every_life, once, repeatable
from .errors import (
    CallInDoubtError,
    JournalAuditError,
    JournalDivergenceError,
    JournalError,
    JournalKeyError,
    JournalStoreError,
    JournalValueError,
    RunInProgressError,
    RunPrunedError,
    RunTakenOverError,
)
from .messages import receive, receive_batch
from .pruning import PruneReport
from .records import Record, RecordKind
from .store import JournalStore, open
from .tables import RunRow, RunStatus
from .values import register
from .verification import VerifiedRun

__all__ = [
    "CallInDoubtError",
    "Happened",
    "JournalAuditError",
    "JournalDivergenceError",
    "JournalError",
    "JournalKeyError",
    "JournalStore",
    "JournalStoreError",
    "JournalValueError",
    "PruneReport",
    "Record",
    "RecordKind",
    "RunInProgressError",
    "RunPrunedError",
    "RunRow",
    "RunStatus",
    "RunTakenOverError",
    "VerifiedRun",
    "every_life",
    "now",
    "once",
    "open",
    "patched",
    "random",
    "receive",
    "receive_batch",
    "register",
    "repeatable",
    "sleep",
]

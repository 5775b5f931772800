"""Exports of `nighthawk_async.journal`. Each name is loaded when it is first used."""

from .clock import now, patched, random, sleep
from .effects import Happened, every_life, once, repeatable
from .errors import (
    CallInDoubtError,
    JournalDivergenceError,
    JournalError,
    JournalStoreError,
    JournalValueError,
    RunInProgressError,
    RunStuckError,
    RunTakenOverError,
)
from .messages import receive
from .queue_table import QueueEntry, QueueStatus
from .records import Record, RecordKind
from .schedule_table import ScheduleRow
from .store import JournalStore, open
from .tables import RunRow, RunStatus
from .values import register
from .worker import Worker
from .worker_health import WorkerApplication, WorkerStatistics

__all__ = [
    "CallInDoubtError",
    "Happened",
    "JournalDivergenceError",
    "JournalError",
    "JournalStore",
    "JournalStoreError",
    "JournalValueError",
    "QueueEntry",
    "QueueStatus",
    "Record",
    "RecordKind",
    "RunInProgressError",
    "RunRow",
    "RunStatus",
    "RunStuckError",
    "RunTakenOverError",
    "ScheduleRow",
    "Worker",
    "WorkerApplication",
    "WorkerStatistics",
    "every_life",
    "now",
    "once",
    "open",
    "patched",
    "random",
    "receive",
    "register",
    "repeatable",
    "sleep",
]

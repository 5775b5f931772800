"""Exports of `nighthawk_async.journal`. Each name is loaded when it is first used."""

from .clock import now, patched, random, sleep
from .effect_call import Happened
from .effects import every_life, once, repeatable
from .errors import (
    CallInDoubtError,
    JournalAuditError,
    JournalDivergenceError,
    JournalError,
    JournalIdentityError,
    JournalIdentityWarning,
    JournalKeyError,
    JournalStoreError,
    JournalValueError,
    ReplayEndError,
    RunInProgressError,
    RunParked,
    RunPrunedError,
    RunStuckError,
    RunTakenOverError,
)
from .messages import receive, receive_batch
from .pruning import PruneReport
from .question_table import QuestionRow
from .queue_table import QueueEntry, QueueStatus
from .records import Record, RecordKind
from .replays import Replay, replay
from .schedule_table import ScheduleRow
from .stages import stage
from .store import JournalStore, open
from .tables import RunRow, RunStatus
from .values import register
from .verification import VerifiedRun
from .worker import Worker
from .worker_health import WorkerApplication, WorkerStatistics

__all__ = [
    "CallInDoubtError",
    "Happened",
    "JournalAuditError",
    "JournalDivergenceError",
    "JournalError",
    "JournalIdentityError",
    "JournalIdentityWarning",
    "JournalKeyError",
    "JournalStore",
    "JournalStoreError",
    "JournalValueError",
    "PruneReport",
    "QuestionRow",
    "QueueEntry",
    "QueueStatus",
    "Record",
    "RecordKind",
    "Replay",
    "ReplayEndError",
    "RunInProgressError",
    "RunParked",
    "RunPrunedError",
    "RunRow",
    "RunStatus",
    "RunStuckError",
    "RunTakenOverError",
    "ScheduleRow",
    "VerifiedRun",
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
    "receive_batch",
    "register",
    "repeatable",
    "replay",
    "sleep",
    "stage",
]

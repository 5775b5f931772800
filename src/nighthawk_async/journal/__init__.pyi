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
    RunParked,
    RunTakenOverError,
)
from .messages import receive
from .question_table import QuestionRow
from .records import Record, RecordKind
from .store import JournalStore, open
from .tables import RunRow, RunStatus
from .values import register

__all__ = [
    "CallInDoubtError",
    "Happened",
    "JournalDivergenceError",
    "JournalError",
    "JournalStore",
    "JournalStoreError",
    "JournalValueError",
    "QuestionRow",
    "Record",
    "RecordKind",
    "RunInProgressError",
    "RunParked",
    "RunRow",
    "RunStatus",
    "RunTakenOverError",
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

"""The journal: a run that outlives its process.

A store keeps the records of runs: what models answered, which calls with effects were begun and what they
returned, what time decided. A later process that enters a run with the same id continues where the earlier
one ended. See the page "Durable runs".
"""

from typing import TYPE_CHECKING

from ..lazy_exports import attach_exports

if TYPE_CHECKING:
    from .clock import decide, now, patched, random, sleep
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
        OutsideRunError,
        ReplayEndError,
        RunInProgressError,
        RunParked,
        RunPrunedError,
        RunStuckError,
        RunTakenOverError,
    )
    from .messages import receive, receive_batch
    from .open_lives import unrecorded
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
else:
    __getattr__, __dir__ = attach_exports(
        __name__,
        names={
            "clock": ("decide", "now", "patched", "random", "sleep"),
            "effect_call": ("Happened",),
            "effects": ("every_life", "once", "repeatable"),
            "errors": (
                "CallInDoubtError",
                "JournalAuditError",
                "JournalDivergenceError",
                "JournalError",
                "JournalIdentityError",
                "JournalIdentityWarning",
                "JournalKeyError",
                "JournalStoreError",
                "JournalValueError",
                "OutsideRunError",
                "ReplayEndError",
                "RunInProgressError",
                "RunParked",
                "RunPrunedError",
                "RunStuckError",
                "RunTakenOverError",
            ),
            "messages": ("receive", "receive_batch"),
            "open_lives": ("unrecorded",),
            "pruning": ("PruneReport",),
            "question_table": ("QuestionRow",),
            "records": ("Record", "RecordKind"),
            "queue_table": ("QueueEntry", "QueueStatus"),
            "schedule_table": ("ScheduleRow",),
            "stages": ("stage",),
            "replays": ("Replay", "replay"),
            "store": ("JournalStore", "open"),
            "tables": ("RunRow", "RunStatus"),
            "values": ("register",),
            "verification": ("VerifiedRun",),
            "worker": ("Worker",),
            "worker_health": ("WorkerApplication", "WorkerStatistics"),
        },
    )

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
    "OutsideRunError",
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
    "decide",
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
    "unrecorded",
]

"""The journal: a run that outlives its process.

A store keeps the records of runs: what models answered, which calls with effects were begun and what they
returned, what time decided. A later process that enters a run with the same id continues where the earlier
one ended. See the page "Durable runs".
"""

from typing import TYPE_CHECKING

from ..lazy_exports import attach_exports

if TYPE_CHECKING:
    from .budgets import BudgetRow as BudgetRow
    from .clock import decide, now, patched, random, sleep
    from .effect_call import Happened as Happened
    from .effects import every_life
    from .errors import (
        CallInDoubtError,
        JournalAuditError as JournalAuditError,
        JournalDivergenceError,
        JournalError,
        JournalIdentityError as JournalIdentityError,
        JournalIdentityWarning,
        JournalKeyError as JournalKeyError,
        JournalStoreError,
        JournalValueError as JournalValueError,
        OutsideRunError as OutsideRunError,
        ReplayEndError as ReplayEndError,
        RunInProgressError,
        RunParked,
        RunPrunedError as RunPrunedError,
        RunStuckError as RunStuckError,
        RunTakenOverError as RunTakenOverError,
    )
    from .messages import receive, receive_batch
    from .open_lives import unrecorded
    from .pruning import PruneReport as PruneReport
    from .question_table import QuestionRow as QuestionRow
    from .queue_table import QueueEntry as QueueEntry, QueueStatus as QueueStatus
    from .records import Record as Record, RecordKind as RecordKind
    from .replays import Replay as Replay, replay
    from .schedule_table import ScheduleRow as ScheduleRow
    from .stages import stage
    from .store import JournalStore, open
    from .tables import RunRow as RunRow, RunStatus as RunStatus
    from .topic_rows import (
        Delivery as Delivery,
        Receipt as Receipt,
        SubscriptionOptions as SubscriptionOptions,
        SubscriptionRow as SubscriptionRow,
        TopicMessage as TopicMessage,
        TopicRow as TopicRow,
    )
    from .values import register
    from .verification import VerifiedRun as VerifiedRun
    from .worker import Worker
    from .worker_health import WorkerApplication as WorkerApplication, WorkerStatistics as WorkerStatistics
else:
    __getattr__, __dir__ = attach_exports(
        __name__,
        names={
            "budgets": ("BudgetRow",),
            "clock": (
                "decide",
                "now",
                "patched",
                "random",
                "sleep",
            ),
            "effect_call": ("Happened",),
            "effects": ("every_life",),
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
            "messages": (
                "receive",
                "receive_batch",
            ),
            "open_lives": ("unrecorded",),
            "pruning": ("PruneReport",),
            "question_table": ("QuestionRow",),
            "records": (
                "Record",
                "RecordKind",
            ),
            "queue_table": (
                "QueueEntry",
                "QueueStatus",
            ),
            "schedule_table": ("ScheduleRow",),
            "stages": ("stage",),
            "replays": (
                "Replay",
                "replay",
            ),
            "store": (
                "JournalStore",
                "open",
            ),
            "tables": (
                "RunRow",
                "RunStatus",
            ),
            "topic_rows": (
                "Delivery",
                "Receipt",
                "SubscriptionOptions",
                "SubscriptionRow",
                "TopicMessage",
                "TopicRow",
            ),
            "values": ("register",),
            "verification": ("VerifiedRun",),
            "worker": ("Worker",),
            "worker_health": (
                "WorkerApplication",
                "WorkerStatistics",
            ),
        },
    )

__all__ = [
    "CallInDoubtError",
    "JournalDivergenceError",
    "JournalError",
    "JournalIdentityWarning",
    "JournalStore",
    "JournalStoreError",
    "RunInProgressError",
    "RunParked",
    "Worker",
    "decide",
    "every_life",
    "now",
    "open",
    "patched",
    "random",
    "receive",
    "receive_batch",
    "register",
    "replay",
    "sleep",
    "stage",
    "unrecorded",
]

"""The journal: a run that outlives its process. Floor 5.

A store keeps the records of runs: what models answered, which calls with effects were begun and what they
returned, what time decided. A later process that enters a run with the same id continues where the earlier
one ended. See the page "Durable runs".
"""

from ..lazy_exports import attach_exports

__getattr__, __dir__, __all__ = attach_exports(
    __name__,
    names={
        "clock": ("now", "patched", "random", "sleep"),
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
            "ReplayEndError",
            "RunInProgressError",
            "RunParked",
            "RunPrunedError",
            "RunStuckError",
            "RunTakenOverError",
        ),
        "messages": ("receive", "receive_batch"),
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

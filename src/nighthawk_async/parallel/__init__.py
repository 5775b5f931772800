"""Running many things at once. Floor 1: plain AnyIO, knows nothing of language models."""

from ..lazy_exports import attach_exports

__getattr__, __dir__, __all__ = attach_exports(
    __name__,
    names={
        "calling": ("AnyFunction", "call_any", "is_async_callable"),
        "combinators": ("map", "race", "settle"),
        "deadlines": ("Deadline", "deadline", "under_thread_deadlines"),
        "errors": (
            "CallCancelledError",
            "DeadlineExceededError",
            "InvalidLimitError",
            "NothingToRaceError",
            "ParallelError",
        ),
        "gathering": ("gather",),
        "outcomes": ("Failed", "Outcome", "Settled", "Succeeded"),
        "progress": ("Progress", "ProgressBars", "ProgressTarget", "usage_source"),
        "streaming": ("Stream", "stream"),
        "task_control": ("TaskControl",),
        "task_current": (
            "CurrentTask",
            "cancel_requested",
            "controlled_by",
            "current_task",
            "open_task_root",
            "raise_if_cancel_requested",
        ),
        "task_errors": (
            "AlreadyResumedError",
            "NothingToControlError",
            "NotSuspendedError",
            "TaskAwaitsItselfError",
            "TaskCancelledError",
            "TaskEndedError",
            "TaskError",
            "TasksClosedError",
            "TaskValueError",
        ),
        "task_handle": ("TaskHandle",),
        "task_hooks": ("TaskHooks", "TaskMailbox", "install_task_hooks"),
        "task_parking": ("ParkingPlace", "ParkingState"),
        "task_state": ("TaskStatus",),
        "task_values": ("TaskValues", "task_values"),
        "tasks": ("Tasks", "open_tasks"),
    },
)

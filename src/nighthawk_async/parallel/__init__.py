"""Running many things at once. Floor 1: plain AnyIO, knows nothing of language models."""

from ..lazy_exports import attach_exports

__getattr__, __dir__, __all__ = attach_exports(
    __name__,
    names={
        "..placements": (
            "PlacedCall",
            "PlacedJob",
            "Placement",
            "call_placed",
        ),
        "calling": (
            "AnyFunction",
            "call_any",
            "is_async_callable",
        ),
        "combinators": (
            "gather",
            "map",
            "race",
            "settle",
        ),
        "deadlines": (
            "Deadline",
            "deadline",
            "under_thread_deadlines",
        ),
        "errors": (
            "AlreadyResumedError",
            "AmbiguousPlaceError",
            "CallCancelledError",
            "DeadlineExceededError",
            "InvalidLimitError",
            "NothingToControlError",
            "NothingToRaceError",
            "NotSuspendedError",
            "ParallelError",
            "PlacementClosedError",
            "PlacementError",
            "ResourceConflictError",
            "ResourceDeadlockError",
            "ResourceError",
            "ResourceOwnerError",
            "ResourceTimeoutError",
            "TaskAwaitsItselfError",
            "TaskCancelledError",
            "TaskEndedError",
            "TaskError",
            "TasksClosedError",
            "TaskValueError",
        ),
        "here": ("Here",),
        "outcomes": (
            "Failed",
            "Outcome",
            "Settled",
            "Succeeded",
        ),
        "progress": (
            "Progress",
            "ProgressBars",
            "ProgressTarget",
        ),
        "streaming": (
            "Stream",
            "stream",
        ),
        "task_current": (
            "CurrentTask",
            "Parking",
            "ParkingState",
            "TaskValues",
            "cancel_requested",
            "controlled_by",
            "current_task",
            "open_task_root",
            "raise_if_cancel_requested",
            "task_values",
        ),
        "task_handle": (
            "TaskHandle",
            "TaskStatus",
        ),
        "task_node": (
            "TaskControl",
            "TaskHooks",
            "TaskMailbox",
            "install_task_hooks",
        ),
        "tasks": (
            "Tasks",
            "open_tasks",
        ),
    },
)

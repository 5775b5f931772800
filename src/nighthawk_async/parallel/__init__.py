"""Running many things at once. Plain AnyIO, knows nothing of language models."""

from typing import TYPE_CHECKING

from ..lazy_exports import attach_exports

if TYPE_CHECKING:
    from ..placements import (
        PlacedCall as PlacedCall,
        PlacedJob as PlacedJob,
        Placement,
        call_placed as call_placed,
    )
    from .calling import (
        AnyFunction as AnyFunction,
        call_any as call_any,
        is_async_callable as is_async_callable,
    )
    from .combinators import gather, map, race, settle
    from .deadlines import Deadline as Deadline, deadline as deadline, under_thread_deadlines
    from .errors import (
        AlreadyResumedError as AlreadyResumedError,
        AmbiguousPlaceError as AmbiguousPlaceError,
        CallCancelledError as CallCancelledError,
        DeadlineExceededError,
        InvalidLimitError as InvalidLimitError,
        NothingToControlError as NothingToControlError,
        NothingToRaceError as NothingToRaceError,
        NotSuspendedError as NotSuspendedError,
        ParallelError,
        PlacementClosedError as PlacementClosedError,
        PlacementError,
        ResourceConflictError as ResourceConflictError,
        ResourceDeadlockError as ResourceDeadlockError,
        ResourceError,
        ResourceOwnerError as ResourceOwnerError,
        ResourceTimeoutError as ResourceTimeoutError,
        TaskAwaitsItselfError as TaskAwaitsItselfError,
        TaskCancelledError,
        TaskEndedError as TaskEndedError,
        TaskError,
        TasksClosedError as TasksClosedError,
        TaskValueError as TaskValueError,
    )
    from .here import Here
    from .outcomes import Failed, Outcome as Outcome, Settled as Settled, Succeeded
    from .progress import Progress, ProgressBars as ProgressBars, ProgressTarget as ProgressTarget
    from .streaming import Stream as Stream, stream
    from .task_current import (
        CurrentTask as CurrentTask,
        Parking as Parking,
        ParkingState as ParkingState,
        TaskValues as TaskValues,
        cancel_requested,
        controlled_by as controlled_by,
        current_task,
        open_task_root as open_task_root,
        raise_if_cancel_requested,
        task_values,
    )
    from .task_handle import TaskHandle, TaskStatus as TaskStatus
    from .task_node import (
        TaskControl as TaskControl,
        TaskHooks as TaskHooks,
        TaskMailbox as TaskMailbox,
        install_task_hooks as install_task_hooks,
    )
    from .tasks import Tasks, open_tasks as open_tasks
else:
    __getattr__, __dir__ = attach_exports(
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

__all__ = [
    "DeadlineExceededError",
    "Failed",
    "Here",
    "ParallelError",
    "Placement",
    "PlacementError",
    "Progress",
    "ResourceError",
    "Succeeded",
    "TaskCancelledError",
    "TaskError",
    "TaskHandle",
    "Tasks",
    "cancel_requested",
    "current_task",
    "gather",
    "map",
    "race",
    "raise_if_cancel_requested",
    "settle",
    "stream",
    "task_values",
    "under_thread_deadlines",
]

"""Exports of `nighthawk_async.parallel`. Each name is loaded when it is first used."""

from .calling import AnyFunction, call_any, is_async_callable
from .combinators import gather, map, race, settle
from .deadlines import Deadline, deadline, under_thread_deadlines
from .errors import (
    AlreadyResumedError,
    CallCancelledError,
    DeadlineExceededError,
    InvalidLimitError,
    NothingToControlError,
    NothingToRaceError,
    NotSuspendedError,
    ParallelError,
    TaskAwaitsItselfError,
    TaskCancelledError,
    TaskEndedError,
    TaskError,
    TasksClosedError,
    TaskValueError,
)
from .outcomes import Failed, Outcome, Settled, Succeeded
from .progress import Progress, ProgressBars, ProgressTarget
from .streaming import Stream, stream
from .task_current import (
    CurrentTask,
    Parking,
    ParkingState,
    TaskValues,
    cancel_requested,
    controlled_by,
    current_task,
    open_task_root,
    raise_if_cancel_requested,
    task_values,
)
from .task_handle import TaskHandle, TaskStatus
from .task_node import TaskControl, TaskHooks, TaskMailbox, install_task_hooks
from .tasks import Tasks, open_tasks

__all__ = [
    "AlreadyResumedError",
    "AnyFunction",
    "CallCancelledError",
    "CurrentTask",
    "Deadline",
    "DeadlineExceededError",
    "Failed",
    "InvalidLimitError",
    "NotSuspendedError",
    "NothingToControlError",
    "NothingToRaceError",
    "Outcome",
    "ParallelError",
    "Parking",
    "ParkingState",
    "Progress",
    "ProgressBars",
    "ProgressTarget",
    "Settled",
    "Stream",
    "Succeeded",
    "TaskAwaitsItselfError",
    "TaskCancelledError",
    "TaskControl",
    "TaskEndedError",
    "TaskError",
    "TaskHandle",
    "TaskHooks",
    "TaskMailbox",
    "TaskStatus",
    "TaskValueError",
    "TaskValues",
    "Tasks",
    "TasksClosedError",
    "call_any",
    "cancel_requested",
    "controlled_by",
    "current_task",
    "deadline",
    "gather",
    "install_task_hooks",
    "is_async_callable",
    "map",
    "open_task_root",
    "open_tasks",
    "race",
    "raise_if_cancel_requested",
    "settle",
    "stream",
    "task_values",
    "under_thread_deadlines",
]

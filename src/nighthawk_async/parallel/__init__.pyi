"""What `nighthawk_async.parallel` exports. Each name is loaded when it is first used."""

from .calling import AnyFunction, call_any, is_async_callable
from .combinators import map, race, settle
from .deadlines import Deadline, deadline, under_thread_deadlines
from .errors import (
    CallCancelledError,
    DeadlineExceededError,
    InvalidLimitError,
    NothingToRaceError,
    ParallelError,
)
from .gathering import gather
from .outcomes import Failed, Outcome, Settled, Succeeded
from .progress import Progress, ProgressBars, ProgressTarget, usage_source
from .streaming import Stream, stream
from .task_control import TaskControl
from .task_current import (
    CurrentTask,
    cancel_requested,
    controlled_by,
    current_task,
    open_task_root,
    raise_if_cancel_requested,
)
from .task_errors import (
    AlreadyResumedError,
    NothingToControlError,
    NotSuspendedError,
    TaskAwaitsItselfError,
    TaskCancelledError,
    TaskEndedError,
    TaskError,
    TasksClosedError,
    TaskValueError,
)
from .task_handle import TaskHandle
from .task_hooks import TaskHooks, TaskMailbox, install_task_hooks
from .task_parking import ParkingPlace, ParkingState
from .task_state import TaskStatus
from .task_values import TaskValues, task_values
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
    "ParkingPlace",
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
    "usage_source",
]

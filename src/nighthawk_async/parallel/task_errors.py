"""The errors of tasks with handles.

ParallelError
└── TaskError
    ├── NotSuspendedError           what runs cannot be resumed
    │   └── AlreadyResumedError         it was resumed a moment ago and has not gone on yet
    ├── NothingToControlError       nothing in the task can be steered, suspended or stopped at present
    ├── TaskAwaitsItselfError       a task waits for its own end
    ├── TaskCancelledError          the task was cancelled: what those get who await its handle
    ├── TaskEndedError              the task has ended: it cannot be steered or suspended any more
    ├── TasksClosedError            the block is not entered or is over: nothing can be started in it
    └── TaskValueError              a task-local value that cannot be copied
"""

from .errors import ParallelError

__all__ = [
    "AlreadyResumedError",
    "NotSuspendedError",
    "NothingToControlError",
    "TaskAwaitsItselfError",
    "TaskCancelledError",
    "TaskEndedError",
    "TaskError",
    "TaskValueError",
    "TasksClosedError",
]


class TaskError(ParallelError):
    """A task with a handle was used in a way, or is in a state, that does not allow it."""


class NotSuspendedError(TaskError):
    """The work of the task is not suspended, so it cannot be resumed."""


class AlreadyResumedError(NotSuspendedError):
    """The work of the task was resumed before and has not gone on yet: two have resumed it."""


class NothingToControlError(TaskError):
    """Nothing that runs in the task at present can be steered, suspended or stopped."""


class TaskAwaitsItselfError(TaskError):
    """A task waits for its own end, which would never come."""


class TaskCancelledError(TaskError):
    """A task was cancelled, and somebody awaits its handle.

    It is an ordinary error: who awaits the handle of a cancelled task is not cancelled for that.

    Args:
        task_id: Which task.
        reason: Why; None when nobody said.
        forced: Whether it was asked to end by itself before and did not within its grace.
    """

    def __init__(self, *, task_id: str, reason: str | None, forced: bool) -> None:
        how = "was cancelled by force after its grace" if forced else "was cancelled"
        super().__init__(f"task {task_id} {how}" + ("" if reason is None else f": {reason}"))
        self.task_id = task_id
        self.reason = reason
        self.forced = forced


class TaskEndedError(TaskError):
    """The task, or what is controlled in it, has ended."""


class TasksClosedError(TaskError):
    """The block of tasks is not entered yet, or is over."""


class TaskValueError(TaskError, TypeError):
    """A task-local value cannot be copied, so other tasks could see it change."""

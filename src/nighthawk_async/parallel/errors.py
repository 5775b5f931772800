"""The errors of running things in parallel.

    ParallelError
    ├── CallCancelledError          a call was cancelled by somebody other than its owner
    ├── DeadlineExceededError       the work did not end in time; also a TimeoutError
    ├── InvalidLimitError           a limit makes no sense; also a ValueError. Nothing was started
    ├── NothingToRaceError          a race without runners; also a ValueError
    └── TaskError                   concerns a task with a handle
        ├── NotSuspendedError           what runs cannot be resumed
        │   └── AlreadyResumedError         it was resumed a moment ago and has not gone on yet
        ├── NothingToControlError       nothing in the task can be steered, suspended or stopped at present
        ├── TaskAwaitsItselfError       a task waits for its own end
        ├── TaskCancelledError          the task was cancelled: what those get who await its handle
        ├── TaskEndedError              the task has ended: it cannot be steered or suspended any more
        ├── TasksClosedError            the block is not entered or is over: nothing can be started in it
        └── TaskValueError              a task-local value that cannot be copied

The room knows nothing of natural functions, so its errors have a base class of their own.
"""

from ..pickling import PicklableError


class ParallelError(PicklableError):
    """Running things in parallel failed, apart from what they raise themselves."""


class CallCancelledError(ParallelError):
    """A call ended in a cancellation that no scope around it had asked for.

    On asyncio this happens when a call awaits a task or future that somebody else cancelled.
    """


class DeadlineExceededError(ParallelError, TimeoutError):
    """The work did not end in time.

    Args:
        seconds: The limit, in seconds.
        name: The name of the limited work, when it has one.
    """

    def __init__(self, seconds: float, name: str | None = None) -> None:
        what = "the work" if name is None else name
        super().__init__(f"{what} exceeded its deadline of {seconds:g} seconds")
        self.seconds = seconds
        self.name = name


class InvalidLimitError(ParallelError, ValueError):
    """A limit is not a number, or not one that makes sense. Nothing was started."""


class NothingToRaceError(ParallelError, ValueError):
    """A race had no items, so there is nothing that could win."""


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
        task_id: The task.
        reason: The reason; None when nobody gave one.
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

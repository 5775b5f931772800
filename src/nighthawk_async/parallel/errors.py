"""The errors of parallel calls and tasks.

    ParallelError
    ├── AmbiguousPlaceError         calls that later lives of a run could not tell apart
    ├── CallCancelledError          a call was cancelled by code other than its owner
    ├── DeadlineExceededError       the work did not end in time; also a TimeoutError
    ├── InvalidLimitError           a limit is invalid; also a ValueError. Nothing was started
    ├── NothingToRaceError          a race without items; also a ValueError
    ├── PlacementError              a placement cannot carry a call out; `distributed.errors` has more
    │   └── PlacementClosedError        it is not entered, or was left
    ├── ResourceError               concerns a resource that lives with a task, a step or a run
    │   ├── ResourceConflictError       another function opens the resource of that name
    │   ├── ResourceDeadlockError       a resource waits for itself while it is opened
    │   ├── ResourceOwnerError          there is no such owner, or it has ended
    │   └── ResourceTimeoutError        a resource was not closed in time; also a TimeoutError
    └── TaskError                   concerns a task with a handle
        ├── NotSuspendedError           the work is not suspended
        │   └── AlreadyResumedError         it was already resumed and has not continued yet
        ├── NothingToControlError       nothing in the task can be steered, suspended or stopped at present
        ├── TaskAwaitsItselfError       a task waits for its own end
        ├── TaskCancelledError          raised by awaiting the handle of a cancelled task
        ├── TaskEndedError              the task has ended: it cannot be steered or suspended any more
        ├── TasksClosedError            the block is not entered or has ended: no task can be started in it
        └── TaskValueError              a task-local value that cannot be copied

This package knows nothing of natural functions, so its errors have a base class of their own.
"""

from ..pickling import PicklableError, set_public_module


class ParallelError(PicklableError):
    """Base class of errors of parallel calls and tasks, apart from those that they raise themselves."""


class AmbiguousPlaceError(ParallelError):
    """Two calls in tasks that were started by hand cannot be told apart in later lives of a run."""


class CallCancelledError(ParallelError):
    """A call ended in a cancellation that no scope around it had requested.

    On asyncio this happens when a call awaits a task or future that other code cancelled.
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
    """A limit is not a number, or is out of range. Nothing was started."""


class NothingToRaceError(ParallelError, ValueError):
    """A race had no items."""


class PlacementError(ParallelError):
    """A placement cannot carry a call out."""


class PlacementClosedError(PlacementError):
    """A placement is not entered, or was left: it starts no calls."""


class ResourceError(ParallelError):
    """A resource that lives with a task, a step or a run was not opened, or not closed, as it should be."""


class ResourceConflictError(ResourceError):
    """A resource of the same name and owner is opened by another function."""


class ResourceDeadlockError(ResourceError):
    """A resource waits for itself while it is opened, directly or through others."""


class ResourceOwnerError(ResourceError):
    """There is no such owner here, it runs on another event loop, or its work has ended."""


class ResourceTimeoutError(ResourceError, TimeoutError):
    """A resource was not closed in time. Its closing was cancelled."""


class TaskError(ParallelError):
    """Misuse of a task with a handle, or use of it in the wrong state."""


class NotSuspendedError(TaskError):
    """The work of the task is not suspended, so it cannot be resumed."""


class AlreadyResumedError(NotSuspendedError):
    """The work of the task was already resumed and has not continued yet: two callers have resumed it."""


class NothingToControlError(TaskError):
    """The task currently runs nothing that can be steered, suspended or stopped."""


class TaskAwaitsItselfError(TaskError):
    """A task waits for its own end, which would never come."""


class TaskCancelledError(TaskError):
    """Raised by awaiting the handle of a cancelled task.

    It is an ordinary error: awaiting the handle of a cancelled task does not cancel the caller.

    Args:
        task_id: The task.
        reason: The reason; None when none was given.
        forced: Whether it was first asked to end by itself and did not within its grace.
    """

    def __init__(self, *, task_id: str, reason: str | None, forced: bool) -> None:
        how = "was cancelled by force after its grace" if forced else "was cancelled"
        super().__init__(f"task {task_id} {how}" + ("" if reason is None else f": {reason}"))
        self.task_id = task_id
        self.reason = reason
        self.forced = forced


class TaskEndedError(TaskError):
    """The task, or the work controlled in it, has ended."""


class TasksClosedError(TaskError):
    """The block of tasks is not entered yet, or has ended."""


class TaskValueError(TaskError, TypeError):
    """A task-local value cannot be copied, so other tasks could see it change."""


set_public_module("parallel", globals())

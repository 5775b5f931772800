"""The errors of running things in parallel.

    ParallelError
    ├── CallCancelledError          a call was cancelled by somebody other than its owner
    ├── DeadlineExceededError       the work did not end in time; also a TimeoutError
    ├── InvalidLimitError           a limit makes no sense; also a ValueError. Nothing was started
    └── NothingToRaceError          a race without runners; also a ValueError

The room knows nothing of natural functions, so its errors have a base class of their own.
"""

from ..pickling import PicklableError

__all__ = [
    "CallCancelledError",
    "DeadlineExceededError",
    "InvalidLimitError",
    "NothingToRaceError",
    "ParallelError",
]


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
        name: What the limit was set for, when it has a name.
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

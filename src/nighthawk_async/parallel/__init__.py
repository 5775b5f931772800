"""Running many things at once. Floor 1: plain AnyIO, knows nothing of language models."""

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

__all__ = [
    "AnyFunction",
    "CallCancelledError",
    "Deadline",
    "DeadlineExceededError",
    "Failed",
    "InvalidLimitError",
    "NothingToRaceError",
    "Outcome",
    "ParallelError",
    "Progress",
    "ProgressBars",
    "ProgressTarget",
    "Settled",
    "Stream",
    "Succeeded",
    "call_any",
    "deadline",
    "gather",
    "is_async_callable",
    "map",
    "race",
    "settle",
    "stream",
    "under_thread_deadlines",
    "usage_source",
]

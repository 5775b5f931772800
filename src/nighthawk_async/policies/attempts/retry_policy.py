"""Whether something that failed is tried again, and after how long. Pure: nothing here waits.

What carries it out stands elsewhere: `resilience.retrying` for functions, the runner for steps. On the
retries of a single model request `models.retry` decides, by the rules of its provider.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from math import inf
from random import random
from typing import cast

from ...errors import (
    AnnotationError,
    BudgetExceededError,
    ExecutionError,
    HookError,
    HumanError,
    ModelError,
    ModelStatusError,
    NestedStepLimitError,
    StepAbortedError,
    StepRejectedError,
    StepStoppedError,
)
from ...parallel import TaskCancelledError, cancel_requested
from ...runtime.error_causes import with_causes

__all__ = [
    "FINAL_ERRORS",
    "ExponentialWait",
    "RetryPolicy",
    "asked_wait_seconds",
    "is_worth_retrying",
    "leaves_of",
    "may_be_retried",
]

FINAL_ERRORS = (
    BudgetExceededError,
    NestedStepLimitError,
    StepAbortedError,
    StepRejectedError,
    StepStoppedError,
    AnnotationError,
    HookError,
    HumanError,
    CancelledError,  # an Exception: what a thread gets when what it waits for on an event loop is cancelled
)
"""After these nobody tries again: somebody's decision stands behind them, or it would end in the same way."""

_MOST_DOUBLINGS = 60


def may_be_retried(error: BaseException) -> bool:
    """Whether anybody may try again after an error, whoever wants to.

    Not after a cancellation, an interrupt or an exit; and not after errors that somebody's decision stands
    behind: a budget, a step that was aborted, refused (`StepRejectedError`) or stopped, a hook, a person, or
    whoever asked the task of the caller to end; nor after a mistake in the program, or too many steps within
    steps. What such an error caused counts as one itself.

    Args:
        error: The error; of a group, every error counts.
    """
    final = (*FINAL_ERRORS, TaskCancelledError) if cancel_requested() else FINAL_ERRORS
    return isinstance(error, Exception) and not any(isinstance(each, final) for each in with_causes(error))


def is_worth_retrying(error: BaseException) -> bool:
    """Whether the same may succeed later: a step failed, or a model request did in a way that passes.

    Args:
        error: The error; of a group, every error counts.
    """
    return may_be_retried(error) and all(
        each.is_transient if isinstance(each, ModelError) else isinstance(each, ExecutionError)
        for each in leaves_of(error)
    )


def asked_wait_seconds(error: BaseException) -> float | None:
    """Return the delay that the other side asks for, in seconds; None for none.

    Args:
        error: The error; of a group, the longest counts.
    """
    asked = [each.retry_after_seconds for each in leaves_of(error) if isinstance(each, ModelStatusError)]
    return max((seconds for seconds in asked if seconds is not None), default=None)


def leaves_of(error: BaseException) -> Iterator[BaseException]:
    """The errors of a group, those of groups inside included; otherwise the error itself.

    Args:
        error: An error.
    """
    if isinstance(error, BaseExceptionGroup):
        for each in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from leaves_of(each)
    else:
        yield error


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialWait:
    """Waits that double from attempt to attempt, each shortened by chance.

    Args:
        first: The first wait, in seconds.
        most: The longest wait, in seconds.
        jitter: How much of a wait chance may take away, from 0 to 1, so that many that failed together do not
            come back together.
        draw: Draws a number from 0 to 1; `random.Random(seed).random` makes the waits repeatable.

    Raises:
        ValueError: A wait is negative or endless, or the jitter not between 0 and 1.
    """

    first: float = 1.0
    most: float = 60.0
    jitter: float = 0.5
    draw: Callable[[], float] = random

    def __post_init__(self) -> None:
        if not (0 <= self.first < inf and 0 <= self.most < inf and 0 <= self.jitter <= 1):
            raise ValueError(f"{self!r}: waits are seconds, at least 0, and jitter is from 0 to 1")

    def __call__(self, attempt: int, error: Exception) -> float:
        """Seconds to wait.

        Args:
            attempt: Which attempt failed, from 1.
            error: Why; makes no difference.
        """
        longest = min(self.first * 2.0 ** min(attempt - 1, _MOST_DOUBLINGS), self.most)
        return longest * (1 - self.jitter * self.draw())


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Conditions and delays of retries.

    Args:
        attempts: How often to try altogether.
        on: The errors after which to try again; None for those of `is_worth_retrying`. A group counts when it
            is one of them, or when all its errors are.
        retry_if: Has to agree, when given.
        wait: Gives the seconds to wait from the number of the attempt that failed, from 1, and its error.
        asked_wait: Gives the seconds that the other side asks to wait: that is the least wait.
        max_asked_wait: When it asks for longer, in seconds, there is no other attempt.
    """

    attempts: int = 3
    on: tuple[type[Exception], ...] | None = None
    retry_if: Callable[[Exception], object] | None = None
    wait: Callable[[int, Exception], float] = ExponentialWait()
    asked_wait: Callable[[BaseException], float | None] = asked_wait_seconds
    max_asked_wait: float = 300.0

    def wait_after(self, error: BaseException, attempt: int) -> float | None:
        """Seconds until the next attempt; None when there is none.

        Args:
            error: Why the attempt failed.
            attempt: Which attempt it was, from 1.
        """
        if attempt >= self.attempts or not isinstance(error, Exception) or not self._is_named(error):
            return None
        if self.retry_if is not None and not self.retry_if(error):
            return None
        asked = self.asked_wait(error) or 0.0
        return None if asked > self.max_asked_wait else max(self.wait(attempt, error), asked)

    def _is_named(self, error: Exception) -> bool:
        on = self.on
        if on is None:
            return is_worth_retrying(error)
        is_one = isinstance(error, on) or all(isinstance(each, on) for each in leaves_of(error))
        return is_one and may_be_retried(error)

"""The baseline of a scope: retries and fallbacks of each step. Nothing here waits.

`StepBaseline` is the argument of a run or scope, `StepResilience` the active baseline that results from it.
`attempts.policy` applies it.

`RetryPolicy` decides whether and when a failure is retried. `resilience.retrying` applies it to functions,
the runner to steps. The retries of a single model request are decided by `models.http_retries`, by the rules
of its provider.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from math import inf
from random import random
from typing import Any, Protocol, cast

from ...backoff import backoff_seconds
from ...causes import RunEndingError, leaves_of, with_causes
from ...configuration import StepExecutorConfiguration
from ...errors import (
    AnnotationError,
    BudgetExceededError,
    ExecutionError,
    HookError,
    HumanError,
    ModelError,
    ModelStatusError,
    NestedStepLimitError,
    NighthawkError,
    RefusalError,
    StepAbortedError,
    StepRejectedError,
    StepStoppedError,
)
from ...kernel.context import ConfigurableStepExecutor, StepExecutor
from ...kernel.other_models import check_model_can_change, executors_for, model_of
from ...parallel import TaskCancelledError, cancel_requested
from ...types.unset import Unset

_MOST_ERRORS = 5
_MOST_CHARACTERS = 200


def note_earlier_errors(error: BaseException, title: str, earlier: Sequence[str]) -> None:
    """Add a note to an error.

    Args:
        error: The error.
        title: The title of the note.
        earlier: The earlier errors, as texts; the last few are listed, each on one line.
    """
    lines = [f"{title}; errors before this one:"]
    skipped = len(earlier) - _MOST_ERRORS
    if skipped > 0:
        lines.append(f"  ({skipped} more)")
    lines += [f"  {_short(text)}" for text in earlier[-_MOST_ERRORS:]]
    error.add_note("\n".join(lines))


def _short(text: str) -> str:
    line = " ".join(text[: 4 * _MOST_CHARACTERS].split())
    return line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 1]}…"


FINAL_ERRORS = (
    BudgetExceededError,
    NestedStepLimitError,
    StepAbortedError,
    StepRejectedError,
    StepStoppedError,
    AnnotationError,
    HookError,
    HumanError,
    RunEndingError,
    CancelledError,  # an Exception: raised in a thread when its work on an event loop is cancelled
)
"""Errors that are never retried: they express a decision, or a retry would fail in the same way."""


def may_be_retried(error: BaseException) -> bool:
    """Whether an error may be retried at all.

    Never retried are cancellations, interrupts and exits; errors that express a decision (of a budget, a
    hook, a person, a request to cancel the caller's task, or a step that was aborted, stopped or refused with
    `StepRejectedError`); errors of a journal; mistakes in the program; too many nested steps; and errors
    caused by one of these.

    Args:
        error: The error; of a group, every error counts.
    """
    final = (*FINAL_ERRORS, TaskCancelledError) if cancel_requested() else FINAL_ERRORS
    return isinstance(error, Exception) and not any(isinstance(each, final) for each in with_causes(error))


def is_worth_retrying(error: BaseException) -> bool:
    """Whether a retry may succeed: a step failed, or a model request failed with a transient error.

    A model that refused to answer would refuse again; another one may answer.

    Args:
        error: The error; of a group, every error counts.
    """
    return may_be_retried(error) and all(
        each.is_transient
        if isinstance(each, ModelError)
        else isinstance(each, ExecutionError) and not isinstance(each, RefusalError)
        for each in leaves_of(error)
    )


def asked_wait_seconds(error: BaseException) -> float | None:
    """Return the delay that the provider or circuit breaker asks for, in seconds; None for none.

    Args:
        error: The error; of a group, the longest counts.
    """
    asked = [each.retry_after_seconds for each in leaves_of(error) if isinstance(each, ModelStatusError)]
    return max((seconds for seconds in asked if seconds is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialWait:
    """Exponential backoff: waits that double from attempt to attempt, with random jitter.

    Args:
        first: The first wait, in seconds.
        most: The longest wait, in seconds.
        jitter: The fraction of a wait that may be subtracted at random, from 0 to 1, so that callers that
            failed together do not retry together.
        draw: Returns a random number from 0 to 1; `random.Random(seed).random` makes the waits repeatable.

    Raises:
        ValueError: A wait is negative or infinite, or the jitter is not between 0 and 1.
    """

    first: float = 1.0
    most: float = 60.0
    jitter: float = 0.5
    draw: Callable[[], float] = random

    def __post_init__(self) -> None:
        if not (0 <= self.first < inf and 0 <= self.most < inf and 0 <= self.jitter <= 1):
            raise ValueError(f"{self!r}: waits are seconds, at least 0, and jitter is from 0 to 1")

    def __call__(self, attempt: int, error: Exception) -> float:
        """Return the seconds to wait.

        Args:
            attempt: The number of the attempt that failed, from 1.
            error: The error of the attempt; ignored here.
        """
        return backoff_seconds(attempt - 1, first=self.first, longest=self.most) * (
            1 - self.jitter * self.draw()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Conditions and delays of retries.

    Args:
        attempts: The total number of attempts.
        on: The errors to retry; None for those of `is_worth_retrying`. A group counts when it is one of them,
            or when all its errors are. `RefusalError` counts only when it is named itself.
        retry_if: A predicate that must also return true, when given.
        wait: Returns the seconds to wait, given the number of the attempt that failed, from 1, and its error.
        asked_wait: Returns the seconds that the provider or circuit breaker asks to wait: the shortest wait.
        max_asked_wait: The longest wait that may be asked for, in seconds; a longer one ends the attempts.
    """

    attempts: int = 3
    on: tuple[type[Exception], ...] | None = None
    retry_if: Callable[[Exception], object] | None = None
    wait: Callable[[int, Exception], float] = ExponentialWait()
    asked_wait: Callable[[BaseException], float | None] = asked_wait_seconds
    max_asked_wait: float = 300.0

    def wait_after(self, error: BaseException, attempt: int) -> float | None:
        """Return the seconds until the next attempt; None when there is none.

        Args:
            error: The error of the attempt.
            attempt: The number of the attempt, from 1.
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
        is_refused = any(isinstance(each, RefusalError) for each in leaves_of(error))
        return is_one and may_be_retried(error) and (RefusalError in on or not is_refused)


_NO_RETRIES = RetryPolicy(attempts=1)


class StepRetries(Protocol):
    """Conditions of retries, as an object made by `resilience.retrying` provides them."""

    @property
    def policy(self) -> RetryPolicy:
        """The retry policy."""
        ...

    @property
    def on_retry(self) -> Callable[[Any], object] | None:
        """The callback before each wait, called with a `RetryScheduled`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBaseline:
    """The baseline given to a run or scope; `resilience.Baseline` checks it. None inherits from the parent.

    Args:
        timeout: The time limit of one attempt at a step, in seconds.
        retries: The number of further attempts, or their policy.
        fallback_models: The models to try after that: ids, or configurations.
    """

    timeout: float | None = None
    retries: int | StepRetries | None = None
    fallback_models: Sequence[str | StepExecutorConfiguration] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FallbackModel:
    """A model to fall back to.

    Args:
        choice: Its id, or a configuration.
        executor: The executor of steps with it.
    """

    choice: str | StepExecutorConfiguration
    executor: StepExecutor

    @property
    def model(self) -> str:
        """Its id."""
        return self.choice if isinstance(self.choice, str) else self.choice.model


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepResilience:
    """The active baseline.

    Args:
        executor: The executor whose model the fallbacks replace.
        timeout: The time limit of one attempt at a step, in seconds; None for no limit.
        policy: The policy of retries with the same model.
        on_retry: Called before each wait; None for no callback.
        fallbacks: The models to try after that, in order.
    """

    executor: StepExecutor
    timeout: float | None = None
    policy: RetryPolicy = _NO_RETRIES
    on_retry: Callable[[Any], object] | None = None
    fallbacks: tuple[FallbackModel, ...] = ()

    @property
    def is_effective(self) -> bool:
        """Whether it changes how a step runs."""
        return self.timeout is not None or self.policy.attempts > 1 or bool(self.fallbacks)

    @property
    def after_fallback(self) -> "StepResilience":
        """Return the baseline for an attempt with the first fallback model, and for steps inside it."""
        first, *others = self.fallbacks
        return replace(self, executor=first.executor, fallbacks=tuple(others))


def active_resilience(
    parent: StepResilience | None,
    given: StepBaseline | Unset | None,
    executor: StepExecutor,
    *,
    is_added: bool = True,
) -> StepResilience | None:
    """Return the baseline inside a scope. The executors of all models are made; nothing is sent.

    Args:
        parent: The baseline of the parent.
        given: The given baseline; None for none, unset for no change.
        executor: The executor inside.
        is_added: Whether arguments that are left out are inherited from the parent, and the shorter timeout
            of both applies.

    Returns:
        The active baseline; None when it would have no effect.

    Raises:
        NighthawkError: The argument is not a baseline.
        ConfigurationError: A model is not available.
    """
    if given is None or (parent is None and isinstance(given, Unset)):
        return None
    enclosing = parent
    if isinstance(given, Unset):
        given = StepBaseline()
    elif not isinstance(cast("object", given), StepBaseline):
        raise NighthawkError(
            f"resilience must be a nighthawk_async.resilience.Baseline or None, not {given!r}."
        )
    elif not is_added:
        enclosing = None
    enclosing = enclosing or StepResilience(executor=executor)
    resilience = StepResilience(
        executor=executor,
        timeout=min((each for each in (given.timeout, enclosing.timeout) if each is not None), default=None),
        policy=enclosing.policy if given.retries is None else _policy(given.retries),
        on_retry=enclosing.on_retry if given.retries is None else _on_retry(given.retries),
        fallbacks=_fallbacks(enclosing, given.fallback_models, executor),
    )
    return resilience if resilience.is_effective else None


def _policy(retries: int | StepRetries) -> RetryPolicy:
    return RetryPolicy(attempts=retries + 1) if isinstance(retries, int) else retries.policy


def _on_retry(retries: int | StepRetries) -> Callable[[Any], object] | None:
    return None if isinstance(retries, int) else retries.on_retry


def _fallbacks(
    enclosing: StepResilience,
    given: Sequence[str | StepExecutorConfiguration] | None,
    executor: StepExecutor,
) -> tuple[FallbackModel, ...]:
    if given is not None:
        return _made(given, executor)
    if enclosing.executor is executor:
        return enclosing.fallbacks
    if model_of(executor) is None:
        return ()  # the executor keeps its model, as the scope wants
    return _made((each.choice for each in enclosing.fallbacks), executor)


def _made(
    choices: Iterable[str | StepExecutorConfiguration], executor: StepExecutor
) -> tuple[FallbackModel, ...]:
    others = [choice for choice in choices if choice != model_of(executor)]
    return tuple(FallbackModel(choice=choice, executor=_chosen(choice, executor)) for choice in others)


def _chosen(choice: str | StepExecutorConfiguration, executor: StepExecutor) -> StepExecutor:
    if isinstance(choice, str):
        return executors_for(executor, (choice,))[choice]
    check_model_can_change(executor)
    return cast("ConfigurableStepExecutor", executor).with_configuration(choice)

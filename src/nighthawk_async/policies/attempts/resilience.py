"""The baseline of a scope: retries and fallbacks of each step. Nothing here waits.

`StepBaseline` is what a run or a scope is told, `StepResilience` what is in force then. `attempts.policy`
carries it out.

`RetryPolicy` says whether something that failed is tried again, and after how long. What carries it out
stands elsewhere: `resilience.retrying` for functions, the runner for steps. On the retries of a single model
request `models.http_attempts` decides, by the rules of its provider.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from math import inf
from random import random
from typing import Any, Protocol, cast, runtime_checkable

from ...backoff import backoff_seconds
from ...catalog.providers import PROVIDERS
from ...configuration import StepExecutorConfiguration, parse_model_id
from ...errors import (
    AnnotationError,
    BudgetExceededError,
    ConfigurationError,
    ExecutionError,
    HookError,
    HumanError,
    ModelError,
    ModelStatusError,
    NestedStepLimitError,
    NighthawkError,
    StepAbortedError,
    StepRejectedError,
    StepStoppedError,
)
from ...parallel import TaskCancelledError, cancel_requested
from ...runtime.error_text import with_causes
from ...runtime.step_executor import ConfigurableStepExecutor, StepExecutor
from ...types.unset import Unset

_MOST_ERRORS = 5
_MOST_CHARACTERS = 200


def note_earlier_errors(error: BaseException, title: str, earlier: Sequence[str]) -> None:
    """Add a note to an error.

    Args:
        error: The error.
        title: The title of the note.
        earlier: The errors before it, as texts; the last few are told, each on one line.
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
    CancelledError,  # an Exception: what a thread gets when what it waits for on an event loop is cancelled
)
"""After these nobody tries again: somebody's decision stands behind them, or it would end in the same way."""


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
        jitter: The part of a wait that chance may take away, from 0 to 1, so that many that failed together
            do not come back together.
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
            attempt: The number of the attempt that failed, from 1.
            error: The error that it failed with; it makes no difference here.
        """
        return backoff_seconds(attempt - 1, first=self.first, longest=self.most) * (
            1 - self.jitter * self.draw()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Conditions and delays of retries.

    Args:
        attempts: The number of tries in all.
        on: The errors after which to try again; None for those of `is_worth_retrying`. A group counts when it
            is one of them, or when all its errors are.
        retry_if: Has to agree, when given.
        wait: Gives the seconds to wait from the number of the attempt that failed, from 1, and its error.
        asked_wait: Gives the seconds that the other side asks to wait: that is the least wait.
        max_asked_wait: The longest wait that it may ask for, in seconds; beyond it there is no other attempt.
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
        return is_one and may_be_retried(error)


_OF_ONE_MODEL = frozenset({"capabilities", "extra_body"})
_OF_ONE_PROVIDER = frozenset({"api_key", "base_url", "extra_headers", "idempotency_header"})


def executors_for(executor: StepExecutor, models: Iterable[str]) -> dict[str, StepExecutor]:
    """An executor for each of these models, with everything else as configured. Nothing is sent.

    Settings that are about one model do not go to another, nor does a key, or a URL, to another provider.

    Args:
        executor: The executor to have other models.
        models: The model ids.

    Raises:
        MissingCredentialError: The key of a provider is not set.
        ConfigurationError: The executor takes no configuration, keeps its model whatever the configuration
            says, or a model cannot be had.
    """
    if not isinstance(executor, ConfigurableStepExecutor):
        raise ConfigurationError(
            f"{type(executor).__name__} takes no StepExecutorConfiguration, so it can have no other model; "
            "use an executor that does, as AgentStepExecutor.from_configuration gives."
        )
    if _keeps_its_model(executor):
        raise ConfigurationError(
            "The executor was made of a model or an agent object and keeps it, whatever its configuration "
            "says; use one made with AgentStepExecutor.from_configuration."
        )
    return {model: _executor_for(model, executor) for model in models}


def model_of(executor: StepExecutor) -> str | None:
    """The id of the model that an executor's configuration says; None when it can have no other model.

    Args:
        executor: The executor.
    """
    if not isinstance(executor, ConfigurableStepExecutor) or _keeps_its_model(executor):
        return None
    return executor.configuration.model


@runtime_checkable
class _WithAgent(Protocol):
    """An executor that may have got its model, or its agent, as an object."""

    @property
    def agent_is_managed(self) -> bool: ...


def _keeps_its_model(executor: ConfigurableStepExecutor) -> bool:
    return isinstance(executor, _WithAgent) and not executor.agent_is_managed


def _executor_for(model: str, executor: ConfigurableStepExecutor) -> StepExecutor:
    configuration = executor.configuration
    return executor.with_configuration(
        configuration if configuration.model == model else _configuration_for(model, configuration)
    )


def _configuration_for(model: str, configuration: StepExecutorConfiguration) -> StepExecutorConfiguration:
    left_out = _OF_ONE_MODEL
    if _endpoint_of(model) != _endpoint_of(configuration.model):
        left_out |= _OF_ONE_PROVIDER
    settings = {name: value for name, value in configuration.model_settings.items() if name not in left_out}
    return configuration.model_copy(update={"model": model, "model_settings": settings})


def _endpoint_of(model: str) -> str:
    """Return the provider of a model. A provider with several protocols serves them with the same key."""
    provider = parse_model_id(model).provider
    facts = PROVIDERS.get(provider)
    return provider if facts is None else facts.base_url_variable


_NO_RETRIES = RetryPolicy(attempts=1)


class StepRetries(Protocol):
    """Says when to try again, as what `resilience.retrying` gives does."""

    @property
    def policy(self) -> RetryPolicy:
        """The retry policy."""
        ...

    @property
    def on_retry(self) -> Callable[[Any], object] | None:
        """Is told before each wait, with a `RetryScheduled`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBaseline:
    """The baseline given to a run or scope; `resilience.Baseline` checks it. None means that of the parent.

    Args:
        timeout: The time limit of one attempt at a step, in seconds.
        retries: The number of further tries, or their policy.
        fallback_models: The models to try after that.
    """

    timeout: float | None = None
    retries: int | StepRetries | None = None
    fallback_models: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FallbackModel:
    """A model to fall back to.

    Args:
        model: Its id.
        executor: The executor of steps with it.
    """

    model: str
    executor: StepExecutor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepResilience:
    """The active baseline.

    Args:
        executor: The executor that the other models are to stand in for.
        timeout: The time limit of one attempt at a step, in seconds; None for no limit.
        policy: The policy of further tries with the same model.
        on_retry: Is told before each wait; None for nobody.
        fallbacks: The models to try after that, in order.
    """

    executor: StepExecutor
    timeout: float | None = None
    policy: RetryPolicy = _NO_RETRIES
    on_retry: Callable[[Any], object] | None = None
    fallbacks: tuple[FallbackModel, ...] = ()

    @property
    def is_effective(self) -> bool:
        """Whether a step is carried out in another way than without it."""
        return self.timeout is not None or self.policy.attempts > 1 or bool(self.fallbacks)

    @property
    def after_fallback(self) -> "StepResilience":
        """Return the baseline for an attempt with the first of the other models, and for steps inside it."""
        first, *others = self.fallbacks
        return replace(self, executor=first.executor, fallbacks=tuple(others))


def active_resilience(
    outer: StepResilience | None,
    given: StepBaseline | Unset | None,
    executor: StepExecutor,
    *,
    is_added: bool = True,
) -> StepResilience | None:
    """Return the baseline inside a scope. The executors of all models are made; nothing is sent.

    Args:
        outer: The baseline around it.
        given: The given baseline; None for none, unset for no change.
        executor: The executor inside.
        is_added: Whether what holds around it counts where the extent is told nothing, and the shorter
            timeout of both.

    Returns:
        What is in force; None when that is nothing.

    Raises:
        NighthawkError: It is no baseline.
        ConfigurationError: A model cannot be had.
    """
    if given is None or (outer is None and isinstance(given, Unset)):
        return None
    enclosing = outer
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
    enclosing: StepResilience, given: Sequence[str] | None, executor: StepExecutor
) -> tuple[FallbackModel, ...]:
    if given is not None:
        return _made(given, executor)
    if enclosing.executor is executor:
        return enclosing.fallbacks
    if model_of(executor) is None:
        return ()  # it keeps its model, which is what the extent wants
    return _made((each.model for each in enclosing.fallbacks), executor)


def _made(models: Iterable[str], executor: StepExecutor) -> tuple[FallbackModel, ...]:
    others = [model for model in models if model != model_of(executor)]
    if not others:
        return ()
    executors = executors_for(executor, others)
    return tuple(FallbackModel(model=model, executor=executors[model]) for model in others)

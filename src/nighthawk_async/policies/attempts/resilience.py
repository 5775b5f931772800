"""The baseline of a scope: retries and fallbacks of each step. Nothing here waits.

`StepBaseline` is what a run or a scope is told, `StepResilience` what is in force then. `attempts.attempts`
carries it out.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from ...errors import NighthawkError
from ...runtime.step_executor import StepExecutor
from ...types.unset import Unset
from .other_models import executors_for, model_of
from .retry_policy import RetryPolicy

__all__ = ["FallbackModel", "StepBaseline", "StepResilience", "StepRetries", "resilience_in_force"]

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
        timeout: How long one attempt at a step may take, in seconds.
        retries: How often to try again, or what says when.
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
        executor: What carries steps out with it.
    """

    model: str
    executor: StepExecutor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepResilience:
    """The active baseline.

    Args:
        executor: The executor that the other models are to stand in for.
        timeout: How long one attempt at a step may take, in seconds; None for as long as it likes.
        policy: When to try again with the same model.
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


def resilience_in_force(
    outer: StepResilience | None,
    given: StepBaseline | Unset | None,
    executor: StepExecutor,
    *,
    is_added: bool = True,
) -> StepResilience | None:
    """Return the baseline inside a scope. The executors of all models are made; nothing is sent.

    Args:
        outer: What is in force around it.
        given: What it is told; None for nothing in force, unset for no change.
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
    around = outer
    if isinstance(given, Unset):
        given = StepBaseline()
    elif not isinstance(cast("object", given), StepBaseline):
        raise NighthawkError(
            f"resilience must be a nighthawk_async.resilience.Baseline or None, not {given!r}."
        )
    elif not is_added:
        around = None
    around = around or StepResilience(executor=executor)
    resilience = StepResilience(
        executor=executor,
        timeout=min((each for each in (given.timeout, around.timeout) if each is not None), default=None),
        policy=around.policy if given.retries is None else _policy(given.retries),
        on_retry=around.on_retry if given.retries is None else _on_retry(given.retries),
        fallbacks=_fallbacks(around, given.fallback_models, executor),
    )
    return resilience if resilience.is_effective else None


def _policy(retries: int | StepRetries) -> RetryPolicy:
    return RetryPolicy(attempts=retries + 1) if isinstance(retries, int) else retries.policy


def _on_retry(retries: int | StepRetries) -> Callable[[Any], object] | None:
    return None if isinstance(retries, int) else retries.on_retry


def _fallbacks(
    around: StepResilience, given: Sequence[str] | None, executor: StepExecutor
) -> tuple[FallbackModel, ...]:
    if given is not None:
        return _made(given, executor)
    if around.executor is executor:
        return around.fallbacks
    if model_of(executor) is None:
        return ()  # it keeps its model, which is what the extent wants
    return _made((each.model for each in around.fallbacks), executor)


def _made(models: Iterable[str], executor: StepExecutor) -> tuple[FallbackModel, ...]:
    others = [model for model in models if model != model_of(executor)]
    if not others:
        return ()
    executors = executors_for(executor, others)
    return tuple(FallbackModel(model=model, executor=executors[model]) for model in others)

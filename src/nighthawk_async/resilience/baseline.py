"""`Baseline`: the retries, fallbacks and timeout of each step of a run or scope.

`policies.attempts.policy` applies it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..configuration import StepExecutorConfiguration, parse_model_id
from ..policies.attempts.resilience import StepBaseline
from ..types.json import is_sequence
from .errors import InvalidPolicyError
from .retrying import Retrying
from .transforming import checked_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline(StepBaseline):
    """Retries and fallbacks of each step, for `nighthawk_async.run` and `nighthawk_async.scope`.

        spare = ["openai-responses:gpt-5.4"]
        with nh.scope(resilience=Baseline(timeout=60, retries=2, fallback_models=spare)):
            summary = await summarize(text)

    Each attempt is a step of its own: it begins with the Python variables as they were, has a step budget of
    its own, and is counted and traced. A failed attempt has committed nothing, but the effects of its tools,
    also on objects, are not undone. A `raise` outcome is not a failure.

    It also applies to each step that a tool starts; inside an attempt with another model, such steps begin
    with that model. In a nested scope, arguments that a baseline leaves out keep their values, and the
    shorter of two timeouts applies.

    Args:
        timeout: The longest time of one attempt, in seconds, from when the step was admitted. A longer
            attempt fails with `StepLimitError`. Waiting for people counts too. None for no change.
        retries: The number of further attempts with the same model, or an object made by `retrying` for full
            control: `retrying(attempts=5, on=OSError, wait=1, on_retry=log)`. None for no change, 0 for
            never.
        fallback_models: The models to try next, in order, each with attempts of its own, after a step that
            failed (`ExecutionError`) or any `ModelError`: model ids, or a `StepExecutorConfiguration` for a
            model with its own settings, keys and limits. The configured model's id is left out. The
            executors of all models are made together with the run or scope; for ids, everything else is as
            configured, as by `ensemble`. None for no change; empty for no other model. Inside, an executor
            that takes no configuration keeps its model.

    Raises:
        InvalidPolicyError: An argument is invalid.
        UnknownModelError: A model id is not of the form `provider:model`.
    """

    timeout: float | None = None
    retries: int | Retrying | None = None
    fallback_models: Sequence[str | StepExecutorConfiguration] | None = None

    def __post_init__(self) -> None:
        if self.timeout is not None and not checked_seconds("timeout", self.timeout):
            raise InvalidPolicyError("timeout is a number of seconds, more than 0")
        _check_retries(self.retries)
        if self.fallback_models is not None:
            object.__setattr__(self, "fallback_models", _checked_models(self.fallback_models))


def _check_retries(retries: object) -> None:
    is_count = isinstance(retries, int) and not isinstance(retries, bool) and retries >= 0
    if retries is not None and not is_count and not isinstance(retries, Retrying):
        raise InvalidPolicyError(
            f"retries is a whole number, at least 0, or what `retrying(…)` gives, not {retries!r}"
        )


def _checked_models(models: object) -> tuple[str | StepExecutorConfiguration, ...]:
    if isinstance(models, str) or not is_sequence(models):
        raise InvalidPolicyError(f"fallback_models is a sequence of model ids, not {models!r}")
    choices: list[str | StepExecutorConfiguration] = []
    for choice in models:
        if isinstance(choice, str):
            parse_model_id(choice)
        elif not isinstance(choice, StepExecutorConfiguration):
            raise InvalidPolicyError(
                f"fallback_models has model ids, texts, or a StepExecutorConfiguration, not {choice!r}"
            )
        choices.append(choice)
    if any(choice in choices[:index] for index, choice in enumerate(choices)):
        raise InvalidPolicyError(f"fallback_models has a model more than once: {tuple(choices)!r}")
    return tuple(choices)

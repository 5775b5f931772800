"""Step executors (specification 14.1)."""

from typing import Protocol, TypeAlias, runtime_checkable

from typing_extensions import TypeIs

from ..configuration import StepExecutorConfiguration
from ..errors import NighthawkError
from ..types.outcomes import (
    BreakStepOutcome,
    ContinueStepOutcome,
    OutcomeKind,
    PassStepOutcome,
    RaiseStepOutcome,
    ReturnStepOutcome,
    StepOutcome,
)
from .step_context import StepContext

__all__ = [
    "AsyncStepExecutor",
    "BreakStepOutcome",
    "ConfigurableStepExecutor",
    "ContinueStepOutcome",
    "OutcomeKind",
    "PassStepOutcome",
    "RaiseStepOutcome",
    "ReturnStepOutcome",
    "StepExecutor",
    "StepOutcome",
    "SyncStepExecutor",
    "check_executor",
    "is_async_executor",
    "shows_named_only",
]


@runtime_checkable
class SyncStepExecutor(Protocol):
    """Executes a step in a worker thread."""

    def run_step(
        self,
        *,
        processed_natural_program: str,
        step_context: StepContext,
        binding_names: list[str],
        allowed_step_kinds: tuple[str, ...],
    ) -> tuple[StepOutcome, dict[str, object]]:
        """Execute a step.

        Args:
            processed_natural_program: The program text after sentinel removal, dedent, f-string evaluation
                and frontmatter stripping.
            step_context: The state of the step.
            binding_names: The names of the `<:name>` write bindings.
            allowed_step_kinds: The outcome kinds the block may end with.

        Returns:
            The outcome, and the final value of each write binding to commit.
        """
        ...


@runtime_checkable
class AsyncStepExecutor(Protocol):
    """Executes a step on the step's event loop."""

    async def run_step_async(
        self,
        *,
        processed_natural_program: str,
        step_context: StepContext,
        binding_names: list[str],
        allowed_step_kinds: tuple[str, ...],
    ) -> tuple[StepOutcome, dict[str, object]]:
        """Execute a step. Arguments and result are those of `SyncStepExecutor.run_step`."""
        ...


StepExecutor: TypeAlias = SyncStepExecutor | AsyncStepExecutor
"""A step executor. One that implements both protocols is used as an async executor."""


def is_async_executor(executor: StepExecutor) -> TypeIs[AsyncStepExecutor]:
    """Whether an executor executes steps on their event loop.

    Called for every step: on Python 3.11 `isinstance` with a protocol takes fifty times longer than this.

    Args:
        executor: The executor.
    """
    return hasattr(executor, "run_step_async")


def shows_named_only(executor: StepExecutor) -> bool:
    """Whether steps of an executor see only what their blocks name; its configuration decides, if any.

    Args:
        executor: The executor.
    """
    configuration: object = getattr(executor, "configuration", None)
    if not isinstance(configuration, StepExecutorConfiguration):
        return False
    return configuration.context_limits.visible_names == "named"


@runtime_checkable
class ConfigurableStepExecutor(Protocol):
    """An executor whose configuration a scope can replace."""

    @property
    def configuration(self) -> StepExecutorConfiguration:
        """The active configuration."""
        ...

    def with_configuration(self, configuration: StepExecutorConfiguration) -> StepExecutor:
        """Return the same executor with another configuration."""
        ...


def check_executor(executor: object) -> None:
    """Refuse an object that is not a step executor.

    Raises:
        NighthawkError: The object implements neither protocol.
    """
    methods = [getattr(executor, name, None) for name in ("run_step_async", "run_step")]
    if isinstance(executor, type) or not any(callable(method) for method in methods):
        raise NighthawkError(
            f"{executor!r} is no step executor: it has neither run_step_async nor run_step, or is a class. "
            "Give a model id such as 'openai-responses:gpt-5.4-nano', a StepExecutorConfiguration, a Model, "
            "or an executor."
        )

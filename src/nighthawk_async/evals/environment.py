"""The run, or the scope of the active run, in which trials run."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ..causes import leaves_of
from ..kernel.context import StepContext, StepExecutor
from ..kernel.environment import find_environment
from ..policies.attempts.resilience import model_of
from ..policies.budgets.budget import Budget
from ..ports import Model
from ..runs import run
from ..scopes import scope
from ..types.outcomes import StepOutcome
from .errors import NoExecutorError


class _NoExecutor:
    """The executor of an evaluation without one, of a function that runs no steps."""

    async def run_step_async(
        self,
        *,
        processed_natural_program: str,
        step_context: StepContext,
        binding_names: list[str],
        allowed_step_kinds: tuple[str, ...],
    ) -> tuple[StepOutcome, dict[str, object]]:
        """Refuse the step."""
        raise NoExecutorError("The subject runs a natural block: evaluate(…, model=…), or inside a run.")


@asynccontextmanager
async def trial_environment(
    executor: StepExecutor | None, budget: Budget | None
) -> AsyncGenerator[None, None]:
    """Enter the run of the trials, or a scope of the active one.

    Args:
        executor: The executor of the run; None for the active run, and where there is none, for no steps.
        budget: The budget; None for none.

    Raises:
        NoExecutorError: There is neither, and a trial has run a step.
    """
    try:
        if executor is None and find_environment() is not None:
            async with scope(budget=budget):
                yield
        else:
            async with run(executor or _NoExecutor(), budget=budget):
                yield
    except BaseExceptionGroup as group:  # calls in flight together fail together
        leaves = list(leaves_of(group))
        if all(isinstance(each, NoExecutorError) for each in leaves):
            raise leaves[0] from None
        raise


def model_name(executor: StepExecutor | None) -> str | None:
    """Return the id of the model of an executor, None for that of the active run; None when it has none."""
    environment = find_environment()
    if executor is None:
        executor = None if environment is None else environment.step_executor
    if executor is None:
        return None
    model = getattr(executor, "model", None)
    return model.name if isinstance(model, Model) else model_of(executor)

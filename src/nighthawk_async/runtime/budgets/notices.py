"""Telling traces and hooks of budgets: thresholds that are passed, and refusals. Floor 3."""

from dataclasses import replace
from typing import TYPE_CHECKING

from opentelemetry import trace

from ...errors import BudgetExceededError, HookError
from ..environment import Environment
from .account import BudgetAccount, PassedThreshold

if TYPE_CHECKING:
    from ..hooks.events import BudgetThreshold
    from ..hooks.registry import Hooks

__all__ = ["record_exceeded", "tell_thresholds"]


def record_exceeded(error: BudgetExceededError) -> None:
    """Tell the current span that a budget has refused something, if the span is recorded.

    Args:
        error: The refusal.
    """
    current = trace.get_current_span()
    if current.is_recording():
        attributes = {
            "nighthawk.budget.name": error.budget,
            "nighthawk.budget.resource": error.resource,
            "nighthawk.budget.limit": float(error.limit),
            "nighthawk.budget.spent": float(error.spent),
            "nighthawk.budget.reserved": float(error.reserved),
            "nighthawk.budget.asked": float(error.asked),
        }
        current.add_event("nighthawk.budget.exceeded", attributes)


async def tell_thresholds(environment: Environment) -> None:
    """Tell of the thresholds that were passed: traces once, and all hooks in force once each.

    Hooks of a run around this one are told as well, of its budgets, because nothing happens there meanwhile.

    Args:
        environment: What is in force.

    Raises:
        HookError: A hook failed. The others were told.
    """
    policies, failure = environment.policies, None
    for account in policies.budgets:
        while (threshold := account.take_threshold(None)) is not None:
            _record_threshold(_threshold_event(environment, account, threshold))
        for hooks in dict.fromkeys((*policies.outer_hooks, *policies.hooks)):
            try:
                await _tell_hooks(environment, account, hooks)
            except HookError as error:
                if failure is None:
                    failure = error
                else:
                    failure.add_note(str(error))
    if failure is not None:
        raise failure


async def _tell_hooks(environment: Environment, account: BudgetAccount, hooks: "Hooks") -> None:
    """Tell hooks of what they were not told of; what a cancellation interrupts is told again."""
    from ..hooks.calls import is_answering, tell  # here, because of what policies.py says

    alone = replace(environment, policies=replace(environment.policies, hooks=(hooks,)))
    while not is_answering(hooks) and (threshold := account.take_threshold(hooks)) is not None:
        try:
            await tell(alone, _threshold_event(environment, account, threshold))
        except HookError:
            raise
        except BaseException:
            account.put_threshold_back(hooks, threshold)
            raise


def _threshold_event(
    environment: Environment, account: BudgetAccount, threshold: PassedThreshold
) -> "BudgetThreshold":
    from ..hooks.events import BudgetThreshold  # here, because of what policies.py says

    return BudgetThreshold(
        execution_ref=environment.execution_ref,
        budget=account.terms.name,
        resource=threshold.resource,
        fraction=threshold.part,
        spent=threshold.spent,
        limit=threshold.limit,
    )


def _record_threshold(event: "BudgetThreshold") -> None:
    current = trace.get_current_span()
    if current.is_recording():
        attributes = {
            "nighthawk.budget.name": event.budget,
            "nighthawk.budget.resource": event.resource,
            "nighthawk.budget.limit": float(event.limit),
            "nighthawk.budget.spent": float(event.spent),
            "nighthawk.budget.fraction": event.fraction,
        }
        current.add_event("nighthawk.budget.threshold", attributes)

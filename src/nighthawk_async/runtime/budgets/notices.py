"""Telling traces and hooks of budgets: thresholds that are passed, and refusals. Floor 3."""

from opentelemetry import trace

from ...errors import BudgetExceededError
from ..environment import Environment
from ..hooks.calls import emit
from ..hooks.events import BudgetThreshold

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
    """Tell of the thresholds that were passed since somebody last told of them.

    Args:
        environment: What is in force.

    Raises:
        HookError: A hook failed.
    """
    for account in environment.policies.budgets:
        for resource, part, spent, limit in account.take_thresholds():
            event = BudgetThreshold(
                execution_ref=environment.execution_ref,
                budget=account.terms.name,
                resource=resource,
                fraction=part,
                spent=spent,
                limit=limit,
            )
            _record_threshold(event)
            if environment.policies.hooks:
                await emit(environment, event)


def _record_threshold(event: BudgetThreshold) -> None:
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

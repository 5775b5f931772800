"""Notices of budgets: thresholds and refusals for traces and hooks, the last request for the model."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ...errors import BudgetExceededError, HookError
from ...kernel.context import StepContext
from ...kernel.environment import get_environment
from ...kernel.events import BudgetThreshold
from ...kernel.features import Feature
from ...kernel.policy import Listener
from ...kernel.step import Step
from ...kernel.tools import OUTCOME_TOOL_NAME
from ...ports import Model
from ...tracing import note_event, note_named_event
from ...types.messages import UserMessage
from ...types.model import ModelRequest, NamedToolChoice
from .account import BudgetAccount, PassedThreshold, find_lender, own_accounts

_NOTE = (
    "The budget for this work is nearly spent: this is the last answer that there is room for. Begin nothing "
    "new. Set what is still to be set, with what you know, and end the block in this answer."
)
_THINKING = ("reasoning_effort", "thinking", "thinking_budget_tokens")
CONCLUSION_TOKENS = len(_NOTE)
"""An upper bound of the tokens of the note."""


def concluding_request(request: ModelRequest, model: Model, step: Step | None) -> ModelRequest:
    """Return the request with a message that it is the last one.

    When every write binding has a value, the model may only call the tool that ends the block, if it supports
    such a choice.

    Args:
        request: The request.
        model: The model.
        step: The step; None for a request outside steps.
    """
    request = replace(request, messages=(*request.messages, UserMessage(content=(_NOTE,))))
    is_offered = any(tool.name == OUTCOME_TOOL_NAME for tool in request.tools)
    can_be_held = (
        request.tool_choice == "required"
        and model.capabilities.forced_tool_choice
        and not any(
            request.settings.get(name) for name in _THINKING
        )  # some models accept no named tool while they reason
    )
    if is_offered and can_be_held and step is not None and _is_all_set(step.context):
        return replace(request, tool_choice=NamedToolChoice(name=OUTCOME_TOOL_NAME))
    return request


def _is_all_set(context: StepContext) -> bool:
    """Whether every write binding has a value."""
    return all(
        name in context.assigned_names or name in context.initial_values for name in context.write_names
    )


_refusals = Feature[list[BudgetExceededError] | None](None)


@contextmanager
def noting_refusals() -> Generator[list[BudgetExceededError], None, None]:
    """Note the refusals of budgets during the `with` statement, also those that the program handles."""
    refusals: list[BudgetExceededError] = []
    with _refusals.active(refusals):
        yield refusals


def note_refusal(error: BudgetExceededError) -> None:
    """Note a refusal for the innermost `noting_refusals`.

    Args:
        error: The error.
    """
    refusals = _refusals.get()
    if refusals is not None:
        refusals.append(error)


def record_exceeded(error: BudgetExceededError) -> None:
    """Record in the current span that a budget had no room, if the span is recorded.

    Args:
        error: The error.
    """
    note_refusal(error)
    attributes = {
        "nighthawk.budget.name": error.budget,
        "nighthawk.budget.resource": error.resource,
        "nighthawk.budget.limit": float(error.limit),
        "nighthawk.budget.spent": float(error.spent),
        "nighthawk.budget.reserved": float(error.reserved),
        "nighthawk.budget.asked": float(error.asked),
    }
    note_named_event("nighthawk.budget.exceeded", attributes)


async def report_thresholds(accounts: Sequence[BudgetAccount]) -> None:
    """Report passed thresholds, once to traces and once to each listener.

    Listeners of the parent run are notified of its budgets too, because it emits no events meanwhile.
    Thresholds of accounts that are kept elsewhere are reported there.

    Args:
        accounts: The accounts.

    Raises:
        HookError: A listener failed. The others were notified.
    """
    lender = find_lender(accounts)
    if lender is not None:
        await lender.report_thresholds()
        accounts = own_accounts(accounts)
    accounts = [account for account in accounts if account.has_passed_threshold]
    if not accounts:
        return
    failure: HookError | None = None
    policies = get_environment().policies
    listeners = dict.fromkeys((*policies.outer_listeners, *policies.listeners))
    for account in accounts:
        while (threshold := account.take_threshold(None)) is not None:
            note_event(_threshold_event(account, threshold))
        for listener in listeners:
            try:
                await _notify(account, listener)
            except HookError as error:
                if failure is None:
                    failure = error
                else:
                    failure.add_note(str(error))
    if failure is not None:
        raise failure


async def _notify(account: BudgetAccount, listener: Listener) -> None:
    """Notify a listener of its unreported thresholds; one that a cancellation interrupts stays unreported."""
    while not listener.is_answering and (threshold := account.take_threshold(listener)) is not None:
        try:
            await listener.notify(_threshold_event(account, threshold))
        except HookError:
            raise
        except BaseException:
            account.put_threshold_back(listener, threshold)
            raise


def _threshold_event(account: BudgetAccount, threshold: PassedThreshold) -> BudgetThreshold:
    return BudgetThreshold(
        execution_ref=get_environment().execution_ref,
        budget=account.terms.name,
        resource=threshold.resource,
        fraction=threshold.part,
        spent=threshold.spent,
        limit=threshold.limit,
    )

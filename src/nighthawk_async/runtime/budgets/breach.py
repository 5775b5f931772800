"""Whether an error comes from a budget that nobody inside a step can do anything about. Floor 3."""

from ...errors import BudgetExceededError
from ..environment import find_environment
from ..error_causes import with_causes
from .account import BudgetAccount

__all__ = ["breached_account", "find_budget_breach"]


def find_budget_breach(error: BaseException) -> BudgetExceededError | None:
    """The refusal of a budget in force here that an error came from, however it was wrapped; None for none.

    Such a refusal concerns the host: the model of the step is under the same budget and cannot help. The
    refusal of a budget that only something inside the step was under is a failure like any other.

    Args:
        error: What a step, or code that was called from a step, raised.
    """
    environment = find_environment()
    accounts = () if environment is None else environment.policies.budgets
    if not accounts:
        return None
    return next(
        (
            each
            for each in with_causes(error)
            if isinstance(each, BudgetExceededError) and breached_account(each, accounts) is not None
        ),
        None,
    )


def breached_account(error: BudgetExceededError, accounts: tuple[BudgetAccount, ...]) -> BudgetAccount | None:
    """The account that refused something; None when it is none of these.

    Args:
        error: The refusal.
        accounts: The accounts in question.
    """
    return next((account for account in accounts if account.has_refused(error)), None)

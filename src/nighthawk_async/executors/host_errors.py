"""Errors that concern the host alone, whatever wrapped them on their way. Floor 4."""

from ..errors import NighthawkError
from ..runtime.budgets.breach import find_budget_breach
from ..runtime.hooks.failures import find_hook_error
from ..runtime.model_access import find_interception_error

__all__ = ["find_host_error"]


def find_host_error(error: BaseException) -> NighthawkError | None:
    """The error of the host that an error came from; None for none.

    An interception that cannot go on, a budget of the step that has no room, a hook or an oversight that
    failed: no model can fix these, so none is told. They leave the step bare.

    Args:
        error: What a step, or code that was called from a step, raised.
    """
    return find_interception_error(error) or find_budget_breach(error) or find_hook_error(error)

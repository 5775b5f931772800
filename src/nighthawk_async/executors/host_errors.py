"""Errors that concern the host alone, whatever wrapped them on their way."""

from ..errors import HookError, NighthawkError
from ..runtime.environment import find_environment
from ..runtime.error_causes import with_causes
from ..runtime.model_access import find_interception_error

__all__ = ["find_host_error"]


def find_host_error(error: BaseException) -> NighthawkError | None:
    """The error of the host that an error came from; None for none.

    An interception that cannot go on, a policy of the step that has no room, code that was to decide and
    failed: no model can fix these, so none is told. They leave the step bare.

    Args:
        error: What a step, or code that was called from a step, raised.
    """
    interception = find_interception_error(error)
    if interception is not None:
        return interception
    environment = find_environment()
    for policy in () if environment is None else environment.policies.that("find_host_error"):
        found = policy.find_host_error(error)
        if found is not None:
            return found
    return next((each for each in with_causes(error) if isinstance(each, HookError)), None)

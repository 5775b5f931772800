"""Whether an error comes from a hook that failed. Floor 3."""

from ...errors import HookError
from ..error_causes import with_causes

__all__ = ["find_hook_error"]


def find_hook_error(error: BaseException) -> HookError | None:
    """The failure of a hook, or of a check, that an error came from, however it was wrapped; None for none.

    It concerns the host: code that was to decide is broken, and no model can fix that or go on without it.

    Args:
        error: What a step, or code that was called from a step, raised.
    """
    return next((each for each in with_causes(error) if isinstance(each, HookError)), None)

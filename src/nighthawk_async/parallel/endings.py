"""Reporting of ends to observers. Light, because every natural function loads it."""

from ..observation import NodeState
from .task_errors import TaskCancelledError

__all__ = ["state_after"]


def state_after(leaving: BaseException | None) -> NodeState:
    """Return the state after an end; work that was asked to end has not failed.

    Args:
        leaving: What leaves it; None when all went well.
    """
    if leaving is None:
        return "completed"
    is_failure = isinstance(leaving, Exception) and not isinstance(leaving, TaskCancelledError)
    return "failed" if is_failure else "cancelled"

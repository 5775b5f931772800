"""Errors of a task group, bare where there is one. Floor 1."""

from typing import TypeVar

__all__ = ["bare_error"]

Error = TypeVar("Error", bound=BaseException)


def bare_error(group: BaseExceptionGroup[Error]) -> BaseException:
    """The one error of a task group's exception group, or the group itself when several tasks failed.

    Only the outermost layer is taken off: an exception group that a task raised on purpose stays as it is.
    """
    return group.exceptions[0] if len(group.exceptions) == 1 else group

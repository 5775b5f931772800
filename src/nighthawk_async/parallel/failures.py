"""Raising what went wrong in several calls."""

from typing import cast

import anyio

__all__ = ["errors_in", "only_error", "raise_bare", "without_cancellations"]


def without_cancellations(error: BaseException) -> BaseException | None:
    """An error without the backend's cancellations: the rest of a group, or None when nothing is left."""
    cancelled = anyio.get_cancelled_exc_class()
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return group.split(cancelled)[1]
    return None if isinstance(error, cancelled) else error


def errors_in(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """The errors of a group, without the backend's cancellations."""
    rests = (without_cancellations(error) for error in group.exceptions)
    return [rest for rest in rests if rest is not None]


def only_error(error: BaseException) -> BaseException:
    """The one error in a group that holds one beside cancellations; otherwise what is given."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        errors = errors_in(group)
        return errors[0] if len(errors) == 1 else group
    return error


def raise_bare(errors: list[BaseException], title: str) -> None:
    """Raise the only error as it is, several in a group in the order in which they happened.

    What is no `Exception`, `SystemExit` for example, goes before everything else.

    Args:
        errors: The errors, which the list is emptied of; nothing is raised when there are none.
        title: What failed.
    """
    different = list({id(error): error for error in errors}.values())
    urgent = [error for error in different if not isinstance(error, Exception)]
    different = urgent[:1] or different
    try:
        if len(different) == 1:
            raise different[0]
        if different:
            raise BaseExceptionGroup(f"{len(different)} calls of {title} failed", different)
    finally:
        # The traceback of an error refers to these: they would keep the error alive.
        errors.clear()
        del different, urgent

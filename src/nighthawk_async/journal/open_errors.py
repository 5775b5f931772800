"""Errors of one life that the program may handle, or that may end the life.

An error that the program handled is raised again in later lives; one that ended a life is not. Nobody reports
that a program handles an error, but the program then goes on: it records something later in the same task, or
the task, the item, the function or the block that has the error in it ends regularly.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct

from .frames import is_awaited_before, is_within

_MARK = "__nighthawk_failed__"
"""The attribute of exceptions that has the places of their records."""

_DELIVERED = "delivered()[0]"
"""A frame that stands for all that a task has done so far."""


class _OpenError(Struct, kw_only=True, eq=False):
    """An error that has been recorded, and is on its way through the program.

    Args:
        failed: The place of its record.
        place: The place in which it is.
        task: The task in which it is.
    """

    failed: str
    place: str
    task: object


class OpenErrors:
    """The errors of one life that the program has neither handled nor ended with."""

    __slots__ = ("_errors",)

    def __init__(self) -> None:
        self._errors: list[_OpenError] = []

    def __bool__(self) -> bool:
        return bool(self._errors)

    def add(self, failed: str, task: object, place: str | None = None) -> None:
        """Add an error that is being recorded by a task.

        Args:
            failed: The place of its record.
            task: The task; None for one of another process.
            place: The place in which it is; None for that of its record.
        """
        self._errors.append(_OpenError(failed=failed, place=place or failed, task=task))

    def places(self) -> dict[str, str]:
        """Return the places in which the errors are, by those of their records."""
        return {error.failed: error.place for error in self._errors}

    def deliver(self, place: str, task: object, to: str | None) -> None:
        """Note that the errors in a place are raised in a task.

        Args:
            place: The place.
            task: The task.
            to: The place in which the task is; None where other tasks have the same one.
        """
        for error in self._errors:
            if is_within(error.place, place):
                error.task = task
                if to is not None:
                    error.place = f"{to}/{_DELIVERED}"

    def take_followed(self, place: str, task: object) -> list[str]:
        """Remove the errors that a new record comes after, in the same task or in one that waited for it.

        Args:
            place: The place of the record.
            task: The task that records it.
        """
        return self._take(lambda error: error.task is task or _comes_after(place, error.place))

    def take_in(self, place: str) -> list[str]:
        """Remove the errors in a place that has ended regularly."""
        return self._take(lambda error: is_within(error.place, place))

    def _take(self, is_handled: Callable[[_OpenError], bool]) -> list[str]:
        handled = [error for error in self._errors if is_handled(error)]
        if handled:
            self._errors = [error for error in self._errors if error not in handled]
        return [error.failed for error in handled]


def mark_error(error: BaseException, failed: str) -> None:
    """Note on an exception the place of its record."""
    marks: tuple[str, ...] = getattr(error, _MARK, ())
    setattr(error, _MARK, (*marks, failed))


def marks_of(error: BaseException) -> tuple[str, ...]:
    """The places of the records of an exception."""
    return getattr(error, _MARK, ())


def unmarked(attributes: Mapping[str, object]) -> dict[str, object]:
    """The attributes of an exception, without the note of its records."""
    return {name: value for name, value in attributes.items() if name != _MARK}


def _comes_after(place: str, earlier: str) -> bool:
    """Whether what is in a place begins only after the end of what is in an earlier one."""
    for frame, before in zip(place.split("/"), earlier.split("/"), strict=False):
        if frame != before:
            return is_awaited_before(before, frame)
    return False

"""Outcomes of calls, their reporting to observers, and the errors raised when several failed.

Kept light, because every natural function loads it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

import anyio

from ..causes import is_group, without
from ..observation import NodeState
from .errors import TaskCancelledError


def state_after(leaving: BaseException | None) -> NodeState:
    """Return the state after an end; work that was asked to end has not failed.

    Args:
        leaving: The error or cancellation that ends it; None without one.
    """
    if leaving is None:
        return "completed"
    is_failure = isinstance(leaving, Exception) and not isinstance(leaving, TaskCancelledError)
    return "failed" if is_failure else "cancelled"


def without_cancellations(error: BaseException) -> BaseException | None:
    """Return an error without the backend's cancellations: the rest of a group, or None if empty."""
    return without(error, anyio.get_cancelled_exc_class())


def errors_in(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """Return the errors of a group, without the backend's cancellations."""
    rests = (without_cancellations(error) for error in group.exceptions)
    return [rest for rest in rests if rest is not None]


def only_error(error: BaseException) -> BaseException:
    """Return the one error in a group that otherwise holds cancellations; any other error as it is."""
    errors = errors_in(error) if is_group(error) else ()
    return errors[0] if len(errors) == 1 else error


def raise_bare(errors: list[BaseException], title: str) -> None:
    """Raise the only error as it is, several in a group in the order in which they happened.

    An exception that is not an `Exception`, for example `SystemExit`, goes before everything else.

    Args:
        errors: The errors; the list is emptied. Nothing is raised when it is empty.
        title: The name of the failed operation.
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
        # The traceback of an error refers to this list, which would keep the error alive.
        errors.clear()
        del different, urgent


Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Succeeded(Generic[Result_co]):
    """A call that returned.

    Args:
        value: The returned value.
        item: The item that the function was called with. It plays no part in comparisons.
    """

    value: Result_co
    item: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Failed:
    """A call that raised, or that did not end in time.

    Args:
        error: The error that it raised, or a `DeadlineExceededError`.
        item: The item that the function was called with. It plays no part in comparisons.
    """

    error: Exception
    item: Any = field(default=None, compare=False, repr=False)


Outcome: TypeAlias = Succeeded[Result] | Failed
"""The outcome of a call. Use `match` or `isinstance` to distinguish the cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled(Generic[Result_co]):
    """Outcomes of all calls of a `settle`.

    Args:
        outcomes: One per item, in the order of the items.
    """

    outcomes: tuple[Succeeded[Result_co] | Failed, ...]

    @property
    def succeeded(self) -> int:
        """The number of calls that returned."""
        return sum(isinstance(outcome, Succeeded) for outcome in self.outcomes)

    @property
    def failed(self) -> int:
        """The number of calls that raised."""
        return len(self.outcomes) - self.succeeded

    def values(self) -> list[Result_co]:
        """The results of the calls that returned, in the order of the items."""
        return [outcome.value for outcome in self.outcomes if isinstance(outcome, Succeeded)]

    def errors(self) -> list[Exception]:
        """The errors of the calls that raised, in the order of the items."""
        return [outcome.error for outcome in self.outcomes if isinstance(outcome, Failed)]

    def __len__(self) -> int:
        return len(self.outcomes)

    def __iter__(self) -> Iterator[Succeeded[Result_co] | Failed]:
        return iter(self.outcomes)

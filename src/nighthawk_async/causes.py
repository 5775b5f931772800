"""The parts and the causes of errors, and errors that end a run."""

from collections.abc import Iterator
from typing import TypeGuard

from .pickling import PicklableError


class RunEndingError(PicklableError):
    """Base of errors that end a run: no combinator, supervisor or policy goes on after one of them."""


def is_group(error: object) -> TypeGuard[BaseExceptionGroup[BaseException]]:
    """Whether an error is a group of errors."""
    return isinstance(error, BaseExceptionGroup)


def without(error: BaseException, kind: type[BaseException]) -> BaseException | None:
    """The rest of an error without those of a class; None when nothing is left.

    Args:
        error: An error, or a group of errors.
        kind: The class of the errors that are left out.
    """
    if is_group(error):
        return error.split(kind)[1]
    return None if isinstance(error, kind) else error


def leaves_of(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors of a group, including those of nested groups; otherwise the error itself.

    Args:
        error: An error.
    """
    if is_group(error):
        for each in error.exceptions:
            yield from leaves_of(each)
    else:
        yield error


def with_causes(error: BaseException) -> Iterator[BaseException]:
    """Iterate over an error, the errors in a group, and their causes, each once.

    Args:
        error: The error.
    """
    to_see, seen = [error], set[int]()
    while to_see:
        each = to_see.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if each.__cause__ is not None:
            to_see.append(each.__cause__)
        if is_group(each):
            to_see.extend(each.exceptions)


def ends_run(error: BaseException) -> bool:
    """Whether an error, one of its causes, or an error in a group ends the run."""
    return any(isinstance(each, RunEndingError) for each in with_causes(error))

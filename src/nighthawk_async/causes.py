"""The parts and the causes of errors, and errors that end a run."""

from collections.abc import Iterator
from typing import cast

from .pickling import PicklableError


class RunEndingError(PicklableError):
    """Base of errors that end a run: no combinator, supervisor or policy goes on after one of them."""


def leaves_of(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors of a group, including those of nested groups; otherwise the error itself.

    Args:
        error: An error.
    """
    if isinstance(error, BaseExceptionGroup):
        for each in cast("BaseExceptionGroup[BaseException]", error).exceptions:
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
        if isinstance(each, BaseExceptionGroup):
            to_see.extend(cast("BaseExceptionGroup[BaseException]", each).exceptions)


def ends_run(error: BaseException) -> bool:
    """Whether an error, one of its causes, or an error in a group ends the run."""
    return any(isinstance(each, RunEndingError) for each in with_causes(error))

"""An error with what caused it."""

from collections.abc import Iterator
from typing import cast

__all__ = ["with_causes"]


def with_causes(error: BaseException) -> Iterator[BaseException]:
    """An error, the errors of a group, what caused each of them, and so on; each once.

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

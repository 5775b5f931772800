"""Checking the arguments of transformers before anything is called."""

import math
from typing import TypeAlias, cast

from ..parallel import is_async_callable
from ..policies.attempts.retry_policy import FINAL_ERRORS
from .errors import InvalidPolicyError
from .transforming import function_name

__all__ = ["Errors", "checked_callable", "checked_count", "checked_errors", "checked_seconds"]

Errors: TypeAlias = type[Exception] | tuple[type[Exception], ...]
"""One type of errors or several, as `except` takes them."""


def checked_count(name: str, value: object) -> int:
    """A whole number, at least 1.

    Args:
        name: The name of the argument.
        value: What was given.

    Raises:
        InvalidPolicyError: It is something else.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise InvalidPolicyError(f"{name} is a whole number, at least 1, not {value!r}")


def checked_seconds(name: str, value: object) -> float:
    """A number of seconds, at least 0 and not infinite.

    Args:
        name: The name of the argument.
        value: What was given.

    Raises:
        InvalidPolicyError: It is something else.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf:
        return float(value)
    raise InvalidPolicyError(f"{name} is a number of seconds, at least 0, not {value!r}")


def checked_errors(name: str, value: object) -> tuple[type[Exception], ...] | None:
    """Types of errors; None for the default.

    Args:
        name: The name of the argument.
        value: What was given: a type, or several.

    Raises:
        InvalidPolicyError: It is something else, or one of them is not an `Exception`, as a cancellation is
            not, or is never handled.
    """
    if value is None:
        return None
    types = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    for each in types:
        if not (isinstance(each, type) and issubclass(each, Exception)):
            raise InvalidPolicyError(f"{name} is a type of exceptions or a tuple of them, not {value!r}")
        if issubclass(each, FINAL_ERRORS):
            raise InvalidPolicyError(
                f"{name} names {each.__name__}, which is final: nothing tries again after it"
            )
    return cast("tuple[type[Exception], ...]", types)


def checked_callable(name: str, value: object, *, may_be_async: bool = False) -> None:
    """Refuse what cannot be called; None is allowed.

    Args:
        name: The name of the argument.
        value: What was given.
        may_be_async: Whether an async function will do.

    Raises:
        InvalidPolicyError: It is neither None nor such a function.
    """
    if value is None:
        return
    if not callable(value):
        raise InvalidPolicyError(f"{name} is a function, not {value!r}")
    if is_async_callable(value) and not may_be_async:
        raise InvalidPolicyError(f"{name} is not async, but {function_name(value)} is")

"""Texts for errors and functions: for the model, and for places where no content may be shown."""

import traceback
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, islice
from types import CoroutineType, FunctionType
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ..errors import NighthawkError, ToolBoundaryError

_MOST_CHARACTERS = 3_000
"""The number of characters after which further problems of a value are only counted."""

NOT_AWAITED = "was not awaited, so nothing of it ran"
"""The part of a message about a coroutine that stands where its result is meant."""


def describe_error(error: BaseException) -> str:
    """The type and message of an error; the message only, if it is meant for the model. Never raises.

    Args:
        error: An error of the program's or the model's code.
    """
    if isinstance(error, ToolBoundaryError):
        return error.message
    return f"{type(error).__name__}: {_message(error)}".removesuffix(": ")


def describe_validation_error(error: ValidationError) -> str:
    """The problems of a validation error on one line, without the values."""
    details = error.errors(include_url=False, include_context=False)
    return joined_problems([_describe_problem(each) for each in details])


def _describe_problem(detail: ErrorDetails) -> str:
    given: object = detail["input"]
    problem = detail["msg"]
    if type(given) is CoroutineType:
        problem = f"the call of {given.__name__} {NOT_AWAITED}; write await before it"
    return f"at {'.'.join(str(part) for part in detail['loc'])}: {problem}" if detail["loc"] else problem


def joined_problems(problems: Sequence[str]) -> str:
    """All problems of a value on one line, as far as there is room for them.

    Args:
        problems: The problems, each in a few words.
    """
    room = _MOST_CHARACTERS
    for count, problem in enumerate(problems):
        room -= len(problem)
        if room < 0 and count:
            return "; ".join([*problems[:count], f"and {len(problems) - count} more"])
    return "; ".join(problems)


def message_without_content(error: BaseException) -> str:
    """Return the message of an error without quoting models, providers or values. Raises what `str` raises.

    The messages of the user's own exceptions are returned as they are.

    Args:
        error: The error.
    """
    if isinstance(error, NighthawkError):
        return error.message_without_content
    if isinstance(error, ValidationError):
        kinds = ", ".join(detail["type"] for detail in error.errors(include_url=False, include_input=False))
        return f"{error.title}: {kinds}"
    return str(error)


def stacktrace_without_content(error: BaseException) -> str:
    """Return the stack of an error and of its causes, with their classes but without their messages.

    Args:
        error: The error.
    """
    return _stacktrace(error, message_without_content(error), set())


def _stacktrace(error: BaseException, message: str, seen: set[int]) -> str:
    seen.add(id(error))
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    frames = "".join(traceback.format_tb(error.__traceback__))
    own = f"Traceback (most recent call last):\n{frames}{name}{': ' * bool(message)}{message}\n"
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is None or id(before) in seen:
        return own
    return f"{_stacktrace(before, '', seen)}\nwhich led to the following exception:\n\n{own}"


def _message(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        return f"{error.title}: {describe_validation_error(error)}"
    if _is_by_model(error, _MOST_DEPTH):
        return _NO_MESSAGE
    try:
        return str(error)
    except Exception:  # `__str__` of a user's exception may raise anything
        return _NO_MESSAGE


_NO_MESSAGE = "its message cannot be shown"
_MOST_DEPTH = 3
_MOST_ITEMS = 100
_PLAIN = (str, bytes, int, float, bool, type(None), type)


def _is_by_model(value: object, depth: int) -> bool:
    """Whether the text of a value is made by code of a step, which would run here without its limits.

    Also of a value in it, as far as it is searched.
    """
    kind = type(value)
    contents: Any = value
    if kind in _PLAIN:
        return False
    if any(map(_is_code_of_step, kind.__mro__[:-1])):
        return True
    items: tuple[Any, ...] = value.args if isinstance(value, BaseException) else ()
    if kind in (list, tuple, set, frozenset):
        items = tuple(islice(contents, _MOST_ITEMS))
    elif kind is dict:
        items = tuple(islice(chain(contents, contents.values()), _MOST_ITEMS))
    return bool(items) and (depth == 0 or any(_is_by_model(each, depth - 1) for each in items))


def _is_code_of_step(kind: type) -> bool:
    declared = (vars(kind).get(name) for name in ("__str__", "__repr__", "__format__"))
    names = (each.__code__.co_filename for each in declared if isinstance(each, FunctionType))
    return any(name.startswith(("<statements", "<expression")) for name in names)


def callable_name(function: Callable[..., Any]) -> str:
    """Return the name of a function of the program for errors and traces."""
    function = function.func if isinstance(function, partial) else function
    name = getattr(function, "__qualname__", None)
    return name if isinstance(name, str) else type(function).__qualname__

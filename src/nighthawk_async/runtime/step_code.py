"""Code that a step's model wrote, known by its file name."""

import functools
import re
import types
from typing import Any, cast

__all__ = ["EXPRESSION", "functions_in", "is_step_function", "runs_step_code", "statements_filename"]

EXPRESSION = "<expression>"
_OF_STEP = re.compile(r"<(?:expression|statements(?: \d+)?)>")


def statements_filename(number: int | None = None) -> str:
    """The file name of statements, the number of those carried out before counted."""
    return "<statements>" if number is None else f"<statements {number}>"


def runs_step_code(kind: type) -> bool:
    """Whether instances of a class run code that the model wrote: a method, a property, a metaclass."""
    return _declares_step_code(kind) or _declares_step_code(type(kind))


def _declares_step_code(kind: type) -> bool:
    return any(
        any(map(_is_of_step, tuple(vars(each).values())))
        for each in kind.__mro__
        if each.__flags__ & _HEAP_TYPE
    )


_HEAP_TYPE = 1 << 9
"""The flag of classes that are made at run time, by `class` for example."""


def _is_of_step(declared: object) -> bool:
    return any(
        isinstance(each, types.FunctionType) and is_step_function(each) for each in functions_in(declared)
    )


def is_step_function(function: types.FunctionType) -> bool:
    """Whether the model wrote a function."""
    return _OF_STEP.fullmatch(function.__code__.co_filename) is not None


def functions_in(declared: object) -> tuple[object, ...]:
    """The functions in what a class declares; what is none of the usual stands for itself."""
    if isinstance(declared, classmethod | staticmethod):
        return (cast("staticmethod[Any, Any]", declared).__func__,)
    if isinstance(declared, property):
        return (declared.fget, declared.fset, declared.fdel)
    if isinstance(declared, functools.cached_property | functools.partial | functools.partialmethod):
        return (cast("Any", declared).func,)
    return (declared,)

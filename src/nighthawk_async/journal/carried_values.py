"""Values that a function carries beside the arguments of a call, and that decide what the call does.

These are the object of a bound method, the arguments of a partial, and, of a function that was made in
another one, the variables around it and its defaults, also of those that wrap another function. Objects among
them count as a life first sees them; what a function changes itself does not count.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, cast

from ..natural.tree import CLOSURE_NAMES
from ..values.canonical_writing import LEAVES, cells_of, is_of_library

OBJECT = "its object"
"""The name of the object of a bound method. The names of carried values have a space: no argument has one."""

_NOTHING: Mapping[str, object] = {}


def carried_by(
    function: Callable[..., Any], first_digest: Callable[[object], str] | None
) -> Mapping[str, object]:
    """Return what a function carries, by names with a space.

    Args:
        function: The function.
        first_digest: Returns the digest of an object as it was first seen; None where objects do not count.
    """
    if type(function) is FunctionType and "__wrapped__" not in vars(function) and not _is_made(function):
        return _NOTHING
    carried: dict[str, object] = {}
    each: Any = function
    seen: list[object] = []
    while each is not None and not any(each is known for known in seen):
        seen.append(each)
        if isinstance(each, MethodType):
            carried.setdefault(OBJECT, each.__self__)
            each = each.__func__
        elif isinstance(each, partial):
            called = cast("partial[Any]", each)
            carried.setdefault("its arguments", (called.args, called.keywords))
            each = called.func
        elif isinstance(each, FunctionType):
            inner = vars(each).get("__wrapped__")
            for name, value in _variables_of(each, inner).items():
                if type(value) in LEAVES or isinstance(value, Enum):
                    carried.setdefault(name, value)
                elif first_digest is not None:
                    carried.setdefault(name, first_digest(value))
            each = inner
        else:
            if not isinstance(each, BuiltinFunctionType | type):
                carried.setdefault(OBJECT, each)
            break
    return carried


def without_owner(inputs: Mapping[str, object]) -> dict[str, object]:
    """The arguments of a call without the object of a method, and without what the function carries."""
    first = next(iter(inputs), "")
    owner = first if first in ("self", "cls") else ""
    return {name: value for name, value in inputs.items() if name != owner and " " not in name}


def _is_made(function: FunctionType) -> bool:
    """Whether a function was made in another one, whatever name it was given."""
    return "<locals>" in function.__code__.co_qualname


def _variables_of(function: FunctionType, wrapped: object) -> Mapping[str, object]:
    """The variables around a function and its defaults, without the function that it wraps."""
    if not _is_made(function) or is_of_library(function):
        return _NOTHING
    if CLOSURE_NAMES[0] in function.__code__.co_freevars:
        return _NOTHING  # what has blocks is no effect of its own
    found = {f"variable {name}": value for name, value, is_changed in cells_of(function) if not is_changed}
    defaults = function.__defaults__ or ()
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    found |= {
        f"default {name}": value for name, value in {**given, **(function.__kwdefaults__ or {})}.items()
    }
    return {name: value for name, value in found.items() if value is not wrapped}

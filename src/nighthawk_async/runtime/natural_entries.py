"""Natural functions behind callables, found without running code of theirs."""

import functools
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import FunctionType, MemberDescriptorType, MethodType, MethodWrapperType
from typing import Any, NamedTuple, cast

from ..natural.tree import CLOSURE_NAMES
from ..types.unset import UNSET

_PACKAGE = __name__.partition(".")[0]


class NaturalCall(NamedTuple):
    """The natural function that a callable calls.

    Attributes:
        function: The callable without the arguments that it holds.
        entry: What makes the calls of the function.
        first: The positional arguments that it holds.
        keywords: The keyword arguments that it holds.
    """

    function: Callable[..., object]
    entry: object
    first: tuple[object, ...]
    keywords: Mapping[str, object]


def find_natural(function: object) -> "NaturalCall | None":
    """Find the natural function that a callable calls; None if it calls none.

    Args:
        function: Any object.
    """
    first: tuple[object, ...] = ()
    keywords: Mapping[str, object] = {}
    while True:
        kind = type(function)
        if kind is MethodType:
            method = cast("MethodType", function)
            first, function = (method.__self__, *first), method.__func__
        elif kind is functools.partial:
            held = cast("partial[object]", function)
            first, keywords = (*held.args, *first), {**held.keywords, **keywords}
            function = held.func
        elif kind is MethodWrapperType and cast("MethodWrapperType", function).__name__ == "__call__":
            function = cast("MethodWrapperType", function).__self__
        elif kind is not FunctionType and type(declared := getattr(kind, "__call__", None)) is FunctionType:  # noqa: B004
            first, function = (function, *first), declared
        else:
            break
    entry = find_entry(function)
    if entry is None:
        return None
    return NaturalCall(cast("Callable[..., object]", function), entry, first, keywords)


def is_natural(function: object) -> bool:
    """Whether a callable calls a natural function, which validates what it returns.

    Args:
        function: Any object.
    """
    return find_natural(function) is not None


def promised_type(function: object) -> object:
    """The type of what a natural function returns; UNSET if it is none, or returns anything.

    Args:
        function: Any object.
    """
    found = find_natural(function)
    return UNSET if found is None else getattr(found.entry, "return_type", UNSET)


def static_attribute(owner: object, name: str, default: object = None) -> object:
    """The attribute of an object, as far as it is found without running code.

    Args:
        owner: The object.
        name: The name of the attribute.
        default: The result where none is found.
    """
    found: Any = inspect.getattr_static(owner, name, default)
    if isinstance(found, staticmethod | classmethod):
        return cast("Any", found).__func__
    if isinstance(found, MemberDescriptorType):  # of a class with slots
        try:
            return found.__get__(owner, type(owner))
        except AttributeError:
            return default
    return found


def find_entry(function: object) -> object:
    """Find what makes the calls of a natural function; None for others.

    Args:
        function: Any object.
    """
    while type(function) is FunctionType:
        names = function.__code__.co_freevars
        if CLOSURE_NAMES[2] in names:
            return (function.__closure__ or ())[names.index(CLOSURE_NAMES[2])].cell_contents
        module = str(function.__globals__.get("__name__"))
        if module.partition(".")[0] != _PACKAGE or "__signature__" in function.__dict__:
            return None  # a decorator that may change the arguments
        function = cast("object", function.__dict__.get("__wrapped__"))
    return None

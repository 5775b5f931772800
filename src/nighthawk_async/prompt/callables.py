"""Callables as one line each: signature, first line of the docstring, metadata. Floor 1.

Specification 8.2.2, callable values.
"""

import inspect
import types
from collections.abc import Callable
from typing import Any, cast
from weakref import WeakKeyDictionary

from msgspec import Struct

from .introspection import (
    class_dictionary,
    find_class_attribute,
    has_base,
    instance_dictionary,
    is_one_of,
    type_name,
)
from .plain_text import single_line
from .signatures import find_function, find_signature, signature_text, without_first_parameter

__all__ = ["CallableDescription", "callable_line", "describe_callable"]

_DOCUMENTATION_CHARACTERS = 160
_DOCUMENTATION_READ = 4_000
_DOCUMENTED_IN_C = (types.BuiltinFunctionType, types.MethodDescriptorType, types.ClassMethodDescriptorType)
_NATURAL_SENTINEL = "natural\n"

_ASYNC_CALL_MARK = "__nighthawk_async_call__"
"""An attribute that says of a plain callable that its calls are awaited, as of what `blocking` makes."""


class CallableDescription(Struct, frozen=True, kw_only=True):
    """What the prompt says of a callable.

    Args:
        signature: The signature's text; None when it is unavailable.
        summary: The first line of the docstring; empty without a meaningful one.
        asynchrony: `async`, `async generator`, or empty.
    """

    signature: str | None
    summary: str = ""
    asynchrony: str = ""


def describe_callable(value: Callable[..., object], *, is_bound: bool = False) -> CallableDescription:
    """Describe a callable without calling any of its code.

    Descriptions of functions and classes are remembered for as long as these live.

    Args:
        value: The callable.
        is_bound: Whether the first parameter is supplied by the object through which it is called.
    """
    if not _is_hashed_by_identity(value):
        return _describe(value, is_bound)
    remembered = _bound_descriptions if is_bound else _descriptions
    description = remembered.get(value)
    if description is None:
        description = remembered[value] = _describe(value, is_bound)
    return description


def callable_line(path: str, description: CallableDescription, *, is_ambiguous: bool) -> str:
    """Render the line of a callable.

    Args:
        path: The name, or `object.method`.
        description: What to say.
        is_ambiguous: Whether another callable of the section has the same signature text.

    Source: specification 8.2.2, callable values.
    """
    if description.signature is None:
        return f"{path}: <callable; signature-unavailable>"
    comments = [
        description.summary,
        description.asynchrony,
        f"disambiguation: use {path}" if is_ambiguous else "",
    ]
    return "  # ".join([f"{path}: {description.signature}", " # ".join(filter(None, comments))]).removesuffix(
        "  # "
    )


_descriptions: WeakKeyDictionary[Any, CallableDescription] = WeakKeyDictionary()
_bound_descriptions: WeakKeyDictionary[Any, CallableDescription] = WeakKeyDictionary()


def _is_hashed_by_identity(value: object) -> bool:
    kind = type(value)
    if kind is types.FunctionType or kind is types.BuiltinFunctionType:
        return True
    # A metaclass may define equality of its own, which a dictionary would call.
    return (
        has_base(kind, type)
        and find_class_attribute(kind, "__hash__")[1] is object.__hash__
        and find_class_attribute(kind, "__eq__")[1] is object.__eq__
    )


def _describe(value: Callable[..., object], is_bound: bool) -> CallableDescription:
    signature = find_signature(value)
    if signature is None:
        return CallableDescription(signature=None)
    return CallableDescription(
        signature=signature_text(without_first_parameter(signature) if is_bound else signature),
        summary=_summary(value),
        asynchrony=_asynchrony(value),
    )


def _asynchrony(value: Callable[..., object]) -> str:
    function = find_function(value)
    if _is_marked_async(value) or (function is not None and _is_marked_async(function)):
        return "async"
    if function is None:
        return ""
    if inspect.iscoroutinefunction(function):
        return "async"
    return "async generator" if inspect.isasyncgenfunction(function) else ""


def _is_marked_async(value: object) -> bool:
    return instance_dictionary(value).get(_ASYNC_CALL_MARK) is True


def _summary(value: Callable[..., object]) -> str:
    documentation, automatic_start = _documentation(value)
    # A natural function's docstring is its program, and a data class's own is its signature once more.
    if documentation.startswith(_NATURAL_SENTINEL) or (
        automatic_start and documentation.startswith(automatic_start)
    ):
        return ""
    first = next((line.strip() for line in documentation.splitlines() if line.strip()), "")
    return single_line(first, _DOCUMENTATION_CHARACTERS)


def _documentation(value: Callable[..., object]) -> tuple[str, str]:
    """Return the docstring's beginning, and how it begins when nobody wrote it."""
    kind = type(value)
    if has_base(kind, type):
        cls = cast("type[Any]", value)
        return _as_documentation(class_dictionary(cls).get("__doc__")), f"{type_name(cls)}("
    function = find_function(value)
    if function is not None:
        own = _as_documentation(function.__doc__)
        return own or _class_documentation(kind), ""
    return _as_documentation(value.__doc__ if is_one_of(kind, _DOCUMENTED_IN_C) else None), ""


def _class_documentation(kind: type) -> str:
    _, call = find_class_attribute(kind, "__call__")
    is_callable_instance = type(call) is types.FunctionType
    return _as_documentation(class_dictionary(kind).get("__doc__")) if is_callable_instance else ""


def _as_documentation(text: object) -> str:
    return text[:_DOCUMENTATION_READ] if type(text) is str else ""

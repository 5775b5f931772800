"""Callables as one line each: signature, first line of the docstring, metadata.

Specification 8.2.2, callable values.
"""

import inspect
import types
from collections.abc import Callable
from typing import Any, cast
from weakref import WeakKeyDictionary, ref

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
from .type_names import TypeNames

__all__ = ["CallableDescription", "callable_line", "describe_callable", "summary_of"]

_DOCUMENTATION_CHARACTERS = 160
_DOCUMENTATION_READ = 4_000
_DOCUMENTED_IN_C = (types.BuiltinFunctionType, types.MethodDescriptorType, types.ClassMethodDescriptorType)
_NATURAL_SENTINEL = "natural\n"

_ASYNC_CALL_MARK = "__nighthawk_async_call__"
"""An attribute that says of a plain callable that its calls are awaited, as of what `blocking` makes."""


class CallableDescription(Struct, frozen=True, kw_only=True):
    """A callable as the prompt describes it.

    Args:
        signature: The signature's text; None when it is unavailable.
        summary: The first line of the docstring; empty without a meaningful one.
        asynchrony: `async`, `async generator`, or empty.
    """

    signature: str | None
    summary: str = ""
    asynchrony: str = ""


def describe_callable(
    value: Callable[..., object], *, names: TypeNames | None = None, is_bound: bool = False
) -> CallableDescription:
    """Describe a callable without calling any of its code.

    Descriptions of functions and classes are remembered for as long as these live.

    Args:
        value: The callable.
        names: The names by which the block writes types; None for their own names.
        is_bound: Whether the first parameter is supplied by the object through which it is called.
    """
    names = names or TypeNames()
    if not _is_hashed_by_identity(value):
        return _describe(value, is_bound, names)
    remembered = _bound_descriptions if is_bound else _descriptions
    descriptions = remembered.get(value)
    if descriptions is None or (spelling := descriptions.spelling(names)) is None:
        noted = names.apart()
        description = _describe(value, is_bound, noted)
        descriptions = remembered[value] = _Descriptions(noted)
        descriptions.by_spelling[cast("tuple[str, ...]", descriptions.spelling(names))] = description
        return description
    description = descriptions.by_spelling.get(spelling)
    if description is None:
        description = descriptions.by_spelling[spelling] = _describe(value, is_bound, names)
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


class _Descriptions:
    """The descriptions of one callable, by how the types in its signature are written.

    Args:
        names: Those with which the first was made, which mention the types of the signature alone.
    """

    __slots__ = ("_types", "by_spelling")

    def __init__(self, names: TypeNames) -> None:
        # The signature of a class may name the class itself, which nothing here may keep alive.
        self._types = tuple(map(_reference, names.mentioned.values()))
        self.by_spelling: dict[tuple[str, ...], CallableDescription] = {}

    def spelling(self, names: TypeNames) -> tuple[str, ...] | None:
        """Return the written types; None when one of them is gone."""
        types_ = [reference() for reference in self._types]
        return None if any(each is None for each in types_) else tuple(map(names.written, types_))


_descriptions: WeakKeyDictionary[Any, _Descriptions] = WeakKeyDictionary()
_bound_descriptions: WeakKeyDictionary[Any, _Descriptions] = WeakKeyDictionary()


def _reference(named: object) -> Callable[[], object]:
    try:
        return ref(named)
    except TypeError:  # a type alias
        return lambda: named


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


def _describe(value: Callable[..., object], is_bound: bool, names: TypeNames) -> CallableDescription:
    signature = find_signature(value)
    if signature is None:
        return CallableDescription(signature=None)
    return CallableDescription(
        signature=signature_text(
            without_first_parameter(signature) if is_bound else signature, names, _namespace(value)
        ),
        summary=summary_of(value),
        asynchrony=_asynchrony(value),
    )


def _namespace(value: Callable[..., object]) -> dict[str, object] | None:
    """The globals of the module where a callable is written; None when it is not written in Python."""
    if has_base(type(value), type):
        found, start = find_class_attribute(cast("type[Any]", value), "__init__")
        value = cast("Callable[..., object]", start) if found else value
    function = find_function(value)
    return None if function is None else function.__globals__


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


def summary_of(value: Callable[..., object]) -> str:
    """Return the first line of a callable's docstring; empty when it has none that somebody wrote.

    Args:
        value: The callable.
    """
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

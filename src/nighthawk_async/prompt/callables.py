"""Callables as one line each: signature, first line of the docstring, metadata.

Specification 8.2.2, callable values.

Signatures are found without calling user code. `inspect.signature` looks attributes up on its argument, which
may run properties and `__getattr__`. Here it only gets functions, classes with an ordinary metaclass, and
callables written in C; wrappers and callable instances are followed by hand.
"""

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, cast
from weakref import WeakKeyDictionary, ref

from msgspec import Struct
from pydantic import BaseModel

from ..secret_names import HIDDEN, hides_value
from ..signatures import read_signature
from .comments import comments_on_parameters
from .plain_text import (
    class_dictionary,
    class_value,
    find_class_attribute,
    has_base,
    instance_dictionary,
    is_class,
    is_one_of,
    single_line,
    type_module,
    type_name,
)
from .types import TypeNames, default_text, written_type

_MAX_WRAPPERS = 16
_SIGNATURE_CHARACTERS = 2_000

_CALLABLES_IN_C: tuple[type, ...] = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
)


_FUNCTION_LIKE: tuple[type, ...] = (
    *(types.FunctionType, types.MethodType, functools.partial, functools.partialmethod),
    *(type(functools.lru_cache(lambda: None)), *_CALLABLES_IN_C),
)
_OWN_PACKAGE = __name__.partition(".")[0]


def is_callable_object(value: object) -> bool:
    """Whether a callable is an object of a class that can be called, rather than a function or around one."""
    kind = type(value)
    if is_class(value) or is_one_of(kind, _FUNCTION_LIKE) or "__wrapped__" in instance_dictionary(value):
        return False
    return type_module(kind).partition(".")[0] not in ("functools", _OWN_PACKAGE)


def signature_text(
    signature: inspect.Signature,
    names: TypeNames | None = None,
    namespace: Mapping[str, object] | None = None,
) -> str:
    """Render a signature as `str(signature)` does, except defaults and annotations whose code would run.

    Args:
        signature: The signature.
        names: The names by which the block writes types; None for their own names.
        namespace: The values of names in annotations that are texts.
    """
    names = names or TypeNames()

    def annotation_text(annotation: object) -> str:
        return written_type(annotation, names, namespace)

    shown: list[str] = []
    previous: inspect.Parameter | None = None
    has_star = False
    for parameter in signature.parameters.values():
        if (
            previous is not None
            and previous.kind is previous.POSITIONAL_ONLY
            and parameter.kind is not previous.kind
        ):
            shown.append("/")
        if parameter.kind is parameter.KEYWORD_ONLY and not has_star:
            shown.append("*")
        has_star = has_star or parameter.kind in (parameter.VAR_POSITIONAL, parameter.KEYWORD_ONLY)
        shown.append(_parameter_text(parameter, annotation_text))
        previous = parameter
    if previous is not None and previous.kind is previous.POSITIONAL_ONLY:
        shown.append("/")
    text = f"({', '.join(shown)})"
    if signature.return_annotation is not signature.empty:
        text += f" -> {annotation_text(signature.return_annotation)}"
    return text if len(text) <= _SIGNATURE_CHARACTERS else text[: _SIGNATURE_CHARACTERS - 1] + "…"


def without_first_parameter(signature: inspect.Signature) -> inspect.Signature:
    """Return the signature that a bound method has; a leading `*args` stays."""
    parameters = list(signature.parameters.values())
    if parameters and parameters[0].kind in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        del parameters[0]
    return signature.replace(parameters=parameters)


def find_signature(value: Callable[..., object], depth: int = 0) -> inspect.Signature | None:
    """Find the signature of a callable; None when it cannot be known without running user code.

    Args:
        value: The callable.
        depth: The number of wrappers that have been removed already.
    """
    kind = type(value)
    if depth > _MAX_WRAPPERS:
        return None
    if kind is types.FunctionType:
        return _of_function(value, depth)
    if kind is types.MethodType:
        bound = find_signature(cast(types.MethodType, value).__func__, depth + 1)
        return None if bound is None else without_first_parameter(bound)
    if is_one_of(kind, _CALLABLES_IN_C):
        return _inspected(value)
    if is_class(value):
        return _of_class(value)
    if kind is functools.partial:
        return _of_partial(cast("functools.partial[object]", value), depth)
    return _of_instance(value, kind, depth)


def find_function(value: Callable[..., object], depth: int = 0) -> types.FunctionType | None:
    """Find the Python function that a call of a callable enters first, if there is one."""
    kind = type(value)
    if type(value) is types.FunctionType:
        return value
    if depth > _MAX_WRAPPERS or has_base(kind, type):
        return None
    if kind is types.MethodType:
        return find_function(cast(types.MethodType, value).__func__, depth + 1)
    if kind is functools.partial:
        return find_function(cast("functools.partial[object]", value).func, depth + 1)
    wrapped = instance_dictionary(value).get("__wrapped__")
    if callable(wrapped):
        return find_function(wrapped, depth + 1)
    _, call = find_class_attribute(kind, "__call__")
    return call if type(call) is types.FunctionType else None


def _of_function(function: types.FunctionType, depth: int) -> inspect.Signature | None:
    attributes = instance_dictionary(function)
    declared = attributes.get("__signature__")
    if declared is not None:
        return declared if type(declared) is inspect.Signature else None
    wrapped = attributes.get("__wrapped__")
    if callable(wrapped):
        return find_signature(wrapped, depth + 1)
    return _inspected(function)


def _of_partial(partial: functools.partial[object], depth: int) -> inspect.Signature | None:
    signature = find_signature(partial.func, depth + 1)
    if signature is None:
        return None

    def stand_in() -> None: ...

    # The substitute has the signature already found, so the function itself is not inspected again.
    vars(stand_in)["__signature__"] = signature
    return _inspected(functools.partial(stand_in, *partial.args, **partial.keywords))


def _of_class(cls: type) -> inspect.Signature | None:
    metaclass = type(cls)
    if class_value(metaclass, "__getattribute__") is not type.__dict__["__getattribute__"]:
        return None
    declared_here, declared = find_class_attribute(cls, "__signature__")
    if declared_here and type(declared) is not inspect.Signature and not has_base(cls, BaseModel):
        return None
    return _inspected(cls, follow_wrapped=True)


def _of_instance(value: object, kind: type, depth: int) -> inspect.Signature | None:
    attributes = instance_dictionary(value)
    declared_in_class, of_class = find_class_attribute(kind, "__signature__")
    declared = of_class if declared_in_class else attributes.get("__signature__")
    if declared is not None:
        return declared if type(declared) is inspect.Signature else None
    wrapped = attributes.get("__wrapped__")
    if callable(wrapped):
        return find_signature(wrapped, depth + 1)
    _, call = find_class_attribute(kind, "__call__")
    if type(call) is not types.FunctionType:
        return None
    signature = find_signature(call, depth + 1)
    return None if signature is None else without_first_parameter(signature)


def _inspected(value: Callable[..., object], *, follow_wrapped: bool = False) -> inspect.Signature | None:
    try:
        return read_signature(value, follow_wrapped=follow_wrapped)
    except Exception:
        # A metaclass or a lazily evaluated annotation may raise anything, but the callable can still be
        # called; specification 8.2.2 has a rendering for this.
        return None


def _parameter_text(parameter: inspect.Parameter, annotation_text: Callable[[object], str]) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = stars + parameter.name
    is_annotated = parameter.annotation is not parameter.empty
    if is_annotated:
        text += f": {annotation_text(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        is_hidden = hides_value(parameter.name, parameter.default)
        default = HIDDEN if is_hidden else default_text(parameter.default)
        text += f" = {default}" if is_annotated else f"={default}"
    return text


_DOCUMENTATION_CHARACTERS = 160
_DOCUMENTATION_READ = 4_000
_NOTES_CHARACTERS = 500
_DOCUMENTED_IN_C = (types.BuiltinFunctionType, types.MethodDescriptorType, types.ClassMethodDescriptorType)
_NATURAL_SENTINEL = "natural\n"

_ASYNC_CALL_MARK = "__nighthawk_async_call__"
"""An attribute that marks a plain callable whose calls are awaited, such as one made by `blocking`."""


class CallableDescription(Struct, frozen=True, kw_only=True):
    """A callable as the prompt describes it.

    Args:
        signature: The signature's text; None when it is unavailable.
        summary: The first line of the docstring; empty without a meaningful one.
        notes: The constraints and descriptions of its parameters and its result; empty for none.
        asynchrony: `async`, `async generator`, or empty.
    """

    signature: str | None
    summary: str = ""
    notes: str = ""
    asynchrony: str = ""


def describe_callable(
    value: Callable[..., object], *, names: TypeNames | None = None, is_bound: bool = False
) -> CallableDescription:
    """Describe a callable without calling any of its code.

    Descriptions of functions and classes are cached for as long as these live.

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


def callable_line(
    path: str, description: CallableDescription, *, is_ambiguous: bool = False, as_specified: bool = False
) -> str:
    """Render the line of a callable.

    Args:
        path: The name, or `object.method`.
        description: The text.
        is_ambiguous: Whether to note that another callable of the section has the same signature text.
        as_specified: Whether a callable without signature is named so, and not by its documentation.

    Source: specification 8.2.2, callable values.
    """
    if description.signature is None and as_specified:
        return f"{path}: <callable; signature-unavailable>"
    comments = [
        description.summary,
        description.notes,
        description.asynchrony,
        f"disambiguation: use {path}" if is_ambiguous else "",
    ]
    signature = description.signature or "(...)"
    return "  # ".join([f"{path}: {signature}", " # ".join(filter(None, comments))]).removesuffix("  # ")


class _Descriptions:
    """The descriptions of one callable, by the written forms of the types in its signature.

    Args:
        names: The names used for the first description; they note only the types of the signature.
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
        and class_value(kind, "__hash__") is object.__hash__
        and class_value(kind, "__eq__") is object.__eq__
    )


def _describe(value: Callable[..., object], is_bound: bool, names: TypeNames) -> CallableDescription:
    signature = find_signature(value)
    if signature is None:
        # Of a callable in Python whose signature is hidden, the documentation may be too.
        summary = summary_of(value) if is_one_of(type(value), _DOCUMENTED_IN_C) else ""
        return CallableDescription(signature=None, summary=summary)
    signature, namespace = without_first_parameter(signature) if is_bound else signature, _namespace(value)
    return CallableDescription(
        signature=signature_text(signature, names, namespace),
        summary=summary_of(value),
        notes="" if is_class(value) else _notes(signature, names, namespace),
        asynchrony=_asynchrony(value),
    )


def _notes(signature: inspect.Signature, names: TypeNames, namespace: dict[str, object] | None) -> str:
    """The constraints of parameters; those of a class stand in its stub."""
    return single_line(comments_on_parameters(signature, names, namespace or {}), _NOTES_CHARACTERS)


def _namespace(value: Callable[..., object]) -> dict[str, object] | None:
    """The globals of the module where a callable is written; None when it is not written in Python."""
    if is_class(value):
        found, start = find_class_attribute(value, "__init__")
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
    """Return the first line of a callable's docstring; empty when it has none, or only a generated one.

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
    """Return the docstring's beginning, and the beginning of a generated one."""
    kind = type(value)
    if is_class(value):
        return _as_documentation(class_dictionary(value).get("__doc__")), f"{type_name(value)}("
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

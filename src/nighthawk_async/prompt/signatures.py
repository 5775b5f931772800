"""Signatures of callables, found without calling user code.

`inspect.signature` looks attributes up on whatever it is given, which may run properties and `__getattr__`.
Here it only ever gets functions, classes with an ordinary metaclass, and callables written in C; wrappers and
callable instances are followed by hand.
"""

import functools
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic import BaseModel

from ..secret_names import HIDDEN, hides_value
from .annotations import default_text, written_type
from .introspection import find_class_attribute, has_base, instance_dictionary, is_one_of
from .type_names import TypeNames

__all__ = ["find_function", "find_signature", "signature_text", "without_first_parameter"]

_MAX_WRAPPERS = 16
_SIGNATURE_CHARACTERS = 2_000

_CALLABLES_IN_C: tuple[type, ...] = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
)


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
        depth: How many wrappers have been taken off already.
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
    if has_base(kind, type):
        return _of_class(cast("type[Any]", value))
    if kind is functools.partial:
        return _of_partial(cast("functools.partial[object]", value), depth)
    return _of_instance(value, kind, depth)


def find_function(value: Callable[..., object], depth: int = 0) -> types.FunctionType | None:
    """Find the Python function that a call of a callable enters first, if there is one."""
    kind = type(value)
    if kind is types.FunctionType:
        return cast(types.FunctionType, value)
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

    # The stand-in has the signature already found, so nothing of the function itself is looked up again.
    vars(stand_in)["__signature__"] = signature
    return _inspected(functools.partial(stand_in, *partial.args, **partial.keywords))


def _of_class(cls: type) -> inspect.Signature | None:
    metaclass = type(cls)
    if find_class_attribute(metaclass, "__getattribute__")[1] is not type.__dict__["__getattribute__"]:
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
        if sys.version_info >= (3, 14):
            from annotationlib import Format

            # Names that exist for type checkers only must not cost the whole signature.
            return inspect.signature(
                value, follow_wrapped=follow_wrapped, annotation_format=Format.FORWARDREF
            )
        return inspect.signature(value, follow_wrapped=follow_wrapped)
    except Exception:
        # Whatever a metaclass or a lazily evaluated annotation raises, the callable is still there to be
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

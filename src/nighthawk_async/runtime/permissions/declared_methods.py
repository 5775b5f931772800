"""What objects and classes declare to be called by: `__call__`, `__init__` and `__new__`. Floor 3.

They are looked up as Python does when it calls: on the type, without asking descriptors or the object.
"""

import functools
import types
from collections.abc import Callable
from typing import Any, cast

from .callables import function_title, layers_of

__all__ = ["borrowed_by", "declared_by", "declared_call", "is_callable_object", "title_of"]

_MAX_LAYERS = 32
_NAMES = ("__call__", "__init__", "__new__")

_ROUTINE_TYPES = (
    *(types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.MethodWrapperType),
    *(types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType),
    type(functools.cache(len)),
)


def is_callable_object(function: object) -> bool:
    """Whether something is called by the `__call__` of its type: it is no class and no kind of function."""
    return not isinstance(function, (type, *_ROUTINE_TYPES))


def declared_call(function: object) -> Callable[..., object] | None:
    """What is called when an object is, bound as Python binds it; None when its parameters are not known."""
    declared = _declared(type(function), "__call__")
    if isinstance(declared, types.FunctionType):
        return types.MethodType(declared, function)
    inner = _unbound(declared)
    if not isinstance(inner, types.FunctionType):
        return None
    return types.MethodType(inner, type(function)) if isinstance(declared, classmethod) else inner


def declared_by(function: object) -> tuple[object, ...]:
    """The functions that are carried out when an object, or a class, is called, and what they wrap."""
    found, left = list[object](), [function]
    while left and len(found) < _MAX_LAYERS:
        for layer in layers_of(left.pop()):
            for inner in _carried_out_by(layer):
                if not any(inner is each for each in found):
                    found.extend(layers_of(inner))
                    left.append(inner)
    return tuple(found)


def borrowed_by(function: object) -> tuple[object, ...]:
    """Those of `declared_by` that have names of their own: `class Text(str): __call__ = send_mail`."""
    return tuple(each for each in declared_by(function) if getattr(each, "__name__", None) not in _NAMES)


def title_of(function: object) -> str:
    """What a callable is called in messages and requests, and which functions of others it stands for."""
    borrowed = dict.fromkeys(map(function_title, borrowed_by(function)))
    title = function_title(function)
    return f"{title} ({', '.join(borrowed)})" if borrowed else title


def _carried_out_by(function: object) -> list[object]:
    if isinstance(function, _ROUTINE_TYPES):
        return []
    declared = [_declared(type(function), "__call__")]
    if isinstance(function, type):
        declared += (_declared(function, name) for name in ("__init__", "__new__"))
    found = map(_unbound, declared)
    return [each for each in found if callable(each) and not _is_of_python(each)]


def _is_of_python(function: object) -> bool:
    """Whether it only makes values: `object.__init__`, `type.__call__`."""
    return isinstance(function, types.WrapperDescriptorType) or (
        isinstance(function, types.BuiltinFunctionType) and function.__name__ == "__new__"
    )


def _declared(kind: type, name: str) -> object:
    """What the first class that has a name declares by it."""
    return next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), None)


def _unbound(declared: object) -> object:
    """The function in a static method or a method of the class."""
    is_method = isinstance(declared, classmethod | staticmethod)
    return cast("object", cast("classmethod[Any, Any, Any]", declared).__func__) if is_method else declared

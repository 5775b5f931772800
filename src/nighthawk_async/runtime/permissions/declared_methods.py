"""What objects and classes declare to be called by: `__call__`, `__init__` and `__new__`. Floor 3.

They are looked up as Python does when it calls: on the type, without asking descriptors or the object.
"""

import functools
import types
from collections.abc import Callable
from typing import Any, cast

__all__ = ["declared_call", "is_callable_object"]

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


def _declared(kind: type, name: str) -> object:
    """What the first class that has a name declares by it."""
    return next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), None)


def _unbound(declared: object) -> object:
    """The function in a static method or a method of the class."""
    is_method = isinstance(declared, classmethod | staticmethod)
    return cast("object", cast("classmethod[Any, Any, Any]", declared).__func__) if is_method else declared

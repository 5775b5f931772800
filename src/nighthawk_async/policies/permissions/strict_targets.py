"""Whether a call may run what a rule that asks or denies is about."""

import functools
import inspect
import types
from collections.abc import Mapping
from typing import Any, cast

from .call import PermissionCall, without_partials
from .callables import called_function, is_same_callable, layers_of, own_attributes
from .equivalents import constructors_of

__all__ = ["may_be", "strict_targets"]


def strict_targets(target: object) -> tuple[object, ...]:
    """Return the target of a rule, the functions it wraps, and the constructors of a class."""
    targets = [target, *constructors_of(called_function(target))]
    method = target if isinstance(target, types.MethodType) else None
    inner = target if method is None else method.__func__
    for _ in range(len(layers_of(target))):
        inner = None if isinstance(inner, type) else own_attributes(inner).get("__wrapped__")
        if not callable(inner):
            break
        targets.append(inner if method is None else types.MethodType(inner, method.__self__))
    return tuple(targets)


def may_be(targets: tuple[object, ...], call: PermissionCall) -> bool:
    """Whether a call may run one of these.

    Args:
        targets: What a rule is about.
        call: The call.
    """
    layers = (*call.layers, *call.declared)
    return any(
        any(is_same_callable(target, layer) for layer in layers)
        or (isinstance(target, functools.partial) and _may_be_partial(cast("Any", target), layers, call))
        or (not call.has_arguments and _may_be_bound(cast("object", target), call))
        for target in targets
    )


def _may_be_bound(target: object, call: PermissionCall) -> bool:
    """Whether it is called with an object that is not known, so that it may be a method of this one."""
    if call.method is not None:
        return call.method == getattr(target, "__name__", None)
    if isinstance(target, types.MethodType):
        is_bound = any(isinstance(layer, types.MethodType) for layer in call.layers)
        return not is_bound and any(layer is target.__func__ for layer in call.layers)
    if isinstance(target, types.BuiltinFunctionType | types.MethodWrapperType):
        unbound = getattr(type(cast("object", target.__self__)), target.__name__, None)
        return any(layer is unbound for layer in call.layers)
    return False


def _may_be_partial(
    target: "functools.partial[Any]", layers: tuple[object, ...], call: PermissionCall
) -> bool:
    """Whether the function of a partial is called with the arguments that the partial fixes."""
    function, args, kwargs = without_partials(target, (), {})
    if not any(is_same_callable(function, layer) for layer in layers):
        return False
    if not call.has_arguments or not call.has_named_arguments:
        return True
    try:
        fixed: Mapping[str, object] = inspect.signature(function).bind_partial(*args, **kwargs).arguments
    except (TypeError, ValueError):  # some functions written in C have no signature
        return True
    return all(name not in call.arguments or _is_same(call.arguments[name], fixed[name]) for name in fixed)


def _is_same(one: object, other: object) -> bool:
    try:
        return one is other or bool(one == other)
    except Exception:  # a comparison of the program may raise anything; in doubt it is the same
        return True

"""Calls that are equivalent to calls of another function.

    Mailer.send(mailer, "ada")          mailer.send("ada")
    Order.from_text("tea")              Order(…)
    Express(…), derived from Order      Order(…)
    dataclasses.replace(order, …)       Order(…)
    methodcaller("send", "ada")(mailer) mailer.send("ada")

In doubt the strict side wins: equivalents count for rules that ask or deny.
"""

import copy
import dataclasses
import datetime
import operator
import types
from collections.abc import Callable, Mapping
from typing import Any, cast

from .callables import called_function, is_own_method, layers_of, without_context
from .declared_methods import declared_by

Call = tuple[Callable[..., object], tuple[object, ...], Mapping[str, object]]

REPLACING: tuple[object, ...] = (dataclasses.replace, getattr(copy, "replace", dataclasses.replace))
"""Functions that make a new object of the class of their first argument."""
_REMAKING = frozenset({"__init__", "__replace__", "_replace", "model_copy"})
"""Methods that make a new object of the same class, or initialize the object again."""

REMAKING_DATES = frozenset({"astimezone", "fromutc", "replace"})
"""Methods of dates and times that do so too."""

_UNBOUND = (types.MethodDescriptorType, types.WrapperDescriptorType)


def without_operators(
    function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> Call:
    """Return the call that `operator.call`, a `methodcaller` or `type(f).__call__(f, x)` makes."""
    while args:
        if callable(args[0]) and (function is operator.call or _is_slot_of_call(function, args[0])):
            function, args = args[0], args[1:]
        elif isinstance(function, operator.methodcaller) and len(args) == 1 and not kwargs:
            name, fixed, kwargs = _parts(function)
            function, args = getattr(args[0], name), fixed
        else:
            break
    return function, args, kwargs


def _is_slot_of_call(function: object, receiver: object) -> bool:
    """Whether it is the `__call__` that the type of the receiver declares."""
    declared = (vars(kind).get("__call__") for kind in type(receiver).__mro__ if "__call__" in vars(kind))
    return isinstance(function, types.WrapperDescriptorType) and next(declared, None) is function


def called_method(function: object) -> str | None:
    """Return the name of the method that an `operator.methodcaller` calls; None for anything else."""
    called = called_function(function)
    return _parts(called)[0] if isinstance(called, operator.methodcaller) else None


def _parts(caller: "operator.methodcaller") -> tuple[str, tuple[object, ...], Mapping[str, object]]:
    make, args = cast("tuple[Any, tuple[Any, ...]]", operator.methodcaller.__reduce__(caller))
    if make is operator.methodcaller:
        return args[0], args[1:], {}
    return make.args[0], args, make.keywords  # a partial, when there are keyword arguments


def equivalents(
    function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> tuple[object, ...]:
    """Return the equivalents of a call: classes that make objects, and methods of objects.

    Args:
        function: The called function, without `functools.partial`.
        args: The known positional arguments.
        kwargs: The known keyword arguments.
    """
    found = list[object]()
    layers = layers_of(function)
    for layer in layers:
        if isinstance(layer, type):
            found += layer.__mro__[1:-1]
        elif (made := _made_by(layer)) is not None:
            found += (*made.__mro__[:-1], *declared_by(made))
        if (descriptor := unbound_builtin(layer)) is not None:
            found.append(descriptor)
    inner = layers[-1]
    if isinstance(function, types.MethodType) and is_own_method(function):
        return tuple(found)
    for first in _first(inner, args, kwargs):
        if any(inner is each for each in REPLACING):
            found += type(first).__mro__[:-1]
        elif (method := _bound(inner, first)) is not None:
            found.append(method)
            if (made := _made_by(method)) is not None:
                found += (*made.__mro__[:-1], *declared_by(made))
    return tuple(found)


def unbound_builtin(method: object) -> object | None:
    """Return the function of a bound method written in C: `str.upper` for `"a".upper`; otherwise None."""
    if not isinstance(method, types.BuiltinFunctionType | types.MethodWrapperType):
        return None
    owner, name = cast("object", method.__self__), method.__name__
    if owner is None or isinstance(owner, types.ModuleType | type):
        return None
    return next((vars(each)[name] for each in type(owner).__mro__ if name in vars(each)), None)


def class_names(function: object) -> tuple[str, ...]:
    """Return the names of the classes whose `__init__` or `__new__` a call runs."""
    names = (
        without_context(each.__qualname__).rpartition(".")
        for each in layers_of(function)
        if isinstance(each, types.FunctionType)
    )
    return tuple(owner for owner, dot, name in names if dot and name in ("__init__", "__new__"))


def constructors_of(kind: object) -> tuple[object, ...]:
    """Return the constructors that a class itself declares; none for other objects."""
    if not isinstance(kind, type):
        return ()
    declared = (vars(kind).get(name) for name in ("__init__", "__new__"))
    return tuple(called_function(each) for each in declared if each is not None)


def _made_by(method: object) -> type | None:
    """Return the class of which a method may make an object: class methods and those of `_REMAKING`."""
    if not isinstance(method, types.MethodType | types.BuiltinFunctionType | types.MethodWrapperType):
        return None
    owner = cast("object", method.__self__)
    if isinstance(owner, type):
        return owner
    names = _REMAKING | REMAKING_DATES if isinstance(owner, datetime.date) else _REMAKING
    is_remaking = not isinstance(owner, types.ModuleType) and method.__name__ in names
    return type(owner) if is_remaking else None


def _first(function: object, args: tuple[object, ...], kwargs: Mapping[str, object]) -> tuple[object, ...]:
    """Return the value of the first parameter if it is known, as a tuple of at most one."""
    if args:
        return args[:1]
    if isinstance(function, types.FunctionType) and function.__code__.co_argcount:
        name = function.__code__.co_varnames[0]
        return (kwargs[name],) if name in kwargs else ()
    return ()


def _bound(function: object, receiver: object) -> object | None:
    """Return a function of the receiver's class as its bound method; None for any other function."""
    if receiver is None:
        return None
    if isinstance(function, types.FunctionType):
        if "." not in function.__qualname__:
            return None
        method = types.MethodType(function, receiver)
        return method if is_own_method(method) else None
    if isinstance(function, _UNBOUND) and isinstance(receiver, function.__objclass__):
        return function.__get__(receiver)
    return None

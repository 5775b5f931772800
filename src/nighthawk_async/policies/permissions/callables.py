"""Functions behind callables, and their names.

Functions are found behind bound and static methods, `functools.partial`, `__call__`, wrappers made with
`functools.wraps`, and generic aliases: `Order[int]` is called as `Order`.
"""

import functools
import gc
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Generic, TypeGuard, TypeVar, cast

from ...signatures import read_signature
from ...types.json import is_list_of_texts

BOUND_TYPES = (types.MethodType, types.BuiltinFunctionType, types.MethodWrapperType)
"""The types of bound methods; each access makes a new object."""

_TYPING_ALIAS: object = cast("Any", Generic)[TypeVar("T")]
_ALIAS_TYPES: tuple[type, ...] = (types.GenericAlias, type(_TYPING_ALIAS))
"""The types of `list[int]`, and of `Order[int]` where `typing` makes it."""

_PLAIN = frozenset({types.FunctionType, types.BuiltinFunctionType, type})
"""Types of callables that wrap no other callable."""

_CACHE_TYPE: type[object] = type(functools.cache(len))
_PACKAGE = __name__.partition(".")[0]
_MAX_WRAPPERS = 32


def layers_of(function: object) -> tuple[object, ...]:
    """Return a callable and all that it wraps, outermost first; for `each.__call__` also `each`."""
    if type(function) is types.FunctionType and not function.__dict__:
        return (function,)
    layers = _chain(function, _wrapped)
    called = [
        inner for each in layers if _is_call_of_receiver(each) for inner in _chain(each.__self__, _wrapped)
    ]
    return (*layers, *called)


def proven_layers_of(function: object) -> tuple[object, ...]:
    """Return a callable and all that it certainly calls: not what its attribute `__wrapped__` merely claims.

    Code of a step can set that attribute, in `vars(function)` for example, to look like another function.
    """
    layers = layers_of(function)
    claimed: set[int] = set()
    for each in layers:
        inner = None if _called(each) is not None else _wrapped(each)
        if inner is not None and (id(each) in claimed or not _calls(each, inner)):
            claimed.add(id(inner))
    return tuple(each for each in layers if id(each) not in claimed)


def called_function(function: object) -> object:
    """Return the function behind a bound method, a partial or a `__call__`."""
    if type(function) in _PLAIN:
        return function
    return _chain(function, _called)[-1]


def faithfully_wrapped(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function that a cache, or a wrapper of this package, calls with the same arguments."""
    for _ in range(_MAX_WRAPPERS):
        if isinstance(function, types.MethodType):
            inner = faithfully_wrapped(function.__func__)
            return function if inner is function.__func__ else types.MethodType(inner, function.__self__)
        if not (type(function) is _CACHE_TYPE or _is_of_this_package(function)):
            break
        inner = own_attributes(function).get("__wrapped__")
        if not callable(inner) or not _calls(function, inner):
            break
        function = inner
    return function


def supplied_by(function: Callable[..., object]) -> frozenset[str]:
    """Return the parameters of a function that a wrapper of this package gives values to by itself.

    `nighthawk_async.once` is such a wrapper: callers do not see the parameter `idempotency_key`.
    """
    outer = cast("object", function.__func__ if isinstance(function, types.MethodType) else function)
    declared = own_attributes(outer).get("__signature__")
    inner = own_attributes(outer).get("__wrapped__")
    if not (isinstance(declared, inspect.Signature) and callable(inner) and _is_of_this_package(outer)):
        return frozenset()
    return frozenset(read_signature(inner).parameters.keys() - declared.parameters.keys())


def function_title(function: object) -> str:
    """Return the name of a callable for messages and requests: `send_mail`, `Mailer.send`."""
    for layer in layers_of(called_function(function)):
        if isinstance(qualified := _attribute(layer, "__qualname__"), str):
            return without_context(qualified)
    return without_context(type(function).__qualname__)


def names_of(function: object) -> tuple[str, ...]:
    """Return the own names of a callable: `send`, `Mailer.send`, `shop.mail.Mailer.send`.

    A function that does the same as another one has the names of that as well; see `SAME_AS`.
    """
    layers = layers_of(function)
    same = (name for each in layers for name in _texts(_attribute(each, SAME_AS)))
    return (*_names_in(layers), *same)


SAME_AS = "__nighthawk_same_as__"
"""The attribute of functions with the names of others that do the same: who denies those denies these."""


def _texts(value: object) -> tuple[str, ...]:
    return tuple(value) if is_list_of_texts(value) else ()


def proven_names_of(function: object) -> tuple[str, ...]:
    """Return the own names of a callable that code of a step cannot give it; see `proven_layers_of`.

    An object is named by its class: its attributes are not proven.
    """
    layers = proven_layers_of(function)
    named = (each if isinstance(each, type) or inspect.isroutine(each) else type(each) for each in layers)
    return _names_in([each for each in named if each is not _CACHE_TYPE])


def _names_in(layers: Iterable[object]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for layer in layers:
        if _called(layer) is not None:
            continue
        named = layer if isinstance(_attribute(layer, "__qualname__"), str) else type(layer)
        qualified = cast("str", _attribute(named, "__qualname__"))
        module = _attribute(named, "__module__")
        names[cast("str", _attribute(named, "__name__"))] = None
        names[without_context(qualified)] = None
        if isinstance(module, str):
            names[f"{module}.{without_context(qualified)}"] = None
    return tuple(names)


def other_names_of(function: object, written: str, *scopes: Mapping[str, object]) -> tuple[str, ...]:
    """Return further names by which a callable, or one that it wraps, can be reached.

    Args:
        function: The callable.
        written: The callee as written.
        scopes: Variables and tools by their names.
    """
    names = {written: None} if written else {}
    layers = layers_of(function)
    identities = {id(layer) for layer in layers}
    for scope in scopes:
        for name, value in tuple(scope.items()):  # other threads may change globals meanwhile
            is_one = id(value) in identities or (
                type(value) in BOUND_TYPES and any(is_same_callable(value, layer) for layer in layers)
            )
            if is_one:
                names[name] = None
    owner = _attribute(function, "__self__")
    if owner is not None and isinstance(name := _attribute(function, "__name__"), str):
        bases = (owner if isinstance(owner, type) else type(owner)).__mro__
        names.update((f"{without_context(base.__qualname__)}.{name}", None) for base in bases)
    return tuple(names)


def is_own_method(method: types.MethodType) -> bool:
    """Whether a function is bound to an object of a class that it belongs to.

    Any function can be bound to any object, which is then an argument: `send_mail.__get__("ada")()`.
    """
    owner, function = method.__self__, cast("object", method.__func__)
    kinds: list[type] = list(type(owner).__mro__)
    if isinstance(owner, type):
        kinds += cast("type[object]", owner).__mro__
    qualified, name = _attribute(function, "__qualname__"), _attribute(function, "__name__")
    if isinstance(function, types.FunctionType) and "." not in function.__qualname__:
        return False
    return any(
        qualified == f"{kind.__qualname__}.{name}"
        or any(each is function or _own_function(each) is function for each in tuple(vars(kind).values()))
        for kind in kinds
    )


def is_same_callable(one: object, other: object) -> bool:
    """Whether two callables are the same; a bound method is a new object at each access."""
    if one is other:
        return True
    return type(one) in BOUND_TYPES and type(one) is type(other) and one == other


def module_of(name: object) -> types.ModuleType | None:
    """Return a loaded module by its name; None if it is not loaded."""
    return sys.modules.get(cast("str", name))


def _is_call_of_receiver(method: object) -> TypeGuard[types.MethodType]:
    if not isinstance(method, types.MethodType):
        return False
    return method.__func__ is type(method.__self__).__call__


def _own_function(declared: object) -> object:
    is_method = isinstance(declared, classmethod | staticmethod)
    return cast("object", cast("classmethod[Any, Any, Any]", declared).__func__) if is_method else None


def _calls(wrapper: object, inner: object) -> bool:
    """Whether a wrapper certainly calls a function: its closure holds that, or an effect with it."""
    if type(wrapper) is _CACHE_TYPE:
        return any(each is inner for each in gc.get_referents(wrapper))
    if not isinstance(wrapper, types.FunctionType):
        return False
    return any(each is inner or getattr(each, "function", None) is inner for each in _closure_of(wrapper))


def _closure_of(function: types.FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # it has no value yet
            yield cell.cell_contents


def _is_of_this_package(function: object) -> bool:
    if not isinstance(function, types.FunctionType):
        return False
    return str(function.__globals__.get("__name__")).partition(".")[0] == _PACKAGE


def _chain(function: object, inner_of: Callable[[object], object | None]) -> list[object]:
    """Return a function and those inside it, each once: a partial may contain itself."""
    chain, seen = [function], {id(function)}
    while (inner := inner_of(chain[-1])) is not None and id(inner) not in seen:
        chain.append(inner)
        seen.add(id(inner))
    return chain


def _wrapped(function: object) -> object | None:
    inner = _called(function)
    if inner is not None or isinstance(function, type):
        return inner
    return cast("object", own_attributes(function).get("__wrapped__"))


def _called(function: object) -> object | None:
    if isinstance(function, functools.partial):
        return cast("functools.partial[object]", function).func
    if isinstance(function, types.MethodType):
        return function.__func__
    if isinstance(function, types.MethodWrapperType) and function.__name__ == "__call__":
        return function.__self__
    if isinstance(function, staticmethod):
        return cast("staticmethod[Any, object]", function).__func__
    return _origin(function)


def _origin(function: object) -> object | None:
    """Return the class of a generic alias, `Order` for `Order[int]`; None for anything else."""
    if isinstance(function, _ALIAS_TYPES):
        return cast("object", object.__getattribute__(function, "__origin__"))
    return None


def own_attributes(value: object) -> Mapping[str, object]:
    """Return the instance attributes of a value, without calling its `__getattr__`."""
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return cast("Mapping[str, object]", attributes)


def _attribute(value: object, name: str) -> object:
    """Return an attribute, from the instance alone if the value is no function or class; None if missing."""
    if isinstance(value, type) or inspect.isroutine(value):
        return cast("object", getattr(value, name, None))
    return own_attributes(value).get(name)


def without_context(qualified: str) -> str:
    """Return a qualified name without enclosing functions."""
    return qualified.rpartition("<locals>.")[2]

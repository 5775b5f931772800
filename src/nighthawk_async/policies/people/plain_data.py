"""Values as the base types of Python read them, regardless of overridden methods.

A subclass of `str` may format itself as another text, one of `int` may compare itself as another number. So
data is read by the methods of the base type. An object of a class that overrides a method of its base is not
plain data.
"""

import gc
import sys
import types
from collections import ChainMap, UserDict, defaultdict, deque
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

from pydantic import BaseModel

from ...kernel.context import is_step_function, runs_step_code

MISSING = object()
"""Represents an attribute that an object does not have."""

_BASES: tuple[type, ...] = (
    *(bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, deque, Decimal),
    *(datetime, date, time, timedelta, PurePath, UUID, IPv4Address, IPv4Network, IPv6Address, IPv6Network),
)
_SCALARS = frozenset({type(None), bool, int, float, complex, str, bytes, Decimal, date, timedelta, UUID})
_CONTAINERS: tuple[type, ...] = (list, tuple, set, frozenset, deque)
_DECLARED_BY_MOST = """
__new__ __init__ __doc__ __module__ __slots__ __dict__ __weakref__ __init_subclass__
__subclasshook__ __class_getitem__ __reduce__ __reduce_ex__ __getstate__ __getnewargs__ __sizeof__
__dir__ __setattr__ __delattr__ __annotations__
"""
_HARMLESS = frozenset(_DECLARED_BY_MOST.split())
"""Names that a subclass may override without changing its data."""

_READ_BY = frozenset(
    {"__bool__", "__bytes__", "__complex__", "__float__", "__fspath__", "__getitem__", "__index__"}
    | {"__int__", "__iter__", "__len__", "__missing__", "__round__", "__trunc__"}
)
"""Methods that change the data of a value even where its base has none: `int(text)` calls `__int__`."""

_HEAP_TYPE = 1 << 9
"""The flag of classes that are made at run time, by `class` for example."""

_READING = ("__iter__", "__getitem__", "__len__", "__contains__", "items", "keys")


def base_of(kind: type) -> type | None:
    """Return the data type of Python that a class is, or is derived from; None for others."""
    return next((each for each in kind.__mro__ if each in _BASES), None)


def redeclared(kind: type, base: type) -> str | None:
    """Return a method of its base that a class overrides, so that it may show other data; None for none."""
    for each in kind.__mro__:
        if each is base:
            return None
        if not each.__flags__ & _HEAP_TYPE or _is_of_standard_library(each):
            continue
        for name, declared in tuple(vars(each).items()):
            is_of_base = name not in _HARMLESS and any(name in vars(inherited) for inherited in base.__mro__)
            if (is_of_base or name in _READ_BY) and not _is_same(name, declared, base):
                return name
    return None


def exact(value: object, base: type) -> object:
    """Return a scalar as its base type reads it; the value itself for all other types."""
    of: Any = base
    match base.__name__:
        case "str" | "int" | "float":
            return of.__getnewargs__(value)[0]
        case "bytes":
            return bytes(memoryview(cast("bytes", value)))
        case "bytearray":
            return bytes(memoryview(cast("bytearray", value)))
        case "Decimal":
            return Decimal(cast("Decimal", value))
        case "datetime" | "date" | "time" | "timedelta":
            names = _PARTS[base]
            return of(**{name: getattr(of, name).__get__(value) for name in names})
        case _:
            return value


_CLOCK = ("hour", "minute", "second", "microsecond", "tzinfo", "fold")
_PARTS: Mapping[type, tuple[str, ...]] = {
    date: ("year", "month", "day"),
    time: _CLOCK,
    datetime: ("year", "month", "day", *_CLOCK),
    timedelta: ("days", "seconds", "microseconds"),
}


def as_data(value: object) -> object:
    """Return a scalar of a subclass as data of its base, unless the model's code made the class."""
    base = base_of(type(value))
    return value if base is None or runs_step_code(type(value)) else exact(value, base)


def texts_of(value: object) -> list[str]:
    """Return the texts that an object shows of itself, each once."""
    return list(
        dict.fromkeys((str.__str__(str(value)), str.__str__(format(value)), str.__str__(repr(value))))
    )


def underlying(value: object) -> object:
    """Return the mapping behind a read-only view or a wrapper class of Python."""
    if type(value) is types.MappingProxyType:
        return gc.get_referents(value)[0]
    if type(value) is UserDict:
        return cast("UserDict[object, object]", value).data
    return value


def is_computed(value: object) -> bool:
    """Whether a mapping or set is read by Python code, so that its items may differ next time."""
    kind = type(value)
    if kind is ChainMap:
        return False
    functions = (getattr(kind, name, None) for name in _READING)
    return any(
        isinstance(each, types.FunctionType) and not _is_function_of_library(each) for each in functions
    )


def makes_items(value: object) -> bool:
    """Whether a mapping creates missing items, other than by a class or function of the program."""
    if not isinstance(value, defaultdict):
        return False
    factory: object = vars(defaultdict)["default_factory"].__get__(value)
    if isinstance(factory, type):
        return runs_step_code(factory)
    return factory is not None and (not isinstance(factory, types.FunctionType) or is_step_function(factory))


def stored(value: object, name: str) -> object:
    """Return the stored attribute of an object without calling its code; `MISSING` for none.

    Raises:
        AttributeError: The attribute is computed when it is read.
    """
    kind = type(value)
    if kind.__getattribute__ is not object.__getattribute__:
        raise AttributeError(name)
    declared = next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), MISSING)
    if isinstance(declared, types.MemberDescriptorType):
        try:
            return declared.__get__(value, kind)
        except AttributeError:
            return MISSING
    descriptor = cast("type[object]", type(declared))
    if hasattr(descriptor, "__set__") or hasattr(descriptor, "__delete__"):
        raise AttributeError(name)
    variables = variables_of(value)
    if name not in variables and hasattr(descriptor, "__get__"):
        raise AttributeError(name)
    return variables.get(name, declared)


def variables_of(value: object) -> Mapping[str, object]:
    """Return the real `__dict__` of an object, even when its class overrides it."""
    try:
        return cast("Mapping[str, object]", object.__getattribute__(value, "__dict__"))
    except AttributeError:
        return {}


def is_plain(value: object) -> bool:
    """Whether a value and everything in it always reads as the same data.

    It does not when reading runs code of the model, when a subclass of one of Python's types overrides
    methods of that type, or when reading consumes its items.
    """
    left, seen = [value], set[int]()
    while left:
        each = left.pop()
        kind = type(each)
        if kind in _SCALARS or id(each) in seen:
            continue
        seen.add(id(each))
        if runs_step_code(kind) or _is_iterator(kind):
            return False
        base = base_of(kind)
        if base is not None and not issubclass(kind, Enum) and redeclared(kind, base) is not None:
            return False
        if makes_items(each):
            return False
        left.extend(_parts_of(each, base))
    return True


def _parts_of(value: object, base: type | None) -> Iterable[object]:
    """Return the parts of a value that are data."""
    of: Any = base
    if base in _CONTAINERS:
        return cast("tuple[object, ...]", tuple(of.__iter__(value)))
    if base is dict:
        return (*of.keys(value), *of.values(value))
    if base in (datetime, time):
        return (cast("object", of.tzinfo.__get__(value)),)
    if underlying(value) is not value:
        return (underlying(value),)
    if base is not None or isinstance(value, type | types.FunctionType | types.ModuleType):
        return ()
    if isinstance(value, BaseModel) or hasattr(type(value), "__dataclass_fields__"):
        return tuple(variables_of(value).values())
    return ()


def _is_iterator(kind: type) -> bool:
    return hasattr(kind, "__next__") and getattr(kind, "__module__", None) in ("builtins", "itertools")


def _is_same(name: str, declared: object, base: type) -> bool:
    """Whether a class has the same declaration as its base under this name."""
    if isinstance(declared, types.FunctionType):
        return declared.__name__ == name and _is_function_of_library(declared)
    return any(vars(each).get(name) is declared for each in base.__mro__)


def _is_function_of_library(function: types.FunctionType) -> bool:
    name = function.__globals__.get("__name__")
    module = sys.modules.get(cast("str", name))
    return (
        module is not None
        and vars(module) is function.__globals__
        and str(name).partition(".")[0] in sys.stdlib_module_names - {"__main__"}
    )


def _is_of_standard_library(kind: type) -> bool:
    module = str(getattr(kind, "__module__", ""))  # `type` can make classes without one
    return module.partition(".")[0] in sys.stdlib_module_names - {"__main__"} and (
        getattr(sys.modules.get(module), kind.__qualname__, None) is kind
    )

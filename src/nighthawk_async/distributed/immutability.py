"""Values that cannot change, so that a copy on a worker is as good as the value."""

import dataclasses
import datetime
import functools
import re
import types
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

import msgspec
from pydantic import BaseModel

_PACKAGE = __name__.partition(".")[0]
_MOST_LEVELS = 32

_PLAIN = (
    *(bool, int, float, complex, str, bytes, range, type(None), type(...), type(NotImplemented)),
    *(Enum, Decimal, Fraction, UUID, PurePath, re.Pattern),
    *(datetime.date, datetime.time, datetime.timedelta, datetime.timezone),
    *(type, types.FunctionType, types.ModuleType, types.GenericAlias, types.UnionType),
)
"""Types of values that cannot change, or are found by their names."""

_HOW_TO_PICKLE = ("__reduce__", "__reduce_ex__", "__getstate__")


def is_immutable(value: object, levels: int = _MOST_LEVELS) -> bool:
    """Whether a value cannot change, nor what it consists of.

    Objects of this library count as such here; those that can change say so in another way.

    Args:
        value: The value.
        levels: The number of levels to look into.
    """
    if isinstance(value, _PLAIN) or type(value).__module__ == "typing":
        return True
    if levels == 0:
        return False
    if isinstance(value, types.BuiltinFunctionType):
        return value.__self__ is None or isinstance(value.__self__, types.ModuleType | type)
    parts = _parts_of(value)
    return parts is not None and all(is_immutable(each, levels - 1) for each in parts)


def is_declared_picklable(value: object) -> bool:
    """Whether a class of the program defines how its objects are pickled."""
    classes = _python_classes(type(value))
    return classes is not None and any(name in vars(each) for each in classes for name in _HOW_TO_PICKLE)


def _parts_of(value: object) -> "list[Any] | None":
    """The parts of a value that cannot be exchanged in place; None for a value that can change."""
    if isinstance(value, tuple | frozenset):
        return list(cast("tuple[object, ...]", value))
    if isinstance(value, functools.partial):
        held = cast("functools.partial[Any]", value)
        return [held.func, *held.args, *held.keywords.values()]
    if isinstance(value, types.MethodType):
        return [value.__self__]
    kind: Any = type(value)
    if kind.__module__.partition(".")[0] == _PACKAGE:
        return []
    if dataclasses.is_dataclass(kind):
        fields = dataclasses.fields(kind)
        is_frozen = cast("Any", kind).__dataclass_params__.frozen
        return [getattr(value, each.name, None) for each in fields] if is_frozen else None
    if isinstance(value, msgspec.Struct):
        names = kind.__struct_fields__
        return [getattr(value, name) for name in names] if kind.__struct_config__.frozen else None
    if isinstance(value, BaseModel):
        return list(dict(value).values()) if kind.model_config.get("frozen") else None
    return [] if _has_no_state(value) else None


def _has_no_state(value: object) -> bool:
    classes = _python_classes(type(value))
    return classes is not None and not getattr(value, "__dict__", None) and not any(map(_slots_of, classes))


def _slots_of(kind: type) -> bool:
    """Whether a class declares attributes in slots."""
    slots = vars(kind).get("__slots__", ())
    return bool(set((slots,) if isinstance(slots, str) else slots) - {"__dict__", "__weakref__"})


def _python_classes(kind: type) -> list[type] | None:
    """The classes of an object's type without `object`; None if one is not written in Python."""
    classes = [each for each in kind.__mro__ if each is not object]
    is_python = all(each.__dictoffset__ or "__slots__" in vars(each) for each in classes)
    return classes if is_python else None

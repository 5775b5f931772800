"""Members of standard modules that take the places of Python's own in code at the level `shown`."""

import abc
import collections
import copy
import dataclasses
import enum
import functools
import operator
import string
import types
import typing
from collections.abc import Callable, ItemsView, Mapping
from enum import Enum
from typing import Any, cast

from ...kernel.context import is_step_function
from .class_makers import get_item
from .members import KEEP, is_marked, is_of_library, is_private, refusal


def _plain_dataclass(kind: Any = None, /, **options: Any) -> Any:
    """`dataclasses.dataclass` for classes of the step's own code."""
    if kind is None:
        return functools.partial(_plain_dataclass, **options)
    if not isinstance(kind, type) or not is_marked(kind):
        raise refusal("dataclass changes its class: only classes of your own", KEEP)
    made: Any = dataclasses.dataclass(**options)
    return made(kind)


def _replace(value: Any, /, **changes: object) -> object:
    _check_copied(value)
    _check_names(changes)
    return dataclasses.replace(value, **changes)


def _asdict(value: Any) -> object:
    _check_copied(value)
    return dataclasses.asdict(value, dict_factory=_public_items)


def _public_items(items: list[tuple[str, object]]) -> dict[str, object]:
    return {name: value for name, value in items if not is_private(name)}


def _astuple(value: Any) -> object:
    _check_copied(value)
    return tuple(getattr(value, each.name) for each in dataclasses.fields(value) if not is_private(each.name))


def _copy(value: Any) -> object:
    _check_copied(value)
    return copy.copy(value)


def _deepcopy(value: Any) -> object:
    _check_copied(value)
    return copy.deepcopy(value)


def _check_copied(value: object) -> None:
    if is_of_library(type(value)):
        raise refusal(f"a {type(value).__name__} cannot be copied: nighthawk_async made it")


def _check_names(names: Mapping[str, object]) -> None:
    for name in names:
        if is_private(name):
            raise refusal(f"the attribute {name!r} is private")


def _abstract(function: Any) -> Any:
    if isinstance(function, types.FunctionType) and not is_step_function(function):
        raise refusal("abstractmethod changes its function: only functions of your own", KEEP)
    return abc.abstractmethod(function)


class _ShownEnums(enum.EnumType):
    """The class of the classes in `enum` as code imports it.

    Their calls make no classes: such a call takes names of special methods, which a class body does not.
    """

    def __call__(cls, value: Any, *values: Any, **options: Any) -> Any:
        if not cls._member_map_:
            raise refusal("an enumeration made by a call is not available", "Write class Color(Enum): …")
        call: Any = super().__call__
        return call(value, *values, **options)

    def __instancecheck__(cls, instance: object) -> bool:
        return cls.__subclasscheck__(type(instance))

    def __subclasscheck__(cls, subclass: type) -> bool:
        kind = cls.__base__ if cast("object", cls) in _ENUMS else cls  # the program's are some too
        return type.__subclasscheck__(cast("type", kind), subclass)


class _Enum(Enum, metaclass=_ShownEnums):
    __module__ = "enum"


class _Flag(enum.Flag, metaclass=_ShownEnums):
    __module__ = "enum"


class _IntEnum(enum.IntEnum, metaclass=_ShownEnums):
    __module__ = "enum"


class _IntFlag(enum.IntFlag, metaclass=_ShownEnums):
    __module__ = "enum"


class _StrEnum(enum.StrEnum, metaclass=_ShownEnums):
    __module__ = "enum"


_ENUMS: tuple[object, ...] = (_Enum, _Flag, _IntEnum, _IntFlag, _StrEnum)


class _ForClasses:
    """A base that makes classes by statements alone: `class Row(NamedTuple): …`.

    Args:
        base: The base as `typing` has it.
    """

    __slots__ = ("_bases", "_name")

    def __init__(self, base: Any) -> None:
        self._name: str = base.__name__
        self._bases: tuple[Any, ...] = types.resolve_bases((base,))

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[Any, ...]:
        return self._bases

    def __call__(self, *args: object, **kwargs: object) -> object:
        raise refusal(f"a {self._name} made by a call is not available", f"Write class Row({self._name}): …")


class _Template(string.Template):
    """A template that reads no items of classes."""

    def substitute(
        self, mapping: Mapping[str, object] = types.MappingProxyType({}), /, **kwds: object
    ) -> str:
        return super().substitute(_checked_mapping(mapping), **kwds)

    def safe_substitute(
        self, mapping: Mapping[str, object] = types.MappingProxyType({}), /, **kwds: object
    ) -> str:
        return super().safe_substitute(_checked_mapping(mapping), **kwds)


class _ChainMap(collections.ChainMap[Any, Any]):
    """A chain of mappings that reads no items of classes."""

    def __getitem__(self, key: Any) -> Any:
        for each in self.maps:
            _checked_mapping(each)
        return super().__getitem__(key)


class _UserList(collections.UserList[Any]):
    """A list that reads no items of classes."""

    def __getitem__(self, i: Any) -> Any:
        if isinstance(self.data, type):
            raise refusal("a list of a class")
        return super().__getitem__(i)


class _ItemsView(ItemsView[Any, Any]):
    """Items of a mapping, and of no class."""

    def __init__(self, mapping: Mapping[Any, Any]) -> None:
        super().__init__(_checked_mapping(mapping))


def _runtime_checkable(kind: Any) -> Any:
    if not isinstance(kind, type) or not is_marked(kind):
        raise refusal("runtime_checkable changes its class: only classes of your own", KEEP)
    return typing.runtime_checkable(kind)


def _overload(function: Any) -> Any:
    if isinstance(function, types.FunctionType) and not is_step_function(function):
        raise refusal("overload notes its function for all: only functions of your own", KEEP)
    return function


def _checked_mapping(mapping: Any) -> Any:
    if isinstance(mapping, type):
        raise refusal(f"items of {mapping.__name__}, which is a class")
    return mapping


def _itemgetter(*keys: Any) -> Callable[[Any], Any]:
    operator.itemgetter(*keys)  # raises the error of Python for none
    if len(keys) == 1:
        return lambda owner: get_item(owner, keys[0])
    return lambda owner: tuple(get_item(owner, each) for each in keys)


for _kind in (_Template, _ChainMap, _UserList, _ItemsView):
    _kind.__name__ = _kind.__qualname__ = _kind.__name__[1:]
    _kind.__module__ = _kind.__mro__[1].__module__

REPLACED: Mapping[str, Mapping[str, Callable[..., object]]] = {
    "abc": {"abstractmethod": _abstract},
    "collections": {"ChainMap": _ChainMap, "UserList": _UserList},
    "collections.abc": {"ItemsView": _ItemsView},
    "copy": {"copy": _copy, "deepcopy": _deepcopy},
    "dataclasses": {
        "asdict": _asdict,
        "astuple": _astuple,
        "dataclass": _plain_dataclass,
        "replace": _replace,
    },
    "operator": {"getitem": get_item, "itemgetter": _itemgetter},
    "string": {"Template": _Template},
    "typing": {
        "NamedTuple": _ForClasses(typing.NamedTuple),
        "TypedDict": _ForClasses(typing.TypedDict),
        "overload": _overload,
        "runtime_checkable": _runtime_checkable,
    },
    "enum": {each.__name__[1:]: each for each in _ENUMS},
}
"""Members of modules that take the places of Python's own."""

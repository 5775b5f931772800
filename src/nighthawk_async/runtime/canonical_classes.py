"""Canonical forms of classes: their names, and what their statements say where nobody can import them."""

import datetime
import operator
import typing
from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum, EnumMeta
from functools import partial
from types import FunctionType
from typing import Any, cast
from weakref import WeakKeyDictionary

import msgspec

from .canonical_leaves import LEAVES, sized, text_form
from .canonical_names import (
    attributes_of_function,
    cells_of,
    code_form,
    is_importable,
    is_of_library,
    module_of,
    stands_for,
    type_name,
)
from .mutable_state import held_attributes

_MAX_LEVELS = 6
_MAX_PARTS = 10_000

_OF_STRUCTS = ("__struct_fields__", "__struct_defaults__", "__struct_config__")
_DECLARED = (
    *("__annotations__", "__slots__", "__orig_bases__", "__dataclass_fields__", "__pydantic_fields__"),
    *("__private_attributes__", "__attrs_attrs__", "__total__", *_OF_STRUCTS),
)
"""What statements, decorators and metaclasses keep of a class under such names, and what counts of it."""

_TYPING = frozenset({"types", "typing", "typing_extensions"})
_SEQUENCES: tuple[type[Any], ...] = (tuple, list, deque)
_METHODS = (FunctionType, staticmethod, classmethod)

_names_of_classes: WeakKeyDictionary[type[Any], bytes] = WeakKeyDictionary()


def class_form(kind: type[Any]) -> bytes:
    """The form of a class: its name, and its contents as first seen if nobody can import it by that name."""
    known = _names_of_classes.get(kind)
    if known is None:
        known = _names_of_classes[kind] = _ClassWriter().of_class(kind)
    return known


class _ClassWriter:
    """Writes the form of one class, and of the classes and functions in it once. No code of it is called."""

    def __init__(self) -> None:
        self._written: set[object] = set()
        self._parts = 0

    def of_class(self, kind: type[Any]) -> bytes:
        """The form of a class."""
        name = text_form(type_name(kind))
        module = type.__dict__["__module__"].__get__(kind)
        is_known = stands_for(kind, module, type.__dict__["__qualname__"].__get__(kind))
        if is_known or id(kind) in self._written:
            return name
        self._written.add(id(kind))
        return sized(b"K", name + b"".join(self._contents(kind)))

    def _contents(self, kind: type[Any]) -> Iterator[bytes]:
        """The forms of what a class statement says: bases, functions, values, and what it declares."""
        yield from map(self.of_class, (cast("type[Any]", type(kind)), *kind.__bases__))
        held = dict(vars(kind))
        is_enum = issubclass(type(kind), EnumMeta)
        if is_enum:
            members = cast("dict[str, object]", held.pop("_member_map_"))
            held |= {f"{name} {number}": each for number, (name, each) in enumerate(members.items())}
        if issubclass(kind, msgspec.Struct):
            held |= {name: getattr(kind, name) for name in _OF_STRUCTS}
        for name, value in sorted(held.items()):
            if name[:1] == "_" and not _counts(kind, name, value, is_enum=is_enum):
                continue
            yield text_form(name) + self._form(value, 0)

    def _form(self, value: object, level: int) -> bytes:
        """The form of what a class holds or declares: values, types, their arguments and constraints."""
        kind = cast("type[Any]", type(value))
        if (leaf := LEAVES.get(kind)) is not None:
            return leaf(value)
        self._parts += 1
        if module_of(kind) in _TYPING and (origin := typing.get_origin(value)) is not None:
            return self._forms(b"g", (origin, *typing.get_args(value)), level)
        if issubclass(kind, type):
            return sized(b"k", self.of_class(cast("type[Any]", value)))
        if kind is FunctionType:
            return self._of_function(cast("FunctionType", value), level)
        name = text_form(type_name(kind))
        if level > _MAX_LEVELS or self._parts > _MAX_PARTS:
            return sized(b"?", name)
        if kind in (set, frozenset):
            members = sorted(self._form(each, level + 1) for each in cast("set[object]", value))
            return sized(b"{", b"".join(members))
        if (parts := _parts_of(kind, value)) is not None:
            return self._forms(b"t" + name, parts, level)
        entries = _entries_of(value) if issubclass(kind, dict) else held_attributes(value) or {}
        forms = sorted(
            self._form(key, level + 1) + self._form(each, level + 1) for key, each in entries.items()
        )
        return sized(b"m", name + b"".join(forms))

    def _forms(self, tag: bytes, values: Iterable[object], level: int) -> bytes:
        return sized(tag, b"".join(self._form(each, level + 1) for each in values))

    def _of_function(self, function: FunctionType, level: int) -> bytes:
        """The form of a function: its code, its defaults, and the variables around it that do not change."""
        name = text_form(f"{module_of(function)}.{function.__qualname__}")
        if is_importable(function) or id(function) in self._written:
            return sized(b"x", name)
        self._written.add(id(function))
        wrapped = function.__dict__.get("__wrapped__")
        if type(wrapped) is FunctionType and is_of_library(function):  # an effect, for example
            return self._of_function(wrapped, level)
        cells = {
            name: type(value) if is_changed or type(value) in (list, dict, set) else value
            for name, value, is_changed in cells_of(function)
        }
        state = (function.__defaults__, function.__kwdefaults__, attributes_of_function(function), cells)
        return sized(b"X", code_form(function.__code__) + self._forms(b"t", state, level))


def _counts(kind: type[Any], name: str, value: object, *, is_enum: bool) -> bool:
    """Whether something with such a name counts: not what Python and libraries compute from the rest."""
    if name[:2] == "__" and name[-2:] == "__":
        if type(value) is not FunctionType or name.startswith("__annotate"):
            return name in _DECLARED
        # Libraries make others, and attrs gives one function to all classes, with the name of the last one.
        return value.__globals__.get("__name__") == type.__dict__["__module__"].__get__(kind)
    return not is_enum or type(value) in _METHODS


def _entries_of(value: Any) -> dict[Any, object]:
    return dict(zip(dict[Any, Any].keys(value), dict[Any, Any].values(value), strict=True))


def _parts_of(kind: type[Any], value: Any) -> Iterable[object] | None:
    """The parts of a value in their order; None where they have names, or no order."""
    if issubclass(kind, Enum):
        held = held_attributes(value) or {}
        number = held.get("_value_")
        return held.get("_name_"), number if type(number) in LEAVES else None
    base: Any = next((each for each in _SEQUENCES if issubclass(kind, each)), None)
    if base is not None:
        return cast("Iterable[object]", base.__iter__(value))
    if kind in (staticmethod, classmethod):
        return (value.__func__,)
    if kind is property:
        return value.fget, value.fset, value.fdel
    if kind is partial:
        return value.func, value.args, value.keywords
    if kind in (operator.itemgetter, operator.attrgetter, operator.methodcaller):
        return cast("Iterable[object]", value.__reduce__()[1:])  # type: ignore[call-arg]
    if kind in (datetime.datetime, datetime.time):
        return cast("Iterable[object]", kind.__reduce__(value)[1])
    if kind is msgspec.structs.StructConfig:
        return [getattr(value, name) for name in dir(kind) if name[:1] != "_"]
    name = type_name(kind)
    if name == "functools._lru_cache_wrapper":
        return (value.__dict__.get("__wrapped__"),)
    if name == "msgspec._core.Factory":
        return (value.factory,)
    return None

"""Canonical forms of classes: their names, and what their statements say where nobody can import them."""

import typing
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any, cast
from weakref import WeakKeyDictionary

from .canonical_leaves import LEAVES, sized, text_form
from .canonical_names import code_form, plain_cells, stands_for, type_name
from .mutable_state import held_attributes

_MAX_LEVELS = 6

_names_of_classes: WeakKeyDictionary[type[Any], bytes] = WeakKeyDictionary()


def class_form(kind: type[Any]) -> bytes:
    """The form of a class: its name, and its contents if nobody can import it by that name."""
    known = _names_of_classes.get(kind)
    if known is None:
        name = text_form(type_name(kind))
        module = type.__dict__["__module__"].__get__(kind)
        if not stands_for(kind, module, type.__dict__["__qualname__"].__get__(kind)):
            name = sized(b"K", name + b"".join(_contents_of(kind)))
        known = _names_of_classes[kind] = name
    return known


def _contents_of(kind: type[Any]) -> Iterator[bytes]:
    """The forms of what a class statement says: bases, functions, plain values, and what it declares."""
    yield from (text_form(type_name(base)) for base in kind.__bases__)
    for name, value in sorted(vars(kind).items()):
        function: Any = value
        if isinstance(value, staticmethod | classmethod):
            function = cast("Any", value).__func__
        elif isinstance(value, property):
            function = value.fget
        if isinstance(function, FunctionType) and not name.startswith("__annotate"):
            yield text_form(name) + code_form(function.__code__)
            yield from (text_form(cell) + form for cell, form in plain_cells(function))
        elif not name.startswith("__") and (leaf := LEAVES.get(type(cast("object", value)))) is not None:
            yield text_form(name) + leaf(value)
    for declared in ("__annotations__", "__dataclass_fields__", "__pydantic_fields__"):
        fields = cast("object", vars(kind).get(declared))
        if type(fields) is dict:
            yield text_form(declared) + _declaration_form(cast("object", fields), 0)


def _declaration_form(value: object, level: int) -> bytes:
    """The form of what a class declares: types, their arguments, constraints, defaults. No code is called."""
    kind = cast("type[Any]", type(value))
    if (leaf := LEAVES.get(kind)) is not None:
        return leaf(value)
    if issubclass(kind, type) and typing.get_origin(value) is None:
        return sized(b"k", type_name(cast("type[Any]", value)).encode())  # also the class itself
    if level > _MAX_LEVELS:
        return sized(b"?", type_name(kind).encode())
    if isinstance(value, FunctionType):
        return sized(b"X", code_form(value.__code__) + b"".join(form for _, form in plain_cells(value)))
    if (origin := typing.get_origin(value)) is not None:
        return _declaration_forms(b"g", (origin, *typing.get_args(value)), level)
    if kind in (list, tuple):
        return _declaration_forms(b"t", cast("tuple[object, ...]", value), level)
    if kind in (set, frozenset):
        members = sorted(_declaration_form(each, level + 1) for each in cast("set[object]", value))
        return sized(b"{", b"".join(members))
    entries = cast("dict[Any, object]", value) if kind is dict else held_attributes(value) or {}
    forms = sorted(
        _declaration_form(key, level + 1) + _declaration_form(each, level + 1)
        for key, each in entries.items()
    )
    return sized(b"m", text_form(type_name(kind)) + b"".join(forms))


def _declaration_forms(tag: bytes, values: Iterable[object], level: int) -> bytes:
    return sized(tag, b"".join(_declaration_form(each, level + 1) for each in values))

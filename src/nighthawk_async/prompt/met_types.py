"""The classes of the values that a section shows."""

import types
import typing
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import cast

import typing_extensions

from .annotations import written_type
from .entries import Entry
from .introspection import class_dictionary, find_class_attribute, has_base, is_one_of, type_module
from .objects import ObjectMembers
from .type_names import TypeNames

__all__ = ["note_described", "note_met_types"]

_MAX_DEPTH = 3
_ITEMS_READ = 3
"""Items of a container whose classes are noted; those that follow are mostly of the same."""

_UNIONS = (typing.Union, types.UnionType)
_SEQUENCES = (list, tuple, set, frozenset)


def note_met_types(entries: Iterable[Entry], names: TypeNames) -> None:
    """Note the classes of values and of what these hold.

    Args:
        entries: The entries that are shown.
        names: Gets the notes.
    """
    for entry in entries:
        kind = type(entry.value)
        if isinstance(entry.kind, ObjectMembers):
            names.described[id(kind)] = kind
            for _, value in entry.kind.fields:
                _note(value, names)
        if has_base(kind, type):
            _note_class(cast("type", entry.value), names)
        else:
            _note(entry.value, names)


def note_described(annotation: object, names: TypeNames) -> None:
    """Note the classes of which a parameter may hold an instance, whose methods are shown with the value.

    Args:
        annotation: The type of the parameter, resolved.
        names: Gets the notes.
    """
    origin = typing_extensions.get_origin(annotation)
    if origin is typing_extensions.Annotated:
        note_described(typing_extensions.get_args(annotation)[0], names)
    elif origin in _UNIONS:
        for each in typing_extensions.get_args(annotation):
            note_described(each, names)
    elif (
        has_base(type(annotation), type) and not find_class_attribute(cast("type", annotation), "__call__")[0]
    ):
        names.described[id(annotation)] = annotation


def _note(value: object, names: TypeNames, depth: int = 0) -> None:
    kind = type(value)
    if type_module(kind) != "builtins":
        _note_class(kind, names)
    elif depth < _MAX_DEPTH:
        for item in _items(value, kind):
            _note(item, names, depth + 1)


def _note_class(cls: type, names: TypeNames) -> None:
    """Note a class, of a generic one with arguments the class without and the arguments."""
    if type_module(cls) == "builtins" or id(cls) in names.met:
        return
    if "__pydantic_generic_metadata__" not in class_dictionary(cls):
        names.met[id(cls)] = cls
        return
    noted = names.apart()
    written_type(cls, noted)
    names.met.update(noted.mentioned)


def _items(value: object, kind: type) -> Iterator[object]:
    if kind is dict:
        return islice(cast("dict[object, object]", value).values(), _ITEMS_READ)
    if is_one_of(kind, _SEQUENCES):
        return islice(cast("Iterable[object]", value), _ITEMS_READ)
    return iter(())

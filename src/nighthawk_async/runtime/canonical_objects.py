"""Parts of objects that count for their canonical forms, read without running their code."""

import types
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Struct
from pydantic import BaseModel

from .canonical_leaves import LEAVES
from .canonical_names import class_attribute, is_made_in_python, type_name
from .mutable_state import held_attributes

FieldReader = Callable[[Any], Mapping[str, object]]

_SCALARS = LEAVES.keys() - {types.NoneType, bool, types.EllipsisType, types.NotImplementedType}
_CONTAINERS = (list, tuple, dict, set, frozenset)


_NO_PARTS_OF_ERRORS = ("obj", "__suppress_context__")


class ObjectParts(Struct, frozen=True, eq=False):
    """The attributes of an object.

    Args:
        counted: Those that count, by name.
        hides: The names of those that do not count and may tell it apart.
        is_unstable: Whether nothing counts although there is something.
    """

    counted: Mapping[str, object]
    hides: tuple[str, ...] = ()
    is_unstable: bool = False


def parts_of_instance(attributes: Mapping[str, object], *, needs_public: bool) -> ObjectParts:
    """The parts of an object that is no data of a known kind: its public attributes count.

    Args:
        attributes: All that it holds.
        needs_public: Whether nothing is known about it if it has private ones alone.
    """
    public = {name: value for name, value in attributes.items() if not name.startswith("_")}
    if not public and attributes and needs_public:
        return ObjectParts(public, is_unstable=True)
    hides = tuple(name for name, value in attributes.items() if name not in public and _may_identify(value))
    return ObjectParts(public, hides)


def _may_identify(value: object) -> bool:
    """Whether a private attribute may tell an object apart: a number, a text, a container with contents."""
    kind = type(value)
    if kind in _CONTAINERS:
        return len(cast("list[object]", value)) > 0
    return kind in _SCALARS


def parts_of_exception(error: BaseException) -> ObjectParts:
    """The parts of an exception: its arguments, and what it and its bases hold besides."""
    attributes = held_attributes(error)
    if attributes is None:  # of a builtin class
        attributes = dict(BaseException.__dict__["__dict__"].__get__(error))
    attributes.pop("__notes__", None)
    parts = parts_of_instance(attributes, needs_public=False)
    known: dict[str, object] = {"args ": BaseException.__dict__["args"].__get__(error)}
    for base in type(error).__mro__:
        if base.__module__ == "builtins":
            for name, item in vars(base).items():
                if isinstance(item, types.MemberDescriptorType) and name not in _NO_PARTS_OF_ERRORS:
                    known[f"{name} "] = item.__get__(error)
    return ObjectParts({**known, **parts.counted}, parts.hides)


class Fields(NamedTuple):
    """The fields of the objects of a class.

    Attributes:
        read: Returns those of an object, and what else counts.
        names: The declared ones, sorted.
        are_held: Whether objects hold them as their attributes, and nothing else elsewhere.
    """

    read: FieldReader
    names: tuple[str, ...]
    are_held: bool


def fields_of(kind: type[Any]) -> Fields | None:
    """The fields of the objects of data classes, models and structs; None for other classes."""
    if issubclass(kind, BaseModel):
        names = tuple(sorted(class_attribute(kind, "__pydantic_fields__", {})))
        return Fields(_read_model, names, are_held=False)
    if issubclass(kind, msgspec.Struct):
        declared_names: tuple[str, ...] = tuple(sorted(kind.__struct_fields__))
        return Fields(partial(_read_struct, declared_names), declared_names, are_held=False)
    fields = class_attribute(kind, "__dataclass_fields__")
    if isinstance(fields, dict) and is_made_in_python(kind):
        declared = cast("dict[str, Any]", fields)
        return _held_fields({name for name, each in declared.items() if each._field_type.name == "_FIELD"})
    if (attributes := class_attribute(kind, "__attrs_attrs__")) is not None and is_made_in_python(kind):
        return _held_fields({each.name for each in attributes})
    return None


def _read_struct(names: tuple[str, ...], value: Any) -> Mapping[str, object]:
    return {name: object.__getattribute__(value, name) for name in names}


def _held_fields(names: set[str]) -> Fields:
    """Read the fields, private ones included, and public attributes that are none."""

    def read(value: Any) -> Mapping[str, object]:
        held = held_attributes(value) or {}
        if held.keys() == names:
            return held
        return {name: each for name, each in held.items() if name in names or not name.startswith("_")}

    return Fields(read, tuple(sorted(names)), are_held=True)


def _read_model(value: BaseModel) -> Mapping[str, object]:
    """Read the fields of a model, its extra fields and its private attributes; nothing that it computes."""
    fields = cast("Mapping[str, object]", class_attribute(type(value), "__pydantic_fields__", {}))
    held = cast("dict[str, object]", object.__getattribute__(value, "__dict__"))
    parts: dict[str, object] = {name: each for name, each in held.items() if name in fields}
    for name in ("__pydantic_extra__", "__pydantic_private__"):
        more = cast("dict[str, object] | None", object.__getattribute__(value, name))
        parts |= {f"{name} {key}": each for key, each in (more or {}).items()}
    return parts


def text_of(kind: type[Any]) -> Callable[[Any], str] | None:
    """The function that writes the values of a class of a known library as texts; None for other classes."""
    names = {type_name(base) for base in kind.__mro__}
    return str if names & _WRITTEN else None


_WRITTEN = frozenset(
    {"httpx.URL", "yarl.URL", "pydantic_core._pydantic_core.Url", "pydantic_core._pydantic_core.MultiHostUrl"}
    | {"pydantic.networks._BaseUrl", "pydantic.networks._BaseMultiHostUrl", "bson.objectid.ObjectId"}
)
"""Types whose texts say everything."""

"""Parts of objects that count for their canonical forms, read without running their code."""

import types
from collections import deque
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Struct
from pydantic import BaseModel

from .canonical_leaves import LEAVES
from .canonical_names import class_attribute, is_made_in_python, module_of, type_name
from .mutable_state import held_attributes

FieldParts = tuple[Mapping[str, object], tuple[str, ...]]
FieldReader = Callable[[Any], FieldParts]

_SILENT = frozenset({types.NoneType, types.EllipsisType, types.NotImplementedType, types.ModuleType})
_CONTAINERS = (list, tuple, dict, set, frozenset, deque)
_INFRASTRUCTURE = frozenset(
    {"threading", "_thread", "asyncio", "_asyncio", "anyio", "trio", "sniffio", "logging", "contextvars"}
    | {"_contextvars", "_weakref", "nighthawk_async"}
)
"""Modules of locks, events, loggers and the like, which say nothing of the object that holds them."""

_BOOKKEEPING = frozenset({"sqlalchemy.orm.state.InstanceState", "django.db.models.base.ModelState"})
"""Classes by which libraries follow the changes of a row, whose columns are public."""

_TYPE_ARGUMENTS = "__orig_class__"
"""The attribute that has the type arguments of an object of a generic class."""

_COUNTED = frozenset({_TYPE_ARGUMENTS, "__wrapped__"})
"""Attributes with private names that count: `update_wrapper` keeps the function that an object stands for."""

_OF_WRAPPERS = ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__", "__type_params__")
_SAY_NOTHING = frozenset({"_attrs_cached_hash", *_OF_WRAPPERS})
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
    public = {name: value for name, value in attributes.items() if _is_public(name)}
    if attributes and needs_public and public.keys() <= {_TYPE_ARGUMENTS}:
        return ObjectParts(public, is_unstable=True)
    return ObjectParts(public, hidden_names(attributes, public))


def parts_of(value: object) -> Mapping[object, object]:
    """The items of a container, or the public attributes of an object; none of other values."""
    if type(value) in (list, tuple):
        return dict(enumerate(cast("list[object]", value)))
    if type(value) is dict:
        entries = cast("dict[object, object]", value)
        return {key: entry for key, entry in entries.items() if type(key) in LEAVES}
    attributes = held_attributes(value) or {}
    return {name: part for name, part in attributes.items() if _is_public(name)}


def _is_public(name: str) -> bool:
    return name[:1] != "_" or name in _COUNTED


def hidden_names(attributes: Mapping[str, object], counted: Collection[str]) -> tuple[str, ...]:
    """The names of attributes that do not count and may tell an object apart.

    Those do not that are None or empty, locks or loggers.
    """
    others = (name for name in attributes if name not in counted and name not in _SAY_NOTHING)
    return tuple(name for name in others if _may_identify(attributes[name]))


def _may_identify(value: object) -> bool:
    """Whether a private attribute may tell an object apart: it is neither empty nor a lock."""
    kind: Any = type(value)
    if kind in _SILENT:
        return False
    base: Any = next((each for each in _CONTAINERS if each in kind.__mro__), None)
    if base is not None:
        return base.__len__(value) > 0
    if kind in LEAVES:
        return True
    return not is_infrastructure(kind) and type_name(kind) not in _BOOKKEEPING


def is_infrastructure(kind: type[Any]) -> bool:
    """Whether the objects of a class say nothing of those that hold them; see `_INFRASTRUCTURE`."""
    return module_of(kind).partition(".")[0] in _INFRASTRUCTURE


def parts_of_exception(error: BaseException) -> ObjectParts:
    """The parts of an exception: its arguments and notes, and what it and its bases hold besides."""
    attributes = held_attributes(error)
    if attributes is None:  # of a builtin class
        attributes = dict(BaseException.__dict__["__dict__"].__get__(error))
    notes = attributes.pop("__notes__", ())
    parts = parts_of_instance(attributes, needs_public=False)
    known: dict[str, object] = {"args ": BaseException.__dict__["args"].__get__(error)}
    if notes:
        known["notes "] = notes
    for base in type(error).__mro__:
        if base.__module__ == "builtins":
            for name, item in vars(base).items():
                if isinstance(item, types.MemberDescriptorType) and name not in _NO_PARTS_OF_ERRORS:
                    part = item.__get__(error)
                    if part is not None:  # a later version of Python may have more of them
                        known[f"{name} "] = part
    # A cause does not come back with a recorded error, so it must not count.
    has_cause = BaseException.__dict__["__cause__"].__get__(error) is not None
    return ObjectParts({**known, **parts.counted}, (*parts.hides, *(["__cause__"] if has_cause else ())))


class Fields(NamedTuple):
    """The fields of the objects of a class.

    Attributes:
        read: Returns those of an object and what else counts, and the names of what else may tell it apart.
        names: The declared ones, sorted.
        are_held: Whether objects hold them as their attributes, and nothing else elsewhere.
        read_given: Returns the names of those that were given to an object; None where nobody knows.
    """

    read: FieldReader
    names: tuple[str, ...]
    are_held: bool = False
    read_given: Callable[[Any], Collection[str]] | None = None


def fields_of(kind: type[Any]) -> Fields | None:
    """The fields of the objects of data classes, models and structs; None for other classes."""
    if issubclass(kind, BaseModel):
        names = tuple(sorted(class_attribute(kind, "__pydantic_fields__", {})))
        return Fields(_read_model, names, read_given=_read_given)
    if issubclass(kind, msgspec.Struct):
        declared_names: tuple[str, ...] = tuple(sorted(kind.__struct_fields__))
        return Fields(partial(_read_struct, declared_names), declared_names)
    fields = class_attribute(kind, "__dataclass_fields__")
    if isinstance(fields, dict) and is_made_in_python(kind):
        declared = cast("dict[str, Any]", fields)
        return _held_fields({name for name, each in declared.items() if each._field_type.name == "_FIELD"})
    if (attributes := class_attribute(kind, "__attrs_attrs__")) is not None and is_made_in_python(kind):
        return _held_fields({each.name for each in attributes})
    return None


def _read_struct(names: tuple[str, ...], value: Any) -> FieldParts:
    fields = {name: object.__getattribute__(value, name) for name in names}
    if not type(value).__dictoffset__:
        return fields, ()
    return _with_others(fields, held_attributes(value) or {})


def _with_others(fields: Mapping[str, object], held: Mapping[str, object]) -> FieldParts:
    """The fields with the public attributes that are none, and the names of private ones that are none."""
    counted = {**fields, **{name: each for name, each in held.items() if _is_public(name)}}
    return counted, hidden_names(held, counted)


def _held_fields(names: set[str]) -> Fields:
    """Read the fields, private ones included, and public attributes that are none."""

    def read(value: Any) -> FieldParts:
        held = held_attributes(value) or {}
        if held.keys() == names:
            return held, ()
        return _with_others({name: each for name, each in held.items() if name in names}, held)

    return Fields(read, tuple(sorted(names)), are_held=True)


def _read_model(value: BaseModel) -> FieldParts:
    """Read the fields of a model, its extra fields and its private attributes; nothing that it computes."""
    fields = cast("Mapping[str, object]", class_attribute(type(value), "__pydantic_fields__", {}))
    held = cast("dict[str, object]", object.__getattribute__(value, "__dict__"))
    parts: dict[str, object] = {name: each for name, each in held.items() if name in fields}
    hides: tuple[str, ...] = ()
    if len(parts) < len(held):
        others = {name: each for name, each in (held_attributes(value) or {}).items() if name in held}
        counted, hides = _with_others(parts, others)
        parts = dict(counted)
    for name in ("__pydantic_extra__", "__pydantic_private__"):
        more = cast("dict[str, object] | None", object.__getattribute__(value, name))
        parts |= {f"{name} {key}": each for key, each in (more or {}).items()}
    return parts, hides


def _read_given(value: BaseModel) -> Collection[str]:
    return cast("set[str]", object.__getattribute__(value, "__pydantic_fields_set__"))


def text_of(kind: type[Any]) -> Callable[[Any], str] | None:
    """The function that writes the values of a class of a known library as texts; None for other classes."""
    names = {type_name(base) for base in kind.__mro__}
    return str if names & _WRITTEN else None


_WRITTEN = frozenset(
    {
        "httpx.URL",
        "httpx.QueryParams",
        "yarl.URL",
        "pydantic_core._pydantic_core.Url",
        "pydantic_core._pydantic_core.MultiHostUrl",
    }
    | {"pydantic.networks._BaseUrl", "pydantic.networks._BaseMultiHostUrl", "bson.objectid.ObjectId"}
)
"""Types whose texts say everything."""

"""Canonical forms of classes and objects: the parts that count, read without running their code."""

import datetime
import operator
import types
import typing
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum, EnumMeta
from functools import partial
from itertools import chain
from operator import itemgetter
from types import FunctionType
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct
from pydantic import BaseModel

from ..types.json import is_json_object, is_list_or_tuple
from .canonical_writing import (
    ENCODER,
    LEAVES,
    UNENCODABLE,
    FormWriter,
    RowsMaker,
    are_plain,
    attributes_of_function,
    cells_of,
    class_attribute,
    code_form,
    is_importable,
    is_made_in_python,
    is_of_library,
    module_of,
    sized,
    stands_for,
    text_form,
    type_name,
)
from .snapshots import held_attributes, reader_of_variables

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
        yield from map(self.of_class, (type(kind), *kind.__bases__))
        held = dict(vars(kind))
        is_enum = issubclass(type(kind), EnumMeta)
        if is_enum:
            members: dict[str, object] = held.pop("_member_map_")
            held |= {f"{name} {number}": each for number, (name, each) in enumerate(members.items())}
        if issubclass(kind, msgspec.Struct):
            held |= {name: getattr(kind, name) for name in _OF_STRUCTS}
        for name, value in sorted(held.items()):
            if name[:1] == "_" and not _counts(kind, name, value, is_enum=is_enum):
                continue
            yield text_form(name) + self._form(value, 0)

    def _form(self, value: object, level: int) -> bytes:
        """The form of what a class holds or declares: values, types, their arguments and constraints."""
        kind = type(value)
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
        return base.__iter__(value)
    if kind in (staticmethod, classmethod):
        return (value.__func__,)
    if kind is property:
        return value.fget, value.fset, value.fdel
    if kind is partial:
        return value.func, value.args, value.keywords
    if kind in (operator.itemgetter, operator.attrgetter, operator.methodcaller):
        return value.__reduce__()[1:]
    if kind in (datetime.datetime, datetime.time):
        return cast("Any", kind).__reduce__(value)[1]
    if kind is msgspec.structs.StructConfig:
        return [getattr(value, name) for name in dir(kind) if name[:1] != "_"]
    name = type_name(kind)
    if name == "functools._lru_cache_wrapper":
        return (value.__dict__.get("__wrapped__"),)
    if name == "msgspec._core.Factory":
        return (value.factory,)
    return None


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
    if type(value) in (list, tuple) and is_list_or_tuple(value):
        return dict(enumerate(value))
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
    if is_json_object(fields) and is_made_in_python(kind):
        return _held_fields({name for name, each in fields.items() if each._field_type.name == "_FIELD"})
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
    fields: Mapping[str, object] = class_attribute(type(value), "__pydantic_fields__", {})
    held: dict[str, object] = object.__getattribute__(value, "__dict__")
    parts: dict[str, object] = {name: each for name, each in held.items() if name in fields}
    hides: tuple[str, ...] = ()
    if len(parts) < len(held):
        others = {name: each for name, each in (held_attributes(value) or {}).items() if name in held}
        counted, hides = _with_others(parts, others)
        parts = dict(counted)
    for name in ("__pydantic_extra__", "__pydantic_private__"):
        more: dict[str, object] | None = object.__getattribute__(value, name)
        parts |= {f"{name} {key}": each for key, each in (more or {}).items()}
    return parts, hides


def _read_given(value: BaseModel) -> Collection[str]:
    return object.__getattribute__(value, "__pydantic_fields_set__")


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


class FieldsMaker(RowsMaker):
    """Writes the objects of one class.

    Args:
        kind: The class.
        fields: The fields of its objects.
    """

    def __init__(self, kind: type[Any], fields: Fields) -> None:
        names = fields.names
        self._read = fields.read
        self._read_given = fields.read_given
        self._names = names
        self._class = class_form(kind)
        self._start = self._class + b"".join(map(text_form, names))
        self._variables = reader_of_variables(kind, names) if fields.are_held else None
        self._row: Callable[[Mapping[str, object]], tuple[object, ...]] = (
            itemgetter(*names) if len(names) > 1 else lambda fields: tuple(fields[name] for name in names)
        )

    def __call__(self, writer: FormWriter, value: Any) -> bytes:
        """Return the form of an object."""
        fields, hides = self._read(value)
        if hides:
            writer.doubt(value, f"has private state that does not count: {', '.join(hides)}")
        if len(fields) == len(self._names):
            try:
                values = self._row(fields)
                if are_plain(values):
                    return b"P" + self._start + sized(b"l", ENCODER.encode(values)) + self._given(value)
            except (KeyError, *UNENCODABLE):
                pass
        form = b"S" + self._class + b"%d:" % len(fields) + writer.attributes(fields)
        return form + self._given(value)

    def _given(self, value: Any) -> bytes:
        """The fields that were given to a model, which decide what it dumps; nothing for all of them."""
        if self._read_given is None:
            return b""
        given = self._read_given(value)
        missing = [name for name in self._names if name not in given]
        return b"%d:%b" % (len(missing), b"".join(map(text_form, missing)))

    def rows(self, values: list[Any]) -> bytes | None:
        """Return the form of several objects that hold their fields alone, all of them plain."""
        if self._variables is None:
            return None
        held = list(map(self._variables, values))
        if {len(each) for each in held} != {len(self._names)}:
            return None
        try:
            rows = list(map(self._row, held))
        except KeyError:
            return None
        if not are_plain(list(chain.from_iterable(rows))):
            return None
        return sized(b"lP", self._start + ENCODER.encode(rows))

"""Canonical forms: bytes that are the same for equal values in every process, and different for others.

The types of values are part of their forms. No code of the user's is called, except the functions that were
registered as identities. Values that hold the same object twice count as if they held two equal ones.
"""

import operator
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum, Flag
from functools import lru_cache, partial
from typing import Any, TypeAlias

from ..parallel.task_node import Callee
from ..prompt.plain_text import class_of
from .canonical_containers import (
    CONTAINERS,
    LIBRARY,
    SUBCLASSED,
    base_maker,
    is_secret,
    is_structure,
    maker_of_numpy,
    members_form,
    secret_form,
    structure_form,
)
from .canonical_objects import (
    FieldsMaker,
    ObjectParts,
    class_form,
    fields_of,
    parts_of_exception,
    parts_of_instance,
    text_of,
)
from .canonical_writing import (
    FormWriter,
    Maker,
    attributes_of_function,
    cells_of,
    code_form,
    former_name,
    is_importable,
    is_made_in_python,
    is_of_library,
    module_of,
    plain_cells,
    sized,
    stands_for,
    text_form,
    type_name,
    unstable_form,
)
from .snapshots import held_attributes

IdentityFunction: TypeAlias = Callable[[Any], object]

_functions: dict[type, IdentityFunction] = {}


def keep_identity(kind: type, function: IdentityFunction) -> None:
    """Keep the function of a class and of its subclasses."""
    _functions[kind] = function


def find_identity(kind: type) -> IdentityFunction | None:
    """Return the function of a class, or of its nearest base that has one; None for none."""
    if not _functions:
        return None
    return next((_functions[base] for base in kind.__mro__ if base in _functions), None)


def new_writer() -> FormWriter:
    """Make a writer of one form."""
    return FormWriter(_maker_of)


def _slice_form(writer: FormWriter, value: slice) -> bytes:
    return b":" + writer.forms((value.start, value.stop, value.step))


def _reduced_form(writer: FormWriter, value: Any) -> bytes:
    """The form of an object of the standard library that says how it is made."""
    return b"R" + writer.forms(value.__reduce__())


def _function_form(writer: FormWriter, function: types.FunctionType) -> bytes:
    name = text_form(former_name(f"{module_of(function)}.{function.__qualname__}"))
    if is_importable(function):
        return b"x" + name
    wrapped = function.__dict__.get("__wrapped__")
    if isinstance(wrapped, types.FunctionType) and is_of_library(function):
        return b"j" + writer.form(wrapped)  # an effect, for example: what it keeps says nothing about it
    cells = {name: type(value) if is_changed else value for name, value, is_changed in cells_of(function)}
    state = (function.__defaults__, function.__kwdefaults__, attributes_of_function(function))
    return b"X" + name + code_form(function.__code__) + writer.forms(state) + writer.attributes(cells) + b";"


def _callee_form(writer: FormWriter, value: Callee) -> bytes:
    """The form of a function that is called with items; its variables may change from call to call."""
    function = value.function
    if type(function) is not types.FunctionType or is_importable(function):
        return writer.form(function)
    cells = b"".join(text_form(name) + form for name, form in plain_cells(function))
    name = text_form(former_name(f"{module_of(function)}.{function.__qualname__}"))
    return b"Y" + name + code_form(function.__code__) + cells + b";"


def _method_form(writer: FormWriter, method: types.MethodType) -> bytes:
    return b"B" + writer.forms((method.__func__, method.__self__))


_COLLECTORS = frozenset(
    {"add", "append", "appendleft", "extend", "extendleft", "insert", "setdefault", "update", "__setitem__"}
)
"""Methods of containers that a function is given to put something into them."""


def _builtin_form(writer: FormWriter, function: Any) -> bytes:
    owner: object = function.__self__
    name = text_form(former_name(f"{function.__module__}.{function.__qualname__}"))
    # What collects results in an object says nothing of a call by what is there already.
    is_collector = function.__name__ in _COLLECTORS and type(owner).__module__ in ("builtins", "collections")
    if is_collector or isinstance(owner, types.ModuleType | None):
        return b"A" + name + b";"
    return b"A" + name + writer.form(owner)


def _wrapper_form(writer: FormWriter, value: Any) -> bytes:
    if value.__name__ in _COLLECTORS:
        return b"a" + text_form(f"{type(value.__self__).__qualname__}.{value.__name__}")
    return b"a" + text_form(value.__name__) + writer.form(value.__self__)


def _view_form(writer: FormWriter, value: "memoryview[Any]") -> bytes:
    return b"v" + text_form(f"{value.format} {value.shape} {value.readonly}") + writer.form(bytes(value))


def _descriptor_form(writer: FormWriter, value: Any) -> bytes:
    return b"C" + class_form(value.__objclass__) + text_form(value.__name__)


def _wrapped_form(writer: FormWriter, value: Any) -> bytes:
    """The form of a function with a cache."""
    held: dict[str, object] = value.__dict__
    module, name = held.get("__module__"), held.get("__qualname__")
    if isinstance(name, str) and stands_for(value, module, name):
        return b"x" + text_form(f"{module}.{name}")
    wrapped = held.get("__wrapped__")
    return b"W" + (unstable_form(writer, value) if wrapped is None else writer.form(wrapped))


def _partial_form(writer: FormWriter, value: "partial[Any]") -> bytes:
    return b"(" + writer.forms((value.func, value.args, value.keywords, value.__dict__))


def _code_form(writer: FormWriter, value: types.CodeType) -> bytes:
    return code_form(value)


def _module_form(writer: FormWriter, value: types.ModuleType) -> bytes:
    name = (
        "__main__"
        if value is sys.modules.get("__main__")
        else types.ModuleType.__getattribute__(value, "__name__")
    )
    return b"w" + text_form(str(name))


def _class_form(writer: FormWriter, value: type) -> bytes:
    return b"k" + class_form(value)


def _alias_form(writer: FormWriter, value: Any) -> bytes:
    """The form of a type with arguments, or of a union."""
    arguments = typing.get_args(value)
    if typing.get_origin(value) in (types.UnionType, typing.Union):  # the order does not count
        return b"|" + members_form(writer, arguments)
    origin = typing.get_origin(value)
    if getattr(origin, "__module__", None) == "typing":  # forms and classes, by version of Python
        name = getattr(origin, "_name", None) or getattr(origin, "__name__", "")
        return b"g" + text_form(f"typing.{name}") + writer.forms(arguments)
    return b"g" + writer.forms((origin, *arguments))


def _named_form(writer: FormWriter, value: Any) -> bytes:
    """The form of what the standard library and typing know by name: a type variable, a logger."""
    names = ("_name", "__name__", "__forward_arg__", "name")
    name = next(each for name in names if (each := getattr(value, name, None)) is not None)
    return b"I" + class_form(class_of(value)) + text_form(str(name))


def _single_form(_: FormWriter, value: object) -> bytes:
    """The form of the one object of a class."""
    return b"1" + text_form(type_name(type(value)))


def _enum_form(writer: FormWriter, value: Enum) -> bytes:
    content: dict[str, object] = object.__getattribute__(value, "__dict__")
    name, number = content.get("_name_"), content.get("_value_")
    # A combination of flags has a name in some versions of Python only.
    return (
        b"G"
        + class_form(type(value))
        + (writer.form(number) if isinstance(value, Flag) else writer.form(name))
    )


def _subclass_maker(kind: type[Any], base: type[Any]) -> Maker:
    """The maker for subclasses of a type of values: their value as such, and their own state."""
    inner, of_class = base_maker(base), class_form(kind)

    def make(writer: FormWriter, value: Any) -> bytes:
        return b"H" + of_class + inner(writer, value) + _state_form(writer, value)

    return make


def _state_form(writer: FormWriter, value: Any) -> bytes:
    """The form of what an object holds beside its value as a list, a text, a number."""
    attributes = held_attributes(value)
    if attributes is None:
        return unstable_form(writer, value)
    return _parts_form(writer, value, parts_of_instance(attributes, needs_public=False))


def _parts_form(writer: FormWriter, value: object, parts: ObjectParts) -> bytes:
    if parts.is_unstable:
        return unstable_form(writer, value)
    if parts.hides:
        writer.doubt(value, f"has private state that does not count: {', '.join(parts.hides)}")
    return b"%d:%b" % (len(parts.counted), writer.attributes(parts.counted))


def _object_form(writer: FormWriter, value: object) -> bytes:
    """The form of an object of an ordinary class: its public attributes."""
    writer.count_object()
    attributes = held_attributes(value)
    if attributes is None:
        return unstable_form(writer, value)
    if not attributes:
        writer.note_unstable(value)  # it is known, but no other such object can be told from it
    parts = parts_of_instance(attributes, needs_public=True)
    return b"J" + class_form(type(value)) + _parts_form(writer, value, parts)


def _exception_form(writer: FormWriter, value: BaseException) -> bytes:
    return b"!" + class_form(type(value)) + _parts_form(writer, value, parts_of_exception(value))


def _text_maker(write: Callable[[Any], str]) -> Maker:
    return lambda _, value: b"_" + class_form(class_of(value)) + text_form(write(value))


def _identity_maker(function: IdentityFunction) -> Maker:
    def make(writer: FormWriter, value: Any) -> bytes:
        try:
            given = function(value)
        except Exception as error:  # code of the user's
            writer.note_unstable(value)
            writer.doubt(value, f"has an identity function that failed: {type(error).__name__}: {error}")
            return sized(b"?", type_name(class_of(value)).encode())
        return b"=" + text_form(type_name(class_of(value))) + writer.form(given)

    return make


_EXACT: Mapping[Any, Any] = {
    **CONTAINERS,
    **LIBRARY,
    slice: _slice_form,
    Callee: _callee_form,
    types.FunctionType: _function_form,
    types.MethodType: _method_form,
    types.BuiltinFunctionType: _builtin_form,
    types.MethodWrapperType: _wrapper_form,
    types.MethodDescriptorType: _descriptor_form,
    types.WrapperDescriptorType: _descriptor_form,
    type(re.compile("").match): _builtin_form,
    types.CodeType: _code_form,
    memoryview: _view_form,
    partial: _partial_form,
    operator.itemgetter: _reduced_form,
    operator.attrgetter: _reduced_form,
    operator.methodcaller: _reduced_form,
    types.GenericAlias: _alias_form,
    types.UnionType: _alias_form,
    typing.TypeVar: _named_form,
    typing.ParamSpec: _named_form,
    typing.NewType: _named_form,
    typing.ForwardRef: _named_form,
    type(typing.Optional): _named_form,
    type(typing.Literal): _named_form,
}


def forget_identities() -> None:
    """Forget the makers of types: one more type has an identity function."""
    _maker_of.cache_clear()


@lru_cache(maxsize=4096)
def _maker_of(kind: type[Any]) -> Maker:
    """The function that returns the forms of the instances of a class."""
    if (function := find_identity(kind)) is not None:
        return _identity_maker(function)
    if (exact := _EXACT.get(kind)) is not None:
        return exact
    if (known := next((maker for base, maker in _BASES if issubclass(kind, base)), None)) is not None:
        return known
    if is_secret(kind):
        return secret_form
    if (fields := fields_of(kind)) is not None:
        return FieldsMaker(kind, fields)
    if (write := text_of(kind)) is not None:
        return _text_maker(write)
    if issubclass(kind, BaseException):
        return _exception_form
    if (of_numpy := maker_of_numpy(kind)) is not None:
        return of_numpy
    if is_structure(kind):
        return structure_form
    if (base := next((each for each in SUBCLASSED if issubclass(kind, each)), None)) is not None:
        return _subclass_maker(kind, base) if is_made_in_python(kind, base) else unstable_form
    return _maker_by_name(kind)


def _maker_by_name(kind: type[Any]) -> Maker:
    name = type_name(kind)
    if name == "functools._lru_cache_wrapper":
        return _wrapped_form
    if name in _ALIASES:
        return _alias_form
    if name in _NAMED:
        return _named_form
    if name in _SINGLE:
        return _single_form
    base = types.SimpleNamespace if issubclass(kind, types.SimpleNamespace) else object
    if kind is not object and is_made_in_python(kind, base):
        return _object_form
    return unstable_form


_BASES: tuple[tuple[type[Any], Maker], ...] = (
    (Enum, _enum_form),
    (type, _class_form),
    (types.ModuleType, _module_form),
    (types.GenericAlias, _alias_form),
)
_ALIASES = frozenset(
    f"typing.{name}"
    for name in (
        "_GenericAlias",
        "_AnnotatedAlias",
        "_LiteralGenericAlias",
        "_UnionGenericAlias",
        "_CallableGenericAlias",
        "_UnpackGenericAlias",
    )
)
_NAMED = frozenset(
    {"logging.Logger", "logging.RootLogger", "typing.TypeAliasType", "typing._SpecialGenericAlias"}
    | {"typing._AnyMeta", "typing_extensions.TypeAliasType", "typing._CallableType", "typing._TupleType"}
)
_SINGLE = frozenset(
    {"msgspec.UnsetType", "msgspec._core.NoDefaultType", "dataclasses._MISSING_TYPE"}
    | {"pydantic_core._pydantic_core.PydanticUndefinedType", "dataclasses._KW_ONLY_TYPE"}
    | {"nighthawk_async.types.unset._UnsetVariable"}
)
"""Classes that have one object, which says that there is no value."""

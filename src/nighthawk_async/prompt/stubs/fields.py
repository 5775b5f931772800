"""The fields of classes that hold data, whichever library made them.

No instance is inspected, and no factory of a default is called. Annotations that are texts are evaluated, as
every library that validates against them does; if that fails they stay texts.
"""

import dataclasses
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

import msgspec
import typing_extensions
from msgspec import Struct
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from ...signatures import read_annotations
from ..comments import DataKey, InData
from ..plain_text import (
    class_dictionary,
    class_value,
    find_class_attribute,
    has_base,
    is_one_of,
    resolution_order,
)
from ..types import is_type_expression

NO_DEFAULT = object()
"""The default of a required field."""

_EMPTY_FACTORIES = (list, dict, set, tuple, frozenset)
_FIELD_QUALIFIERS: tuple[Any, ...] = (
    *(typing.Required, typing.NotRequired, typing.Final),
    *(typing_extensions.Required, typing_extensions.NotRequired, typing_extensions.ReadOnly),
)
_OPTIONAL: dict[Any, bool] = {
    **{typing.Required: False, typing.NotRequired: True},
    **{typing_extensions.Required: False, typing_extensions.NotRequired: True},
}


class RecordField(Struct, frozen=True, kw_only=True):
    """A field for which a value may be given.

    Args:
        name: Its name.
        annotation: Its type.
        default: The value it has when none is given; `NO_DEFAULT` when one must be, an `Ellipsis` object
            when it is made anew each time.
        metadata: Constraints and descriptions.
        is_optional: Whether the key may be missing, without a default.
    """

    name: str
    annotation: object
    default: object = NO_DEFAULT
    metadata: tuple[object, ...] = ()
    is_optional: bool = False


class Records(Struct, frozen=True, kw_only=True):
    """Fields of a class, as data.

    Args:
        fields: The fields in order.
        base: The text in the place of a base class; empty for a class that is called with its fields.
        namespace: The values of names in annotations that are texts.
    """

    fields: tuple[RecordField, ...]
    base: str = ""
    namespace: Mapping[str, object]


def find_records(cls: type) -> Records | None:
    """Find the fields of a class; None when it does not declare data.

    Args:
        cls: A class; of a generic one, not one with arguments.
    """
    for is_kind, read, base in _KINDS:
        if is_kind(cls):
            fields = tuple(read(cls))
            is_partial = base == "TypedDict" and bool(fields) and all(field.is_optional for field in fields)
            return Records(
                fields=fields,
                base="TypedDict, total=False" if is_partial else base,
                namespace=namespace_of(cls),
            )
    return None


def fields_by_key(cls: type) -> Mapping[object, object] | None:
    """The types of the fields of a class, by their names and their keys in plain data.

    Args:
        cls: A class; of a generic one, not one with arguments.

    Returns:
        None when it does not declare data.
    """
    records = find_records(cls)
    if records is None:
        return None
    keys = [(field, name) for field in records.fields for name in (field.name, *_data_keys(field))]
    return {key: field.annotation for field, key in keys}


def _data_keys(field: RecordField) -> Iterator[str]:
    for each in field.metadata:
        if type(each) is DataKey:
            yield each.key
        elif type(each) is FieldInfo:
            yield from (key for key in (each.alias, each.validation_alias) if type(key) is str)


def _has(name: str) -> Callable[[type], bool]:
    return lambda cls: find_class_attribute(cls, name)[0]


def _is_typed_dict(cls: type) -> bool:
    return has_base(cls, dict) and "__required_keys__" in class_dictionary(cls)


def _is_named_tuple(cls: type) -> bool:
    return has_base(cls, tuple) and type(class_value(cls, "_fields")) is tuple


def _pydantic_fields(cls: type) -> Iterator[RecordField]:
    fields: dict[str, FieldInfo] = class_value(cls, "__pydantic_fields__")
    for name, info in fields.items():
        if info.init is not False:
            yield _of_info(name, info.annotation, info, ())


def _dataclass_fields(cls: type) -> Iterator[RecordField]:
    fields: dict[str, dataclasses.Field[Any]] = class_value(cls, "__dataclass_fields__")
    hints = type_hints(cls)
    for name, field in fields.items():
        annotation = hints.get(name, field.type)
        if type(annotation) is dataclasses.InitVar:
            annotation = cast("Any", annotation).type
        kind = getattr(field, "_field_type").name  # noqa: B009  (a field of the instance, a class variable, …)
        if not field.init or kind == "_FIELD_CLASSVAR":
            continue
        if field.default_factory is not dataclasses.MISSING:
            yield _field(name, annotation, _of_factory(field.default_factory))
        elif type(field.default) is FieldInfo:
            yield _of_info(name, annotation, field.default, ())
        else:
            is_required = field.default is dataclasses.MISSING
            yield _field(name, annotation, NO_DEFAULT if is_required else field.default)


def _attrs_fields(cls: type) -> Iterator[RecordField]:
    hints = type_hints(cls)
    nothing = vars(sys.modules["attr"])["NOTHING"]
    for field in class_value(cls, "__attrs_attrs__"):
        if not field.init:
            continue
        default: Any = field.default
        if default is nothing:
            default = NO_DEFAULT
        elif type(default).__name__ == "Factory":
            default = ... if default.takes_self else _of_factory(default.factory)
        annotation: object = hints.get(field.name, Any if field.type is None else field.type)
        yield _field(field.alias or field.name, annotation, default)


def _struct_fields(cls: type) -> Iterator[RecordField]:
    struct = cast("type[msgspec.Struct]", cls)
    configuration = struct.__struct_config__
    if configuration.tag is not None:
        tag = cast("Any", typing.Literal)[configuration.tag]
        yield RecordField(name=cast(str, configuration.tag_field), annotation=tag, metadata=(InData(),))
    hints = type_hints(cls)
    names = struct.__struct_fields__
    defaults = (NO_DEFAULT,) * (len(names) - len(struct.__struct_defaults__)) + struct.__struct_defaults__
    for name, key, default in zip(names, struct.__struct_encode_fields__, defaults, strict=True):
        annotation = hints.get(name, Any)
        if default is msgspec.NODEFAULT:
            default = NO_DEFAULT
        elif default is msgspec.UNSET:
            default = ...
        elif type(default).__name__ == "Factory":
            default = _of_factory(cast("Any", default).factory)
        annotation = _without_unset(annotation)
        yield _field(name, annotation, default, *(() if key == name else (DataKey(key),)))


def _typed_dict_fields(cls: type) -> Iterator[RecordField]:
    optional: frozenset[str] = class_value(cls, "__optional_keys__")
    for name, annotation in type_hints(cls).items():
        is_optional = name in optional
        while (qualifier := typing_extensions.get_origin(annotation)) in _FIELD_QUALIFIERS:
            # If annotations are texts, the class itself has not seen their contents.
            is_optional = _OPTIONAL.get(qualifier, is_optional)
            annotation = typing_extensions.get_args(annotation)[0]
        yield msgspec.structs.replace(_field(name, annotation, NO_DEFAULT), is_optional=is_optional)


def _named_tuple_fields(cls: type) -> Iterator[RecordField]:
    defaults: dict[str, Any] = class_value(cls, "_field_defaults")
    hints = type_hints(cls)
    for name in class_value(cls, "_fields"):
        yield _field(name, hints.get(name, Any), defaults.get(name, NO_DEFAULT))


def _without_unset(annotation: object) -> object:
    """The type without msgspec's marker of a missing value."""
    arguments = typing_extensions.get_args(annotation)
    kept = tuple(each for each in arguments if each is not msgspec.UnsetType)
    return annotation if len(kept) == len(arguments) else typing.Union[kept]  # noqa: UP007


def _field(name: str, annotation: object, default: object, *metadata: object) -> RecordField:
    """A field whose annotation may have metadata of its own."""
    while typing_extensions.get_origin(annotation) in _FIELD_QUALIFIERS:
        annotation = typing_extensions.get_args(annotation)[0]
    if typing_extensions.get_origin(annotation) is typing_extensions.Annotated:
        own: tuple[object, ...] = getattr(annotation, "__metadata__", ())
        infos = [each for each in own if type(each) is FieldInfo]
        annotation = typing_extensions.get_args(annotation)[0]
        metadata = (*(each for each in own if type(each) is not FieldInfo), *metadata)
        if infos:
            field = _of_info(name, annotation, infos[-1], metadata)
            return field if default is NO_DEFAULT else msgspec.structs.replace(field, default=default)
    return RecordField(name=name, annotation=annotation, default=default, metadata=metadata)


def _of_info(name: str, annotation: object, info: FieldInfo, metadata: tuple[object, ...]) -> RecordField:
    """A field that pydantic's `Field` describes; `info` is metadata itself, for its facts about the value."""
    if info.default_factory is not None:
        default = _of_factory(info.default_factory)
    elif info.default is PydanticUndefined or info.default is ...:
        default = NO_DEFAULT
    else:
        default = info.default
    return RecordField(name=name, annotation=annotation, default=default, metadata=(*metadata, info))


def _of_factory(factory: object) -> object:
    return cast("Any", factory)() if is_one_of(cast("type", factory), _EMPTY_FACTORIES) else ...


def type_hints(cls: type) -> dict[str, Any]:
    """The annotations of a class, with the type variables of its bases replaced where they are known.

    Args:
        cls: The class.
    """
    try:
        hints = typing_extensions.get_type_hints(cls, include_extras=True)
        arguments = _type_arguments(cls)
        return (
            {name: _with_arguments(hint, arguments) for name, hint in hints.items()} if arguments else hints
        )
    except Exception:
        # A text may use names that exist only for type checkers; the text is still worth showing.
        raw: dict[str, Any] = {}
        for base in reversed(resolution_order(cls)):
            raw.update(read_annotations(base))
        return raw


def _type_arguments(cls: type) -> dict[object, object]:
    """The arguments that a class gives for the type variables of its generic bases."""
    arguments: dict[object, object] = {}
    for base in resolution_order(cls):
        for each in cast("tuple[object, ...]", class_dictionary(base).get("__orig_bases__", ())):
            variables = getattr(typing_extensions.get_origin(each), "__parameters__", ())
            arguments.update(zip(variables, typing_extensions.get_args(each), strict=False))
    return arguments


def _with_arguments(hint: Any, arguments: Mapping[object, object]) -> object:
    if type(hint) is TypeVar:
        return arguments.get(hint, hint)
    variables = getattr(hint, "__parameters__", ()) if is_type_expression(hint) else ()
    return hint[tuple(arguments.get(variable, variable) for variable in variables)] if variables else hint


def namespace_of(cls: type) -> Mapping[str, object]:
    """The values of names in annotations of a class that are texts.

    Args:
        cls: The class.
    """
    module = sys.modules.get(str(class_dictionary(cls).get("__module__")))
    return {} if module is None else vars(module)


_KINDS: tuple[tuple[Callable[[type], bool], Callable[[type], Iterator[RecordField]], str], ...] = (
    (_has("__pydantic_fields__"), _pydantic_fields, ""),
    (_has("__attrs_attrs__"), _attrs_fields, ""),
    (_has("__dataclass_fields__"), _dataclass_fields, ""),
    (_has("__struct_fields__"), _struct_fields, ""),
    (_is_typed_dict, _typed_dict_fields, "TypedDict"),
    (_is_named_tuple, _named_tuple_fields, "NamedTuple"),
)
"""For each kind of class: its test, the reader of its fields, and the base class named in stubs."""

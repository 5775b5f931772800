"""The fields of attrs classes and msgspec structs, of which pydantic knows nothing.

attrs is an optional library of the user's: it is never imported here.
"""

import sys
from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from pydantic import Field

__all__ = ["NO_DEFAULT", "Record", "RecordField", "record_of"]

NO_DEFAULT: Any = object()
"""The default of a field that has none, or a new one for every object."""


class RecordField(NamedTuple):
    """One field of a class, as its constructor takes it.

    Attributes:
        name: The keyword of the constructor.
        key: The name in data.
        annotation: The type that the constructor takes.
        is_required: Whether the constructor has no default for it.
        default: The default, or `NO_DEFAULT`.
    """

    name: str
    key: str
    annotation: object
    is_required: bool
    default: object = NO_DEFAULT


class Record(NamedTuple):
    """A class whose constructor takes its fields by name.

    Attributes:
        fields: The fields.
        takes_more: Whether data may have keys that are no fields, which are left out then.
        tag: The key and the value by which data of this class is told from that of others, when it is.
    """

    fields: tuple[RecordField, ...]
    takes_more: bool
    tag: tuple[str, str | int] | None = None


def record_of(kind: type) -> Record | None:
    """The fields of a class; None when it is neither an attrs class nor a msgspec struct.

    Args:
        kind: The class.

    Raises:
        Exception: An annotation of the class cannot be resolved.
    """
    if "__attrs_attrs__" in vars(kind):
        return _attrs_class(kind)
    return _struct(kind) if issubclass(kind, msgspec.Struct) else None


def _attrs_class(kind: Any) -> Record:
    types = get_type_hints(kind, localns={kind.__name__: kind}, include_extras=True)
    fields = tuple(_attribute(each, types) for each in kind.__attrs_attrs__ if each.init)
    return Record(fields, takes_more=False)


def _attribute(attribute: Any, types: Mapping[str, object]) -> RecordField:
    attrs: Any = sys.modules["attr"]
    default: object = attribute.default
    is_required = default is attrs.NOTHING
    has_value = not is_required and not isinstance(default, attrs.Factory)
    return RecordField(
        name=attribute.alias,
        key=attribute.alias,
        annotation=_converted_from(attribute.converter, types.get(attribute.name, attribute.type or Any)),
        is_required=is_required,
        default=default if has_value else NO_DEFAULT,
    )


def _converted_from(converter: Any, annotation: object) -> object:
    """The type that a converter takes where it says so; one without annotations takes what it gives."""
    if converter is None or isinstance(converter, type):
        return annotation
    attrs: Any = sys.modules["attr"]
    if isinstance(converter, getattr(attrs, "Converter", ())):
        converter = converter.converter
    try:
        taken = get_type_hints(converter, include_extras=True)
    except (NameError, TypeError):
        return annotation
    taken.pop("return", None)
    return next(iter(taken.values()), annotation)


def _struct(kind: type[msgspec.Struct]) -> Record:
    config = kind.__struct_config__
    fields = tuple(_struct_field(each) for each in msgspec.structs.fields(kind))
    tag = None if config.tag_field is None else (config.tag_field, cast("str | int", config.tag))
    return Record(fields, takes_more=not config.forbid_unknown_fields, tag=tag)


def _struct_field(field: msgspec.structs.FieldInfo) -> RecordField:
    has_value = field.default not in (msgspec.NODEFAULT, msgspec.UNSET)
    return RecordField(
        name=field.name,
        key=field.encode_name,
        annotation=_in_pydantics_words(field.type),
        is_required=field.required,
        default=field.default if has_value else NO_DEFAULT,
    )


_CONSTRAINTS = ("description", "ge", "gt", "le", "lt", "max_length", "min_length", "multiple_of", "pattern")


def _in_pydantics_words(annotation: Any) -> Any:
    """A type with `msgspec.Meta` as pydantic's constraints, and without `msgspec.UnsetType`."""
    arguments = get_args(annotation)
    origin = get_origin(annotation)
    if origin is Annotated:
        base, *metadata = arguments
        return Annotated[(_in_pydantics_words(base), *map(_constraint, metadata))]
    if origin in (Union, UnionType):
        left = tuple(_in_pydantics_words(each) for each in arguments if each is not msgspec.UnsetType)
        return Union[left]  # noqa: UP007 - of members that are known at run time only
    changed = tuple(map(_in_pydantics_words, arguments))
    if all(one is other for one, other in zip(changed, arguments, strict=True)):
        return annotation
    return annotation.copy_with(changed) if hasattr(annotation, "copy_with") else origin[changed]


def _constraint(metadata: object) -> object:
    if not isinstance(metadata, msgspec.Meta):
        return metadata
    given = {name: value for name in _CONSTRAINTS if (value := getattr(metadata, name)) is not None}
    return Field(**given)

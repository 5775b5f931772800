"""JSON Schemas of servers as Python types, for signatures that models read and forms that people fill in.

A type is as exact as one line can say; whatever Python has no type for is `Any`. Nothing is validated with
them but the answers of people: servers validate their arguments themselves.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import reduce
from typing import Annotated, Any, Literal, NotRequired, TypeAlias, cast

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import AfterValidator, AnyUrl, Field, TypeAdapter
from typing_extensions import TypedDict  # which pydantic demands before Python 3.12

from ..prompt.types import written_type
from ..types.json import is_json_list, is_json_mapping, is_list_or_tuple
from .schema_parts import pointed_at

Schema: TypeAlias = Mapping[str, Any]

_SIMPLE: Mapping[str, object] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "null": None,
}
_MAX_DEPTH = 4
_MAX_FIELDS = 12
_MAX_LITERALS = 20
_MAX_SCHEMAS = 2_000  # in one document, counted as often as they are referred to
_BOUNDS: Mapping[str, Any] = {"minimum": Ge, "maximum": Le, "minLength": MinLen, "maxLength": MaxLen}


class SchemaTypes:
    """Makes types of the schemas in one document.

    Args:
        document: The document, which references refer to.
    """

    def __init__(self, document: Schema) -> None:
        self._document = document
        self._seen = 0

    def type_of(self, schema: object, depth: int = 0) -> object:
        """Return the type of a schema; `Any` where there is none."""
        self._seen += 1
        if self._seen > _MAX_SCHEMAS or depth > _MAX_DEPTH or not is_json_mapping(schema):
            return Any
        if isinstance(reference := schema.get("$ref"), str):
            return self.type_of(pointed_at(self._document, reference), depth + 1)
        if "const" in schema:
            return _literal([schema["const"]])
        if isinstance(schema.get("enum"), list):
            return _literal(schema["enum"])
        for union in ("anyOf", "oneOf"):
            if isinstance(schema.get(union), list):
                return _union([self.type_of(each, depth) for each in schema[union]])
        kinds = schema.get("type")
        if is_json_list(kinds):
            return _union([self._of_kind(kind, schema, depth) for kind in kinds])
        return self._of_kind(kinds, schema, depth)

    def _of_kind(self, kind: object, schema: Schema, depth: int) -> object:
        if isinstance(kind, str) and kind in _SIMPLE:
            return _SIMPLE[kind]
        if kind == "array":
            item: Any = self.type_of(schema.get("items"), depth + 1)
            return list[item]
        if kind == "object":
            return self._of_object(schema, depth)
        return Any

    def _of_object(self, schema: Schema, depth: int) -> object:
        properties = schema.get("properties")
        if not is_json_mapping(properties) or not properties:
            value: Any = self.type_of(schema.get("additionalProperties"), depth + 1)
            return dict[str, value]
        if len(properties) > _MAX_FIELDS or depth >= _MAX_DEPTH:
            return dict[str, Any]
        required = required_of(schema)
        types = {name: self.type_of(each, depth + 1) for name, each in properties.items()}
        return record_type(types, required)


def record_type(types: Mapping[str, Any], required: Sequence[str]) -> object:
    """Return a `TypedDict`, whose name shows its fields: prompts write it wherever it is mentioned."""
    shown = ", ".join(
        f"{name!r}{'' if name in required else '?'}: {written_type(each)}" for name, each in types.items()
    )
    fields: dict[str, Any] = {
        name: each if name in required else NotRequired[each] for name, each in types.items()
    }
    made: Any = cast("Any", TypedDict)(f"{{{shown}}}", fields)
    made.__module__ = "builtins"  # so that no module is written before the name
    return made


def required_of(schema: Schema) -> tuple[str, ...]:
    """The names of the required properties."""
    required = schema.get("required", ())
    return tuple(map(str, required)) if is_list_or_tuple(required) else ()


def allows_null(annotation: object) -> bool:
    """Whether a type includes None."""
    return annotation is None or annotation is Any or type(None) in getattr(annotation, "__args__", ())


def _literal(values: Sequence[object]) -> object:
    plain = [each for each in values if each is None or isinstance(each, str | int | bool)]
    if len(plain) < len(values) or len(plain) > _MAX_LITERALS:
        kinds = {type(each) for each in values}
        return kinds.pop() if len(kinds) == 1 and kinds <= {str, int, float, bool} else Any
    return Literal[tuple(plain)]


def _union(types: Sequence[object]) -> object:
    distinct = [each for position, each in enumerate(types) if each not in types[:position]]
    if Any in distinct or not distinct:
        return Any
    if distinct == [None]:
        return None
    ordered: list[Any] = sorted(distinct, key=lambda each: each is None)
    return reduce(lambda union, each: union | each, ordered)


def form_type(schema: Schema) -> object | None:
    """Return the type of the answers to a form; None for a form without fields, which is a yes or no.

    Answers are plain data: a date stays a text.

    Args:
        schema: The JSON Schema: an object of texts, numbers, booleans and choices.
    """
    properties = schema.get("properties")
    if not is_json_mapping(properties) or not properties:
        return None
    required, types = required_of(schema), SchemaTypes(schema)
    fields: dict[str, Any] = {}
    for name, each in properties.items():
        field = _field(each, types.type_of(each))
        fields[name] = field if name in required else NotRequired[field]
    return cast("Any", TypedDict)("Form", fields)


def _field(schema: object, annotation: object) -> Any:
    given: Schema = schema if is_json_mapping(schema) else {}
    metadata: list[object] = [make(given[name]) for name, make in _BOUNDS.items() if name in given]
    if (check := _FORMATS.get(str(given.get("format")))) is not None and annotation is str:
        metadata.append(AfterValidator(check))
    shown = {name: given[name] for name in ("title", "description") if isinstance(given.get(name), str)}
    return Annotated[(cast("Any", annotation), *metadata, Field(**shown))]


def _written_as(kind: Any) -> Any:
    adapter = TypeAdapter[object](kind)

    def check(text: str) -> str:
        adapter.validate_python(text)
        return text

    return check


def _check_email(text: str) -> str:
    name, at, host = text.rpartition("@")
    if not (name and at and host) or any(each.isspace() for each in text):
        raise ValueError("an e-mail address has the form name@host")
    return text


_FORMATS: Mapping[str, Any] = {
    "email": _check_email,
    "uri": _written_as(AnyUrl),
    "date": _written_as(date),
    "date-time": _written_as(datetime),
}
"""Checks of the formats that the protocol allows."""

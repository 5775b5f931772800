"""Values given as plain data: their JSON Schema, and their conversion to objects.

A JSON value is validated by pydantic's rules for JSON: the text of a date becomes a date, in strict models
too. So validation accepts more than the schema says, "5" for a number for example, but never less.

The schema is made from pydantic's core schemas. As far as JSON Schema can express it, it allows nothing that
validation refuses. Pydantic's own schema also covers serialization, and leaves out the keys of dicts and
the digits of decimals.
"""

import enum
import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from msgspec import Struct
from pydantic import ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import ErrorDetails, PydanticSerializationError, SchemaValidator, core_schema, to_json

from ..errors import AnnotationError
from ..types.json import is_json_list, is_json_object
from .error_text import describe_error, joined_problems
from .schemas import CoreSchema, adapted_core_schema, changed, is_given_by_name, schema_validator, with_inner
from .validation import mismatch_error, reason_without_schema, type_name


class JsonSchemas(Struct, frozen=True, kw_only=True):
    """The JSON Schemas of several types, for use in one document.

    Args:
        schemas: The schema of each type, in the order of the types.
        definitions: The schemas that they refer to, for `$defs` at the root of the document.
    """

    schemas: tuple[dict[str, Any], ...]
    definitions: dict[str, Any]


def json_schemas_of(core_schemas: Sequence[dict[str, Any]]) -> JsonSchemas:
    """The JSON Schemas of core schemas; their definitions have distinct names.

    Raises:
        pydantic.PydanticUserError: JSON cannot represent a value.
    """
    wholes = cast("Sequence[core_schema.CoreSchema]", core_schemas)
    schemas, definitions = _DataSchema().generate_definitions(
        [(at, "validation", whole) for at, whole in enumerate(wholes)]
    )
    for each in (*schemas.values(), *definitions.values()):
        _require_tags(each, cast("dict[str, Any]", definitions))
    names = _readable_names(definitions)
    try:
        return JsonSchemas(
            schemas=tuple(_cleaned(schemas[at, "validation"], names) for at in range(len(wholes))),
            definitions={names[name]: _cleaned(each, names) for name, each in definitions.items()},
        )
    except KeyError:  # a reference to a type without a JSON Schema, which pydantic skips when given several
        for whole in wholes:
            _DataSchema().generate(whole)  # raises the reason
        raise


_DECIMAL = r"^-?[0-9]+(\.[0-9]+)?$"
_JSON_TYPES: Mapping[type, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_KEYS = {"integer": "^(0|-?[1-9][0-9]*)$", "number": r"^-?[0-9]+(\.[0-9]+)?$", "boolean": "^(true|false)$"}
"""The JSON form of dict keys that are not texts."""


class _DataSchema(GenerateJsonSchema):
    """Pydantic's JSON Schema, for validation only, and without warnings."""

    def field_is_present(self, field: Any) -> bool:
        return field.get("init", True) and super().field_is_present(field)

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        return

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        kind: type[enum.Enum] = schema["cls"]
        if issubclass(kind, enum.Flag):
            return _flags(kind)
        by_name = is_given_by_name(kind)
        values: list[object] = [each.name if by_name else each.value for each in kind]
        kinds = {_JSON_TYPES.get(type(value)) for value in values}
        json_type = kinds.pop() if len(kinds) == 1 else None
        return {"enum": values} if json_type is None else {"enum": values, "type": json_type}

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        expected = [
            each.name if isinstance(each, enum.Enum) and is_given_by_name(type(each)) else each
            for each in schema["expected"]
        ]
        return super().literal_schema({**schema, "expected": expected})

    def is_subclass_schema(self, schema: core_schema.IsSubclassSchema) -> JsonSchemaValue:
        return self.handle_invalid_for_json_schema(schema, f"core_schema.IsSubclassSchema ({schema['cls']})")

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        json_schema = super().tagged_union_schema(schema)
        if "oneOf" in json_schema:  # the constants of the choices discriminate already
            json_schema["anyOf"] = json_schema.pop("oneOf")
        return json_schema

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        number, _ = super().decimal_schema(schema)["anyOf"]
        is_bounded = any(schema.get(bound) is not None for bound in ("ge", "gt", "le", "lt", "multiple_of"))
        # Bounds of a number do not apply to a text.
        return number if is_bounded else {"anyOf": [number, {"type": "string", "pattern": _DECIMAL}]}

    def named_tuple_schema(self, schema: Any) -> JsonSchemaValue:
        """A named tuple as an object of its fields; validation also accepts a list."""
        return self.kw_arguments_schema(schema["fields"], None)

    def call_schema(self, schema: core_schema.CallSchema) -> JsonSchemaValue:
        """The schema of a named tuple in older releases of pydantic."""
        arguments: Any = schema["arguments_schema"]
        if arguments.get("metadata", {}).get("pydantic_js_prefer_positional_arguments"):
            return self.kw_arguments_schema(arguments["arguments_schema"], None)
        return super().call_schema(schema)

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        json_schema = super().dict_schema(schema)
        if patterns := json_schema.pop("patternProperties", None):
            ((pattern, values),) = patterns.items()
            names = json_schema.get("propertyNames", {})
            json_schema |= {"additionalProperties": values, "propertyNames": names | {"pattern": pattern}}
        elif "keys_schema" in schema:
            keys = self.generate_inner(schema["keys_schema"])
            json_schema |= _names_of_keys(self.resolve_ref_schema(keys) if "$ref" in keys else keys)
        return json_schema


def _flags(kind: type[enum.Flag]) -> JsonSchemaValue:
    """The schema of the numbers that represent combinations of flags."""
    every = 0
    for each in kind:
        every |= each.value
    numbers: JsonSchemaValue = {"type": "integer", "minimum": 0, "maximum": every}
    if every != 2 ** every.bit_length() - 1 and every < 2**16:
        numbers = {"type": "integer", "enum": [each for each in range(every + 1) if each & every == each]}
    listed = ", ".join(f"{each.name} = {each.value}" for each in kind)
    return numbers | {"description": f"the sum of any of {listed}"}


def _names_of_keys(keys: JsonSchemaValue) -> JsonSchemaValue:
    """Return the schema of an object's names that represent keys which are not texts."""
    kind = keys.get("type")
    if kind in (None, "string"):
        return {}
    if kind not in _KEYS:
        raise PydanticInvalidForJsonSchema(f"JSON has no keys of the type {kind}")
    if "enum" in keys:
        return {"propertyNames": {"enum": [json.dumps(each) for each in keys["enum"]]}}
    return {"propertyNames": {"pattern": _KEYS[kind]}}


def _require_tags(schema: Any, definitions: Mapping[str, Any]) -> None:
    """Require the tag in all members of the tagged unions in a schema: validation does, default or not.

    Args:
        schema: The schema; it is changed.
        definitions: The schemas that its references refer to; they are changed.
    """
    if is_json_list(schema):
        for each in schema:
            _require_tags(each, definitions)
    if not is_json_object(schema):
        return
    discriminator = schema.get("discriminator")
    if "anyOf" in schema and isinstance(discriminator, dict):
        tag = schema.pop("discriminator")["propertyName"]
        for each in schema["anyOf"]:
            _require_tag(each, tag, definitions)
    for each in schema.values():
        _require_tags(each, definitions)


def _require_tag(member: dict[str, Any], tag: str, definitions: Mapping[str, Any]) -> None:
    while isinstance(reference := member.get("$ref"), str):
        member = definitions[reference.removeprefix(_REFERENCE)]
    for each in member.get("anyOf", ()):  # a union inside a union
        _require_tag(each, tag, definitions)
    if tag in member.get("properties", {}) and tag not in (required := member.get("required", [])):
        member["required"] = [tag, *required]


_NAMED_SCHEMAS = ("properties", "patternProperties", "$defs", "dependentSchemas")
_LISTED_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_INNER_SCHEMAS = ("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else")
_REFERENCE = "#/$defs/"


def _cleaned(schema: Any, names: Mapping[str, str]) -> Any:
    """A schema without titles, with its references renamed."""
    if not is_json_object(schema):  # True or False
        return schema
    cleaned = {name: each for name, each in schema.items() if name != "title"}
    if "default" in cleaned and not _is_json(cleaned["default"]):
        del cleaned["default"]
    if isinstance(reference := cleaned.get("$ref"), str) and reference.startswith(_REFERENCE):
        cleaned["$ref"] = _REFERENCE + names[reference.removeprefix(_REFERENCE)]
    for name in _NAMED_SCHEMAS:
        if is_json_object(inner := cleaned.get(name)):
            cleaned[name] = {key: _cleaned(each, names) for key, each in inner.items()}
    for name in _LISTED_SCHEMAS:
        if is_json_list(inner := cleaned.get(name)):
            cleaned[name] = [_cleaned(each, names) for each in inner]
    for name in _INNER_SCHEMAS:
        if name in cleaned:
            cleaned[name] = _cleaned(cleaned[name], names)
    return cleaned


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _readable_names(definitions: Iterable[str]) -> dict[str, str]:
    """Short names of definitions; of several classes with the same name, the second becomes Name2."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for given in definitions:
        parts = [part.strip("_") for part in given.split("__")]
        short = next((part for part in reversed(parts) if part and not part.isdecimal()), given)
        count = 1
        name = short
        while name in taken:
            count += 1
            name = f"{short}{count}"
        taken.add(name)
        names[given] = name
    return names


_MAX_GIVEN = 80
"""Number of characters of a given value that an error quotes."""


def data_schemas(annotations: tuple[object, ...]) -> JsonSchemas:
    """The JSON Schemas of types, for values that are given as data; their definitions have distinct names.

    They have no titles. They include a default if JSON can represent it.

    Args:
        annotations: The types.

    Raises:
        Exception: A type has no JSON Schema, a plain class for example; see `reason_without_schema`.
    """
    try:
        return _cached_schemas(annotations)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        return _schemas(annotations)  # Annotated[int, {}]


@lru_cache(maxsize=256)
def _cached_schemas(annotations: tuple[Hashable, ...]) -> JsonSchemas:
    return _schemas(annotations)


def _schemas(annotations: tuple[object, ...]) -> JsonSchemas:
    return json_schemas_of([adapted_core_schema(each).whole for each in annotations])


def validate_data(value: object, annotation: object, *, subject: str, is_whole: bool = True) -> object:
    """Validate a JSON value against a type.

    Args:
        value: The decoded value: dict, list, str, int, float, bool or None.
        annotation: The type.
        subject: The name of the value in the error: "write binding 'x'".
        is_whole: Whether the data is complete. If not, a last part that does not match is left out.

    Returns:
        The object that the data represents.

    Raises:
        ToolValidationError: The value does not match; the message says where, and quotes the given value.
        AnnotationError: No value can be validated against the type.
    """
    validator = _validator_of(annotation, subject)
    try:
        text = to_json(value, inf_nan_mode="constants")
        return validator.validate_json(text, allow_partial=not is_whole)
    except ValidationError as error:
        paths = [each["loc"] for each in error.errors(include_url=False, include_input=False)]
        raise mismatch_error(subject, annotation, _describe(error, value), *paths) from error
    except PydanticSerializationError as error:
        raise mismatch_error(subject, annotation, _describe_unencodable(error)) from error
    except Exception as error:  # a user's validator may raise anything
        raise mismatch_error(subject, annotation, describe_error(error)) from error


def _validator_of(annotation: object, subject: str) -> SchemaValidator:
    try:
        try:
            return _cached_validator(annotation)
        except TypeError as error:
            if "unhashable" not in str(error):
                raise
            return _build_validator(annotation)
    except Exception as error:  # code of the user's types may raise anything
        raise AnnotationError(
            f"{subject} has the type {type_name(annotation)}, which cannot be given as data: "
            f"{reason_without_schema(error)}"
        ) from error


@lru_cache(maxsize=1024)
def _cached_validator(annotation: Hashable) -> SchemaValidator:
    return _build_validator(annotation)


def _build_validator(annotation: object) -> SchemaValidator:
    return data_validator(adapted_core_schema(annotation))


def data_validator(schema: CoreSchema) -> SchemaValidator:
    """Return the validator of values given as data.

    Args:
        schema: The core schema of the type.
    """
    return schema_validator(CoreSchema(*changed(tuple(schema), _relaxed)).whole)


_READ_FROM_TEXT = frozenset(
    {"bytes", "complex", "date", "datetime", "decimal", "enum", "fraction", "frozenset", "ip", "set", "time"}
    | {"timedelta", "tuple", "url", "multi-host-url", "uuid"}
)
"""Kinds of core schemas whose values have another form in JSON."""


def _relaxed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema, accepting the JSON form of values in strict models too, and lists for generators.

    Pydantic does the first by itself, except inside validators that run before or wrap its own.
    """
    relaxed = with_inner(schema, _relaxed)
    if schema["type"] == "generator":  # it would validate items only on iteration
        return relaxed | {"type": "list"}
    return relaxed | {"strict": False} if schema["type"] in _READ_FROM_TEXT else relaxed


def _describe(error: ValidationError, value: object) -> str:
    """The problems on one line, each with its location and the given value."""
    details = error.errors(include_url=False, include_context=False)
    return joined_problems([_describe_problem(each, value) for each in details])


def _describe_problem(detail: ErrorDetails, value: object) -> str:
    path, alternative = _path(detail["loc"], value, is_missing=detail["type"] == "missing")
    at = f"at {path}: " if path else ""
    as_what = f" (as {alternative})" if alternative else ""
    if detail["type"] in ("missing", "json_invalid"):
        return f"{at}{detail['msg']}{as_what}"
    return f"{at}{detail['msg']}{as_what}, not {_given(detail['input'])}"


def _path(location: Sequence[int | str], value: object, *, is_missing: bool) -> tuple[str, str]:
    """The path into a value, and the alternatives of unions that were tried on the way."""
    path, alternatives = "", list[str]()
    for position, step in enumerate(location):
        is_last = position == len(location) - 1
        if isinstance(value, list) and isinstance(step, int):
            items = cast("list[object]", value)
            path += f"[{step}]"
            value = items[step] if step < len(items) else None
        elif isinstance(value, dict) and (step in value or (is_last and is_missing)):
            fields = cast("dict[object, object]", value)
            text = str(step)
            path += (f".{text}" if path else text) if text.isidentifier() else f"[{text!r}]"
            value = fields.get(step)
        else:
            alternatives.append(str(step))
    return path, ", ".join(alternatives)


def _given(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_GIVEN else f"{text[:_MAX_GIVEN]}…"


def _describe_unencodable(error: PydanticSerializationError) -> str:
    if "surrogate" in str(error):
        return r"a text in it holds half of a surrogate pair, such as \ud83d, which is no character"
    return "it is nested too deep"

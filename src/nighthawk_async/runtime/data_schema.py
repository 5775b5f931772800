"""The JSON Schema of values that are given as data, from pydantic's core schemas.

It allows nothing that validation refuses, as far as JSON Schema can say it: pydantic's own is about what it
writes, too, and leaves out the keys of dicts and the digits of decimals.
"""

import enum
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import core_schema

from .core_schemas import is_given_by_name

__all__ = ["JsonSchemas", "json_schemas_of"]


class JsonSchemas(Struct, frozen=True, kw_only=True):
    """The JSON Schemas of several types, for the inside of one document.

    Args:
        schemas: The schema of each type, in the order of the types.
        definitions: The schemas that they refer to, to stand as `$defs` at the root of the document.
    """

    schemas: tuple[dict[str, Any], ...]
    definitions: dict[str, Any]


def json_schemas_of(core_schemas: Sequence[dict[str, Any]]) -> JsonSchemas:
    """The JSON Schemas of core schemas; their definitions are named apart.

    Raises:
        pydantic.PydanticUserError: JSON has no form of a value.
    """
    wholes = cast("Sequence[core_schema.CoreSchema]", core_schemas)
    schemas, definitions = _DataSchema().generate_definitions(
        [(at, "validation", whole) for at, whole in enumerate(wholes)]
    )
    names = _readable_names(definitions)
    try:
        return JsonSchemas(
            schemas=tuple(_cleaned(schemas[at, "validation"], names) for at in range(len(wholes))),
            definitions={names[name]: _cleaned(each, names) for name, each in definitions.items()},
        )
    except KeyError:  # a reference to what has no JSON Schema, which this way of pydantic's passes over
        for whole in wholes:
            _DataSchema().generate(whole)  # raises the reason
        raise


_DECIMAL = r"^-?[0-9]+(\.[0-9]+)?$"
_JSON_TYPES: Mapping[type, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_KEYS = {"integer": "^(0|-?[1-9][0-9]*)$", "number": r"^-?[0-9]+(\.[0-9]+)?$", "boolean": "^(true|false)$"}
"""How keys of a dict that are no texts are written in JSON."""


class _DataSchema(GenerateJsonSchema):
    """pydantic's JSON Schema, of what it takes alone, and without warnings."""

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
        json_schema.pop("discriminator", None)
        if "oneOf" in json_schema:  # the constants of the choices say which of them is meant
            json_schema["anyOf"] = json_schema.pop("oneOf")
        return json_schema

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        number, _ = super().decimal_schema(schema)["anyOf"]
        is_bounded = any(schema.get(bound) is not None for bound in ("ge", "gt", "le", "lt", "multiple_of"))
        # What bounds a number says nothing about a text.
        return number if is_bounded else {"anyOf": [number, {"type": "string", "pattern": _DECIMAL}]}

    def named_tuple_schema(self, schema: Any) -> JsonSchemaValue:
        """A named tuple as an object of its fields; as a list it is taken, too."""
        return self.kw_arguments_schema(schema["fields"], None)

    def call_schema(self, schema: core_schema.CallSchema) -> JsonSchemaValue:
        """The same in older releases of pydantic."""
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
    """The numbers that stand for combinations of flags."""
    every = 0
    for each in kind:
        every |= each.value
    numbers: JsonSchemaValue = {"type": "integer", "minimum": 0, "maximum": every}
    if every != 2 ** every.bit_length() - 1 and every < 2**16:
        numbers = {"type": "integer", "enum": [each for each in range(every + 1) if each & every == each]}
    listed = ", ".join(f"{each.name} = {each.value}" for each in kind)
    return numbers | {"description": f"the sum of any of {listed}"}


def _names_of_keys(keys: JsonSchemaValue) -> JsonSchemaValue:
    """Return the schema of an object's names, where they stand for keys that are no texts."""
    kind = keys.get("type")
    if kind in (None, "string"):
        return {}
    if kind not in _KEYS:
        raise PydanticInvalidForJsonSchema(f"JSON has no keys of the type {kind}")
    if "enum" in keys:
        return {"propertyNames": {"enum": [json.dumps(each) for each in keys["enum"]]}}
    return {"propertyNames": {"pattern": _KEYS[kind]}}


_NAMED_SCHEMAS = ("properties", "patternProperties", "$defs", "dependentSchemas")
_LISTED_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_INNER_SCHEMAS = ("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else")
_REFERENCE = "#/$defs/"


def _cleaned(schema: Any, names: Mapping[str, str]) -> Any:
    """A schema without titles, whose references have other names."""
    if not isinstance(schema, dict):  # True or False
        return schema
    cleaned = {name: each for name, each in cast("dict[str, Any]", schema).items() if name != "title"}
    if "default" in cleaned and not _is_json(cleaned["default"]):
        del cleaned["default"]
    if isinstance(reference := cleaned.get("$ref"), str) and reference.startswith(_REFERENCE):
        cleaned["$ref"] = _REFERENCE + names[reference.removeprefix(_REFERENCE)]
    for name in _NAMED_SCHEMAS:
        if isinstance(inner := cleaned.get(name), dict):
            named = cast("dict[str, Any]", inner)
            cleaned[name] = {key: _cleaned(each, names) for key, each in named.items()}
    for name in _LISTED_SCHEMAS:
        if isinstance(inner := cleaned.get(name), list):
            cleaned[name] = [_cleaned(each, names) for each in cast("list[Any]", inner)]
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
    """Short names of definitions: of several classes with one name, the second is called Name2."""
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

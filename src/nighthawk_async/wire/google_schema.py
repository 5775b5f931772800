"""A JSON Schema in the words that Gemini takes. Floor 1.

The endpoint takes JSON Schema in `parametersJsonSchema` and `responseJsonSchema`, but knows a part of it
alone. What it does not know it ignores at best, so it is said in other words where there are such, and left
out where there are none: the schema then allows more, and what the model writes is checked against the real
type anyway.

Source: the description of `response_json_schema` in `types.py` of the official SDK, and "JSON Schema support"
in the provider's documentation of structured output.
"""

from collections.abc import Mapping
from typing import Any, TypeGuard

__all__ = ["adapted_schema", "takes_nothing"]

_KEPT = frozenset(
    {
        "$anchor",
        "$id",
        "description",
        "maxItems",
        "maximum",
        "minItems",
        "minimum",
        "propertyOrdering",
        "required",
        "title",
        "type",
    }
)
_FORMATS = frozenset({"date", "date-time", "double", "float", "int32", "int64", "time"})
_ENUMERABLE = frozenset({"integer", "number", "string"})
_LISTS_OF_SCHEMAS = ("anyOf", "oneOf", "prefixItems")
_ARGUMENT_KEYWORDS = (
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "patternProperties",
    "properties",
)
_NAMED_SCHEMAS = {"$defs": "$defs", "definitions": "$defs", "properties": "properties"}


def adapted_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON Schema in the words that the endpoint knows.

    Args:
        schema: A JSON Schema; it stays as it is.
    """
    adapted = {name: value for name, value in schema.items() if name in _KEPT}
    if schema.get("format") in _FORMATS:
        adapted["format"] = schema["format"]
    for name, theirs in _NAMED_SCHEMAS.items():
        if _is_mapping(named := schema.get(name)):
            adapted[theirs] = {key: _adapted(each) for key, each in named.items()}
    for name in _LISTS_OF_SCHEMAS:
        if _is_list(members := schema.get(name)):
            adapted[name] = [_adapted(each) for each in members]
    if "items" in schema:
        adapted["items"] = _adapted(schema["items"])
    if "additionalProperties" in schema:
        additional: object = schema["additionalProperties"]
        adapted["additionalProperties"] = additional if isinstance(additional, bool) else _adapted(additional)
    _adapt_values(schema, adapted)
    _adapt_bounds(schema, adapted)
    _adapt_references(schema, adapted)
    return adapted


def takes_nothing(schema: Mapping[str, Any]) -> bool:
    """Whether an object schema describes arguments of which there are none.

    Args:
        schema: A JSON Schema.
    """
    return not any(schema.get(name) for name in _ARGUMENT_KEYWORDS)


def _adapted(schema: object) -> dict[str, Any]:
    """The schema inside another; one that is no object, `True` or `False`, is said as one for any value."""
    return adapted_schema(schema) if _is_mapping(schema) else {}


def _adapt_values(schema: Mapping[str, Any], adapted: dict[str, Any]) -> None:
    """Say listed values, and a constant, as an enumeration, which holds texts and numbers alone."""
    listed: object = [schema["const"]] if "const" in schema else schema.get("enum")
    if not _is_list(listed):
        return
    plain = [value for value in listed if _type_of(value) in _ENUMERABLE]
    others = sorted({_type_of(value) for value in listed} - _ENUMERABLE)
    if "array" in others or "object" in others:
        return
    members: list[dict[str, Any]] = [{"type": each} for each in others]
    if plain:
        types = sorted({_type_of(value) for value in plain})
        members.insert(0, {"enum": plain, "type": types if len(types) > 1 else types[0]})
    if len(members) == 1:
        declared = {"type": schema["type"]} if "type" in schema else {}
        adapted.update(members[0] | declared)
    elif members and "anyOf" not in adapted:
        adapted.pop("type", None)
        adapted["anyOf"] = members


def _adapt_bounds(schema: Mapping[str, Any], adapted: dict[str, Any]) -> None:
    """Say exclusive bounds of integers as inclusive ones; those of other numbers come near enough."""
    for theirs, ours, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        bound: object = schema.get(theirs)
        if isinstance(bound, int | float) and not isinstance(bound, bool):
            is_integer = schema.get("type") == "integer" and isinstance(bound, int)
            adapted.setdefault(ours, bound + step if is_integer else bound)


def _adapt_references(schema: Mapping[str, Any], adapted: dict[str, Any]) -> None:
    """Keep a reference alone, as the endpoint wants it, and what stands beside it around it."""
    all_of: object = schema.get("allOf")
    if isinstance(reference := schema.get("$ref"), str):
        member: dict[str, Any] = {"$ref": reference.replace("#/definitions/", "#/$defs/", 1)}
    elif _is_list(all_of) and len(all_of) == 1:
        member = _adapted(all_of[0])
    else:
        return
    if all(name.startswith("$") for name in adapted):
        adapted.update(member)
    else:
        adapted.setdefault("anyOf", [member])


def _type_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case Mapping():
            return "object"
        case _:
            return "array"


def _is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list | tuple)

"""JSON Schemas in the subset that Anthropic's structured output takes.

The endpoint refuses the whole request for one keyword it does not know. What it cannot hold the answer to,
such as a minimum, moves into the description, where the model reads it; whoever asked validates the answer
anyway. Objects are closed, which only narrows the answer. What cannot be narrowed without emptying it, a
value of any type or an object with free keys, is refused, and so is a schema that contains itself.

Source: "Structured outputs", "JSON Schema limitations", of the provider's documentation, and the schema
transformation of the official SDK.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard, cast

from ..errors import ConfigurationError
from .anthropic_limits import fitted_schema
from .anthropic_references import find_recursion

__all__ = ["supported_schema"]

_Schema = Mapping[str, Any]

_DEFINITIONS = ("$defs", "definitions")
_UNIONS = {"anyOf": "anyOf", "oneOf": "anyOf", "allOf": "allOf"}
_FORMATS = frozenset(
    {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"}
)
_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
# These say nothing that the model must know.
_DROPPED = frozenset({"$schema", "$id", "$comment", "discriminator"})


def supported_schema(schema: _Schema) -> dict[str, Any]:
    """The schema as the endpoint takes it.

    Args:
        schema: A JSON Schema.

    Raises:
        ConfigurationError: The subset has no words for a part of it, it contains itself, or it is too large.
    """
    encoded = _encode(schema)
    if (reference := find_recursion(encoded)) is not None:
        raise ConfigurationError(
            "The structured output of the Anthropic Messages protocol cannot carry a schema that contains "
            f"itself, as this one does by {_quoted(reference)}. Let the value travel through tools."
        )
    return fitted_schema(encoded)


def _encode(given: object) -> dict[str, Any]:
    # `true` and `false` are schemas as well, of any value and of none.
    schema: _Schema = given if _is_schema(given) else {}
    left = {name: value for name, value in schema.items() if name not in _DROPPED}
    encoded: dict[str, Any] = {}
    for place in _DEFINITIONS:
        if _is_schema(definitions := left.pop(place, None)):
            encoded[place] = {name: _encode(each) for name, each in definitions.items()}
    if "$ref" in left:  # a reference stands alone
        return encoded | {"$ref": left["$ref"]}
    encoded |= _encode_kind(left)
    left.pop("additionalProperties", None)
    for name in ("title", "description"):
        if name in left:
            encoded[name] = left.pop(name)
    if left:
        encoded["description"] = _described(encoded.get("description"), left)
    return encoded


def _encode_kind(left: dict[str, Any]) -> dict[str, Any]:
    """Encode the kinds of values; their keywords are removed from the rest of the schema."""
    if literals := {name: left.pop(name) for name in ("enum", "const") if _has_plain_values(left, name)}:
        left.pop("type", None)
        return literals
    for name, encoded_name in _UNIONS.items():
        if _is_list(left.get(name)):
            left.pop("type", None)
            return {encoded_name: [_encode(each) for each in left.pop(name)]}
    kind: object = left.get("type")
    if _is_list(kind):
        return {"anyOf": _split_types(kind, left)}
    if not isinstance(kind, str) or kind not in _TYPES:
        raise ConfigurationError(
            "The structured output of the Anthropic Messages protocol needs a type for every value; the "
            f"schema has none in {_quoted(left)}."
        )
    details = _encode_details(kind, left)
    return {"type": left.pop("type")} | details


def _split_types(kinds: Sequence[object], left: dict[str, Any]) -> list[dict[str, Any]]:
    """A variant for each of several types; the words about all of them stay above."""
    words = {name: left.pop(name) for name in ("title", "description", "default") if name in left}
    variants = [_encode({**left, "type": kind}) for kind in kinds]
    left.clear()
    left.update(words)
    return variants


def _encode_details(kind: str, left: dict[str, Any]) -> dict[str, Any]:
    if kind == "object":
        return _encode_object(left)
    if kind == "array":
        details = {"items": _encode(left.pop("items"))} if "items" in left else {}
        return details | ({"minItems": left.pop("minItems")} if left.get("minItems") in (0, 1) else {})
    is_known = kind == "string" and str(left.get("format")) in _FORMATS
    return {"format": left.pop("format")} if is_known else {}


def _encode_object(left: dict[str, Any]) -> dict[str, Any]:
    given: object = left.get("properties")
    properties: _Schema = given if _is_schema(given) else {}
    if not properties and left.get("additionalProperties", "properties" not in left) is not False:
        raise ConfigurationError(
            "The structured output of the Anthropic Messages protocol cannot carry objects with free keys; "
            f"the schema has one in {_quoted(left)}. Name its keys, or let the value travel through tools."
        )
    left.pop("properties", None)
    encoded: dict[str, Any] = {
        "properties": {name: _encode(each) for name, each in properties.items()},
        "additionalProperties": False,
    }
    return encoded | ({"required": left.pop("required")} if _is_list(left.get("required")) else {})


def _described(description: object, left: _Schema) -> str:
    rules = ", ".join(f"{name}: {_quoted(value)}" for name, value in left.items())
    return f"{description} ({rules})" if description else f"({rules})"


def _has_plain_values(schema: _Schema, name: str) -> bool:
    """Whether a schema lists its values under that name, at least one, and scalars alone."""
    if name not in schema:
        return False
    values: object = schema[name] if name == "enum" else [schema[name]]
    return _is_list(values) and all(each is None or isinstance(each, str | int | float) for each in values)


def _quoted(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 200 else text[:200] + "…"


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    """Whether a value is a list that holds something."""
    return isinstance(value, list | tuple) and bool(cast("Sequence[object]", value))


def _is_schema(value: object) -> TypeGuard[_Schema]:
    return isinstance(value, Mapping)

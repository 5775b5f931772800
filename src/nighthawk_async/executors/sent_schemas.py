"""JSON Schemas as they are sent: without what says nothing, and in the words an endpoint takes. Floor 4.

Sources: the error messages of the endpoints, as in `tool_surface`; the structured outputs of OpenAI
(`wire.strict_schema`) and Anthropic (`wire.anthropic_schema`).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeGuard, cast

from msgspec import Struct

from ..errors import ConfigurationError
from ..wire.anthropic_schema import supported_schema
from .tool_surface import ProviderRules, provider_rules

__all__ = ["Endpoint", "allows_null", "compact_schema", "refusal_of", "strict_schema"]

_Schema = Mapping[str, Any]

_ANNOTATIONS = frozenset(
    {
        "$comment",
        "default",
        "deprecated",
        "description",
        "discriminator",
        "examples",
        "readOnly",
        "title",
        "writeOnly",
    }
)
"""Keywords that allow and forbid nothing; the prompt's TYPES section says what they would."""

_NAMED = ("properties", "$defs", "patternProperties", "dependentSchemas")
_LISTED = ("anyOf", "allOf", "oneOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "contains", "not", "propertyNames", "if", "then", "else")
_UNENFORCED = frozenset({"minLength", "maxLength", "uniqueItems"})
"""Keywords that a strict endpoint does not take; the value is validated anyway."""

_UNENFORCED_FORMATS = frozenset({"binary", "base64url", "password", "path", "uri"})
_PROPERTY_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}", re.ASCII)


class Endpoint(Struct, frozen=True, kw_only=True):
    """The endpoint to which a schema is sent.

    Args:
        rules: Whose rules apply; empty where none are known.
        place: Whether the schema is that of a tool's arguments or that of the response.
        enforces_strict_schemas: Whether schemas in the strict subset are enforced.
    """

    rules: ProviderRules = ""
    place: Literal["tool", "response"] = "tool"
    enforces_strict_schemas: bool = False

    @classmethod
    def of(cls, model_name: str, place: Literal["tool", "response"]) -> "Endpoint":
        """The endpoint of a model.

        Args:
            model_name: The model, `provider:name`.
            place: Where the schema stands.
        """
        rules = provider_rules(model_name) if model_name else ""
        is_responses = model_name.startswith("openai-responses:")
        return cls(
            rules=rules,
            place=place,
            enforces_strict_schemas=rules == "openai" and (place == "response" or is_responses),
        )


def compact_schema(schema: _Schema) -> dict[str, Any]:
    """The schema without annotations, in the plainest words that mean the same.

    Args:
        schema: A JSON Schema; it stays as it is.
    """
    compact = {name: value for name, value in schema.items() if name not in _ANNOTATIONS}
    for name, inner in compact.items():
        if name in _NAMED and _is_schema(inner):
            compact[name] = {key: _compact(each) for key, each in inner.items()}
        elif name in _LISTED and isinstance(inner, list):
            compact[name] = [_compact(each) for each in cast("list[object]", inner)]
        elif name in _SINGLE:
            compact[name] = _compact(inner)
    if _is_schema(schema.get("discriminator")) and "oneOf" in compact:  # so that no two of them match
        compact["anyOf"] = compact.pop("oneOf")
    items = compact.get("prefixItems")
    if items and _has_length(compact, len(items)) and len(set(map(repr, items))) == 1:
        compact["items"] = items[0]
        del compact["prefixItems"]
    return compact


def strict_schema(schema: _Schema) -> dict[str, Any]:
    """A compact schema as endpoints enforce it: objects are closed, and require all their properties.

    That narrows it; keywords that the endpoint does not take are left out. What cannot be said so, an object
    with free keys for example, stays, and `wire.strict_schema` then claims nothing.

    Args:
        schema: A JSON Schema; it stays as it is.
    """
    strict = {name: value for name, value in schema.items() if name not in _UNENFORCED}
    if strict.get("format") in _UNENFORCED_FORMATS:
        del strict["format"]
    if "const" in strict and "type" not in strict:
        strict["enum"] = [strict.pop("const")]
    for name, inner in strict.items():
        if name in _NAMED and _is_schema(inner):
            strict[name] = {key: _strict(each) for key, each in inner.items()}
        elif name in _LISTED and isinstance(inner, list):
            strict[name] = [_strict(each) for each in cast("list[object]", inner)]
        elif name == "items":
            strict[name] = _strict(inner)
    if strict.get("type") == "object" and "properties" in strict:
        strict.setdefault("additionalProperties", False)
        strict["required"] = list(strict["properties"])
    return strict


def allows_null(schema: object, definitions: Mapping[str, _Schema]) -> bool:
    """Whether a schema takes null.

    Args:
        schema: A compact JSON Schema.
        definitions: The schemas that its references refer to.
    """
    return _allows_null(schema, definitions, frozenset())


def refusal_of(schema: _Schema, definitions: Mapping[str, _Schema], endpoint: Endpoint) -> str | None:
    """The reason why an endpoint would refuse a request with a schema; None when it takes it.

    Args:
        schema: A compact JSON Schema.
        definitions: The schemas that its references refer to.
        endpoint: The endpoint to which it is sent.
    """
    whole = {
        "type": "object",
        "properties": {"value": schema},
        "required": ["value"],
        "additionalProperties": False,
    } | ({"$defs": dict(definitions)} if definitions else {})
    if endpoint.rules == "openai" and any(map(_is_open_array, _schemas_in(whole))):
        return "OpenAI's endpoint refuses lists whose items have no common type, such as tuples"
    if endpoint.rules == "anthropic":
        names = (name for each in _schemas_in(whole) for name in each.get("properties", ()))
        if bad := next((name for name in names if not _PROPERTY_NAME.fullmatch(name)), None):
            return f"Anthropic's endpoint refuses the property name {bad!r}"
        if endpoint.place == "response":
            try:
                supported_schema(whole)
            except ConfigurationError as error:
                return str(error).partition("; ")[0].rstrip(".")
    return None


def _is_open_array(schema: _Schema) -> bool:
    return schema.get("type") == "array" and "items" not in schema


def _has_length(schema: _Schema, length: int) -> bool:
    return schema.get("minItems") == schema.get("maxItems") == length and "items" not in schema


def _allows_null(schema: object, definitions: Mapping[str, _Schema], seen: frozenset[str]) -> bool:
    if not _is_schema(schema):
        return schema is not False
    if isinstance(reference := schema.get("$ref"), str):
        name = reference.rpartition("/")[2]
        return name not in seen and _allows_null(definitions.get(name, False), definitions, seen | {name})
    if "const" in schema:
        return schema["const"] is None
    if "enum" in schema:
        return None in schema["enum"]
    for name in ("anyOf", "oneOf"):
        if name in schema:
            return any(_allows_null(each, definitions, seen) for each in schema[name])
    kind = schema.get("type", "null")
    return kind == "null" or (isinstance(kind, list) and "null" in kind)


def _compact(schema: object) -> object:
    return compact_schema(schema) if _is_schema(schema) else schema


def _strict(schema: object) -> object:
    return strict_schema(schema) if _is_schema(schema) else schema


def _schemas_in(schema: object) -> Iterator[_Schema]:
    """The schema and every schema inside it."""
    if not _is_schema(schema):
        return
    yield schema
    for name, inner in schema.items():
        if name in _NAMED and _is_schema(inner):
            for each in inner.values():
                yield from _schemas_in(each)
        elif name in _LISTED and isinstance(inner, list):
            for each in cast("list[object]", inner):
                yield from _schemas_in(each)
        elif name in _SINGLE:
            yield from _schemas_in(inner)


def _is_schema(value: object) -> TypeGuard[_Schema]:
    return isinstance(value, Mapping)

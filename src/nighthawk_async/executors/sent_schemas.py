"""JSON Schemas as they are sent: without what says nothing, and in the words an endpoint takes.

Sources: the error messages of the endpoints, as in `tool_surface`; the structured outputs of OpenAI
(`wire.strict_schema`) and Anthropic (`wire.anthropic_schema`).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeGuard, cast

from msgspec import Struct

from ..errors import ConfigurationError
from ..wire.anthropic_schema import supported_schema
from .tool_surface import ProviderRules, provider_rules

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
_WORDS_OF_TYPES: Mapping[str, frozenset[str]] = {
    "boolean": frozenset(),
    "integer": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "null": frozenset(),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "string": frozenset({"format", "maxLength", "minLength", "pattern"}),
}
"""Plain types, and the keywords that say something of their values alone."""

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
    compact = _with_parts(
        {name: value for name, value in schema.items() if name not in _ANNOTATIONS}, compact_schema
    )
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


def terse_schema(schema: _Schema) -> dict[str, Any]:
    """A compact schema in the fewest words that mean the same.

    A definition that is referred to once stands where it is meant, and alternatives of plain types are a list
    of types.

    Args:
        schema: A compact JSON Schema, whole; it stays as it is.
    """
    definitions: _Schema = schema.get("$defs", {})
    references = Counter(each["$ref"] for each in _schemas_in(schema) if "$ref" in each)
    once = {
        f"#/$defs/{name}": each for name, each in definitions.items() if references[f"#/$defs/{name}"] == 1
    }

    def terse(inner: _Schema) -> _Schema:
        if len(inner) == 1 and inner.get("$ref") in once:
            return terse(once[inner["$ref"]])
        return _with_joined_types(_with_parts(inner, terse))

    kept = {name: each for name, each in definitions.items() if f"#/$defs/{name}" not in once}
    rest = {name: each for name, each in schema.items() if name != "$defs"} | (
        {"$defs": kept} if kept else {}
    )
    return dict(terse(rest))


def _with_joined_types(schema: _Schema) -> _Schema:
    """A schema whose alternatives are plain types, with a list of types in their place."""
    members = cast("list[object]", schema.get("anyOf", []))
    joined: dict[str, Any] = {}
    types: list[str] = []
    for each in members:
        if not _is_schema(each):
            return schema
        known = _WORDS_OF_TYPES.get(str(each.get("type")))
        if known is None or not each.keys() - {"type"} <= known:
            return schema
        types.append(each["type"])
        joined |= each
    names = [name for each in members for name in cast("_Schema", each)]
    if not types or len(set(types)) < len(types) or {"integer", "number"} <= {*types}:
        return schema
    if len(names) - len(types) + 1 != len(joined) or joined.keys() & schema.keys():
        return schema
    return {name: each for name, each in schema.items() if name != "anyOf"} | joined | {"type": types}


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


def _with_parts(schema: _Schema, changed: Callable[[_Schema], _Schema]) -> dict[str, Any]:
    """A schema with the schemas that stand in it changed."""

    def part(inner: object) -> object:
        return changed(inner) if _is_schema(inner) else inner

    result = dict(schema)
    for name, inner in schema.items():
        if name in _NAMED and _is_schema(inner):
            result[name] = {key: part(each) for key, each in inner.items()}
        elif name in _LISTED and isinstance(inner, list):
            result[name] = [part(each) for each in cast("list[object]", inner)]
        elif name in _SINGLE:
            result[name] = part(inner)
    return result


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

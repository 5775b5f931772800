"""What providers document of the schemas that they take, as checkers of what is sent to them.

OpenAI: "Supported schemas" of structured outputs. Anthropic: "JSON Schema limitations" and "Schema complexity
limits" of structured outputs. Google: the description of `response_json_schema` in the API reference.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["anthropic_problems", "google_problems", "openai_problems"]

_Schema = Mapping[str, Any]

_OPENAI = frozenset(
    {"$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum", "exclusiveMaximum"}
    | {"exclusiveMinimum", "format", "items", "maxItems", "maximum", "minItems", "minimum", "multipleOf"}
    | {"pattern", "properties", "required", "title", "type"}
)
_ANTHROPIC = frozenset(
    {"$defs", "$ref", "additionalProperties", "allOf", "anyOf", "const", "description", "enum", "format"}
    | {"items", "minItems", "pattern", "properties", "required", "title", "type"}
)
_GOOGLE = frozenset(
    {"$anchor", "$defs", "$id", "$ref", "additionalProperties", "anyOf", "description", "enum", "format"}
    | {"items", "maxItems", "maximum", "minItems", "minimum", "oneOf", "prefixItems", "properties"}
    | {"propertyOrdering", "required", "title", "type"}
)
_FORMATS = frozenset(
    {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"}
)
_Rule = Callable[[_Schema], Iterator[str]]


def openai_problems(root: _Schema) -> list[str]:
    """What OpenAI's endpoint would say of a schema under `strict`."""
    problems = [] if root.get("type") == "object" and "anyOf" not in root else ["the root is no object"]
    problems += _problems(root, _openai_rule)
    schemas = list(_schemas(root))
    if sum(len(each.get("properties", ())) for each in schemas) > 5_000:
        problems.append("too many properties")
    if sum(len(each.get("enum", ())) for each in schemas) > 1_000:
        problems.append("too many values")
    if _depth(root, root, ()) > 10:
        problems.append("too deep")
    return problems


def _openai_rule(schema: _Schema) -> Iterator[str]:
    yield from _unknown(schema, _OPENAI)
    if "$ref" in schema and len(schema) > 1:
        yield "a reference has keywords beside it"
    if not schema.keys() & {"$ref", "anyOf", "type", "enum", "const"}:
        yield "no type"
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            yield "an object is open"
        if set(schema.get("required", ())) != set(schema.get("properties", ())):
            yield "not all properties are required"
    if schema.get("type") == "array" and "items" not in schema:
        yield "no items"
    if schema.get("format", "date") not in _FORMATS - {"uri"}:
        yield f"format {schema['format']}"


def anthropic_problems(root: _Schema) -> list[str]:
    """What Anthropic's endpoint would say of a schema of structured output."""
    problems = _problems(root, _anthropic_rule)
    schemas = list(_schemas(root))
    optional = sum(len(set(each.get("properties", ())) - set(each.get("required", ()))) for each in schemas)
    if optional > 24:
        problems.append(f"{optional} optional properties")
    if sum("anyOf" in each or isinstance(each.get("type"), list) for each in schemas) > 16:
        problems.append("too many unions")
    if any(_is_cyclic(reference, root, ()) for each in schemas for reference in _own_references(each)):
        problems.append("recursive")
    return problems


def _anthropic_rule(schema: _Schema) -> Iterator[str]:
    yield from _unknown(schema, _ANTHROPIC)
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        yield "an object is open"
    if schema.get("minItems", 0) not in (0, 1):
        yield "minItems"
    if any(isinstance(each, list | dict) for each in schema.get("enum", ())):
        yield "a complex value in an enumeration"
    if schema.get("format", "date") not in _FORMATS:
        yield f"format {schema['format']}"


def google_problems(root: _Schema) -> list[str]:
    """What of a schema the documentation of Gemini does not allow."""
    problems = _problems(root, _google_rule)
    return problems + (["a cycle without an optional property"] if _leads_back(root, root, {}) else [])


def _google_rule(schema: _Schema) -> Iterator[str]:
    yield from _unknown(schema, _GOOGLE)
    if "$ref" in schema and any(not name.startswith("$") for name in schema):
        yield "a reference has keywords beside it"
    if any(
        isinstance(each, bool) or not isinstance(each, str | int | float) for each in schema.get("enum", ())
    ):
        yield "an enumeration of something else than texts and numbers"


def _leads_back(schema: _Schema, root: _Schema, is_open: Mapping[str, bool]) -> bool:
    """Whether a reference leads back to where it stands, with no optional property on the way.

    Args:
        schema: A part of the schema.
        root: The schema.
        is_open: The references that led here, and whether an optional property came after each.
    """
    if "$ref" in schema:
        reference = schema["$ref"]
        if reference in is_open:
            return not is_open[reference]
        return _leads_back(_target(root, reference), root, {**is_open, reference: False})
    optional = dict.fromkeys(is_open, True)
    properties = schema.get("properties", {})
    return any(_leads_back(each, root, is_open) for each in _inner(schema, with_properties=False)) or any(
        _leads_back(each, root, is_open if name in schema.get("required", ()) else optional)
        for name, each in properties.items()
    )


def _problems(root: _Schema, rule: _Rule) -> list[str]:
    return [problem for schema in _schemas(root) for problem in rule(schema)]


def _unknown(schema: _Schema, known: frozenset[str]) -> Iterator[str]:
    yield from (f"keyword {name}" for name in schema.keys() - known)


def _schemas(schema: _Schema) -> Iterator[_Schema]:
    yield schema
    for inner in (*_inner(schema), *schema.get("$defs", {}).values()):
        yield from _schemas(inner)


def _inner(schema: _Schema, *, with_properties: bool = True) -> Iterator[_Schema]:
    if with_properties:
        yield from schema.get("properties", {}).values()
    for name in ("anyOf", "oneOf", "allOf", "prefixItems"):
        yield from schema.get(name, ())
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield schema[name]


def _own_references(schema: _Schema) -> Iterator[str]:
    if "$ref" in schema:
        yield schema["$ref"]


def _is_cyclic(reference: str, root: _Schema, is_open: tuple[str, ...]) -> bool:
    return reference in is_open or any(
        _is_cyclic(each, root, (*is_open, reference))
        for schema in _schemas(_target(root, reference))
        for each in _own_references(schema)
    )


def _depth(schema: _Schema, root: _Schema, is_open: tuple[str, ...]) -> int:
    if "$ref" in schema:
        reference = schema["$ref"]
        if reference in is_open:
            return 0
        return _depth(_target(root, reference), root, (*is_open, reference))
    return (schema.get("type") == "object") + max(
        (_depth(each, root, is_open) for each in _inner(schema)), default=0
    )


def _target(root: _Schema, reference: str) -> _Schema:
    return root if reference == "#" else root["$defs"][reference.removeprefix("#/$defs/")]

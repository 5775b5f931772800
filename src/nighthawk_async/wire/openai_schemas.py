"""JSON Schemas at OpenAI's endpoints: the strict subset, and refusals of what the standard allows.

`is_strict_schema` says whether a schema keeps to the subset that endpoints enforce under `strict`, and
`are_strict_tools` remembers it for tools. Anything not known to be in the subset counts as outside: an
endpoint refuses the whole request for one unknown keyword, and without the claim it accepts the same schema.
`find_parameter_problem` and `find_problem` are the rules for all schemas; see `schema_rules`. Other servers
of these protocols take more.

Sources: structured outputs, "Supported schemas", of the OpenAI platform documentation: the root is an object,
every object lists all its properties as required and forbids others, every value has a type, and a reference
stands alone. It does not define exactly what counts against its size limits, so more is counted here. The
endpoints' error message `array schema missing items`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..types.json import is_json_mapping, is_list_or_tuple
from ..types.messages import ToolDefinition
from .schema_rules import SchemaLocation, schemas_in

_Schema = Mapping[str, Any]

_ANNOTATIONS = frozenset({"title", "description"})
_DEFINITIONS = ("$defs", "definitions")
_KEYWORDS = _ANNOTATIONS | {*_DEFINITIONS, "$schema", "type", "enum", "const", "anyOf"}
_KEYWORDS_OF_TYPES: Mapping[str, frozenset[str]] = {
    "array": frozenset({"items", "minItems", "maxItems"}),
    "boolean": frozenset(),
    "integer": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "null": frozenset(),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "string": frozenset({"pattern", "format"}),
}
_MAX_DEPTH = 10
"""The greatest number of levels of objects and lists."""
_MAX_PROPERTIES = 5_000
_MAX_LISTED_VALUES = 1_000
_MAX_CHARACTERS = 120_000
"""Length of the names of properties and definitions and of all listed values together."""
_MAX_LONG_LIST, _MAX_LONG_LIST_CHARACTERS = 250, 15_000
"""Number of values from which on the length of one list counts, and that length."""
_FORMATS = frozenset({"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"})


def is_strict_schema(schema: Mapping[str, Any]) -> bool:
    """Whether the schema, as the root of a response format, and every schema inside it keep to the subset.

    Args:
        schema: A JSON Schema.
    """
    return (
        schema.get("type") == "object"
        and "anyOf" not in schema
        and _is_strict(schema, schema)
        and _is_small(schema)
        and _depth(schema, schema, {}) <= _MAX_DEPTH
    )


_MOST_TOOLS = 1_000
_STRICT_TOOLS: dict[int, tuple[_Schema, bool]] = {}
"""The answers for schemas of tools, by the identity of the schema, which is kept alive."""


def are_strict_tools(tools: Iterable[ToolDefinition]) -> list[bool]:
    """Whether the schema of the arguments of each tool keeps to the subset.

    Args:
        tools: The tools.
    """
    return [_is_strict_tool(tool) for tool in tools]


def _is_strict_tool(tool: ToolDefinition) -> bool:
    """Whether the schema of a tool's arguments keeps to the subset; computed once, as it does not change."""
    known = _STRICT_TOOLS.get(id(tool.parameters))
    if known is not None and known[0] is tool.parameters:
        return known[1]
    is_strict = is_strict_schema(tool.parameters)
    if len(_STRICT_TOOLS) >= _MOST_TOOLS:
        _STRICT_TOOLS.clear()
    _STRICT_TOOLS[id(tool.parameters)] = tool.parameters, is_strict
    return is_strict


def _is_strict(schema: object, root: _Schema) -> bool:
    if not is_json_mapping(schema):
        return False
    if "$ref" in schema:
        return len(schema) == 1 and _is_resolvable(schema["$ref"], root)
    types = _types(schema)
    if not types and "anyOf" not in schema:
        return False
    known = _KEYWORDS.union(*(_KEYWORDS_OF_TYPES.get(each, ()) for each in types))
    return (
        schema.keys() <= known
        and all(each in _KEYWORDS_OF_TYPES for each in types)
        and ("object" not in types or _is_closed_object(schema))
        and ("array" not in types or "items" in schema)
        and _has_plain_values(schema)
        and _has_plain_text_rules(schema)
        and all(_is_strict(each, root) for each in _inner_schemas(schema))
    )


def _types(schema: _Schema) -> tuple[str, ...]:
    declared: str | list[object] = schema.get("type", [])
    return (declared,) if isinstance(declared, str) else tuple(map(str, declared))


def _is_closed_object(schema: _Schema) -> bool:
    properties: object = schema.get("properties", {})
    required: set[str] = set(schema.get("required") or ())
    is_closed = schema.get("additionalProperties") is False
    return is_closed and is_json_mapping(properties) and required == set(properties)


def _has_plain_values(schema: _Schema) -> bool:
    """Whether the values that the schema lists, if any list is present, are scalars, at least one."""
    values: object = schema.get("enum", [schema.get("const")])
    if not is_list_or_tuple(values) or not values:
        return False
    return all(
        value is None or isinstance(value, str | int | float) for value in (*values, schema.get("const"))
    )


def _has_plain_text_rules(schema: _Schema) -> bool:
    # The endpoint's regular expressions have no lookahead and no lookbehind.
    is_plain_pattern = not any(look in str(schema.get("pattern", "")) for look in ("(?=", "(?!", "(?<"))
    return is_plain_pattern and schema.get("format", "uuid") in _FORMATS


def _inner_schemas(schema: _Schema) -> Iterator[object]:
    if "items" in schema:
        yield schema["items"]
    if "anyOf" in schema:
        yield from schema["anyOf"] or (None,)
    for name in ("properties", *_DEFINITIONS):
        named: object = schema.get(name, {})
        yield from named.values() if is_json_mapping(named) else (None,)


def _is_resolvable(reference: object, root: _Schema) -> bool:
    """Whether a reference leads to the root or to one of its definitions, the only ones there are."""
    if reference == "#":
        return True
    return isinstance(reference, str) and any(
        reference == f"#/{place}/{name}" for place in _DEFINITIONS for name in root.get(place, {})
    )


def _is_small(root: _Schema) -> bool:
    """Whether a strict schema, as a whole, is within the limits of size."""
    properties, listed, characters = 0, 0, 0
    for schema in _schemas_in(root):
        names = [name for place in ("properties", *_DEFINITIONS) for name in schema.get(place, {})]
        values: list[object] = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]
        length = sum(len(value) for value in values if isinstance(value, str))
        if len(values) > _MAX_LONG_LIST and length > _MAX_LONG_LIST_CHARACTERS:
            return False
        properties += len(schema.get("properties", {}))
        listed += len(values)
        characters += length + sum(map(len, names))
    return properties <= _MAX_PROPERTIES and listed <= _MAX_LISTED_VALUES and characters <= _MAX_CHARACTERS


def _schemas_in(schema: _Schema) -> Iterator[_Schema]:
    """A strict schema and every schema inside it."""
    yield schema
    for inner in _inner_schemas(schema):
        if is_json_mapping(inner):
            yield from _schemas_in(inner)


def _depth(schema: _Schema, root: _Schema, depths: dict[str, int]) -> int:
    """Return the depth of nested objects and lists; a schema that contains itself counts once.

    Args:
        schema: A strict schema.
        root: The schema that holds the definitions.
        depths: Those of the definitions that were seen.
    """
    if "$ref" in schema:
        reference: str = schema["$ref"]
        if reference not in depths:
            depths[reference] = 0
            _, _, name = reference.rpartition("/")
            places = (root.get(place, {}) for place in _DEFINITIONS)
            target = root if reference == "#" else next(each[name] for each in places if name in each)
            depths[reference] = _depth(target, root, depths)
        return depths[reference]
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    inner += [schema["items"]] if "items" in schema else []
    own = any(each in ("object", "array") for each in _types(schema))
    return own + max((_depth(each, root, depths) for each in inner), default=0)


def find_parameter_problem(parameters: Mapping[str, Any]) -> str | None:
    """See `schema_rules.SchemaRules`."""
    for path, schema in schemas_in(parameters):
        if _is_open_array(schema):
            place = ".".join(part for part in path if part not in ("properties", "$defs"))
            return (
                f"OpenAI's endpoint refuses the type of {place}, a list whose items have no common type, "
                "such as a tuple; annotate it as list[…], or as an object with named fields."
            )
    return None


def find_problem(schema: Mapping[str, Any], place: SchemaLocation) -> str | None:
    """See `schema_rules.SchemaRules`."""
    if any(_is_open_array(each) for _, each in schemas_in(schema)):
        return "OpenAI's endpoint refuses lists whose items have no common type, such as tuples"
    return None


def _is_open_array(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "array" and "items" not in schema

"""JSON Schemas as they are sent, and checks of the tools of a step before the first request.

Schemas are without meaningless keywords, and in the form an endpoint accepts. Only certain refusals of a
provider are errors; they name the tool and a remedy, and nothing was sent. A tool is checked once, not once
for each step.

Sources: the error messages of the endpoints; function names have at most 64 characters (OpenAI, Google); the
structured outputs of OpenAI (`wire.openai_schemas`) and Anthropic (`wire.anthropic.schema`).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeGuard, cast
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..catalog.models import find_schema_rules
from ..errors import ToolRegistrationError
from ..ports import HasSettings, Model
from ..runtime.tool_function import MAX_TOOL_NAME_CHARACTERS, PROVIDED_TOOL_NAMES, TOOL_NAME, Tool
from ..types.messages import ToolDefinition
from ..wire.schema_rules import SchemaLocation, load_schema_rules

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
"""Keywords without effect on validation; the prompt's TYPES section gives their information."""

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
"""Plain types, and the keywords that constrain only their values."""

_NULL: _Schema = {"type": "null"}

_UNENFORCED = frozenset({"minLength", "maxLength", "uniqueItems"})
"""Keywords that a strict endpoint does not accept; the value is validated anyway."""

_UNENFORCED_FORMATS = frozenset({"binary", "base64url", "password", "path", "uri"})


class Endpoint(Struct, frozen=True, kw_only=True):
    """The endpoint to which a schema is sent.

    Args:
        rules: The module with its rules; empty where none are known.
        place: The place of the schema.
        enforces_strict_schemas: Whether schemas in the strict subset are enforced.
    """

    rules: str = ""
    place: SchemaLocation = "tool"
    enforces_strict_schemas: bool = False

    @classmethod
    @lru_cache(maxsize=256)
    def of(cls, model_name: str, place: SchemaLocation) -> "Endpoint":
        """The endpoint of a model.

        Args:
            model_name: The model, `provider:name`.
            place: The place of the schema.
        """
        rules = find_schema_rules(model_name)
        return cls(rules=rules.module, place=place, enforces_strict_schemas=place in rules.strict_places)


def endpoint_of(model: Model | None, settings: Mapping[str, Any], place: SchemaLocation) -> Endpoint:
    """The endpoint of a request.

    Args:
        model: The model; None for the user's own agent.
        settings: The settings of the request; `strict_tools=False` in them, or in those of the model, turns
            off that the schemas of tools are enforced.
        place: The place of the schema.

    Raises:
        ConfigurationError: A setting is bad.
    """
    endpoint = Endpoint.of("" if model is None else model.name, place)
    if endpoint.enforces_strict_schemas and place == "tool":
        sent = model.settings_of(settings) if isinstance(model, HasSettings) else settings
        if not sent.get("strict_tools", True):
            return replace(endpoint, enforces_strict_schemas=False)
    return endpoint


def compact_schema(schema: _Schema) -> dict[str, Any]:
    """The schema without annotations, in the simplest equivalent form.

    Args:
        schema: A JSON Schema; it stays as it is.
    """
    compact = with_parts(without_annotations(schema), compact_schema)
    if _is_schema(schema.get("discriminator")) and "oneOf" in compact:  # so that no two of them match
        compact["anyOf"] = compact.pop("oneOf")
    items = compact.get("prefixItems")
    if items and _has_length(compact, len(items)) and len(set(map(repr, items))) == 1:
        compact["items"] = items[0]
        del compact["prefixItems"]
    return compact


def without_annotations(schema: _Schema) -> dict[str, Any]:
    """The schema without the annotations of its own; those inside it stay.

    Args:
        schema: A JSON Schema; it stays as it is.
    """
    return {name: value for name, value in schema.items() if name not in _ANNOTATIONS}


def or_null(schema: _Schema) -> dict[str, Any]:
    """The schema, or null.

    Args:
        schema: A JSON Schema without annotations of its own; it stays as it is.
    """
    kind = schema.get("type")
    if kind in ("string", "integer", "number", "boolean") and "const" not in schema:
        values = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
        return {**schema, "type": [kind, "null"], **values}
    members = schema["anyOf"] if set(schema) == {"anyOf"} else [schema]
    return dict(schema) if _NULL in members else {"anyOf": [*members, dict(_NULL)]}


def strict_schema(schema: _Schema) -> dict[str, Any]:
    """A compact schema as endpoints enforce it: objects are closed.

    That narrows it; keywords that the endpoint does not accept are left out. Anything that cannot be
    expressed this way, such as an object with free keys or with properties that are not required, stays, and
    `is_strict_schema` then claims nothing.

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
        strict.setdefault("required", [])
    return strict


def terse_schema(schema: _Schema) -> dict[str, Any]:
    """A compact schema in its shortest equivalent form.

    A definition that is referred to once is inlined, and alternatives of plain types are a list of types.

    Args:
        schema: A compact JSON Schema, whole; it stays as it is.
    """
    definitions: _Schema = schema.get("$defs", {})
    references = Counter(each["$ref"] for each in inner_schemas(schema) if "$ref" in each)
    once = {
        f"#/$defs/{name}": each for name, each in definitions.items() if references[f"#/$defs/{name}"] == 1
    }

    def terse(inner: _Schema) -> _Schema:
        if len(inner) == 1 and inner.get("$ref") in once:
            return terse(once[inner["$ref"]])
        return _with_joined_types(with_parts(inner, terse))

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
    """The reason why an endpoint would refuse a request with a schema; None when it accepts it.

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
    rules = load_schema_rules(endpoint.rules)
    return None if rules is None else rules.find_problem(whole, endpoint.place)


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


def with_parts(schema: _Schema, changed: Callable[[_Schema], _Schema]) -> dict[str, Any]:
    """A schema with its direct subschemas changed.

    Args:
        schema: A JSON Schema; it stays as it is.
        changed: Returns the changed form of a schema.
    """

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


def inner_schemas(schema: object) -> Iterator[_Schema]:
    """The schema and every schema inside it.

    Args:
        schema: A JSON Schema.
    """
    if not _is_schema(schema):
        return
    yield schema
    for name, inner in schema.items():
        if name in _NAMED and _is_schema(inner):
            for each in inner.values():
                yield from inner_schemas(each)
        elif name in _LISTED and isinstance(inner, list):
            for each in cast("list[object]", inner):
                yield from inner_schemas(each)
        elif name in _SINGLE:
            yield from inner_schemas(inner)


def _is_schema(value: object) -> TypeGuard[_Schema]:
    return isinstance(value, Mapping)


_checked: WeakKeyDictionary[Tool, set[str]] = WeakKeyDictionary()


def check_tools(functions: Sequence[Tool], model: Model | None) -> None:
    """Check that no provider would refuse the user's tools.

    Args:
        functions: The tools.
        model: The model that is asked; None when that is not known.

    Raises:
        ToolRegistrationError: A name is no name for a provider or is taken, or a schema is refused.
    """
    if not functions:
        return
    names: set[str] = set(PROVIDED_TOOL_NAMES)
    rules = "" if model is None else find_schema_rules(model.name).module
    for function in functions:
        if function.name in names:
            raise ToolRegistrationError(
                f"Two tools are named {function.name!r}; register one of them under another name."
            )
        names.add(function.name)
        if rules not in (passed := _checked.get(function, set[str]())):
            _check(function.definition, rules)
            _checked[function] = {*passed, rules}


def _check(definition: ToolDefinition, rules_module: str) -> None:
    name = definition.name
    if not TOOL_NAME.fullmatch(name) or len(name) > MAX_TOOL_NAME_CHARACTERS:
        raise ToolRegistrationError(
            f"Tool {name!r}: providers take names of at most {MAX_TOOL_NAME_CHARACTERS} ASCII letters, "
            "digits and underscores; register it with @nh.tool(name=…)."
        )
    try:
        msgspec.json.encode(definition.parameters)
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolRegistrationError(
            f"Tool {name!r}: its JSON Schema holds what JSON cannot: {error}; change the annotation or the "
            "default that brings it."
        ) from error
    rules = load_schema_rules(rules_module)
    problem = None if rules is None else rules.find_parameter_problem(definition.parameters)
    if problem is not None:
        raise ToolRegistrationError(f"Tool {name!r}: {problem}")

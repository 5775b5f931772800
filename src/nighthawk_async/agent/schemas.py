"""JSON Schemas as they are sent, parts of values that may be left out, and checks before the first request.

Schemas are without meaningless keywords, and in the form an endpoint accepts. Only certain refusals of a
provider are errors; they name the tool and a remedy, and nothing was sent. A tool is checked once, not once
for each step.

Sources: the error messages of the endpoints; function names have at most 64 characters (OpenAI, Google); the
structured outputs of OpenAI (`wire.openai_schemas`) and Anthropic (`wire.anthropic.schema`).

There, null stands for a part that is left out: a key of a TypedDict, or a field with a default. The nulls are
removed before the value is validated, so the default applies and the key is absent. A part whose type takes
None by itself, and which has no default or another one, has two meanings for null: such a schema is sent as
it is, and the part may be left out. If the default is None, both meanings are the same. A schema is also sent
as it is where a value without its nulls could be read as another member of a union.

The schemas here are those of `values.plain_data.data_schemas`, with their defaults.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import permutations, product
from typing import Any, Final, NamedTuple, TypeGuard, cast
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..catalog.models import find_schema_rules
from ..errors import ToolRegistrationError
from ..kernel.tools import MAX_TOOL_NAME_CHARACTERS, PROVIDED_TOOL_NAMES, TOOL_NAME, Tool
from ..ports import HasSettings, Model
from ..types.messages import ToolDefinition
from ..types.unset import UNSET
from ..values.plain_data import data_schemas
from ..values.schemas import made_once
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


_DESCRIPTION_CHARACTERS = 300


def described_schema(schema: _Schema) -> dict[str, Any]:
    """The same as `compact_schema` with descriptions, on one line, in which defaults stand as well.

    A part whose default is None may be left out, and has no null as another way to say so.

    Args:
        schema: A JSON Schema; it stays as it is.
    """
    compact = _compact(schema, described_schema)
    properties: Mapping[str, Any] = schema.get("properties", {})
    for name, each in properties.items():
        if _is_schema(each) and each.get("default", UNSET) is None and name not in schema.get("required", ()):
            compact["properties"][name] = _without_null(compact["properties"][name])
    text = schema.get("description")
    said = [" ".join(text.split())[:_DESCRIPTION_CHARACTERS]] if isinstance(text, str) else []
    if schema.get("default") not in (None, [], {}, ""):
        said.append(f"default {json.dumps(schema['default'], ensure_ascii=False, default=str)}")
    return compact | ({"description": "; ".join(said)} if said else {})


def _without_null(schema: _Schema) -> _Schema:
    """The schema of a part that is None when it is left out, without null as another way to say so."""
    members = [each for each in schema.get("anyOf", ()) if each != _NULL]
    if not members or len(members) == len(schema["anyOf"]):
        return schema
    rest = {name: each for name, each in schema.items() if name != "anyOf"}
    return {**members[0], **rest} if len(members) == 1 else {**rest, "anyOf": members}


def compact_schema(schema: _Schema) -> dict[str, Any]:
    """The schema without annotations, in the simplest equivalent form.

    Args:
        schema: A JSON Schema; it stays as it is.
    """
    return _compact(schema, compact_schema)


def _compact(schema: _Schema, part: Callable[[_Schema], dict[str, Any]]) -> dict[str, Any]:
    compact = with_parts(without_annotations(schema), part)
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
    referring = [each for each in inner_schemas(schema) if "$ref" in each]
    references = Counter(each["$ref"] for each in referring)
    inlined = {each["$ref"] for each in referring if each.keys() <= {"$ref", "description"}}
    once = {
        place: each
        for name, each in definitions.items()
        if references[place := f"#/$defs/{name}"] == 1 and place in inlined
    }

    def terse(inner: _Schema) -> _Schema:
        target = once.get(inner.get("$ref", ""))
        if target is None:
            return _with_joined_types(with_parts(inner, terse))
        said = [each["description"] for each in (target, inner) if "description" in each]
        return {**terse(target)} | ({"description": "; ".join(said)} if said else {})

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


def with_null_parts(schema: _Schema, definitions: Mapping[str, _Schema]) -> dict[str, Any]:
    """The schema with all parts required; those that may be left out may be null.

    A constant stays as it is if it is its own default, so that it keeps telling members of a union apart.

    Args:
        schema: A JSON Schema with its defaults; it stays as it is.
        definitions: The schemas that its references refer to.
    """

    def changed(inner: _Schema) -> _Schema:
        return with_null_parts(inner, definitions)

    made = with_parts(schema, changed)
    if "properties" not in made:
        return made
    required, given = _required(schema), cast("_Schema", schema["properties"])
    made["properties"] = {
        name: part if name in required or not _means_left_out(given[name], definitions) else _nullable(part)
        for name, part in made["properties"].items()
    }
    made["required"] = list(made["properties"])
    return made


def has_two_nulls(schema: _Schema, definitions: Mapping[str, _Schema]) -> bool:
    """Whether null would have two meanings for some part, or a value without its nulls two readings.

    Args:
        schema: A JSON Schema with its defaults.
        definitions: The schemas that its references refer to.
    """
    if any(not _means_left_out(part, definitions) for part in _optional_parts(schema)):
        return True
    unions = (each.get("anyOf") or each.get("oneOf") or () for each in inner_schemas(schema))
    return any(
        _is_taken_for(*pair) for union in unions for pair in permutations(_objects(union, definitions), 2)
    )


class OptionalParts(Struct, frozen=True, eq=False):
    """Reads values of a type with parts that may be left out.

    Args:
        schema: The JSON Schema of the type, with its defaults.
        definitions: The schemas that its references refer to.
    """

    schema: _Schema
    definitions: Mapping[str, _Schema]

    def without_nulls(self, value: object) -> object:
        """The value without the nulls that stand for parts that are left out.

        A value that does not match the schema keeps its faults, for validation to report.

        Args:
            value: A decoded JSON value.
        """
        return _Reader(self.definitions).read(value, self.schema).value


@made_once
def optional_parts_of(annotation: object) -> OptionalParts | None:
    """The parts of a type's values that may be left out; None if there are none, or it has no JSON Schema.

    Args:
        annotation: The type.
    """
    made = data_schemas((annotation,))
    schemas = (*made.schemas, *made.definitions.values())
    if not any(True for each in schemas for _ in _optional_parts(each)):
        return None
    return OptionalParts(made.schemas[0], made.definitions)


def _optional_parts(schema: _Schema) -> Iterator[_Schema]:
    """The schemas of all properties that may be left out."""
    for each in inner_schemas(schema):
        required = _required(each)
        yield from (part for name, part in each.get("properties", {}).items() if name not in required)


def _required(schema: _Schema) -> frozenset[str]:
    return frozenset(cast("list[str]", schema.get("required", ())))


def _means_left_out(part: _Schema, definitions: Mapping[str, _Schema]) -> bool:
    """Whether null can only mean that an optional part is left out, or means the same."""
    return part.get("default", UNSET) is None or not allows_null(part, definitions)


def _objects(union: Iterable[object], definitions: Mapping[str, _Schema]) -> Iterator[_Schema]:
    """The objects with named parts among the members of a union."""
    for each in union:
        member = _resolved(each, definitions)
        if isinstance(member, Mapping):
            known = cast("_Schema", member)
            yield from _objects(known.get("anyOf") or known.get("oneOf") or (), definitions)
            if "properties" in known:
                yield known


def _is_taken_for(one: _Schema, other: _Schema) -> bool:
    """Whether a value of an object whose own parts are null may be read as another object."""
    given, others = cast("_Schema", one["properties"]), cast("_Schema", other["properties"])
    if given.keys() <= others.keys():
        return False  # no part tells them apart, null or not
    if not (_required(one) <= others.keys() and _required(other) <= given.keys()):
        return False
    kept = [name for name in given if name in _required(one) or _nullable(given[name]) is given[name]]
    return not any(name in others and _are_apart(given[name], others[name]) for name in kept)


def _are_apart(one: _Schema, other: _Schema) -> bool:
    """Whether no value fits both of two schemas: they list other values, or have other plain types."""
    listed = [each["enum"] if "enum" in each else [each["const"]] for each in (one, other) if _lists(each)]
    if len(listed) == 2:
        return not any(_is_same(*pair) for pair in product(*listed))
    types = [str(each.get("type", "")).replace("integer", "number") for each in (one, other)]
    return all(each in _TYPES for each in types) and types[0] != types[1]


def _lists(part: _Schema) -> bool:
    return "const" in part or "enum" in part


def _resolved(schema: object, definitions: Mapping[str, _Schema]) -> object:
    while isinstance(schema, Mapping) and "$ref" in schema:
        reference = cast("str", schema["$ref"])
        schema = definitions.get(reference.rpartition("/")[2])
    return cast("object", schema)


def _nullable(part: _Schema) -> _Schema:
    plain = without_annotations(part)
    constants = [plain["const"]] if "const" in plain else plain.get("enum", [])
    is_own_default = len(constants) == 1 and _is_same(part.get("default", UNSET), constants[0])
    return part if is_own_default else or_null(plain)


class _Reading(NamedTuple):
    """A value as one schema reads it.

    Attributes:
        value: The value, without the nulls of parts that are left out.
        faults: The number of places where it does not match the schema.
        nulls: The number of nulls that were removed.
    """

    value: object
    faults: int
    nulls: int


_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "array": list,
    "boolean": bool,
    "integer": int,
    "null": type(None),
    "number": (int, float),
    "object": dict,
    "string": str,
}


class _Reader:
    """Reads one value; of several alternatives it takes the one that matches best, the first of equals.

    Each object and list is read once for each schema, so a value cannot make reading slow.
    """

    def __init__(self, definitions: Mapping[str, _Schema]) -> None:
        self._definitions = definitions
        self._known: dict[tuple[int, int], _Reading] = {}

    def read(self, value: object, schema: object) -> _Reading:
        """Read a value."""
        schema = _resolved(schema, self._definitions)
        if not isinstance(schema, Mapping):
            return _Reading(value, 0, 0)
        known = cast("_Schema", schema)
        if not isinstance(value, dict | list):
            return self._read(value, known)
        key = id(cast("object", value)), id(known)
        if key not in self._known:
            self._known[key] = self._read(cast("object", value), known)
        return self._known[key]

    def _read(self, value: object, schema: _Schema) -> _Reading:
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices:
            readings = [self.read(value, each) for each in choices]
            return min(readings, key=lambda each: each[1:])
        if not _has_type(value, schema):
            return _Reading(value, 1, 0)
        if isinstance(value, dict):
            return self._read_object(cast("dict[str, object]", value), schema)
        if isinstance(value, list):
            return self._read_list(cast("list[object]", value), schema)
        return _Reading(value, 0 if _is_listed(value, schema) else 1, 0)

    def _read_object(self, value: dict[str, object], schema: _Schema) -> _Reading:
        properties, required = cast("_Schema", schema.get("properties", {})), _required(schema)
        others = schema.get("additionalProperties", False)
        left: dict[str, object] = {}
        faults, nulls = sum(name not in value for name in required), 0
        for name, part in value.items():
            if name not in properties:
                reading = self.read(part, others)
                faults += others is False
            elif part is None and name not in required:
                if _means_left_out(properties[name], self._definitions):
                    nulls += 1
                    continue
                reading = _Reading(part, 0, 0)
            else:
                reading = self.read(part, properties[name])
            left[name] = reading.value
            faults, nulls = faults + reading.faults, nulls + reading.nulls
        return _Reading(left, faults, nulls)

    def _read_list(self, value: list[object], schema: _Schema) -> _Reading:
        first = cast("list[object]", schema.get("prefixItems", ()))
        others = schema.get("items", True)
        readings = [
            self.read(each, first[at] if at < len(first) else others) for at, each in enumerate(value)
        ]
        return _Reading(
            [each.value for each in readings],
            sum(each.faults for each in readings),
            sum(each.nulls for each in readings),
        )


def _has_type(value: object, schema: _Schema) -> bool:
    types = schema.get("type", ())
    names = (types,) if isinstance(types, str) else cast("tuple[str, ...]", types)
    return not names or any(_is_of(value, name) for name in names)


def _is_of(value: object, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if isinstance(value, float) and name == "integer":
        return value.is_integer()
    return name not in _TYPES or isinstance(value, _TYPES[name])


def _is_listed(value: object, schema: _Schema) -> bool:
    """Whether a plain value is one of those that a schema lists; True if it lists none."""
    if "const" in schema:
        return _is_same(value, schema["const"])
    return "enum" not in schema or any(_is_same(value, each) for each in schema["enum"])


def _is_same(one: object, other: object) -> bool:
    return isinstance(one, bool) is isinstance(other, bool) and one == other

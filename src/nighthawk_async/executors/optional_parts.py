"""Parts of values that may be left out, where an endpoint's schemas make a model name all parts.

There, null stands for a part that is left out: a key of a TypedDict, or a field with a default. The nulls are
removed before the value is validated, so the default applies and the key is absent. A part whose type takes
None by itself, and which has no default or another one, has two meanings for null: such a schema is sent as
it is, and the part may be left out. If the default is None, both meanings are the same. A schema is also sent
as it is where a value without its nulls could be read as another member of a union.

The schemas here are those of `runtime.plain_data.data_schemas`, with their defaults.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import permutations, product
from typing import Any, Final, NamedTuple, cast

from msgspec import Struct

from ..runtime.plain_data import data_schemas
from ..types.unset import UNSET
from .sent_schemas import allows_null, inner_schemas, or_null, with_parts, without_annotations

_Schema = Mapping[str, Any]


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


def optional_parts_of(annotation: object) -> OptionalParts | None:
    """The parts of a type's values that may be left out; None if there are none, or it has no JSON Schema.

    Args:
        annotation: The type.
    """
    try:
        return _cached(cast("Hashable", annotation))
    except TypeError:  # not hashable: Annotated[int, {}]
        return _made(annotation)


def _made(annotation: object) -> OptionalParts | None:
    try:
        made = data_schemas((annotation,))
    except Exception:  # code of the user's types may raise anything
        return None
    schemas = (*made.schemas, *made.definitions.values())
    if not any(True for each in schemas for _ in _optional_parts(each)):
        return None
    return OptionalParts(made.schemas[0], made.definitions)


_cached: Callable[[Hashable], OptionalParts | None] = lru_cache(maxsize=1024)(_made)


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

"""Values that a JSON Schema allows: of the keywords that the library writes."""

import math
from collections.abc import Mapping
from datetime import UTC
from typing import Any

from hypothesis import strategies as st

__all__ = ["values"]

_Schema = Mapping[str, Any]

_DEEP = 3
"""From this depth on only what must be there is there."""

_DIGITS = st.integers(min_value=0, max_value=10**6).map(str)
_DATES = st.dates().map(lambda each: each.isoformat())
_FORMATS: Mapping[str, st.SearchStrategy[str]] = {
    "binary": st.text(max_size=5),
    "date": _DATES,
    "date-time": st.datetimes(timezones=st.just(UTC)).map(lambda each: each.isoformat()),
    "duration": st.integers(0, 10**6).map(lambda seconds: f"PT{seconds}S"),
    "ipv4": st.ip_addresses(v=4).map(str),
    "path": st.text("abc/. é", max_size=5),
    "time": st.times().map(lambda each: f"{each.isoformat()}Z"),
    "uuid": st.uuids().map(str),
}
_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


def values(schema: _Schema, definitions: _Schema, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values that a schema allows.

    Args:
        schema: The schema.
        definitions: What its references mean.
        depth: How deep it stands inside of others.
    """
    if "$ref" in schema:
        target = definitions[schema["$ref"].removeprefix("#/$defs/")]
        return st.deferred(lambda: values(target, definitions, depth))
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        choices = sorted(schema["anyOf"], key=lambda each: "$ref" in each or each.get("type") == "object")
        return st.one_of(
            [values(each, definitions, depth) for each in choices[: 1 if depth >= _DEEP else None]]
        )
    if isinstance(kinds := schema.get("type"), list):
        return st.one_of([values({**schema, "type": each}, definitions, depth) for each in kinds])
    match schema.get("type"):
        case "string":
            return _texts(schema)
        case "integer":
            return st.integers(*_bounds(schema, 1)).map(lambda each: each * schema.get("multipleOf", 1))
        case "number":
            least, greatest = _bounds(schema, 0.5)
            whole = st.integers(
                -5 if least is None else math.ceil(least), 5 if greatest is None else int(greatest)
            )
            return st.floats(least, greatest, allow_nan=False, allow_infinity=False) | whole
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            return _arrays(schema, definitions, depth)
        case "object":
            return _objects(schema, definitions, depth)
        case _:
            assert not schema.keys() - {"$defs", "default", "description"}, schema
            return _ANYTHING


def _few(depth: int) -> int | None:
    return 1 if depth >= _DEEP else None


def _bounds(schema: _Schema, step: float) -> tuple[Any, Any]:
    least = schema.get("minimum", None if (above := schema.get("exclusiveMinimum")) is None else above + step)
    most = schema.get("maximum", None if (below := schema.get("exclusiveMaximum")) is None else below - step)
    return least, most


def _texts(schema: _Schema) -> st.SearchStrategy[str]:
    if "pattern" in schema:
        return st.from_regex(schema["pattern"], fullmatch=True, alphabet=st.characters(max_codepoint=127))
    if "format" in schema:
        return _FORMATS[schema["format"]]
    return st.text(min_size=schema.get("minLength", 0), max_size=schema.get("maxLength", 8))


def _arrays(schema: _Schema, definitions: _Schema, depth: int) -> st.SearchStrategy[Any]:
    if "prefixItems" in schema:
        return st.tuples(*(values(each, definitions, depth + 1) for each in schema["prefixItems"])).map(list)
    least = schema.get("minItems", 0)
    most = least if depth >= _DEEP else max(least, schema.get("maxItems", 2))
    if not most:
        return st.just([])
    items = values(schema.get("items", {}), definitions, depth + 1)
    unique = repr if schema.get("uniqueItems") else None
    return st.lists(items, min_size=least, max_size=most, unique_by=unique)


def _objects(schema: _Schema, definitions: _Schema, depth: int) -> st.SearchStrategy[Any]:
    properties = {
        name: values(each, definitions, depth + 1) for name, each in schema.get("properties", {}).items()
    }
    required = {name: properties.pop(name) for name in schema.get("required", ())}
    named = st.fixed_dictionaries(required, optional={} if depth >= _DEEP else properties)
    additional = schema.get("additionalProperties", False)
    if additional is False or depth >= _DEEP:
        return named
    names = {"type": "string", **schema.get("propertyNames", {})}
    items = values({} if additional is True else additional, definitions, depth + 1)
    more = st.dictionaries(values(names, definitions), items, max_size=2)
    return st.builds(lambda one, other: {**other, **one}, named, more)

"""Answers of people against the JSON schema of their question, before the run itself validates them.

The store does not have the type, so it refuses only what no run would accept; keywords that it does not know
say nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from ..types.json import is_json_mapping

_SCALARS: Mapping[str, TypeAdapter[Any]] = {
    "integer": TypeAdapter(int),
    "number": TypeAdapter(float),
    "boolean": TypeAdapter(bool),
}
"""Types whose values may come as texts, as pydantic reads them."""

_LIMITS: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("at least", lambda value, limit: value >= limit),
    "maximum": ("at most", lambda value, limit: value <= limit),
    "exclusiveMinimum": ("more than", lambda value, limit: value > limit),
    "exclusiveMaximum": ("less than", lambda value, limit: value < limit),
}
_SIZES: Mapping[str, tuple[str, Callable[[int, Any], bool]]] = {
    "minLength": ("at least", lambda size, limit: size >= limit),
    "maxLength": ("at most", lambda size, limit: size <= limit),
    "minItems": ("at least", lambda size, limit: size >= limit),
    "maxItems": ("at most", lambda size, limit: size <= limit),
}


def find_mismatch(answer: object, schema: Mapping[str, Any] | None) -> str | None:
    """Return why an answer does not match a schema; None where it may match.

    Args:
        answer: The answer, as plain data.
        schema: The schema; None for none.
    """
    if schema is None:
        return None
    try:
        value: object = to_jsonable_python(answer)
    except (PydanticSerializationError, ValueError, RecursionError):
        return None
    return _mismatch(value, schema, schema, "the answer")


def _mismatch(value: Any, schema: Any, root: Mapping[str, Any], name: str) -> str | None:
    if not is_json_mapping(schema):
        return f"{name} must not be there" if schema is False else None
    if "$ref" in schema:
        return _mismatch(value, _referred(schema["$ref"], root), root, name)
    for one in schema.get("allOf", ()):
        if (reason := _mismatch(value, one, root, name)) is not None:
            return reason
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        reasons = [_mismatch(value, one, root, name) for one in options]
        if None not in reasons:
            return " or ".join(dict.fromkeys(reason for reason in reasons if reason is not None))
    values: Sequence[Any] | None = [schema["const"]] if "const" in schema else schema.get("enum")
    if values is not None and value not in values:
        return f"{name} must be one of {', '.join(map(repr, values))}"
    return _type_mismatch(value, schema, root, name)


def _referred(reference: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        found = found.get(part.replace("~1", "/").replace("~0", "~"), {}) if part else found
    return found


def _type_mismatch(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], name: str) -> str | None:
    match schema.get("type"):
        case "integer" | "number" | "boolean" as kind:
            try:
                number = _SCALARS[kind].validate_python(value)
            except ValidationError as error:
                return f"{name} must be of the type {kind}: {error.errors()[0]['msg']}"
            return _limit_mismatch(number, schema, _LIMITS, name)
        case "string":
            is_fitting = isinstance(value, str)
        case "null":
            is_fitting = value is None
        case "array":
            is_fitting = isinstance(value, list)
        case "object":
            is_fitting = isinstance(value, dict)
        case _:
            return None
    if not is_fitting:
        return f"{name} must be of the type {schema['type']}"
    if value is None:
        return None
    if schema["type"] == "object":
        return _property_mismatch(value, schema, root, name)
    size = _limit_mismatch(len(value), schema, _SIZES, f"the length of {name}")
    return size if size is not None or isinstance(value, str) else _item_mismatch(value, schema, root, name)


def _limit_mismatch(
    number: Any,
    schema: Mapping[str, Any],
    limits: Mapping[str, tuple[str, Callable[[Any, Any], bool]]],
    name: str,
) -> str | None:
    for keyword, (words, fits) in limits.items():
        if keyword in schema and not fits(number, schema[keyword]):
            return f"{name} must be {words} {schema[keyword]}"
    return None


def _property_mismatch(
    value: Mapping[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any], name: str
) -> str | None:
    missing = [each for each in schema.get("required", ()) if each not in value]
    if missing:
        return f"{name} lacks {', '.join(missing)}"
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for key, part in value.items():
        reason = _mismatch(part, known.get(key, others), root, f"{key} in {name}")
        if reason is not None:
            return reason
    return None


def _item_mismatch(
    value: Sequence[Any], schema: Mapping[str, Any], root: Mapping[str, Any], name: str
) -> str | None:
    first = schema.get("prefixItems", ())
    for number, item in enumerate(value):
        expected = first[number] if number < len(first) else schema.get("items", True)
        reason = _mismatch(item, expected, root, f"item {number} of {name}")
        if reason is not None:
            return reason
    return None

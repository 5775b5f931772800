"""Limits of the schemas that Anthropic's endpoint enforces.

Source: "Schema complexity limits" of the provider's documentation of structured outputs, and the error of the
endpoint, "Schemas contains too many parameters with union types … (limit: 16)". They hold for all enforced
schemas of a request together; the library has one in a request.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, TypeGuard, cast

from ..errors import ConfigurationError

__all__ = ["fitted_schema"]

_MAX_OPTIONAL = 24
"""The most properties of all objects together that may be left out."""
_MAX_UNIONS = 16
"""The most values of several types."""

_NULL = {"type": "null"}


def fitted_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema within the limits.

    Where it is too large, an object that stands in it several times becomes a definition, and if that is not
    enough, what may be left out is never null.

    Args:
        schema: A schema in the words that the endpoint takes.

    Raises:
        ConfigurationError: It is too large all the same.
    """
    if _is_within_limits(schema):
        return schema
    fitted = _with_shared_objects(schema)
    if _is_within_limits(fitted):
        return fitted
    fitted = cast("dict[str, Any]", _without_optional_nulls(fitted))
    if _is_within_limits(fitted):
        return fitted
    raise ConfigurationError(
        "The structured output of the Anthropic Messages protocol cannot carry schemas with more than "
        f"{_MAX_OPTIONAL} properties that may be left out or more than {_MAX_UNIONS} of several types. "
        f"It has {_count_optional(fitted)} and {_count_unions(fitted)}; let values travel through tools."
    )


def _is_within_limits(schema: object) -> bool:
    return _count_optional(schema) <= _MAX_OPTIONAL and _count_unions(schema) <= _MAX_UNIONS


def _count_optional(schema: object) -> int:
    return sum(
        name not in _required(each)
        for each in _parts(schema)
        if _is_object(each)
        for name in each["properties"]
    )


def _count_unions(schema: object) -> int:
    return sum(1 for each in _parts(schema) if isinstance(each.get("anyOf"), list))


def _with_shared_objects(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with one definition for all objects that are the same."""
    counts = Counter(_text(each) for each in _parts(schema) if _is_object(each))
    given: object = schema.get("$defs", {})
    definitions: dict[str, Any] = dict(given) if _is_mapping(given) else {}
    names: dict[str, str] = {}

    def share(part: object) -> object:
        if isinstance(part, list):
            return [share(each) for each in cast("list[object]", part)]
        if not _is_mapping(part):
            return part
        if not _is_object(part) or counts[text := _text(part)] < 2:
            return {name: share(each) for name, each in part.items()}
        if text not in names:
            names[text] = next(name for at in count(1) if (name := f"Shared{at}") not in definitions)
            definitions[names[text]] = {}  # the name is taken
            definitions[names[text]] = {name: share(each) for name, each in part.items()}
        return {"$ref": f"#/$defs/{names[text]}"}

    shared = {name: share(each) for name, each in schema.items()}
    if not names:
        return shared
    own = cast("dict[str, Any]", shared.get("$defs", {}))
    return shared | {"$defs": {**own, **{name: definitions[name] for name in names.values()}}}


def _is_object(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "object" and _is_mapping(schema.get("properties"))


def _text(schema: object) -> str:
    return json.dumps(schema, sort_keys=True, default=str)


def _without_optional_nulls(part: object) -> object:
    if isinstance(part, list):
        return [_without_optional_nulls(each) for each in cast("list[object]", part)]
    if not _is_mapping(part):
        return part
    changed = {name: _without_optional_nulls(each) for name, each in part.items()}
    properties: object = changed.get("properties")
    if changed.get("type") == "object" and _is_mapping(properties):
        required = _required(changed)
        changed["properties"] = {
            name: each if name in required else _without_null(each) for name, each in properties.items()
        }
    return changed


def _required(schema: Mapping[str, Any]) -> Sequence[object]:
    required: object = schema.get("required")
    return cast("Sequence[object]", required) if isinstance(required, list | tuple) else ()


def _without_null(schema: Any) -> Any:
    """A schema without the alternative null."""
    given: list[Any] = schema.get("anyOf", [])
    left = [each for each in given if each != _NULL]
    if len(left) == len(given) or not left:
        return schema
    if len(left) > 1:
        return schema | {"anyOf": left}
    if "$ref" in left[0]:  # a reference stands alone
        return left[0]
    return left[0] | {name: each for name, each in schema.items() if name != "anyOf"}


def _parts(part: object) -> Iterator[Mapping[str, Any]]:
    """The objects inside of a document."""
    if _is_mapping(part):
        yield part
        for each in part.values():
            yield from _parts(each)
    elif isinstance(part, list):
        for each in cast("list[object]", part):
            yield from _parts(each)


def _is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)

"""Whether a JSON Schema keeps to the subset that endpoints enforce under `strict`. Floor 1.

Source: structured outputs, "Supported schemas", of the OpenAI platform documentation: every object lists all
its properties as required and forbids others.
"""

from collections.abc import Mapping
from typing import Any, cast

__all__ = ["is_strict_schema"]

_SCHEMA_MAPS = ("properties", "$defs", "definitions")
_NOT_IN_SUBSET = ("allOf", "oneOf", "not", "if", "patternProperties", "dependentRequired", "dependentSchemas")


def is_strict_schema(schema: Mapping[str, Any]) -> bool:
    """Whether the schema, and every schema inside it, keeps to the subset.

    Args:
        schema: A JSON Schema.
    """
    if any(name in schema for name in _NOT_IN_SUBSET):
        return False
    if ("properties" in schema or schema.get("type") == "object") and not _is_closed_object(schema):
        return False
    inner: list[object] = [schema.get("items"), *(schema.get("anyOf") or ())]
    for name in _SCHEMA_MAPS:
        inner.extend(cast("Mapping[str, object]", schema.get(name) or {}).values())
    schemas = [cast("Mapping[str, Any]", each) for each in inner if isinstance(each, Mapping)]
    return all(map(is_strict_schema, schemas))


def _is_closed_object(schema: Mapping[str, Any]) -> bool:
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required: set[str] = set(schema.get("required") or ())
    return schema.get("additionalProperties") is False and required == set(properties)

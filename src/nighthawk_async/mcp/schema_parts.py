"""The keywords of JSON Schema whose values are schemas."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords with schemas by name."""
LISTED = ("allOf", "anyOf", "oneOf", "prefixItems")
"""Keywords with a list of schemas."""
SINGLE = (
    *("items", "additionalItems", "additionalProperties", "contains", "contentSchema", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties", "not", "if", "then", "else"),
)
"""Keywords with one schema."""


def parts_of(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The schemas directly inside a schema, each with the keyword that holds it."""
    for keyword in NAMED:
        if isinstance(named := schema.get(keyword), Mapping):
            yield from ((keyword, each) for each in cast("Mapping[str, Any]", named).values())
    for keyword in LISTED:
        if isinstance(listed := schema.get(keyword), list):
            yield from ((keyword, each) for each in cast("list[Any]", listed))
    for keyword in SINGLE:
        if keyword in schema:
            yield keyword, schema[keyword]

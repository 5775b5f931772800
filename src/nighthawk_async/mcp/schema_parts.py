"""The schemas inside a JSON Schema: the keywords that hold them, and references to them."""

from collections.abc import Iterator, Mapping
from typing import Any, cast
from urllib.parse import unquote

NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords with schemas by name."""
LISTED = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Keywords with a list of schemas."""
SINGLE = frozenset(
    {"items", "additionalItems", "additionalProperties", "contains", "contentSchema", "propertyNames"}
    | {"unevaluatedItems", "unevaluatedProperties", "not", "if", "then", "else"}
)
"""Keywords with one schema."""


def parts_of(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The schemas directly inside a schema, each with the keyword that holds it."""
    for keyword, value in schema.items():
        if keyword in SINGLE:
            yield keyword, value
        elif keyword in NAMED and isinstance(value, dict):
            yield from ((keyword, each) for each in cast("dict[str, Any]", value).values())
        elif keyword in LISTED and isinstance(value, list):
            yield from ((keyword, each) for each in cast("list[Any]", value))


def pointed_at(document: Mapping[str, Any], reference: str) -> object:
    """The part of a document that a reference of the form `#/a/b` points at; None for any other."""
    found: object = document
    if reference == "#":
        return found
    if not reference.startswith("#/"):
        return None
    for part in reference.removeprefix("#/").split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            named = cast("Mapping[str, object]", found)
            found = named.get(name, named.get(unquote(name)))  # some write `%20`, as the standard has it
        elif isinstance(found, list) and name.isdecimal() and len(name) < 6:
            found = dict(enumerate(cast("list[object]", found))).get(int(name))
        else:
            return None
    return found

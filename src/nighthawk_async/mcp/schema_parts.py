"""The schemas inside a JSON Schema: the keywords that hold them, and references to them."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from ..types.json import is_json_list, is_json_mapping, is_json_object

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
        elif keyword in NAMED and is_json_object(value):
            yield from ((keyword, each) for each in value.values())
        elif keyword in LISTED and is_json_list(value):
            yield from ((keyword, each) for each in value)


def pointed_at(document: Mapping[str, Any], reference: str) -> object:
    """The part of a document that a reference of the form `#/a/b` points at; None for any other."""
    found: object = document
    if reference == "#":
        return found
    if not reference.startswith("#/"):
        return None
    for part in reference.removeprefix("#/").split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if is_json_mapping(found):
            found = found.get(name, found.get(unquote(name)))  # some write `%20`, as the standard has it
        elif is_json_list(found) and name.isdecimal() and len(name) < 6:
            found = dict(enumerate(found)).get(int(name))
        else:
            return None
    return found

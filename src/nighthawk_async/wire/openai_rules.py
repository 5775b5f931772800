"""Rules of OpenAI's endpoints for JSON Schemas; see `schema_rules`.

Source: the endpoints' error message `array schema missing items`. Other servers of these protocols take more.
"""

from collections.abc import Mapping
from typing import Any

from .schema_rules import SchemaLocation, schemas_in


def find_parameter_problem(parameters: Mapping[str, Any]) -> str | None:
    """See `schema_rules.SchemaRules`."""
    for path, schema in schemas_in(parameters):
        if _is_open_array(schema):
            place = ".".join(part for part in path if part not in ("properties", "$defs"))
            return (
                f"OpenAI's endpoint refuses the type of {place}, a list whose items have no common type, "
                "such as a tuple; annotate it as list[…], or as an object with named fields."
            )
    return None


def find_problem(schema: Mapping[str, Any], place: SchemaLocation) -> str | None:
    """See `schema_rules.SchemaRules`."""
    if any(_is_open_array(each) for _, each in schemas_in(schema)):
        return "OpenAI's endpoint refuses lists whose items have no common type, such as tuples"
    return None


def _is_open_array(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "array" and "items" not in schema

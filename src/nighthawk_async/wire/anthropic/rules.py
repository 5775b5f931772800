"""Rules of Anthropic's endpoint for JSON Schemas; see `wire.schema_rules`.

Source: the endpoint's error message, property keys match `^[a-zA-Z0-9_.-]{1,64}$`; and `schema`.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

from ...errors import ConfigurationError
from ..schema_rules import SchemaLocation, schemas_in
from .schema import supported_schema

_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}", re.ASCII)


def find_parameter_problem(parameters: Mapping[str, Any]) -> str | None:
    """See `wire.schema_rules.SchemaRules`."""
    for name in cast("Mapping[str, object]", parameters.get("properties", {})):
        if not _PROPERTY.fullmatch(name):
            return (
                f"Anthropic's endpoint refuses the parameter name {name!r}; it takes at most 64 ASCII "
                "letters, digits, underscores, dots and hyphens. Rename the parameter."
            )
    return None


def find_problem(schema: Mapping[str, Any], place: SchemaLocation) -> str | None:
    """See `wire.schema_rules.SchemaRules`."""
    names = (name for _, each in schemas_in(schema) for name in _property_names(each))
    if bad := next((name for name in names if not _PROPERTY.fullmatch(name)), None):
        return f"Anthropic's endpoint refuses the property name {bad!r}"
    if place == "response":
        try:
            supported_schema(schema)
        except ConfigurationError as error:
            return str(error).partition("; ")[0].rstrip(".")
    return None


def _property_names(schema: Mapping[str, Any]) -> Mapping[str, object]:
    properties = schema.get("properties")
    return cast("Mapping[str, object]", properties) if isinstance(properties, Mapping) else {}

"""Rules of endpoints for JSON Schemas: refusals of schemas that the standard allows.

A module with such rules has the functions of `SchemaRules`; the catalog's rows name it. Only a certain
refusal of an endpoint is a problem.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Literal, Protocol, TypeAlias, cast

from ..types.json import is_json_list, is_json_mapping

SchemaLocation: TypeAlias = Literal["tool", "response"]
"""Whether a schema is that of a tool's arguments or that of the response."""


class SchemaRules(Protocol):
    """The rules of one endpoint."""

    def find_parameter_problem(self, parameters: Mapping[str, Any]) -> str | None:
        """Return the reason why a tool's parameters are refused, and a remedy; None when accepted.

        Args:
            parameters: The JSON Schema of the parameters.
        """
        ...

    def find_problem(self, schema: Mapping[str, Any], place: SchemaLocation) -> str | None:
        """Return the reason why a schema is refused, without a full stop; None when it is accepted.

        Args:
            schema: A whole JSON Schema, compact.
            place: The place of the schema.
        """
        ...


def load_schema_rules(name: str) -> SchemaRules | None:
    """The rules of a module; None for no name.

    Args:
        name: The module, below this package.
    """
    return cast("SchemaRules", import_module(f".{name}", __package__)) if name else None


def schemas_in(
    value: object, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield every object in a schema that may be a schema itself, with its path.

    Args:
        value: The schema, or a part of it.
        path: The path to it.
    """
    if is_json_mapping(value):
        yield path, value
        for name, inner in value.items():
            if name not in ("default", "examples", "enum", "const") or path[-1:] == ("properties",):
                yield from schemas_in(inner, (*path, name))
    elif is_json_list(value):
        for each in value:
            yield from schemas_in(each, path)

"""Arguments of a tool: their JSON Schema, and their validation. Floor 3."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from msgspec import Struct
from pydantic_core import SchemaValidator, core_schema

from ..core_schemas import CoreSchema, adapted_core_schema, default_as_data
from ..data_schema import json_schemas_of
from ..plain_data import data_validator

__all__ = ["NO_DEFAULT", "ToolArguments", "ToolParameter"]

NO_DEFAULT = object()
"""Stands for the default of a parameter that has none."""


class ToolParameter(Struct, frozen=True, kw_only=True):
    """A parameter of a tool.

    Args:
        annotation: Its type.
        description: Explanation for the model; empty for none. A description in the type comes first.
        default: Its default; `NO_DEFAULT` for none.
    """

    annotation: object
    description: str = ""
    default: object = NO_DEFAULT

    def completed(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema of the type with the description and the default."""
        described = {"description": self.description, **schema} if self.description else schema
        return described | (default_as_data(self.default) if self.default is not NO_DEFAULT else {})


@dataclass(frozen=True, kw_only=True)
class ToolArguments:
    """The arguments of a tool, given as one JSON object; the same kinds of data as in answers are taken.

    Args:
        parameters: The parameters by name.
    """

    parameters: Mapping[str, ToolParameter]

    @cached_property
    def _core_schemas(self) -> Mapping[str, CoreSchema]:
        return {name: adapted_core_schema(each.annotation) for name, each in self.parameters.items()}

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the object.

        Raises:
            Exception: A type has no JSON Schema.
        """
        made = json_schemas_of([each.whole for each in self._core_schemas.values()])
        properties = {
            name: parameter.completed(schema)
            for (name, parameter), schema in zip(self.parameters.items(), made.schemas, strict=True)
        }
        required = [name for name, each in self.parameters.items() if each.default is NO_DEFAULT]
        return {
            "type": "object",
            "properties": properties,
            **({"required": required} if required else {}),
            "additionalProperties": False,
            **({"$defs": made.definitions} if made.definitions else {}),
        }

    def validated(self, arguments: str) -> dict[str, object]:
        """Return the values of JSON arguments, without defaults.

        Raises:
            Exception: They are no such object, or a type has no validator.
        """
        return self._validator.validate_json(arguments)

    @cached_property
    def _validator(self) -> SchemaValidator:
        fields = {
            name: core_schema.typed_dict_field(
                cast("core_schema.CoreSchema", self._core_schemas[name].schema),
                required=parameter.default is NO_DEFAULT,
            )
            for name, parameter in self.parameters.items()
        }
        definitions = {each["ref"]: each for core in self._core_schemas.values() for each in core.definitions}
        whole = core_schema.typed_dict_schema(fields, extra_behavior="forbid")
        return data_validator(CoreSchema(cast("dict[str, Any]", whole), list(definitions.values())))

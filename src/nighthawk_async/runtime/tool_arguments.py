"""Arguments of a tool: their JSON Schema, and their validation."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, cast

import msgspec
from msgspec import Struct
from pydantic_core import SchemaValidator, core_schema

from ..errors import HookError, ToolBoundaryError
from ..types.messages import ToolCall
from .core_schemas import CoreSchema, adapted_core_schema, default_as_data
from .data_schema import json_schemas_of
from .plain_data import data_validator

__all__ = [
    "NO_DEFAULT",
    "ToolArguments",
    "ToolParameter",
    "canonical_arguments",
    "check_size",
    "excess_of",
    "parsed_arguments",
    "with_arguments",
]

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


_QUOTED_CHARACTERS = 40
_WRITE_AN_OBJECT = "Call the tool again with one JSON object."


def check_size(call: ToolCall, max_bytes: int) -> None:
    """Refuse arguments that are too long to be looked at.

    Args:
        call: The call.
        max_bytes: The number of bytes that the arguments may have in UTF-8.

    Raises:
        ToolBoundaryError: They have more.
    """
    excess = excess_of(call.arguments, max_bytes)
    if excess is not None:
        raise ToolBoundaryError(
            kind="invalid_input",
            message=f"the arguments of {call.name} {excess}",
            guidance="Make the call smaller, or split it; refer to values by their names instead of writing "
            "them out.",
        )


def excess_of(text: str, max_bytes: int) -> str | None:
    """Describe the excess of a text over its bound; None for none.

    Args:
        text: What the model wrote.
        max_bytes: The number of bytes that it may have in UTF-8.
    """
    if len(text) * 4 <= max_bytes:  # a character has at most four bytes
        return None
    size = len(text.encode(errors="surrogatepass"))
    return f"have {size:,} bytes; at most {max_bytes:,} are allowed" if size > max_bytes else None


def parsed_arguments(call: ToolCall) -> dict[str, Any]:
    """The arguments as a fresh dictionary.

    Raises:
        ToolBoundaryError: They are no JSON object, name an argument twice, or hold a number that is too large
            for a float, so that what is inspected might not be what is carried out.
    """
    try:
        arguments: object = json.loads(
            call.arguments or "{}",
            object_pairs_hook=_without_duplicates,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except (ValueError, RecursionError) as error:
        raise ToolBoundaryError(
            kind="invalid_input",
            message=f"the arguments of {call.name} are not JSON: {error}",
            guidance=_WRITE_AN_OBJECT,
        ) from error
    if not isinstance(arguments, dict):
        raise ToolBoundaryError(
            kind="invalid_input",
            message=f"the arguments of {call.name} are not a JSON object",
            guidance=_WRITE_AN_OBJECT,
        )
    return cast("dict[str, Any]", arguments)


def with_arguments(call: ToolCall, arguments: Mapping[str, Any], *, author: str) -> ToolCall:
    """The call with other arguments.

    Args:
        call: The call.
        arguments: The arguments, of what JSON can hold.
        author: Who wrote them, for the error.

    Raises:
        HookError: They hold what JSON cannot.
    """
    try:
        text = json.dumps(dict(arguments), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        what = f"{author} rewrote a tool call to what is not JSON"
        raise HookError(f"{what}: {error}", hook=author).without_content(what) from error
    return ToolCall(id=call.id, name=call.name, arguments=text)


def canonical_arguments(call: ToolCall) -> str:
    """One text for all ways of writing the same arguments; what is no JSON stands for itself."""
    try:
        value: object = msgspec.json.decode(call.arguments or "{}")
        return msgspec.json.encode(value, order="sorted").decode()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return call.arguments


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    arguments = dict(pairs)
    if len(arguments) < len(pairs):
        raise ValueError("an object names the same field twice")
    return arguments


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:_QUOTED_CHARACTERS]} is too large")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")

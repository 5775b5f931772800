"""pydantic's core schema of a type, with what pydantic leaves out. Floor 3.

A member of an enumeration may be given by its name, too.
"""

import enum
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self, TypeAlias, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

__all__ = ["Change", "CoreSchema", "adapted_core_schema", "changed", "schema_validator", "with_inner"]

Change: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]

_OPAQUE = frozenset(
    {"cls", "computed_fields", "config", "custom_error_context", "default", "expected", "function"}
    | {"generic_origin", "members", "metadata", "serialization", "values"}
)
"""Keys of a core schema below which no schema for validation stands."""


class CoreSchema(NamedTuple):
    """The core schema of a type.

    Attributes:
        schema: The schema.
        definitions: The schemas to which it refers.
    """

    schema: dict[str, Any]
    definitions: list[dict[str, Any]]

    @property
    def whole(self) -> dict[str, Any]:
        """Both in one."""
        if not self.definitions:
            return self.schema
        return {"type": "definitions", "schema": self.schema, "definitions": self.definitions}


def adapted_core_schema(annotation: object) -> CoreSchema:
    """The core schema of a type.

    Args:
        annotation: The type.

    Raises:
        Exception: pydantic, or code of the user's types, cannot make one.
    """
    if annotation is Self:  # pydantic knows it inside of models only
        annotation = Any
    # Inside of a tuple the configuration also holds for dataclasses that have none of their own.
    holder = cast("type[tuple[object]]", tuple.__class_getitem__((annotation,)))
    with warnings.catch_warnings():  # of types that say nothing about values, such as LiteralString
        warnings.filterwarnings("ignore", r"(?s).* is not a Python type", UserWarning)
        adapter = TypeAdapter(holder, config=ConfigDict(arbitrary_types_allowed=True))
        if not adapter.pydantic_complete:
            adapter.rebuild(raise_errors=True)  # says which name is missing
    schema = cast("dict[str, Any]", adapter.core_schema)
    definitions: list[dict[str, Any]] = []
    if schema["type"] == "definitions":
        definitions, schema = schema["definitions"], schema["schema"]
    return CoreSchema(*changed((schema["items_schema"][0], definitions), _adapted))


def schema_validator(schema: Any, config: Any = None) -> SchemaValidator:
    """Compile a core schema, without the validators that the classes in it hold.

    Args:
        schema: The schema.
        config: The configuration of pydantic's core for it.
    """
    try:
        return SchemaValidator(schema, config, _use_prebuilt=False)  # pyright: ignore[reportCallIssue]
    except TypeError:  # a pydantic that makes every validator anew
        return SchemaValidator(schema, config)


def changed(schema: Any, change: Change) -> Any:
    """A part of a core schema, with every schema in it changed.

    Args:
        schema: A schema, several schemas in a list, or by the names of fields, or what else is in one.
        change: Makes another of a schema; for what is inside of it, it calls `with_inner`.
    """
    if isinstance(schema, list | tuple):
        items = cast("list[Any] | tuple[Any, ...]", schema)
        return type(items)(changed(each, change) for each in items)
    if not isinstance(schema, dict):
        return schema
    node = cast("dict[str, Any]", schema)
    if isinstance(node.get("type"), str):
        return change(node)
    return {name: changed(each, change) for name, each in node.items()}


def with_inner(schema: dict[str, Any], change: Change) -> dict[str, Any]:
    """A schema with the schemas inside of it changed."""
    return {name: each if name in _OPAQUE else changed(each, change) for name, each in schema.items()}


def _adapted(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with what pydantic leaves out."""
    if schema["type"] == "enum":
        return _by_name_too(schema)
    if (
        schema["type"] == "union"
    ):  # a text that is no value of the enumeration may be meant for another choice
        choices = [each if _is_enum(each) else changed(each, _adapted) for each in schema["choices"]]
        return schema | {"choices": choices}
    return with_inner(schema, _adapted)


def _is_enum(choice: object) -> bool:
    return isinstance(choice, dict) and cast("dict[str, Any]", choice)["type"] == "enum"


def _by_name_too(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an enumeration that takes the names of its members where they are not its values."""
    find = _NamedMember(schema["cls"])
    ref = {"ref": schema["ref"]} if "ref" in schema else {}
    inner = {name: each for name, each in schema.items() if name != "ref"}
    return {
        "type": "function-wrap",
        "function": {"type": "no-info", "function": find},
        "schema": inner,
        **ref,
    }


class _NamedMember:
    """Validates a value for an enumeration; a text that is none of its values is taken for a name."""

    def __init__(self, kind: type[enum.Enum]) -> None:
        self._members: Mapping[str, enum.Enum] = kind.__members__

    def __call__(self, value: object, handler: Callable[[object], object]) -> object:
        try:
            return handler(value)
        except ValidationError:
            if isinstance(value, str) and value in self._members:
                return self._members[value]
            raise

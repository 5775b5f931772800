"""The fields of an instance, validated by name as values that were converted already."""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol, cast

from pydantic import BaseModel

from .mutable_state import copy_attributes
from .unchanged import is_alike

_UNSET = object()
_NO_DEFAULT = object()


class FieldSchemas(Protocol):
    """The schemas that the schema of a class belongs to."""

    def guard_converted(self, schema: Any) -> Any:
        """The schema of a converted value, in which checks wrap all classes."""
        ...

    def converted_validator(self, schema: Any, config: Any = None) -> Any:
        """Compile the schema of a converted value."""
        ...


_EXTRA = ("extras_schema", "extras_keys_schema")


class InstanceFields:
    """The fields of a class, validated by name, not by alias.

    As in pydantic, defaults that were never replaced are not validated.

    Args:
        schemas: The schemas that the schema of the class belongs to.
        schema: The schema of the class.
    """

    def __init__(self, schemas: FieldSchemas, schema: dict[str, Any]) -> None:
        self._schemas = schemas
        self._is_root = bool(schema.get("root_model"))
        self._is_model = schema["type"] == "model"
        self._defaults: dict[str, object] = {}
        self._takes_more = False  # extra arguments of the constructor
        self._is_known = True
        given = schema["schema"]
        inner = schemas.guard_converted(given) if self._is_root else self._by_name(given)
        self._validator = schemas.converted_validator(inner, schema.get("config"))
        self.has_post_init = bool(schema.get("post_init")) and self._is_made_of_fields(schema["cls"])

    def converted(self, value: Any) -> dict[str, object]:
        """The new values of the fields that must be converted, by name.

        Raises:
            pydantic.ValidationError: A field holds an invalid value.
        """
        if self._is_root:
            result = self._validator.validate_python(value.root)
            return {} if is_alike(value.root, result) else {"root": result}
        if not self._is_known:  # a class with a custom schema
            return {}
        held, defaults = self._held(value), self._defaults
        given = {name: each for name, each in held.items() if each is not defaults.get(name, _UNSET)}
        results: Any = self._validator.validate_python(given)
        fields: dict[str, object] = results[0]
        if self._is_model and results[1]:
            fields = fields | results[1]
        return {
            name: each
            for name, each in fields.items()
            if (before := held.get(name, _UNSET)) is not each and not is_alike(before, each)
        }

    def _held(self, value: Any) -> dict[str, object]:
        if self._is_model:
            variables = cast("dict[str, object]", vars(value))
            extra = cast("dict[str, object]", value.__pydantic_extra__ or {})
            if not extra and variables.keys() <= self._defaults.keys():
                return variables
            variables = {**variables, **extra}
            return {name: each for name, each in variables.items() if name in self._defaults or name in extra}
        held = {name: getattr(value, name, _UNSET) for name in self._defaults}
        return {name: each for name, each in held.items() if each is not _UNSET}

    def _is_made_of_fields(self, kind: type[Any]) -> bool:
        """Whether the code after `__init__` can run again: it takes and sets nothing besides the fields."""
        return (
            not self._is_model
            and not self._takes_more
            and all(each.init for each in dataclasses.fields(kind))
        )

    def _by_name(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema of the fields by name, without those that only `__init__` takes."""
        if schema["type"] == "model-fields":
            named = cast("dict[str, dict[str, Any]]", schema["fields"])
            extra = {name: self._schemas.guard_converted(schema[name]) for name in _EXTRA if name in schema}
            return (
                schema | {"fields": {name: self._field(name, each) for name, each in named.items()}} | extra
            )
        if schema["type"] == "dataclass-args":
            fields = [each for each in schema["fields"] if not each.get("init_only")]
            self._takes_more = len(fields) < len(schema["fields"])
            listed = [self._field(each["name"], each) for each in fields]
            return schema | {"fields": listed, "collect_init_only": False}
        if schema["type"] == "function-before":  # it takes data
            return self._by_name(schema["schema"])
        if "schema" in schema:
            return schema | {"schema": self._by_name(schema["schema"])}
        self._is_known = False
        return schema

    def _field(self, name: str, field: dict[str, Any]) -> dict[str, Any]:
        schema = field["schema"]
        self._defaults[name] = (
            schema.get("default", _NO_DEFAULT) if schema["type"] == "default" else _NO_DEFAULT
        )
        kept_keys = {key: each for key, each in field.items() if key not in ("validation_alias", "init")}
        return kept_keys | {"schema": self._schemas.guard_converted(schema)}


def copied(value: Any, converted: Mapping[str, object]) -> Any:
    """A shallow copy with some fields replaced; avoids running user code."""
    if isinstance(value, BaseModel):
        model = BaseModel.__copy__(value)
        extra = cast("dict[str, object]", model.__pydantic_extra__ or {})
        variables = cast("dict[str, object]", model.__dict__)
        for name, each in converted.items():
            (extra if name in extra else variables)[name] = each
        return model
    made: Any
    try:
        made = object.__new__(cast("type[Any]", type(value)))
    except TypeError:  # a dataclass that is also an exception or a list
        made = copy.copy(value)
    else:
        copy_attributes(value, made)
    for name, each in converted.items():
        object.__setattr__(made, name, each)
    return made

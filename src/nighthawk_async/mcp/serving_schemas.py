"""Results that are JSON objects: their JSON Schema for clients, and data that is checked against it.

The schema says what pydantic serializes, by alias, and nothing that a value of the type may break: a format
is left out where the type also has other values, and regular expressions are, because each language has its
own. What user code does when it serializes is checked with each result.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from enum import Flag
from importlib import import_module
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import core_schema

from ..pickling import PicklableError
from ..prompt.plain_text import single_line
from ..types.json import is_json_list, is_json_object
from ..values.validation import type_adapter
from .json_data import fields_of, json_data
from .schema_faults import checked_schema
from .schema_parts import LISTED, NAMED, SINGLE

_MAX_REASON_CHARACTERS = 500
_ELSE = "The function has returned something else than it declares"


class UnsendableResultError(PicklableError):
    """The result of a function has no JSON form, or is not of the declared type."""


def unsendable(error: Exception) -> UnsendableResultError:
    """The error for a result that has no JSON form.

    Args:
        error: The reason.
    """
    reason = single_line(str(error), _MAX_REASON_CHARACTERS).rstrip(".") or type(error).__name__
    return UnsendableResultError(f"The result of the function has no JSON form: {reason}.")


class ObjectForm:
    """The form of results that are JSON objects.

    Args:
        annotation: Their type.
        is_validated: Whether the function has validated its result already.

    Attributes:
        json_schema: Their JSON Schema, whose root has the type `object`.

    Raises:
        TypeError: They are no objects.
        Exception: The type has no JSON Schema.
    """

    def __init__(self, annotation: object, *, is_validated: bool) -> None:
        self._adapter: TypeAdapter[Any] = type_adapter(annotation)
        schema = self._adapter.json_schema(
            by_alias=True, mode="serialization", schema_generator=_ResultSchema
        )
        self.json_schema: dict[str, Any] = strict_schema(_without_expressions(_with_root(schema)))
        if self.json_schema.get("type") != "object":
            raise TypeError("the results are no JSON objects")
        checked_schema(self.json_schema)
        self._is_validated = is_validated
        self._validator: Any = None

    def data_of(self, value: object) -> Any:
        """Return a result as JSON data, for `check`.

        Raises:
            UnsendableResultError: It is not of the declared type, or has no JSON form.
        """
        try:
            valid = value if self._is_validated else self._adapter.validate_python(value)
        except Exception as error:  # code of the user's types may raise anything
            raise UnsendableResultError(f"{_ELSE}.") from error
        try:
            return json_data(self._adapter, valid, non_finite="refused", fallback=fields_of)
        except Exception as error:
            raise unsendable(error) from error

    def check(self, data: object) -> None:
        """Check that data fits the schema; slow for large data.

        Raises:
            UnsendableResultError: It does not.
        """
        if self._validator is None:
            validators: Any = import_module("jsonschema")  # slow to import, and comes with the package mcp
            self._validator = validators.Draft202012Validator(
                self.json_schema, format_checker=_format_checker()
            )
        error = next(self._validator.iter_errors(data), None)
        if error is not None:
            path = ".".join(map(str, error.absolute_path)) or "its root"
            raise UnsendableResultError(
                f"{_ELSE}: its data breaks {error.validator!r} of the output schema at {path}."
            )


class _ResultSchema(GenerateJsonSchema):
    """Pydantic's JSON Schema of serialized values, without what these may break."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        return

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        return _with_format(super().datetime_schema(schema), has_zone=schema.get("tz_constraint") == "aware")

    def time_schema(self, schema: core_schema.TimeSchema) -> JsonSchemaValue:
        return _with_format(super().time_schema(schema), has_zone=schema.get("tz_constraint") == "aware")

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:
        # RFC 3339 has neither signs nor fractions.
        return _with_format(super().timedelta_schema(schema), has_zone=False)

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        return {"type": "string"}

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        json_schema = super().enum_schema(schema)
        if issubclass(schema["cls"], Flag):  # whose values are sums of those that are named
            del json_schema["enum"]
        return json_schema

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        json_schema = super().dict_schema(schema)
        for values in json_schema.pop("patternProperties", {}).values():
            json_schema["additionalProperties"] = values
        json_schema.pop("propertyNames", None)  # whatever the keys are, JSON has texts
        return json_schema

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        json_schema = super().tagged_union_schema(schema)
        if "oneOf" in json_schema:  # a function that discriminates may have choices that overlap
            json_schema["anyOf"] = json_schema.pop("oneOf")
        return json_schema

    def field_is_required(self, field: Any, total: bool) -> bool:
        return super().field_is_required(field, total) and field.get("serialization_exclude_if") is None

    def ser_schema(self, schema: Any) -> JsonSchemaValue | None:
        if schema["type"] == "any":  # whatever the value is, as it is for `SerializeAsAny`
            return {}
        is_function = schema["type"] in ("function-plain", "function-wrap")
        if is_function and schema.get("return_schema") is None and not _is_pydantics(schema["function"]):
            return {}  # nobody says what the function returns
        made = super().ser_schema(schema)
        if made is None or not schema.get("when_used", "always").endswith("unless-none"):
            return made
        return self.get_flattened_anyof([made, {"type": "null"}])


def _is_pydantics(function: object) -> bool:
    """Whether a function belongs to a type that pydantic knows: its schema says what the function returns."""
    return str(getattr(function, "__module__", "")).startswith("pydantic._internal.")


def _with_format(schema: JsonSchemaValue, *, has_zone: bool) -> JsonSchemaValue:
    return schema if has_zone else {name: each for name, each in schema.items() if name != "format"}


def _with_root(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with the definition at its root that its root refers to, as for a recursive model."""
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    definitions = schema.get("$defs", {})
    return {**definitions.get(reference.removeprefix("#/$defs/"), {}), "$defs": definitions}


def strict_schema(schema: Any) -> Any:
    """Return a JSON Schema without the keywords that are no JSON, such as a default of NaN."""
    return _changed(schema, lambda keyword, value: _is_json(value))


def _without_expressions(schema: Any) -> Any:
    """Return a schema of results without regular expressions, and without multiples of fractions."""
    return _changed(
        schema,
        lambda keyword, value: (
            keyword not in ("pattern", "patternProperties")
            and not (keyword == "multipleOf" and isinstance(value, float))
        ),
    )


def _changed(schema: Any, keeps: Callable[[str, object], bool]) -> Any:
    """Return a schema with the keywords that are kept, here and inside."""
    if not is_json_object(schema):
        return schema
    changed: dict[str, Any] = {}
    for name, each in schema.items():
        if name in NAMED and is_json_object(each):
            inner: object = {key: _changed(value, keeps) for key, value in each.items()}
        elif name in LISTED and is_json_list(each):
            inner = [_changed(value, keeps) for value in each]
        else:
            inner = _changed(each, keeps) if name in SINGLE else each
        if keeps(name, inner):
            changed[name] = inner
    return changed


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return True


_DATE = r"\d{4}-\d\d-\d\d"
_TIME = r"\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"
_DURATION = (
    r"P(\d+W|(?=[\dT])(\d+Y(\d+M(\d+D)?)?|\d+M(\d+D)?|\d+D)?(T(\d+H(\d+M(\d+S)?)?|\d+M(\d+S)?|\d+S))?)"
)
_FORMATS: Mapping[str, tuple[re.Pattern[str], Any]] = {
    "date": (re.compile(_DATE, re.ASCII), date.fromisoformat),
    "time": (re.compile(_TIME, re.ASCII | re.IGNORECASE), time.fromisoformat),
    "date-time": (re.compile(f"{_DATE}T{_TIME}", re.ASCII | re.IGNORECASE), datetime.fromisoformat),
    "duration": (re.compile(_DURATION, re.ASCII), str),
}
"""The formats of RFC 3339: their form, and a function that refuses other values of it."""


def _format_checker() -> Any:
    FormatChecker: Any = import_module("jsonschema").FormatChecker  # noqa: N806

    checker: Any = FormatChecker()
    for name in _FORMATS:
        checker.checks(name, raises=ValueError)(_Format(name))
    return checker


class _Format:
    """Checks the texts of a format."""

    def __init__(self, name: str) -> None:
        self._pattern, self._read = _FORMATS[name]

    def __call__(self, value: object) -> bool:
        if not isinstance(value, str):
            return True
        if self._pattern.fullmatch(value) is None:
            return False
        self._read(value.upper().replace("Z", "+00:00"))
        return True

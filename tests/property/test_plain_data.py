"""What the schema of a type allows is accepted, and what stands for a value is allowed."""

import dataclasses
import enum
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import attrs
import msgspec
from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, RootModel
from pydantic_core import to_jsonable_python

from nighthawk_async.values.plain_data import data_schemas, validate_data
from nighthawk_async.values.validation import validate_value

from .plain_types import types
from .schema_values import values


def schema_of(annotation: Any) -> dict[str, Any]:
    made = data_schemas((annotation,))
    return {**made.schemas[0], "$defs": made.definitions}


def problems(schema: dict[str, Any], value: object) -> list[str]:
    Draft202012Validator.check_schema(schema)
    checker = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    return [each.message for each in checker.iter_errors(value)]


@given(st.data(), types())
def test_data_that_the_schema_allows_is_accepted_and_what_it_makes_is_allowed_again(
    data: st.DataObject, annotation: Any
) -> None:
    schema = schema_of(annotation)
    given = data.draw(values(schema, schema["$defs"]))
    assert not problems(schema, given)
    made = validate_data(given, annotation, subject="it")
    again = dumped(made)
    assert not problems(schema, again)
    validate_data(again, annotation, subject="it")
    validate_value(made, annotation, subject="it")


def dumped(value: Any) -> Any:
    """A value as data, in the way that the schemas describe."""
    match value:
        case enum.Enum():
            is_scalar = all(isinstance(each.value, str | int | float | None) for each in type(value))
            return value.value if is_scalar else value.name
        case RootModel():
            return dumped(value.root)
        case BaseModel():
            return {name: dumped(getattr(value, name)) for name in type(value).model_fields}
        case msgspec.Struct():
            return _dumped_struct(value)
        case dict():
            return {_key(key): dumped(item) for key, item in value.items()}
        case tuple() if hasattr(value, "_asdict"):
            return {name: dumped(item) for name, item in value._asdict().items()}
        case list() | tuple() | set():
            return [dumped(item) for item in value]
        case Decimal():
            return float(value)
        case date() | datetime() | time() | timedelta() | bytes():
            return to_jsonable_python(value)
    if dataclasses.is_dataclass(value):
        return {each.name: dumped(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if attrs.has(type(value)):
        return {each.alias: dumped(getattr(value, each.name)) for each in attrs.fields(type(value))}
    return to_jsonable_python(value)


def _dumped_struct(value: msgspec.Struct) -> dict[str, Any]:
    config = value.__struct_config__
    tag = {} if config.tag_field is None else {config.tag_field: config.tag}
    fields = msgspec.structs.fields(value)
    return tag | {each.encode_name: dumped(getattr(value, each.name)) for each in fields}


def _key(key: Any) -> str:
    text = dumped(key)
    return str(text).lower() if isinstance(text, bool) else str(text)

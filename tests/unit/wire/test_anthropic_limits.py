"""Schemas within the limits of Anthropic's structured output."""

from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.wire.anthropic.schema import supported_schema

TEXT: dict[str, Any] = {"type": "string"}


def with_optional(count: int, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {f"p{index}": schema for index in range(count)},
        "additionalProperties": False,
    }


def or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


@pytest.mark.parametrize(
    "schema",
    [
        with_optional(24, TEXT),
        with_optional(16, or_null(TEXT)),
        {**with_optional(30, TEXT), "required": [f"p{i}" for i in range(30)]},
    ],
)
def test_a_schema_within_the_limits_stays_as_it_is(schema: dict[str, Any]) -> None:
    assert supported_schema(schema) == schema


def test_beyond_them_what_may_be_left_out_is_never_null() -> None:
    schema = with_optional(17, or_null(TEXT))
    schema["properties"]["p1"] = {"anyOf": [TEXT, {"type": "integer"}, {"type": "null"}], "description": "d"}
    schema["properties"]["p2"] = {**or_null({"$ref": "#/$defs/a"}), "description": "d"}
    schema["properties"]["p3"] = or_null(TEXT)
    schema |= {"required": ["p3"], "$defs": {"a": TEXT}}
    properties = supported_schema(schema)["properties"]
    assert properties["p0"] == TEXT
    assert properties["p1"] == {"anyOf": [TEXT, {"type": "integer"}], "description": "d"}
    assert properties["p2"] == {"$ref": "#/$defs/a"}
    assert properties["p3"] == or_null(TEXT)


@pytest.mark.parametrize(
    "schema",
    [
        with_optional(25, TEXT),
        {**with_optional(17, or_null(TEXT)), "required": [f"p{index}" for index in range(17)]},
        {"type": "array", "items": with_optional(25, or_null(TEXT))},
    ],
)
def test_a_schema_that_is_too_large_all_the_same_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(nh.ConfigurationError, match=r"more than 24 properties .* or more than 16"):
        supported_schema(schema)


def test_properties_may_be_called_like_keywords() -> None:
    schema = with_optional(17, or_null(TEXT))
    schema["properties"] |= {"anyOf": TEXT, "properties": TEXT, "required": TEXT, "type": TEXT}
    assert supported_schema(schema)["properties"]["properties"] == TEXT


def test_an_object_that_stands_in_it_several_times_becomes_a_definition() -> None:
    part = with_optional(10, TEXT)
    whole = {
        "type": "object",
        "properties": {"a": part, "b": {"anyOf": [part, part]}},
        "required": ["a", "b"],
    }
    reference = {"$ref": "#/$defs/Shared2"}
    sent = supported_schema({**whole, "$defs": {"Shared1": {"type": "integer"}}})
    assert sent["$defs"] == {"Shared1": {"type": "integer"}, "Shared2": part}
    assert sent["properties"] == {"a": reference, "b": {"anyOf": [reference, reference]}}

"""Which JSON Schemas may claim `strict`."""

from datetime import datetime
from typing import Any, Literal

import pytest
from pydantic import TypeAdapter

from nighthawk_async.wire.openai_schemas import is_strict_schema
from tests.cases import every

CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
OPEN: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}


def closed_around(schema: Any) -> dict[str, Any]:
    return {**CLOSED, "properties": {"a": schema}}


@pytest.mark.parametrize(
    "schema",
    [
        CLOSED,
        {"type": "object", "additionalProperties": False},
        {**CLOSED, "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A"},
        {**CLOSED, "$defs": {"b": CLOSED}},
        {**CLOSED, "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": CLOSED}},
        {**CLOSED, "properties": {"a": {"$ref": "#/definitions/b"}}, "definitions": {"b": CLOSED}},
        closed_around(CLOSED),
        closed_around({"type": "array", "items": CLOSED, "minItems": 1}),
        closed_around({"anyOf": [CLOSED, {"type": "null"}], "title": "A"}),
        closed_around({"type": ["string", "null"], "description": "a word"}),
        closed_around({"type": ["string", "integer", "null"], "enum": ["a", 1, None]}),
        closed_around({"const": "a", "type": "string"}),
        closed_around({"const": 1, "type": "integer"}),
        closed_around({"$ref": "#"}),
        closed_around({"type": "integer", "minimum": 1, "exclusiveMaximum": 6}),
        closed_around({"type": "string", "format": "date-time", "pattern": "^2"}),
    ],
)
def test_what_keeps_to_the_subset_all_the_way_down_is_strict(schema: dict[str, Any]) -> None:
    assert is_strict_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        OPEN,
        {"type": "object"},
        {"type": "object", "properties": {}, "additionalProperties": True},
        {**CLOSED, "required": []},
        {**CLOSED, "required": ["a", "b"]},
        {**CLOSED, "additionalProperties": {"type": "string"}},
        {name: part for name, part in CLOSED.items() if name != "additionalProperties"},
        closed_around(OPEN),
        closed_around({"type": "array", "items": OPEN}),
        closed_around({"anyOf": [OPEN, {"type": "null"}]}),
        {**CLOSED, "$defs": {"b": OPEN}},
    ],
)
def test_an_open_object_anywhere_is_not_strict(schema: dict[str, Any]) -> None:
    assert not is_strict_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "string"},
        {"type": "array", "items": CLOSED},
        {"anyOf": [CLOSED]},
        {**CLOSED, "anyOf": [CLOSED]},
    ],
)
def test_a_root_that_is_no_plain_object_is_not_strict(schema: dict[str, Any]) -> None:
    assert not is_strict_schema(schema)


@every(
    "part",
    [
        {},
        True,
        {"title": "Anything"},
        {"type": "object", "properties": [], "additionalProperties": False},
        {"type": "string", "$defs": []},
        {"type": "array"},
        {"type": "array", "items": {}},
        {"type": "array", "items": True},
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        {"type": "array", "prefixItems": [{"type": "string"}], "items": False},
        {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "string"}},
        {"type": ["array", "null"]},
        {"type": ["object", "null"]},
        {"type": "any"},
        {"type": []},
        {"anyOf": []},
        {"anyOf": [{"type": "string"}, {}]},
        {"oneOf": [CLOSED]},
        {"allOf": [CLOSED]},
        {"not": {"type": "string"}},
        {"enum": ["a", 1]},
        {"const": 1},
        {"type": "string", "enum": []},
        {"type": "string", "enum": [["a"]]},
        {"type": "string", "const": {"a": 1}},
        {"type": "string", "default": "a"},
        {"type": "string", "minLength": 1},
        {"type": "string", "format": "json-string"},
        {"type": "string", "pattern": "^(?!a)"},
        {"type": "string", "minimum": 1},
        {"type": "object", "additionalProperties": False, "patternProperties": {"a": CLOSED}},
        {"$ref": "#/$defs/nowhere"},
        {"$ref": "https://example.org/schema"},
        {"$ref": "#", "description": "beside a reference"},
    ],
)
def test_an_untyped_part_or_an_unsupported_keyword_is_not_strict(part: Any) -> None:
    assert not is_strict_schema(closed_around(part))
    assert not is_strict_schema(closed_around({"type": "array", "items": part}))
    assert not is_strict_schema({**CLOSED, "$defs": {"b": part}})


def test_what_pydantic_makes_of_common_types_is_judged_by_its_parts() -> None:
    def strict(annotation: Any) -> bool:
        return is_strict_schema(closed_around(TypeAdapter(annotation).json_schema()))

    assert strict(Literal["a", "b"])
    assert strict(list[int] | None)
    assert strict(datetime)
    assert not strict(Literal["a", 1])
    assert not strict(object)
    assert not strict(list[Any])
    assert not strict(set[int])
    assert not strict(tuple[int, str])
    assert not strict(dict[str, int])


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = closed_around(schema)
    return schema


def with_properties(count: int, name: str = "p") -> dict[str, Any]:
    names = [f"{name}{index}" for index in range(count)]
    return {**CLOSED, "properties": {key: {"type": "string"} for key in names}, "required": names}


def with_values(count: int, text: str = "v") -> dict[str, Any]:
    return closed_around({"type": "string", "enum": [f"{text}{index}" for index in range(count)]})


@pytest.mark.parametrize(
    ("largest", "too_large"),
    [
        (nested(10), nested(11)),
        (
            {**CLOSED, "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": nested(9)}},
            {**CLOSED, "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": nested(10)}},
        ),
        (with_properties(5_000), with_properties(5_001)),
        (with_properties(1_000, "x" * 110), with_properties(1_000, "x" * 120)),
        (with_values(1_000), with_values(1_001)),
        (with_values(250, "x" * 100), with_values(251, "x" * 100)),
        (
            {**CLOSED, "$defs": {"x" * 119_000: CLOSED}},
            {**CLOSED, "$defs": {"x" * 120_000: CLOSED}},
        ),
    ],
    ids=["depth", "depth by references", "properties", "names", "values", "long list", "definitions"],
)
def test_a_schema_beyond_the_limits_of_size_is_not_strict(
    largest: dict[str, Any], too_large: dict[str, Any]
) -> None:
    assert is_strict_schema(largest)
    assert not is_strict_schema(too_large)


def test_a_schema_that_contains_itself_has_the_depth_of_one_round() -> None:
    node = {**CLOSED, "properties": {"a": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}}
    assert is_strict_schema(
        {**CLOSED, "properties": {"a": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
    )

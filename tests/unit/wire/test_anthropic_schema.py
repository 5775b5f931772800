"""Which JSON Schemas the structured output of Anthropic takes, and as what."""

import json
from collections.abc import Mapping
from typing import Any, Literal

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field

from nighthawk_async.errors import ConfigurationError
from nighthawk_async.models import ModelRequest, ResponseFormat, ToolDefinition, UserMessage
from nighthawk_async.wire.anthropic.codec import AnthropicCodec
from nighthawk_async.wire.anthropic.schema import supported_schema


def closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": list(required)} if required else {})


@pytest.mark.parametrize(
    "schema",
    [
        closed({"a": {"type": "string"}}, "a"),
        closed({}),
        {"type": "array", "items": {"type": "integer"}, "minItems": 1},
        {"type": "array"},
        {"type": "string", "format": "date-time"},
        {"type": "boolean", "title": "A", "description": "b"},
        {"type": "null"},
        {"anyOf": [{"type": "number"}, {"type": "null"}]},
        {"allOf": [closed({"a": {"type": "string"}})]},
        {"enum": ["a", 1, None]},
        {"const": True},
        {"$defs": {"a": closed({})}, "type": "array", "items": {"$ref": "#/$defs/a"}},
        {"definitions": {"a": closed({})}, "$ref": "#/definitions/a"},
    ],
)
def test_what_is_in_the_subset_stays_as_it_is(schema: dict[str, Any]) -> None:
    assert supported_schema(schema) == schema


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"type": "integer", "minimum": 1}, {"type": "integer", "description": "(minimum: 1)"}),
        (
            {"type": "string", "pattern": "^é", "maxLength": 3, "description": "A word."},
            {"type": "string", "description": 'A word. (pattern: "^é", maxLength: 3)'},
        ),
        ({"type": "string", "format": "color"}, {"type": "string", "description": '(format: "color")'}),
        (
            {"type": "array", "items": {"type": "null"}, "minItems": 2},
            {"type": "array", "items": {"type": "null"}, "description": "(minItems: 2)"},
        ),
        ({"type": "string", "default": "x"}, {"type": "string", "description": '(default: "x")'}),
        ({"const": "a", "type": "string"}, {"const": "a"}),
        ({"type": "string", "enum": ["a"]}, {"enum": ["a"]}),
        (
            {"type": "array", "enum": [[1]]},
            {"type": "array", "description": "(enum: [[1]])"},
        ),
        ({"$ref": "#/$defs/a", "description": "b"}, {"$ref": "#/$defs/a"}),
        ({"$schema": "x", "$id": "y", "type": "null"}, {"type": "null"}),
    ],
)
def test_what_the_endpoint_cannot_hold_the_answer_to_moves_into_the_description(
    schema: dict[str, Any], sent: dict[str, Any]
) -> None:
    assert supported_schema(schema) == sent


@pytest.mark.parametrize("extra", [{}, {"additionalProperties": True}, {"additionalProperties": {}}])
def test_objects_are_closed_at_every_depth(extra: dict[str, Any]) -> None:
    inner = {"type": "object", "properties": {"a": {"type": "null"}}, **extra}
    schema = {"type": "object", "properties": {"b": {"type": "array", "items": inner}}, **extra}
    assert supported_schema(schema) == closed(
        {"b": {"type": "array", "items": closed({"a": {"type": "null"}})}}
    )


def test_an_object_without_fields_is_closed_as_well() -> None:
    assert supported_schema({"type": "object", "properties": {}}) == closed({})


def test_a_choice_of_one_is_a_choice() -> None:
    schema = {"oneOf": [{"type": "null"}, {"type": "string"}], "discriminator": {"propertyName": "kind"}}
    assert supported_schema(schema) == {"anyOf": [{"type": "null"}, {"type": "string"}]}


def test_several_types_are_a_choice() -> None:
    schema = {"type": ["string", "null"], "title": "A", "description": "b", "maxLength": 3}
    assert supported_schema(schema) == {
        "anyOf": [
            {"type": "string", "description": "(maxLength: 3)"},
            {"type": "null", "description": "(maxLength: 3)"},
        ],
        "title": "A",
        "description": "b",
    }
    nullable = {"type": ["object", "null"], "additionalProperties": False}
    assert supported_schema(nullable) == {"anyOf": [closed({}), {"type": "null"}]}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"description": "anything"},
        {"type": "any"},
        {"type": 1},
        closed({"a": {}}),
        closed({"a": True}),
        {"type": "array", "items": {}},
        {"enum": []},
        {"anyOf": []},
        {"type": []},
        {"anyOf": [{"type": "null"}, {}]},
    ],
)
def test_values_of_any_type_are_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="needs a type for every value"):
        supported_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {}, "additionalProperties": True},
        closed({"a": {"type": "object", "title": "x" * 1_000}}),
    ],
)
def test_objects_with_free_keys_are_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="objects with free keys") as raised:
        supported_schema(schema)
    assert len(str(raised.value)) < 500


class Leaf(BaseModel):
    kind: Literal["leaf"]
    size: int = Field(ge=0, description="How large.")
    note: str | None = None


class Branch(BaseModel):
    children: list[Leaf] = Field(max_length=9)


class Tree(BaseModel):
    children: list["Tree | Leaf"]


def test_a_user_type_that_contains_itself_is_refused() -> None:
    with pytest.raises(ConfigurationError, match='contains itself, as this one does by "#/\\$defs/Tree"'):
        supported_schema(Tree.model_json_schema())


INT = {"type": "integer"}


@pytest.mark.parametrize(
    "schema",
    [
        closed({"a": {"$ref": "#"}}),
        {"$defs": {"a": {"$ref": "#/$defs/a"}}, **closed({"a": {"$ref": "#/$defs/a"}})},
        {
            "$defs": {
                "a": closed({"b": {"$ref": "#/$defs/b~1%7E0c"}}),
                "b/~c": {"type": "array", "items": {"anyOf": [INT, {"$ref": "#/$defs/a"}]}},
            },
            "$ref": "#/$defs/a",
        },
        {"definitions": {"a": closed({"b": {"$ref": "#/definitions/a"}})}, **closed({})},
        closed({"a": {"type": "array", "items": {"$ref": "#/properties/a"}}}),
        {"anyOf": [INT, closed({"a": {"$ref": "#/anyOf/1"}})]},
    ],
)
def test_schemas_that_contain_themselves_are_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="contains itself"):
        supported_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        # Twice the same, one inside the other, and the same from two places.
        {
            "$defs": {"a": closed({"b": {"$ref": "#/$defs/b"}, "c": {"$ref": "#/$defs/b"}}), "b": INT},
            **closed({"a": {"$ref": "#/$defs/a"}, "b": {"$ref": "#/$defs/b"}}),
        },
        closed({"a": {"$ref": "#/$defs/missing"}, "b": {"$ref": "https://x.org/s.json"}}),
        {"anyOf": [INT, {"type": "array", "items": {"$ref": "#/anyOf/0"}}, {"$ref": "#/anyOf/0/type/x"}]},
        {"anyOf": [INT, {"$ref": "#/anyOf/9"}]},
        closed({"$ref": closed({"a": INT})}),
    ],
)
def test_references_that_come_to_an_end_stay(schema: dict[str, Any]) -> None:
    assert supported_schema(schema) == schema


def test_schemas_of_user_types_are_taken() -> None:
    assert supported_schema(Branch.model_json_schema()) == {
        "$defs": {
            "Leaf": {
                **closed(
                    {
                        "kind": {"const": "leaf", "title": "Kind"},
                        "size": {
                            "type": "integer",
                            "title": "Size",
                            "description": "How large. (minimum: 0)",
                        },
                        "note": {
                            "anyOf": [{"type": "string"}, {"type": "null"}],
                            "title": "Note",
                            "description": "(default: null)",
                        },
                    },
                    "kind",
                    "size",
                ),
                "title": "Leaf",
            },
        },
        **closed(
            {
                "children": {
                    "type": "array",
                    "items": {"$ref": "#/$defs/Leaf"},
                    "title": "Children",
                    "description": "(maxItems: 9)",
                }
            },
            "children",
        ),
        "title": "Branch",
    }


words = st.sampled_from(
    ["type", "properties", "items", "anyOf", "enum", "const", "format", "minItems", "required", "minimum"]
)
types = st.sampled_from(["object", "array", "string", "integer", "null"])
scalars = st.none() | st.booleans() | st.integers(0, 2) | types


def schemas_around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects that look like schemas, and lists, of what there is."""
    with_type = st.tuples(st.dictionaries(words, inner, max_size=3), types)
    return (
        st.lists(inner, max_size=2)
        | st.dictionaries(words, inner, max_size=3)
        | with_type.map(lambda parts: {**parts[0], "type": parts[1]})
    )


values = st.recursive(scalars, schemas_around, max_leaves=8)


@given(schema=schemas_around(values).filter(lambda value: isinstance(value, dict)))
def test_any_schema_is_taken_or_refused_and_never_changed(schema: Mapping[str, Any]) -> None:
    before = repr(schema)
    try:
        once = supported_schema(schema)
    except ConfigurationError:
        return
    finally:
        assert repr(schema) == before
    assert supported_schema(once) == once


# Strict tools.


def strict_tools(
    *schemas: dict[str, Any], setting: bool | None = True, **fields: Any
) -> list[dict[str, Any]]:
    """The tools of a request, whose names are numbers."""
    tools = tuple(
        ToolDefinition(name=f"tool_{number}", description="", parameters=schema)
        for number, schema in enumerate(schemas)
    )
    settings = {} if setting is None else {"strict_tools": setting}
    messages = (UserMessage(content=("Hi",)),)
    request = ModelRequest(messages=messages, tools=tools, settings=settings, **fields)
    return json.loads(AnthropicCodec().encode(request, model_name="m").body)["tools"]


COUNT: dict[str, Any] = {
    "type": "object",
    "properties": {"count": {"type": "integer", "minimum": 1}},
    "required": ["count"],
}
FREE: dict[str, Any] = {"type": "object", "properties": {"any": {"type": "object"}}, "required": ["any"]}
OPTIONAL: dict[str, Any] = {
    "type": "object",
    "properties": {f"p{number}": {"type": "string"} for number in range(10)},
}


def test_tools_are_strict_on_demand_in_the_form_that_the_endpoint_enforces() -> None:
    (tool,) = strict_tools(COUNT)
    assert tool["strict"] is True
    assert tool["input_schema"]["additionalProperties"] is False
    assert "minimum" not in tool["input_schema"]["properties"]["count"]
    for setting in (None, False):
        (tool,) = strict_tools(COUNT, setting=setting)
        assert tool == {"name": "tool_0", "description": "", "input_schema": COUNT}


def test_a_tool_whose_schema_cannot_be_enforced_is_not_strict() -> None:
    tools = strict_tools(FREE, COUNT)
    assert [tool.get("strict") for tool in tools] == [None, True]
    assert tools[0]["input_schema"] == FREE


def test_no_more_tools_are_strict_than_the_limits_allow() -> None:
    tools = strict_tools(*[COUNT] * 22)
    assert [bool(tool.get("strict")) for tool in tools] == [True] * 20 + [False] * 2
    tools = strict_tools(OPTIONAL, OPTIONAL, OPTIONAL, COUNT)
    assert [bool(tool.get("strict")) for tool in tools] == [True, True, False, True]
    response_format = ResponseFormat(name="answer", schema=OPTIONAL)
    tools = strict_tools(OPTIONAL, OPTIONAL, response_format=response_format)
    assert [bool(tool.get("strict")) for tool in tools] == [True, False]

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from nighthawk_async.wire.google.codec import adapted_schema
from tests.cases import every

KNOWN = {
    "$anchor",
    "$defs",
    "$id",
    "$ref",
    "additionalProperties",
    "anyOf",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "oneOf",
    "prefixItems",
    "properties",
    "propertyOrdering",
    "required",
    "title",
    "type",
}


@every("schema, adapted", [
        ({"const": "x"}, {"enum": ["x"], "type": "string"}),
        ({"const": 1, "type": "integer"}, {"enum": [1], "type": "integer"}),
        ({"const": True}, {"type": "boolean"}),
        ({"const": None}, {"type": "null"}),
        ({"const": {"a": 1}, "title": "A"}, {"title": "A"}),
        ({"const": 1.5}, {"enum": [1.5], "type": "number"}),
        ({"enum": ["a", 1]}, {"enum": ["a", 1], "type": ["integer", "string"]}),
        ({"enum": ["a", None]}, {"anyOf": [{"enum": ["a"], "type": "string"}, {"type": "null"}]}),
        ({"enum": [True, None]}, {"anyOf": [{"type": "boolean"}, {"type": "null"}]}),
        ({"enum": ["a", None], "anyOf": [{}], "type": "x"}, {"anyOf": [{}], "type": "x"}),
        ({"enum": ["a", [1]], "type": ["string", "array"]}, {"type": ["string", "array"]}),
        ({"enum": []}, {}),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 1}),
        ({"type": "integer", "exclusiveMaximum": 9}, {"type": "integer", "maximum": 8}),
        ({"type": "number", "exclusiveMinimum": 0}, {"type": "number", "minimum": 0}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "string", "format": "uuid", "pattern": "a", "maxLength": 3}, {"type": "string"}),
        ({"type": "array", "items": True, "uniqueItems": True}, {"type": "array", "items": {}}),
        ({"prefixItems": [{"const": True}]}, {"prefixItems": [{"type": "boolean"}]}),
        ({"type": ["string", "null"], "default": None}, {"type": ["string", "null"]}),
        ({"additionalProperties": False}, {"additionalProperties": False}),
        ({"additionalProperties": {"const": True}}, {"additionalProperties": {"type": "boolean"}}),
        ({"oneOf": [{"$ref": "#/$defs/A"}], "discriminator": {}}, {"oneOf": [{"$ref": "#/$defs/A"}]}),
        ({"$ref": "#/definitions/A"}, {"$ref": "#/$defs/A"}),
        ({"definitions": {"A": {"not": {}}}}, {"$defs": {"A": {}}}),
        ({"$ref": "#/$defs/A", "default": 1}, {"$ref": "#/$defs/A"}),
        ({"$ref": "#/$defs/A", "description": "d"}, {"description": "d", "anyOf": [{"$ref": "#/$defs/A"}]}),
        ({"allOf": [{"type": "object"}, {"$ref": "#/$defs/A"}]}, {}),
        ({"allOf": [{"$ref": "#/$defs/A"}]}, {"$ref": "#/$defs/A"}),
        ({"allOf": [{"$ref": "#/$defs/A"}], "title": "t"}, {"title": "t", "anyOf": [{"$ref": "#/$defs/A"}]}),
        ({"$schema": "x", "type": "object", "patternProperties": {}}, {"type": "object"}),
    ])  # fmt: skip
def test_a_schema_is_said_in_the_words_the_endpoint_knows(
    schema: dict[str, Any], adapted: dict[str, Any]
) -> None:
    assert adapted_schema(schema) == adapted


def test_properties_may_be_called_like_keywords() -> None:
    schema = {"properties": {"const": {"type": "string"}, "default": {"const": "x"}}}
    assert adapted_schema(schema) == {
        "properties": {"const": {"type": "string"}, "default": {"enum": ["x"], "type": "string"}}
    }


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


class Leaf(BaseModel):
    kind: Literal["leaf"]
    weight: Annotated[float, Field(gt=0)] = 1.0


class Tree(BaseModel):
    kind: Literal["tree"]
    color: Annotated[Color, Field(description="How it looks.")] = Color.RED
    children: list[Annotated["Leaf | Tree", Field(discriminator="kind")]] = []
    names: dict[str, tuple[int, str]] = {}
    flag: Literal[True, "maybe", None] = None


def unknown_keywords(schema: object) -> set[str]:
    """The keywords, at any depth, that the endpoint does not know."""
    if not isinstance(schema, dict):
        return set()
    found = set(schema) - KNOWN
    if "$ref" in schema:
        found |= {name for name in schema if not name.startswith("$")}
    inner = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    inner += [each for name in ("anyOf", "oneOf", "prefixItems") for each in schema.get(name, [])]
    inner += [schema.get("items"), schema.get("additionalProperties")]
    return found.union(*(unknown_keywords(each) for each in inner))


def test_schemas_of_rich_types_hold_known_keywords_alone_and_stay_as_they_are() -> None:
    schema = Tree.model_json_schema()
    before = repr(schema)
    assert unknown_keywords(schema)
    assert not unknown_keywords(adapted_schema(schema))
    assert repr(schema) == before


def test_a_property_that_leads_back_to_its_own_object_is_not_required() -> None:
    node = {"$ref": "#/$defs/Node"}
    properties = {"value": {"type": "string"}, "left": node, "others": {"type": "array", "items": node}}
    schema = {
        "type": "object",
        "properties": {"tree": node},
        "required": ["tree"],
        "$defs": {"Node": {"type": "object", "properties": properties, "required": list(properties)}},
    }
    assert adapted_schema(schema) == {
        "type": "object",
        "properties": {"tree": node},
        "required": ["tree"],
        "$defs": {"Node": {"type": "object", "properties": properties, "required": ["value"]}},
    }


def test_what_leads_back_outside_of_properties_is_anything() -> None:
    schema = {
        "$ref": "#/$defs/Nested",
        "$defs": {
            "Nested": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/Nested"}}, {"type": "integer"}]}
        },
    }
    assert adapted_schema(schema) == {
        "$ref": "#/$defs/Nested",
        "$defs": {"Nested": {"anyOf": [{"type": "array", "items": {}}, {"type": "integer"}]}},
    }


def test_a_root_that_contains_itself_keeps_its_reference_in_an_optional_property() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "next": {"$ref": "#"}},
        "required": ["next"],
    }
    assert adapted_schema(schema) == {name: part for name, part in schema.items() if name != "required"}

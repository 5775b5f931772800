"""JSON Schemas in the fewest words that mean the same."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from nighthawk_async.agent.answer_form import AnswerForm, flat_schema, tool_schema
from nighthawk_async.agent.provided_tools import PROVIDED_TOOLS
from nighthawk_async.agent.schemas import terse_schema
from nighthawk_async.wire.openai_schemas import is_strict_schema

TEXT, NUMBER, NULL = {"type": "string"}, {"type": "number"}, {"type": "null"}

pytestmark = pytest.mark.usefixtures("specification_profile")


def to(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


def test_a_definition_that_is_referred_to_once_stands_in_its_place() -> None:
    line = {"type": "object", "properties": {"text": TEXT}}
    order = {"type": "object", "properties": {"lines": {"type": "array", "items": to("Line")}}}
    whole = {"type": "object", "properties": {"order": to("Order")}, "$defs": {"Line": line, "Order": order}}
    terse = terse_schema(whole)
    assert "$defs" not in terse
    assert terse["properties"]["order"]["properties"]["lines"]["items"] == line
    assert whole["$defs"] == {"Line": line, "Order": order}


def test_a_definition_that_is_referred_to_again_is_kept() -> None:
    node = {"type": "object", "properties": {"next": to("Node"), "leaf": to("Leaf")}}
    properties = {"node": to("Node"), "first": to("Both"), "second": to("Both")}
    whole = {"properties": properties, "$defs": {"Node": node, "Leaf": TEXT, "Both": NUMBER}}
    terse = terse_schema(whole)
    assert terse["properties"] == properties
    assert terse["$defs"] == {
        "Node": {"type": "object", "properties": {"next": to("Node"), "leaf": TEXT}},
        "Both": NUMBER,
    }


VALUES = (None, True, 1, -1, 1.5, "", "a", "12", [], {})


@pytest.mark.parametrize(
    ("members", "types"),
    [
        ([TEXT, NULL], ["string", "null"]),
        ([NUMBER, {"type": "string", "pattern": "^[0-9]+$"}], ["number", "string"]),
        ([{"type": "integer", "minimum": 0}, NULL], ["integer", "null"]),
        ([{"type": "integer", "minimum": 0}, NUMBER], None),
        ([{"type": "string", "minimum": 0}, NUMBER], None),
        ([{"enum": ["a"], "type": "string"}, NULL], None),
        ([{"type": "string", "pattern": "^a"}, {"type": "string", "minLength": 2}], None),
        ([{"type": "array", "items": TEXT}, NULL], None),
        ([True, NULL], None),
    ],
)
def test_alternatives_of_plain_types_are_a_list_of_types_that_takes_the_same(
    members: list[Any], types: list[str] | None
) -> None:
    schema = {"anyOf": members}
    terse = terse_schema(schema)
    assert terse.get("type") == types
    assert ("anyOf" in terse) is (types is None)
    for value in VALUES:
        assert Draft202012Validator(terse).is_valid(value) is Draft202012Validator(schema).is_valid(value)


def test_only_a_schema_that_is_enforced_is_closed() -> None:
    form: dict[str, Any] = {"allowed_kinds": ("pass",), "bindings": {"label": TEXT}}
    assert "additionalProperties" not in str(tool_schema(AnswerForm(**form)))
    strict = AnswerForm(**form, is_strict=True)
    assert tool_schema(strict) == flat_schema(strict)
    assert is_strict_schema(tool_schema(strict))
    for tool in PROVIDED_TOOLS.values():
        assert "additionalProperties" not in tool.definition.parameters
        enforced = tool.strict_definition.parameters
        assert is_strict_schema(enforced) is ("additionalProperties" in enforced)

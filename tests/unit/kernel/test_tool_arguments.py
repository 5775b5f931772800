"""Arguments of tools are data of the same kinds as answers are."""

import enum
from decimal import Decimal
from typing import Any

import attrs
import msgspec
import pytest
from pydantic import BaseModel

import nighthawk_async as nh
from nighthawk_async.errors import ToolBoundaryError
from nighthawk_async.kernel.tools import make_tool_function
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

pytestmark = pytest.mark.anyio


@attrs.define
class Street:
    """A street with a number."""

    name: str
    number: int = 1


class Stop(msgspec.Struct):
    street: Street
    tags: list[str] = []


class Span(enum.Enum):
    SHORT = (0, 10)
    LONG = (10, 100)


class Note(BaseModel):
    text: str
    reply: "Note | None" = None


def tool_of(function: Any) -> Any:
    return make_tool_function(function, name=None, description=None, metadata=None)


def test_the_schema_has_the_fields_of_attrs_classes_and_structs() -> None:
    def visit(first: Stop, more: list[Street], span: Span = Span.SHORT) -> None:
        """Visit.

        Args:
            first: The first stop.
        """

    schema = tool_of(visit).definition.parameters
    street = {
        "type": "object",
        "description": "A street with a number.",
        "properties": {"name": {"type": "string"}, "number": {"type": "integer", "default": 1}},
        "required": ["name"],
        "additionalProperties": False,
    }
    assert schema["properties"] == {
        "first": {"$ref": "#/$defs/Stop", "description": "The first stop."},
        "more": {"type": "array", "items": {"$ref": "#/$defs/Street"}},
        "span": {"$ref": "#/$defs/Span", "default": "SHORT"},
    }
    assert schema["required"] == ["first", "more"]
    assert schema["$defs"]["Street"] == street
    assert schema["$defs"]["Stop"]["properties"]["street"] == {"$ref": "#/$defs/Street"}
    assert schema["$defs"]["Span"] == {"enum": ["SHORT", "LONG"], "type": "string"}


@pytest.mark.parametrize("default", [float("nan"), float("-inf"), [float("inf")], "\ud800"])
def test_a_default_that_is_no_json_is_not_shown(default: Any) -> None:
    def limit(number: Any = default) -> None: ...

    assert tool_of(limit).definition.parameters["properties"] == {"number": {}}


def test_arguments_become_objects() -> None:
    def visit(
        first: Stop,
        by_name: dict[str, Street],
        note: Note,
        span: Span = Span.SHORT,
        price: Decimal = Decimal(1),
        again: Stop | None = None,
    ) -> None: ...

    arguments = (
        b'{"first": {"street": {"name": "Elm"}}, "by_name": {"b": {"name": "Oak", "number": "7"}}, '
        b'"note": {"text": "a", "reply": {"text": "b"}}, "span": "LONG", "again": null}'
    )
    assert tool_of(visit).validated(arguments.decode()) == {
        "first": Stop(Street("Elm")),
        "by_name": {"b": Street("Oak", 7)},
        "note": Note(text="a", reply=Note(text="b")),
        "span": Span.LONG,
        "again": None,
    }


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ('{"first": {"street": {"name": "Elm", "number": "k"}}}', "at first.street.number: Input should be"),
        ('{"first": {"street": {"nam": "Elm"}}}', "at first.street.name: Field required"),
        ('{"first": {"street": {"name": "Elm"}}, "second": 1}', "at second: Extra inputs are not permitted"),
        ("{}", "at first: Field required"),
        ("[]", "Input should be an object"),
        ("{", "Invalid JSON"),
    ],
)
def test_an_argument_that_does_not_match_is_named(arguments: str, reason: str) -> None:
    def visit(first: Stop) -> None: ...

    with pytest.raises(ToolBoundaryError) as caught:
        tool_of(visit).validated(arguments)
    assert reason in str(caught.value)


async def test_a_tool_of_a_step_gets_the_object() -> None:
    seen: list[Stop] = []

    @nh.natural_function
    async def travel() -> None:
        @nh.tool
        def visit(stop: Stop) -> str:
            """Visit a stop."""
            seen.append(stop)
            return "visited"

        """natural
        Visit Elm 3.
        """

    model = ScriptedModel(
        [
            model_response(tool_call("visit", stop={"street": {"name": "Elm", "number": 3}})),
            model_response(tool_call("nh_outcome", kind="pass")),
        ]
    )
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        await travel()
    assert seen == [Stop(Street("Elm", 3))]

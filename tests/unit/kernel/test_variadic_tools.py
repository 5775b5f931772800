"""Tools with `*more`, `**options` and parameters before a `/`: what models see, what the function gets."""

import json
from typing import Any, NotRequired, Unpack

import pytest
from typing_extensions import TypedDict  # of typing, pydantic takes those of Python 3.12 and later

import nighthawk_async as nh
from nighthawk_async.errors import ToolBoundaryError
from nighthawk_async.runtime import make_tool_function
from nighthawk_async.testing import (
    ModelReply,
    ModelServer,
    RecordedRequest,
    ScriptedModel,
    model_response as response,
    tool_call,
)

pytestmark = pytest.mark.anyio

Any_ = dict[str, Any]
INTEGER = {"type": "integer"}


class Options(TypedDict):
    cc: str
    copies: NotRequired[int]


def send(to: str = "?", *more: Any, **options: Any) -> Any:
    """Send.

    Args:
        to: Receiver.
        *more: Further receivers.
        **options: Settings.
    """
    return to, more, options


def typed(number: int, /, second: int = 2, *rest: int, word: str = "z", **weights: float) -> Any:
    return number, second, rest, word, weights


def pair(*items: *tuple[int, str]) -> Any:
    return items


def optioned(*items: *tuple[int, ...], **options: Unpack[Options]) -> Any:
    return items, options


def keyed(first: int = 1, second: int = 2, /, **more: int) -> Any:
    return first, second, more


def schema_of(function: Any) -> Any_:
    return make_tool_function(function).json_schema()


def called(function: Any, **arguments: Any) -> Any:
    tool = make_tool_function(function)
    try:
        return tool.bind(json.dumps(arguments), context=None, tool_call_id="1")()  # type: ignore[arg-type]
    except ToolBoundaryError as error:
        return error.kind, str(error)


def test_a_list_and_an_object_stand_for_what_a_function_takes_without_names() -> None:
    sent = schema_of(send)
    assert sent["properties"] == {
        "to": {"description": "Receiver.", "type": "string", "default": "?"},
        "more": {"description": "Further receivers.", "type": "array", "items": {}, "default": []},
        "options": {
            "description": "Settings.",
            "type": "object",
            "additionalProperties": True,
            "default": {},
        },
    }
    assert "required" not in sent
    found = schema_of(typed)
    assert found["required"] == ["number"]
    assert found["additionalProperties"] is False
    assert found["properties"]["rest"] == {"type": "array", "items": INTEGER, "default": []}
    weights = {"type": "object", "additionalProperties": {"type": "number"}, "default": {}}
    assert found["properties"]["weights"] == weights
    assert schema_of(pair)["required"] == ["items"]
    assert schema_of(pair)["properties"]["items"]["prefixItems"] == [INTEGER, {"type": "string"}]
    assert schema_of(optioned)["required"] == ["options"]
    assert schema_of(optioned)["properties"]["items"] == {"type": "array", "items": INTEGER, "default": []}


@pytest.mark.parametrize(
    ("function", "arguments", "result"),
    [
        (send, {}, ("?", (), {})),
        (send, {"more": [1, "b"]}, ("?", (1, "b"), {})),
        (send, {"to": "a", "more": ["b"], "options": {"cc": 1, "not a name": 2}}, None),
        (typed, {"number": 1, "rest": [3], "weights": {"q": 1.5, "number": 2}}, None),
        (typed, {"number": 1, "word": "w"}, (1, 2, (), "w", {})),
        (pair, {"items": [1, "a"]}, (1, "a")),
        (optioned, {"items": [1, 2], "options": {"cc": "x"}}, ((1, 2), {"cc": "x"})),
        (keyed, {"second": 5, "more": {"first": 3}}, (1, 5, {"first": 3})),
    ],
)
def test_values_reach_the_function_as_it_takes_them(function: Any, arguments: Any_, result: Any) -> None:
    if result is None and function is send:
        result = ("a", ("b",), {"cc": 1, "not a name": 2})
    elif result is None:
        result = (1, 2, (3,), "z", {"q": 1.5, "number": 2.0})
    assert called(function, **arguments) == result


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (send, {"options": {"to": "b"}}, "arguments of send: 'to' in 'options' is a parameter of its own"),
        (send, {"cc": 1}, "arguments of send: at cc: Extra inputs are not permitted"),
        (typed, {"number": 1, "rest": ["no"]}, "arguments of typed: at rest.0: "),
        (typed, {"number": 1, "weights": {"a": "no"}}, "arguments of typed: at weights.a: "),
        (typed, {"rest": [1]}, "arguments of typed: at number: Field required"),
        (pair, {}, "arguments of pair: at items: Field required"),
        (optioned, {"options": {}}, "arguments of optioned: at options.cc: Field required"),
    ],
)
def test_what_does_not_fit_is_an_error_for_the_model(function: Any, arguments: Any_, message: str) -> None:
    kind, text = called(function, **arguments)
    assert (kind, message in text) == ("invalid_input", True), text


def test_a_run_context_comes_first() -> None:
    def given(run_context: nh.RunContext[Any], *more: int) -> Any:
        return run_context.tool_name, more

    assert list(schema_of(given)["properties"]) == ["more"]
    assert called(given, more=[1, 2]) == ("given", (1, 2))


SENT: list[Any] = []


async def post(to: str, *more: str, **options: int) -> str:
    """Post something."""
    SENT.append((to, more, options))
    return "posted"


@nh.natural_function(code="none")
async def tell(note: str) -> str:
    """natural
    Tell people <note> with <post>, and set <:result> to the receipt.
    """
    result: str
    return result


@pytest.mark.parametrize(
    "model", ["openai-responses:gpt-5.2", "openai-chat:gpt-5.2", "anthropic:claude-haiku-4-5", "google:any"]
)
async def test_a_block_without_code_calls_such_a_function_over_every_protocol(model: str) -> None:
    SENT.clear()
    calls = [
        tool_call("post", to="a", more=["b", "c"], options={"copies": 2}),
        tool_call("post", to="a", options={"to": 1}),  # refused
    ]

    def reply(request: RecordedRequest) -> ModelReply:
        if calls:
            return ModelReply(tool_calls=(calls.pop(0),))
        return ModelReply(tool_calls=(tool_call("nh_outcome", kind="pass", bindings={"result": "done"}),))

    async with ModelServer(reply) as server:
        settings = {"base_url": server.base_url, "api_key": "key"}
        configuration = nh.StepExecutorConfiguration(model, model_settings=settings)
        async with nh.run(configuration):
            assert await tell("note") == "done"
        offered, refused = server.requests[0].content.decode(), server.requests[2].content.decode()
    assert SENT == [("a", ("b", "c"), {"copies": 2})]
    assert all(f'"{name}"' in offered for name in ("to", "more", "options"))
    assert "is a parameter of its own" in refused


async def test_permissions_see_the_list_and_the_object() -> None:
    SENT.clear()
    model = ScriptedModel(
        [
            response(tool_call("post", to="a", more=["mallory"])),
            response(tool_call("post", to="a", options={"copies": 9})),
            response(tool_call("post", to="a", more=["b"])),
            response(tool_call("nh_outcome", kind="pass", bindings={"result": "done"})),
        ]
    )
    permissions = nh.permissions(
        deny=[
            nh.policies.rule("post", when=lambda call: "mallory" in call.arguments["more"]),
            nh.policies.rule("post", when=lambda call: call.arguments["options"].get("copies", 0) > 3),
        ],
        default="allow",
    )
    async with nh.run(model, permissions=permissions):
        assert await tell("note") == "done"
    assert SENT == [("a", ("b",), {})]

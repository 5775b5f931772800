"""Answers and calls made to be slow or deep are refused, or read, in time that grows with their length.

There are no bounds of time here: what grew with the square of the length would not end.
"""

import json
from typing import Any

import pytest
from typing_extensions import TypeAliasType

import nighthawk_async as nh
from nighthawk_async.models import ToolCall
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call

pytestmark = pytest.mark.anyio

MANY = 300_000
Deep = TypeAliasType("Deep", "list[Deep] | int")


@nh.natural_function
async def read() -> tuple[int, Any]:
    n: int = 0
    deep: Deep = 0
    """natural
    Set <:n> and <:deep>.
    """
    return n, deep


async def ask(response: ModelResponse) -> tuple[tuple[int, Any], int]:
    """What the function returns, and the number of requests."""
    model = ScriptedModel([response, model_response(tool_call("nh_outcome", kind="pass"))])
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        return await read(), len(model.requests)


def texts_inside_of_texts(layers: int, depth: int) -> Any:
    value: Any = 1
    for _ in range(layers):
        value = json.loads("[" * depth + json.dumps(json.dumps(value)) + "]" * depth)
    return value


def passing(**bindings: Any) -> str:
    return json.dumps({"kind": "pass", "bindings": bindings})


def fields(**more: Any) -> str:
    return json.dumps({"kind": "pass", "bindings": {"n": 3}, **more})


REFUSED = {
    "a name and spaces": json.dumps({"kind": "pass", "bindings": {"n" + " " * MANY + "!": 3}}),
    "many fields": fields(**{f"note{at}": "" for at in range(20_000)}),
    "the same field at every depth": '{"a": 1, "a": 1, "b": ' * 120
    + json.dumps([1] * (MANY // 4))
    + "}" * 120,
    "texts inside of texts": passing(deep=texts_inside_of_texts(6, 100)),
    "texts inside of texts at the end": passing(deep=texts_inside_of_texts(2, 125)),
    "braces": "{" * MANY,
    "groups": "{}" * MANY,
    "quotes": "{" + " '" * MANY,
    "escapes": "{'" + "\\'" * MANY,
    "fences": "```" * MANY,
    "spaces": "{" + " " * MANY,
    "an integer": '{"kind": "pass", "n": ' + "9" * MANY + "}",
    "a float": '{"kind": "pass", "n": 1e999, }',
    "half a character": '{"kind": "pass", "n": "\\ud800", }',
    "a field twice in a text": passing(deep='[{"a": 1, "a": 2}]'),
    "two names of a variable": '{"kind": "pass", "n": 1, "<:n>": 2}',
    "two numbers for a variable": '{"kind": "pass", "n": 1, "<:n>": 1.0}',
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("is_call", [False, True])
async def test_a_hostile_answer_is_refused(text: str, is_call: bool) -> None:
    call = ToolCall(id="call", name="nh_outcome", arguments=text)
    assert await ask(model_response(call) if is_call else model_response(text=text)) == ((0, 0), 2)


READ = {
    "spaces as a name": (fields(**{" " * MANY: ""}), (3, 0)),
    "a long name": (fields(**{"x" * MANY: ""}), (3, 0)),
    "the same field with the same value": ('{"kind": "pass", "n": 3, "n": 3}', (3, 0)),
    "the same field in another order": (
        '{"kind": "pass", "n": 3, "reason": {"a": {"b": 1, "c": 2}, "a": {"c": 2, "b": 1}}}',
        (3, 0),
    ),
    "a text inside of a text": (passing(deep="['[1]']"), (0, [[1]])),
}


@pytest.mark.parametrize(("text", "value"), READ.values(), ids=READ)
async def test_an_odd_answer_is_read(text: str, value: object) -> None:
    assert await ask(model_response(ToolCall(id="call", name="nh_outcome", arguments=text))) == (value, 1)


@pytest.mark.parametrize(
    "statements",
    ["  a = 1\n  b = a" + ".real" * 900, "  a = 1\n  b = " + "-" * 2_000 + "1", "  x\n" * 5_000 + "\0"],
    ids=["attributes", "signs", "a zero byte"],
)
async def test_code_that_is_nested_too_deeply_is_run_or_refused(statements: str) -> None:
    model = ScriptedModel(
        [
            model_response(tool_call("nh_exec", statements=statements)),
            model_response(tool_call("nh_outcome", kind="pass")),
        ]
    )
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        assert await read() == (0, 0)
    assert len(model.requests) == 2

"""Deferred tools in every protocol: the size of the first request, and what stays the same over turns."""

import json
from itertools import pairwise
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.kernel.tools import GLOBAL_TOOLS
from nighthawk_async.runtime import ForeignTool
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, tool_call

pytestmark = pytest.mark.anyio

PROVIDERS = ("openai-chat", "openai-responses", "anthropic", "google")
MOST_BYTES = 600
KINDS = ("invoice", "card", "user", "order")

CATALOGUE = nh.tool_set(
    [
        ForeignTool(
            name=f"{verb}-{noun}",
            description=f"{verb.title()} the {noun} of an account, with all its fields and their history.",
            parameters={
                "type": "object",
                "properties": {noun: {"type": "string"}, "page": {"type": "integer"}},
                "required": [noun],
            },
            function=lambda arguments: {"done": arguments},
        )
        for verb in ("get", "list", "create", "update", "delete")
        for noun in (
            f"{kind}{number}" for kind in ("invoice", "card", "user", "order") for number in range(25)
        )
    ],
    deferred=True,
)

TURNS = (
    ModelReply(tool_calls=(tool_call("nh_find_tools", query="create card7"),)),
    ModelReply(
        tool_calls=(tool_call("create_card7", card7="c"), tool_call("nh_find_tools", query="delete user3"))
    ),
    ModelReply(tool_calls=(tool_call("delete_user3", user3="u"),)),
    ModelReply(tool_calls=(tool_call("nh_outcome", kind="pass"),)),
)


@pytest.fixture(autouse=True)
def _no_tools_of_other_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GLOBAL_TOOLS, "_tools", {})


@nh.natural_function
async def work() -> None:
    """natural
    Work with the tools.
    """


async def requests_of(
    provider: str, replies: tuple[ModelReply, ...], tools: list[nh.runtime.ToolSet]
) -> list[RecordedRequest]:
    async with ModelServer([*replies]) as server:
        configuration = nh.StepExecutorConfiguration(
            model=f"{provider}:tested",
            model_settings={"base_url": server.base_url, "capabilities": {"prompt_caching": True}},
        )
        executor = nh.AgentStepExecutor.from_configuration(configuration=configuration)
        async with nh.run(executor, tools=tools):
            await work()
    return server.requests


def without_marks(value: Any) -> Any:
    """A part of a body without the marks of the prompt cache, which stand at the end of what is stable."""
    if isinstance(value, dict):
        return {key: without_marks(each) for key, each in value.items() if key != "cache_control"}
    return [without_marks(each) for each in value] if isinstance(value, list) else value


def prefix_of(request: RecordedRequest) -> bytes:
    """The body up to the end of the tools and of the conversation, without what closes them."""
    body = without_marks(json.loads(request.content))
    tools = body["tools"][0]["functionDeclarations"] if "contents" in body else body["tools"]
    conversation = next(body[key] for key in ("messages", "input", "contents") if key in body)
    rest = {key: body[key] for key in ("instructions", "system", "systemInstruction") if key in body}
    return b"\n".join(
        json.dumps(part, ensure_ascii=False).encode().removesuffix(b"]")
        for part in (rest, tools, conversation)
    )


def parts_of(request: RecordedRequest) -> tuple[bytes, bytes, bytes]:
    system, tools, conversation = prefix_of(request).split(b"\n")
    return system, tools, conversation


def names_in(tools: bytes) -> list[str]:
    return [(tool.get("function") or tool)["name"] for tool in json.loads(tools + b"]")]


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_five_hundred_deferred_tools_cost_little(provider: str) -> None:
    assert len(CATALOGUE.tools) == 500
    (without,) = await requests_of(provider, TURNS[-1:], [])
    (deferred,) = await requests_of(provider, TURNS[-1:], [CATALOGUE])
    assert 0 < len(deferred.content) - len(without.content) < MOST_BYTES


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_each_request_begins_as_the_one_before(provider: str) -> None:
    requests = await requests_of(provider, TURNS, [CATALOGUE])
    assert len(requests) == 4
    sent = [parts_of(request) for request in requests]
    for earlier, later in pairwise(sent):
        assert later[0] == earlier[0]
        assert later[1].startswith(earlier[1])
        assert later[2].startswith(earlier[2])
    names = [names_in(tools) for _, tools, _ in sent]
    assert names[0] == ["nh_find_tools", "nh_outcome"]
    assert names[1][2] == "create_card7"
    assert len(names[1]) == 12
    assert names[2][:12] == names[1]
    assert names[2][12] == "delete_user3"
    assert names[3] == names[2]
    assert "done" in str(json.loads(sent[-1][2] + b"]")[-1])

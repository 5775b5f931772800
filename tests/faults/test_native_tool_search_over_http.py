"""Deferred tools that the provider searches itself: requests, replies with searches, what goes back."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.kernel.tools import GLOBAL_TOOLS
from nighthawk_async.models.providers import create_model
from nighthawk_async.runtime import ForeignTool
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, tool_call

pytestmark = pytest.mark.anyio

TOOLS = [
    ForeignTool(
        name=f"{verb}_card",
        description=f"{verb.title()} a card.",
        parameters={"type": "object", "properties": {"card": {"type": "string"}}, "required": ["card"]},
        function=lambda arguments: {"done": arguments},
    )
    for verb in ("create", "delete")
]
SET = nh.tool_set(TOOLS, deferred=True, search="native")
OUTCOME = ModelReply(tool_calls=(tool_call("nh_outcome", kind="pass"),))


@pytest.fixture(autouse=True)
def _no_tools_of_other_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GLOBAL_TOOLS, "_tools", {})


@nh.natural_function
async def work() -> None:
    """natural
    Work with the tools.
    """


async def requests_of(
    provider: str, replies: Sequence[ModelReply], capabilities: Mapping[str, Any] | None = None
) -> list[RecordedRequest]:
    async with ModelServer(replies) as server:
        configuration = nh.StepExecutorConfiguration(
            model=f"{provider}:tested",
            model_settings={
                "base_url": server.base_url,
                "capabilities": capabilities or {"tool_search": True, "prompt_caching": True},
            },
        )
        async with nh.run(nh.AgentStepExecutor.from_configuration(configuration=configuration), tools=[SET]):
            await work()
    return server.requests


def streamed(*events: Mapping[str, Any]) -> ModelReply:
    """A reply of these events, as both protocols stream them."""
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return ModelReply(body="".join(lines).encode(), headers={"content-type": "text/event-stream"})


# ---- Anthropic Messages

SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_bm25", "input": {}}
FOUND = {
    "type": "tool_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": "create_card"}],
    },
}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "create_card", "input": {}}


def anthropic_reply(*blocks: tuple[Mapping[str, Any], str], stop: str = "tool_use") -> ModelReply:
    """A reply of blocks, each with the JSON that is streamed after its beginning."""
    events: list[Mapping[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1, "output_tokens": 1}}}
    ]
    for index, (block, text) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        if text:
            delta = {"type": "input_json_delta", "partial_json": text}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 2}})
    return streamed(*events, {"type": "message_stop"})


async def test_anthropic_searches_and_its_blocks_go_back_unchanged() -> None:
    reply = anthropic_reply((SEARCH, '{"query": "create card"}'), (FOUND, ""), (CALL, '{"card": "c"}'))
    first, second = await requests_of("anthropic", [reply, OUTCOME])
    tools = {tool["name"]: tool for tool in first.body["tools"]}
    assert {name for name, tool in tools.items() if tool.get("defer_loading")} == {
        "create_card",
        "delete_card",
    }
    search = tools["tool_search_tool_bm25"]
    assert search["type"] == "tool_search_tool_bm25_20251119"
    assert [name for name, tool in tools.items() if "cache_control" in tool] == ["tool_search_tool_bm25"]
    assert "anthropic-beta" not in first.headers
    assert second.body["tools"] == first.body["tools"]
    _, said, results = second.body["messages"]
    assert said["content"] == [
        {**SEARCH, "input": {"query": "create card"}},
        FOUND,
        {**CALL, "input": {"card": "c"}},
    ]
    assert "done" in str(results["content"])


async def test_anthropic_goes_on_after_a_pause() -> None:
    paused = anthropic_reply((SEARCH, '{"query": "create card"}'), stop="pause_turn")
    goes_on = anthropic_reply((FOUND, ""), (CALL, '{"card": "c"}'))
    _, second, third = await requests_of("anthropic", [paused, goes_on, OUTCOME])
    assert [message["role"] for message in second.body["messages"]] == ["user", "assistant"]
    sent = second.body["messages"][-1]["content"]
    assert [block["type"] for block in sent] == ["server_tool_use"]
    roles = [message["role"] for message in third.body["messages"]]
    assert roles == ["user", "assistant", "user"]
    assert [block["type"] for block in third.body["messages"][1]["content"]] == [
        "server_tool_use",
        "tool_search_tool_result",
        "tool_use",
    ]


async def test_anthropic_gets_no_search_back_that_was_cut_off() -> None:
    cut_off = anthropic_reply(({"type": "text", "text": "Well."}, ""), (SEARCH, "{}"), stop="max_tokens")
    _, second = await requests_of("anthropic", [cut_off, OUTCOME])
    assert "server_tool_use" not in second.content.decode()


# ---- OpenAI Responses

SEARCH_CALL = {
    "type": "tool_search_call",
    "id": "tsc_1",
    "execution": "server",
    "call_id": None,
    "status": "completed",
    "arguments": {"paths": ["create_card"]},
}
SEARCH_OUTPUT = {
    "type": "tool_search_output",
    "id": "tso_1",
    "execution": "server",
    "call_id": None,
    "status": "completed",
    "tools": [{"type": "function", "name": "create_card", "defer_loading": True, "parameters": {}}],
}
FUNCTION_CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "namespace": "create_card",
    "name": "create_card",
    "arguments": '{"card": "c"}',
    "status": "completed",
}


def responses_reply(*items: Mapping[str, Any]) -> ModelReply:
    events: list[Mapping[str, Any]] = [{"type": "response.created", "response": {"id": "r"}}]
    for index, item in enumerate(items):
        begun = {**item, "status": "in_progress"}
        events.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    finished = {"id": "r", "status": "completed", "output": items}
    return streamed(*events, {"type": "response.completed", "response": finished})


async def test_responses_searches_and_its_items_go_back() -> None:
    replies = [
        responses_reply(SEARCH_CALL, SEARCH_OUTPUT, FUNCTION_CALL),
        responses_reply({**FUNCTION_CALL, "id": "fc_2", "call_id": "call_2"}),
        OUTCOME,
    ]
    first, second, third = await requests_of("openai-responses", replies)
    tools = first.body["tools"]
    assert tools[-1] == {"type": "tool_search"}
    assert [tool["name"] for tool in tools[:-1] if tool.get("defer_loading")] == [
        "create_card",
        "delete_card",
    ]
    assert second.body["tools"] == tools
    assert first.body["store"] is False  # so ids lead nowhere
    search, output, call, result = second.body["input"][1:]
    assert search == {name: SEARCH_CALL[name] for name in ("type", "execution", "status", "arguments")}
    assert output == {name: SEARCH_OUTPUT[name] for name in ("type", "execution", "status", "tools")}
    assert call == {
        name: FUNCTION_CALL[name] for name in ("type", "call_id", "namespace", "name", "arguments")
    }
    assert (result["type"], result["call_id"]) == ("function_call_output", "call_1")
    assert "done" in result["output"]
    assert third.body["input"][5]["namespace"] == "create_card"


# ---- refusals


@pytest.mark.parametrize("provider", ["anthropic", "openai-responses"])
async def test_a_model_whose_provider_does_not_search_gets_no_request(provider: str) -> None:
    with pytest.raises(nh.ConfigurationError, match=f"{provider}:tested: search='native'"):
        await requests_of(provider, [], {"prompt_caching": False})


@pytest.mark.parametrize(
    ("provider", "protocol"), [("openai-chat", "Chat Completions"), ("google", "of the Gemini API")]
)
async def test_a_protocol_without_a_search_is_refused_also_if_the_model_is_said_to_have_one(
    provider: str, protocol: str
) -> None:
    with pytest.raises(nh.ConfigurationError, match=f"'create_card'.*{protocol} does not have"):
        await requests_of(provider, [], {"tool_search": True})


async def test_a_request_of_ones_own_is_checked_too() -> None:
    tool = nh.models.ToolDefinition(name="a", description="", parameters={}, is_deferred=True)
    request = nh.models.ModelRequest(messages=(nh.models.UserMessage(content=("Hi",)),), tools=(tool,))
    model = create_model("anthropic:tested", settings={"base_url": "http://127.0.0.1:1", "api_key": "none"})
    with pytest.raises(nh.ConfigurationError, match=r"anthropic:tested: .*search='native'.*tool_search"):
        async with model.stream(request):
            pass

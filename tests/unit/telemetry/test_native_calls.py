"""Spans of tools that a provider carries out by itself."""

import json

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ModelReply, ModelServer

from .agents import OUTCOME, act
from .traces import Traces, telemetry

pytestmark = pytest.mark.anyio

CALL = {"type": "server_tool_use", "id": "s_1", "name": "web_search", "input": {"query": "who won"}}
RESULT = {
    "type": "web_search_tool_result",
    "tool_use_id": "s_1",
    "content": [{"type": "web_search_result", "url": "https://a.example", "encrypted_content": "c2VjcmV0"}],
}
FAILED = {
    "type": "web_search_tool_result",
    "tool_use_id": "s_1",
    "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"},
}


async def run_with(*blocks: dict[str, object], paused: bool = False) -> None:
    replies = [ModelReply(blocks=blocks, tool_calls=(OUTCOME,))]
    if paused:
        replies = [
            ModelReply(blocks=blocks[:1], finish_reason="pause_turn"),
            ModelReply(blocks=blocks[1:], tool_calls=(OUTCOME,)),
        ]
    async with ModelServer(replies) as server:
        settings = {"base_url": server.base_url, "api_key": "k" * 20, "native_tools": [nh.models.WebSearch()]}
        configuration = nh.StepExecutorConfiguration(
            model="anthropic:claude-haiku-5-5", model_settings=settings
        )
        async with nh.run(nh.AgentStepExecutor.from_configuration(configuration)):
            await act()


async def test_a_native_call_is_a_span_of_a_tool_below_its_request(traces: Traces) -> None:
    await run_with(CALL, RESULT)
    (span,) = traces.named("execute_tool")
    (chat,) = traces.named("chat")
    assert span.name == "execute_tool web_search"
    assert span.parent is not None
    assert span.parent.span_id == chat.context.span_id  # pyright: ignore[reportOptionalMemberAccess]
    assert traces.attributes("execute_tool") == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "web_search",
        "gen_ai.tool.type": "extension",
        "gen_ai.tool.call.id": "s_1",
        "nighthawk.tool.native": True,
    }


async def test_one_that_failed_is_an_error(traces: Traces) -> None:
    await run_with(CALL, FAILED)
    assert traces.attributes("execute_tool")["error.type"] == "_OTHER"


async def test_one_that_goes_on_after_a_pause_has_a_span_in_each_request(traces: Traces) -> None:
    await run_with(CALL, RESULT, paused=True)
    parents = [span.parent.span_id for span in traces.named("execute_tool") if span.parent is not None]
    assert parents == [span.context.span_id for span in traces.named("chat") if span.context is not None]


async def test_two_under_one_id_have_spans_that_end(traces: Traces) -> None:
    await run_with(CALL, CALL, RESULT)
    assert len(traces.named("execute_tool")) == 2


async def test_content_is_shown_on_demand_without_what_only_the_provider_reads(traces: Traces) -> None:
    with telemetry(capture_content=True):
        await run_with(CALL, RESULT)
    attributes = traces.attributes("execute_tool")
    assert json.loads(str(attributes["gen_ai.tool.call.arguments"])) == {"query": "who won"}
    assert "a.example" in str(attributes["gen_ai.tool.call.result"])
    assert "c2VjcmV0" not in str(attributes)

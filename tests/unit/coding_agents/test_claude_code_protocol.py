"""The protocol of Claude Code: recorded lines of version 2.1.197, and wild ones."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from nighthawk_async.agent.plain_messages import conversation_as_text
from nighthawk_async.coding_agents import claude_protocol as protocol
from nighthawk_async.coding_agents.claude_protocol import (
    content_blocks,
    native_content,
    rewritten_output,
    tool_result_line,
)
from nighthawk_async.errors import ModelProtocolError
from nighthawk_async.types.messages import (
    AssistantMessage,
    AudioUrl,
    BinaryContent,
    ImageUrl,
    ToolCall,
    ToolDefinition,
    ToolResult,
    UserMessage,
)
from nighthawk_async.types.model import ResponseFinished, ToolCallCompleted

RECORDED = (Path(__file__).parent / "claude_code" / "denied_and_allowed.jsonl").read_bytes().splitlines()
TOOL = ToolDefinition(name="nh_eval", description="Evaluate.", parameters={"type": "object"})


def received(*lines: bytes) -> Iterator[protocol.Effect]:
    decoder = protocol.ClaudeCodeProtocol()
    decoder.tools = (TOOL,)
    for line in lines:
        yield from decoder.receive(line)


def test_recorded_lines_give_the_calls_in_their_order() -> None:
    effects = [*received(*RECORDED)]
    calls = [
        each.event.call
        for each in effects
        if isinstance(each, protocol.ResponsePart) and isinstance(each.event, ToolCallCompleted)
    ]
    assert [(call.name, json.loads(call.arguments).get("command")) for call in calls] == [
        ("ClaudeCode.Bash", "touch denied"),
        ("ClaudeCode.Bash", "touch allowed"),
        ("nh_assign", None),
        ("nh_outcome", None),
    ]
    asked = [each.call.id for each in effects if isinstance(each, protocol.NativeRequested)]
    assert asked == [calls[0].id, calls[1].id]


def test_recorded_lines_give_responses_turns_and_the_cost() -> None:
    effects = [*received(*RECORDED)]
    kinds = [type(each).__name__ for each in effects]
    assert kinds.count("ResponseBegan") == kinds.count("ResponseEnded") == 3
    assert kinds.count("BatchFinished") == 2
    (ended, *_) = [each for each in effects if isinstance(each, protocol.ResponseEnded)]
    assert (ended.usage.input_tokens, ended.usage.output_tokens, ended.model) == (100, 20, "claude-sonnet-5")
    (finished,) = [each for each in effects if isinstance(each, protocol.Finished)]
    assert finished.kind == "error_during_execution"  # it was interrupted when it had the outcome
    (usage,) = finished.usages.values()
    assert usage.input_tokens == 300
    assert usage.cost > 0


def test_recorded_results_are_those_that_the_model_gets() -> None:
    seen = [each for each in received(*RECORDED) if isinstance(each, protocol.ResultSeen)]
    assert "ClaudeCode.Bash" in seen[0].text
    assert (seen[0].is_error, seen[1].is_error) == (True, False)
    (finished,) = [each for each in received(*RECORDED) if isinstance(each, protocol.NativeFinished)]
    assert native_content(finished.output) == ("",)
    assert finished.name == "Bash"


def test_the_tools_are_listed_as_read_only_so_that_their_calls_start_at_once() -> None:
    answers = [json.loads(each.line) for each in received(*RECORDED) if isinstance(each, protocol.Answer)]
    results = [each["response"]["response"].get("mcp_response", {}).get("result", {}) for each in answers]
    listed = next(each["tools"] for each in results if "tools" in each)
    assert [(each["name"], each["annotations"]["readOnlyHint"]) for each in listed] == [("nh_eval", True)]


def test_a_response_has_no_content_of_its_provider() -> None:
    finished = [
        each.event
        for each in received(*RECORDED)
        if isinstance(each, protocol.ResponsePart) and isinstance(each.event, ResponseFinished)
    ]
    assert [each.provider_content for each in finished] == [None] * 3


@pytest.mark.parametrize(
    "line",
    [
        b"this is no JSON",
        b"[]",
        b"17",
        b'{"kind": "result"}',
        b'{"type": 3}',
        b'{"type": "control_request"}',
        b'{"type": "control_request", "request_id": 1, "request": {"subtype": "can_use_tool"}}',
        b'{"type": "user", "message": []}',
        b'{"type": "result", "modelUsage": {"m": {"inputTokens": "many"}}}',
        b'{"type": "stream_event", "event": 1}',
        b"\xff\xfe",
    ],
)
def test_a_line_that_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(ModelProtocolError, match="a line that is no message"):
        [*received(line)]


@pytest.mark.parametrize(
    "line", [b"", b"  ", b'{"type": "keep_alive"}', b'{"type": "system", "subtype": "x"}']
)
def test_other_lines_mean_nothing(line: bytes) -> None:
    assert [*received(line)] == []


def test_each_response_to_an_agent_that_the_agent_started_is_counted_once() -> None:
    usage = {"input_tokens": 90, "cache_read_input_tokens": 10, "output_tokens": 1}
    message = {"id": "msg_1", "model": "claude-sonnet-5[1m]", "content": [], "usage": usage}
    line = json.dumps({"type": "assistant", "parent_tool_use_id": "toolu_1", "message": message}).encode()
    (effect,) = received(line, line)
    assert isinstance(effect, protocol.HelperResponded)
    assert (effect.usage.input_tokens, effect.usage.cache_read_tokens, effect.model) == (
        100,
        10,
        "claude-sonnet-5",
    )


def test_tools_that_are_known_are_those_of_the_step() -> None:
    servers = [
        {"name": "nighthawk", "tools": [{"name": "nh_eval"}]},
        {"name": "other", "tools": [{"name": "x"}]},
    ]
    answer = {"subtype": "success", "request_id": "tools_known", "response": {"mcpServers": servers}}
    refused = {"subtype": "error", "request_id": "tools_known", "error": "unknown"}
    other = {"subtype": "success", "request_id": "interrupt"}
    lines = (json.dumps({"type": "control_response", "response": each}) for each in (answer, refused, other))
    known = [
        each.names for each in received(*map(str.encode, lines)) if isinstance(each, protocol.ToolsKnown)
    ]
    assert known == [{"nh_eval"}, None]


def test_an_unknown_request_is_answered_with_an_error() -> None:
    line = b'{"type": "control_request", "request_id": "1", "request": {"subtype": "elicitation"}}'
    (answer,) = received(line)
    assert isinstance(answer, protocol.Answer)
    assert json.loads(answer.line)["response"]["subtype"] == "error"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _paths(inner, (*path, key))


@given(st.data())
def test_a_changed_line_is_taken_or_refused_and_nothing_else(data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(RECORDED) - 1))
    message = json.loads(RECORDED[position])
    path = data.draw(st.sampled_from([*_paths(message)]))
    holder, value = message, data.draw(_JSON)
    if not path:
        message = value
    else:
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = value
    lines = [*RECORDED[:position], json.dumps(message).encode(), *RECORDED[position + 1 :]]
    with suppress(ModelProtocolError):
        for effect in received(*lines):
            assert isinstance(effect, protocol.Effect)


@given(st.binary(max_size=40))
def test_any_bytes_are_taken_or_refused(line: bytes) -> None:
    with suppress(ModelProtocolError):
        [*received(line)]


def test_images_and_pdfs_are_sent_as_they_are_and_other_media_described() -> None:
    content = (
        "look",
        BinaryContent(data=b"png", media_type="image/png"),
        BinaryContent(data=b"pdf", media_type="application/pdf"),
        ImageUrl(url="https://example.com/a.png"),
        AudioUrl(url="https://example.com/a.mp3"),
        BinaryContent(data=b"bytes", media_type="video/mp4"),
    )
    blocks = content_blocks(content)
    assert [each["type"] for each in blocks] == ["text", "image", "document", "image", "text", "text"]
    assert "https://example.com/a.mp3" in blocks[4]["text"]
    assert "video/mp4" in blocks[5]["text"]


def test_a_tool_result_holds_images() -> None:
    image = BinaryContent(data=b"png", media_type="image/png")
    result = ToolResult(call_id="1", name="look", content=("here", image), is_error=False)
    line = json.loads(tool_result_line("7", 3, result))
    content = line["response"]["response"]["mcp_response"]["result"]["content"]
    assert [each["type"] for each in content] == ["text", "image"]


def test_an_earlier_conversation_is_told_as_text() -> None:
    call = ToolCall(id="1", name="nh_eval", arguments='{"expression": "a"}')
    told = conversation_as_text(
        [UserMessage(content=("Do it.",)), AssistantMessage(text="I will.", tool_calls=(call,))]
    )
    assert "Do it." in told
    assert 'I will.\n[called nh_eval with {"expression": "a"}]' in told
    assert conversation_as_text([]) == ()


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ({"stdout": "out", "stderr": "err"}, "out\nerr"),
        ({"type": "text", "file": {"content": "text", "numLines": 9}}, "text"),
        ({"mode": "content", "content": "found"}, "found"),
        ("plain", "plain"),
        ({"filenames": ["a"]}, '{"filenames":["a"]}'),
        (None, ""),
    ],
)
def test_a_native_result_is_shown_as_text_and_replaced_where_it_has_a_place(output: Any, text: str) -> None:
    assert native_content(output) == (text,)
    replaced = rewritten_output(output, ("new",))
    if output is None or "filenames" in output:
        assert replaced is None
    else:
        assert native_content(replaced) == ("new",)

"""Answers as providers send them, beside what their protocols promise.

Each was recorded by others, or is in the types of an SDK.
"""

import json
from typing import Any

import pytest

from nighthawk_async.errors import ModelProtocolError
from nighthawk_async.models.protocols import create_codec
from nighthawk_async.types.model import (
    ModelEvent,
    NativeCallFinished,
    NativeCallStarted,
    ResponseFailed,
    ResponseFinished,
    TextDelta,
    ToolCallCompleted,
    UsageReported,
)
from nighthawk_async.types.usage import Usage
from nighthawk_async.wire.codec import EncodedRequest
from nighthawk_async.wire.provider_errors import status_error
from nighthawk_async.wire.rate_limits import read_rate_limits
from nighthawk_async.wire.sse import ServerSentEvent

HOP = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}, "trigger": {"type": "refusal"}}


def streamed(
    protocol: str, *events: dict[str, Any] | bytes, request: EncodedRequest | None = None
) -> list[ModelEvent]:
    decoder = create_codec(protocol).decoder(request)
    found: list[ModelEvent] = []
    for event in events:
        data = event if isinstance(event, bytes) else json.dumps(event).encode()
        found += decoder.feed(ServerSentEvent(data=data))
    return found + decoder.finish()


def whole(protocol: str, document: dict[str, Any]) -> list[ModelEvent]:
    return create_codec(protocol).decode_response(json.dumps(document).encode())


def chat_usage(**usage: Any) -> Usage:
    choice = {"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}
    return usage_in(whole("openai-chat", {"choices": [choice], "usage": usage}))


def usage_in(events: list[ModelEvent]) -> Usage:
    return [event.usage for event in events if isinstance(event, UsageReported)][-1]


def calls_in(events: list[ModelEvent]) -> list[str]:
    return [event.call.id for event in events if isinstance(event, ToolCallCompleted)]


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields}]}


def test_usage_of_chat_servers_adds_up() -> None:
    base = {"prompt_tokens": 100, "completion_tokens": 10}
    assert chat_usage(**base, total_tokens=110).output_tokens == 10
    assert chat_usage(**base, total_tokens=172).output_tokens == 72
    assert chat_usage(**base, total_tokens=90).output_tokens == 10
    for name in ("num_cached_tokens", "cached_tokens", "prompt_cache_hit_tokens"):
        assert chat_usage(**base, **{name: 64}).cache_read_tokens == 64, name
    details = {"cached_tokens": 32}
    assert chat_usage(**base, num_cached_tokens=64, prompt_tokens_details=details).cache_read_tokens == 32
    made = chat_usage(**base, prompt_tokens_details={"cached_tokens": 90, "cache_write_tokens": 90})
    assert (made.cache_read_tokens, made.cache_write_tokens, made.is_complete) == (0, 90, True)
    apart = chat_usage(**base, prompt_tokens_details={"cached_tokens": 50, "cache_write_tokens": 40})
    assert (apart.cache_read_tokens, apart.cache_write_tokens) == (50, 40)


def test_done_without_a_reason_ends_an_answer_after_its_usage_or_a_complete_call() -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 5}}
    call = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": '{"a": 1}'}}
    cut = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": '{"a": '}}
    ends = {
        "usage": streamed("openai-chat", delta(content="a"), usage, b"[DONE]"),
        "call": streamed("openai-chat", delta(tool_calls=[call]), b"[DONE]"),
    }
    reasons = {
        name: [e.reason for e in events if isinstance(e, ResponseFinished)] for name, events in ends.items()
    }
    assert reasons == {"usage": ["stop"], "call": ["tool_calls"]}
    for events in ([delta(content="a")], [usage, delta(content="a")], [delta(tool_calls=[cut]), usage]):
        with pytest.raises(ModelProtocolError, match="without a finish reason"):
            streamed("openai-chat", *events, b"[DONE]")
    with pytest.raises(ModelProtocolError, match="ended before"):
        streamed("openai-chat", delta(content="a"), usage)


def test_empty_fields_of_calls_are_no_calls() -> None:
    empty = {"id": "", "function": {"name": "", "arguments": ""}}
    message = {"content": "x", "function_call": {"name": "", "arguments": ""}, "tool_calls": [empty]}
    for finish in ("", "stop"):
        events = whole("openai-chat", {"choices": [{"message": message, "finish_reason": finish}]})
        assert [type(event) for event in events] == [TextDelta, ResponseFinished]
    older = {"content": None, "function_call": {"name": "f", "arguments": "{}"}}
    assert (
        len(calls_in(whole("openai-chat", {"choices": [{"message": older, "finish_reason": "stop"}]}))) == 1
    )


def test_an_event_may_hold_two_chunks() -> None:
    first, second = json.dumps(delta(content="a")).encode(), json.dumps(delta(content="}{b")).encode()
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    for between in (b"", b"\n", b" \r\n"):
        events = streamed("openai-chat", first + between + second, end, b"[DONE]")
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "a}{b"
    for faulty in (first + b"garbage", first + b"[1]", first[:-1]):
        with pytest.raises(ModelProtocolError, match="not a Chat Completions chunk"):
            streamed("openai-chat", faulty)


def test_errors_say_what_the_provider_behind_says_and_whether_trying_again_helps() -> None:
    def error(status: int, **fields: Any) -> Any:
        return status_error(status, {}, json.dumps({"error": fields}).encode())

    raws: tuple[Any, ...] = (
        "the quota is used up",
        json.dumps({"error": {"message": "the quota is used up", "code": 3}}),
        {"message": "the quota is used up"},
    )
    for raw in raws:
        said = error(429, message="Provider returned error", metadata={"raw": raw, "provider_name": "P"})
        assert str(said) == "HTTP 429: Provider returned error (P: the quota is used up)"
        assert said.is_transient
    assert str(error(429, message="as ever", metadata={"raw": "", "reasons": []})) == "HTTP 429: as ever"
    assert error(400, message="m", type="invalid_request_error", code="tool_use_failed").is_transient
    assert not error(400, message="m", type="invalid_request_error", code="other").is_transient
    assert not error(429, message="m", type="insufficient_quota", code="insufficient_quota").is_transient
    assert not error(429, message="m", type="tokens", code="insufficient_quota").is_transient
    assert error(429, message="m", type="tokens", code="rate_limit_exceeded").is_transient
    body = {
        "error": {"message": "m", "code": "tool_use_failed", "failed_generation": "{", "status_code": 400}
    }
    (failed,) = streamed("openai-chat", body)
    assert isinstance(failed, ResponseFailed)
    assert failed.is_transient


def test_resets_of_azure_are_milliseconds_and_those_of_others_are_not() -> None:
    common = {"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "500"}
    azure = {**common, "x-ratelimit-renewalperiod-requests": "60"}
    assert read_rate_limits(azure)[0].reset_seconds == 0.5
    assert read_rate_limits(common)[0].reset_seconds == 500
    named = {**azure, "x-ratelimit-reset-requests": "2s"}
    assert read_rate_limits(named)[0].reset_seconds == 2


def message(*blocks: dict[str, Any], stop_reason: str = "tool_use", **usage: Any) -> dict[str, Any]:
    counts = {"input_tokens": 3, "output_tokens": 4, **usage}
    return {"id": "m1", "type": "message", "content": [*blocks], "stop_reason": stop_reason, "usage": counts}


def tool_use(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": {"a": 1}}


def message_events(*blocks: dict[str, Any]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"id": "m1", "usage": {}}}]
    for index, block in enumerate(blocks):
        arguments = json.dumps(block["input"]) if "input" in block else ""
        begun = {**block, "input": {}} if arguments else block
        events.append({"type": "content_block_start", "index": index, "content_block": begun})
        if arguments:
            piece = {"type": "input_json_delta", "partial_json": arguments}
            events.append({"type": "content_block_delta", "index": index, "delta": piece})
        events.append({"type": "content_block_stop", "index": index})
    end = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 4}}
    return [*events, end, {"type": "message_stop"}]


def test_calls_of_a_model_that_declines_are_not_handed_out() -> None:
    held = EncodedRequest(path="/messages", headers={}, body=b'{"fallbacks":"default"}')
    text = {"type": "text", "text": "I do."}
    answers = {
        "whole": whole("anthropic", message(tool_use("a"), tool_use("b"), HOP, text, tool_use("c"))),
        "one": streamed("anthropic", *message_events(tool_use("a"), HOP, text, tool_use("c"))),
        "held": streamed(
            "anthropic", *message_events(tool_use("a"), tool_use("b"), HOP, tool_use("c")), request=held
        ),
    }
    assert {name: calls_in(events) for name, events in answers.items()} == {name: ["c"] for name in answers}
    for events in answers.values():
        finished = events[-1]
        assert isinstance(finished, ResponseFinished)
        assert finished.reason == "tool_calls"
    with pytest.raises(ModelProtocolError, match="Another model took over after"):
        streamed("anthropic", *message_events(tool_use("a"), tool_use("b"), HOP, tool_use("c")))
    without = streamed("anthropic", *message_events(tool_use("a"), tool_use("b")), request=held)
    assert calls_in(without) == ["a", "b"]


def test_a_second_beginning_of_another_message_is_an_error() -> None:
    start, *rest = message_events({"type": "text", "text": "a"})
    assert calls_in(streamed("anthropic", start, start, *rest)) == []
    other = {"type": "message_start", "message": {"id": "m2", "usage": {}}}
    with pytest.raises(ModelProtocolError, match="holds two responses, m1 and m2"):
        streamed("anthropic", start, other, *rest)


def test_calls_of_remote_servers_are_shown_from_their_beginning() -> None:
    call = {"type": "mcp_tool_use", "id": "x", "name": "echo", "server_name": "s", "input": {"a": 1}}
    result = {"type": "mcp_tool_result", "tool_use_id": "x", "is_error": True, "content": []}
    for events in (
        whole("anthropic", message(call, result, stop_reason="end_turn")),
        streamed("anthropic", *message_events(call, result)),
    ):
        started, finished = (e for e in events if isinstance(e, NativeCallStarted | NativeCallFinished))
        assert (started.name, finished.name, started.id) == ("echo", "echo", finished.id)
        assert isinstance(finished, NativeCallFinished)
        assert finished.is_error


def test_a_pause_with_text_alone_goes_on_from_it() -> None:
    text = {"type": "text", "text": "Wait."}
    for reason, is_kept in (("pause_turn", True), ("end_turn", False)):
        finished = whole("anthropic", message(text, stop_reason=reason))[-1]
        assert isinstance(finished, ResponseFinished)
        assert (finished.provider_content is not None) is is_kept


def test_tokens_of_an_advisor_count() -> None:
    advice = {"type": "advisor_message", "model": "claude-opus-5", "input_tokens": 800, "output_tokens": 500}
    usage = usage_in(whole("anthropic", message(iterations=[{"type": "message", "input_tokens": 3}, advice])))
    assert (usage.input_tokens, usage.output_tokens) == (803, 504)

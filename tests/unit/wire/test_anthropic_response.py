import json
from dataclasses import replace
from typing import Any

import pytest

from nighthawk_async.errors import ModelProtocolError
from nighthawk_async.types.model import (
    ReasoningDelta,
    ResponseFailed,
    ResponseFinished,
    TextDelta,
    UsageReported,
)
from nighthawk_async.wire.anthropic.codec import AnthropicCodec
from nighthawk_async.wire.provider_errors import status_error

from .anthropic import (
    PING,
    STOP,
    block,
    call_block,
    calls_in,
    decode,
    end,
    event,
    finish_of,
    start,
    text_block,
    text_in,
    thinking_block,
    usage_of,
)


def test_text_is_given_as_it_comes() -> None:
    events = decode(start(), PING, text_block(0, "Hel", "lo"), end())
    assert events == [TextDelta(text="Hel"), TextDelta(text="lo"), ResponseFinished(reason="stop")]


def test_the_end_names_the_response_the_model_and_the_providers_reason() -> None:
    finished = finish_of(decode(start(), end("stop_sequence")))
    assert finished.response_id == "msg_1"
    assert finished.model_name == "claude-x"
    assert finished.provider_reason == "stop_sequence"


@pytest.mark.parametrize(
    ("reason", "normalized"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "stop"),
        ("refusal", "content_filter"),
        ("pause_turn", "pause"),
        ("something_new", "other"),
    ],
)
def test_stop_reasons_are_normalized(reason: str, normalized: str) -> None:
    assert finish_of(decode(start(), text_block(0, "x"), end(reason))).reason == normalized


@pytest.mark.parametrize("reason", ["tool_use", "end_turn", "pause_turn"])
def test_the_calls_decide_that_a_response_ended_with_calls(reason: str) -> None:
    assert finish_of(decode(start(), call_block(0, "{}"), end(reason))).reason == "tool_calls"


def test_thinking_is_reasoning() -> None:
    events = decode(start(), thinking_block(0, "h", "m"), text_block(1, "x"), end())
    assert events[:3] == [ReasoningDelta(text="h"), ReasoningDelta(text="m"), TextDelta(text="x")]


def test_blocks_may_begin_with_all_they_say() -> None:
    events = decode(
        start(),
        block(0, {"type": "thinking", "thinking": "hm"}),
        block(1, {"type": "text", "text": "Hello"}),
        end(),
    )
    assert events[:2] == [ReasoningDelta(text="hm"), TextDelta(text="Hello")]


def test_text_without_the_beginning_of_its_block_is_text() -> None:
    delta = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "x"})
    assert text_in(decode(start(), delta, delta, end())) == "xx"


@pytest.mark.parametrize(
    "part",
    [
        PING,
        event("something_new", delta="x", content_block=[1]),
        event("content_block_delta", index=0, delta={"type": "new_delta", "text": "x"}),
        event("content_block_delta", index=0, delta={"type": "citations_delta", "citation": {"a": 1}}),
        event("content_block_delta", index=7, delta={"type": "new_delta"}),
        event("content_block_delta", index=0, delta=None),
        event("content_block_stop", index=7),
        block(5, {"type": "server_tool_use"}, {"type": "input_json_delta", "partial_json": "{}"}),
        block(5, {"type": "web_search_tool_result", "content": []}),
        block(5, {}),
        event("message_delta", delta={"stop_reason": None}),
        b"data: [DONE]\n\n",
    ],
)
def test_what_this_library_does_not_know_is_ignored(part: bytes) -> None:
    events = decode(start(), text_block(0, "a"), part, text_block(6, "b"), end())
    assert events == [TextDelta(text="a"), TextDelta(text="b"), ResponseFinished(reason="stop")]


def test_events_are_known_by_their_data_and_else_by_their_name() -> None:
    nameless = text_block(0, "a").replace(b"event: content_block_delta\n", b"")
    typeless = text_block(1, "b").replace(b'"type": "content_block_delta", ', b"")
    assert text_in(decode(start(), nameless, typeless, end())) == "ab"


def test_usage_adds_the_three_counters_of_input() -> None:
    first = start(
        input_tokens=10, cache_read_input_tokens=100, cache_creation_input_tokens=1_000, output_tokens=1
    )
    (report, *_) = decode(first, end())
    counts = usage_of(input_tokens=1_110, cache_read_tokens=100, cache_write_tokens=1_000, output_tokens=1)
    assert report == UsageReported(usage=replace(counts, is_complete=False))


def test_usage_says_which_tokens_are_kept_for_an_hour() -> None:
    written = {"ephemeral_5m_input_tokens": 300, "ephemeral_1h_input_tokens": 600}
    first = start(input_tokens=10, cache_creation_input_tokens=900, cache_creation=written)
    (report, *_) = decode(first, end())
    assert isinstance(report, UsageReported)
    assert (report.usage.cache_write_tokens, report.usage.cache_write_1h_tokens) == (900, 600)


def test_later_usage_replaces_and_what_it_leaves_out_still_holds() -> None:
    first = start(input_tokens=10, cache_read_input_tokens=100, output_tokens=1)
    last = end(
        output_tokens=20,
        input_tokens=None,
        cache_read_input_tokens=90,
        output_tokens_details={"thinking_tokens": 5},
    )
    reports = [each.usage for each in decode(first, last) if isinstance(each, UsageReported)]
    assert [each.is_complete for each in reports] == [False, True]
    assert reports[-1] == usage_of(
        input_tokens=100, cache_read_tokens=90, output_tokens=20, reasoning_tokens=5
    )


def test_cumulative_usage_of_several_reports_is_not_added_up() -> None:
    middle = event("message_delta", delta={}, usage={"output_tokens": 5})
    reports = [
        each.usage
        for each in decode(start(input_tokens=1), middle, end(output_tokens=9))
        if isinstance(each, UsageReported)
    ]
    assert [each.output_tokens for each in reports] == [0, 5, 9]
    assert [each.is_complete for each in reports] == [False, False, True]


def test_null_usage_is_nothing() -> None:
    assert decode(start(), end()) == [ResponseFinished(reason="stop")]
    assert decode(start(input_tokens=None), end(output_tokens=None)) == [ResponseFinished(reason="stop")]


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ((), "ended without a stop reason"),
        ((start(), text_block(0, "x")), "ended without a stop reason"),
        ((start(), text_block(0, "x"), b"data: [DONE]\n\n"), "ended without a stop reason"),
        ((start(), end().removesuffix(STOP)), "ended without message_stop"),
        ((start(), STOP), "message_stop without a stop reason"),
        ((start(), end(None)), "message_stop without a stop reason"),
        ((start(), call_block(0, "{}"), end("")), "message_stop without a stop reason"),
    ],
)
def test_a_stream_without_its_terminal_event_is_no_success(parts: tuple[bytes, ...], complaint: str) -> None:
    with pytest.raises(ModelProtocolError, match=complaint) as raised:
        decode(*parts)
    assert raised.value.is_transient


def test_what_follows_the_end_is_ignored() -> None:
    events = decode(start(), end(), text_block(0, "more"), end(), b"data: [DONE]\n\n")
    assert events == [ResponseFinished(reason="stop")]


@pytest.mark.parametrize(
    ("error_type", "is_transient"),
    [
        ("api_error", True),
        ("gateway_timeout_error", True),
        ("overloaded_error", True),
        ("rate_limit_error", True),
        ("timeout_error", True),
        ("authentication_error", False),
        ("billing_error", False),
        ("invalid_request_error", False),
        ("not_found_error", False),
        ("permission_error", False),
        ("request_too_large", False),
    ],
)
def test_an_error_in_the_stream_is_judged_by_its_own_type(error_type: str, is_transient: bool) -> None:
    part = event("error", error={"type": error_type, "message": "no"}, request_id="req_1")
    failed = ResponseFailed(message="no", error_type=error_type, is_transient=is_transient)
    assert decode(part) == [failed]
    assert decode(start(), text_block(0, "a"), part, end()) == [TextDelta(text="a"), failed]


@pytest.mark.parametrize(
    "part",
    [
        b'data: {"type":"error","error":{"type":"overloaded_error","message":"no"}}\n\n',
        b'event: error\ndata: {"type":"overloaded_error","message":"no"}\n\n',
        b'data: {"error":{"type":"overloaded_error","message":"no","code":529}}\n\n',
    ],
)
def test_an_error_is_known_however_it_is_written(part: bytes) -> None:
    failed = ResponseFailed(message="no", error_type="overloaded_error", is_transient=True)
    assert decode(start(), part) == [failed]


def test_an_error_event_may_be_plain_text() -> None:
    assert decode(b"event: error\ndata: it broke\n\n") == [ResponseFailed(message="it broke")]


def test_an_error_after_the_stop_reason_is_still_a_failure() -> None:
    part = event("error", error={"type": "api_error", "message": "no"})
    assert isinstance(decode(start(), end().removesuffix(STOP), part)[-1], ResponseFailed)


def test_usage_known_before_an_error_was_reported_as_incomplete() -> None:
    report, failed = decode(start(input_tokens=7), event("error", error={"type": "api_error"}))
    assert isinstance(report, UsageReported)
    assert (report.usage.input_tokens, report.usage.is_complete) == (7, False)
    assert isinstance(failed, ResponseFailed)


def test_the_message_of_an_error_is_bounded_and_holds_no_key() -> None:
    secret = "sk-ant-" + "a" * 40
    (failed,) = decode(event("error", error={"message": f"bad key {secret} " + "x" * 10_000}))
    assert isinstance(failed, ResponseFailed)
    assert secret not in failed.message
    assert len(failed.message) < 600


@pytest.mark.parametrize(
    "data",
    [
        b"<html>",
        b"{",
        b"[]",
        b"1",
        b'{"type": 1}',
        b'{"type":"message_start","message":1}',
        b'{"type":"content_block_start","index":0,"content_block":"x"}',
        b'{"type":"content_block_start","index":"a"}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":1}}',
        b'{"type":"message_delta","usage":{"output_tokens":"many"}}',
        b'"\xff"',
        b"[" * 5_000,
    ],
)
def test_what_is_no_event_breaks_the_protocol_and_is_quoted(data: bytes) -> None:
    with pytest.raises(ModelProtocolError, match="not an Anthropic Messages event") as raised:
        decode(b"data: " + data + b"\n\n")
    assert len(str(raised.value)) < 1_000


def whole(*content: dict[str, Any], reason: str | None = "end_turn") -> bytes:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": content}
    usage = {"input_tokens": 3, "output_tokens": 4}
    return json.dumps({**message, "stop_reason": reason, "usage": usage}).encode()


def test_a_whole_answer_gives_the_same_events() -> None:
    events = AnthropicCodec().decode_response(
        whole(
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "text", "text": "Hi"},
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"x": 1}},
            {"type": "tool_use", "id": "toolu_2", "name": "look"},
            reason="tool_use",
        )
    )
    assert events[:2] == [ReasoningDelta(text="hm"), TextDelta(text="Hi")]
    assert [(call.id, call.arguments) for call in calls_in(events)] == [
        ("toolu_1", '{"x":1}'),
        ("toolu_2", "{}"),
    ]
    assert events[-2] == UsageReported(usage=usage_of(input_tokens=3, output_tokens=4))
    finished = finish_of(events)
    assert (finished.reason, finished.response_id, finished.model_name) == (
        "tool_calls",
        "msg_1",
        "claude-x",
    )
    assert finished.provider_content is not None


def test_a_whole_answer_may_be_empty_and_lack_a_stop_reason() -> None:
    assert finish_of(AnthropicCodec().decode_response(whole(reason=None))).reason == "stop"


@pytest.mark.parametrize(
    "body", [b'{"type":"error","error":{"type":"api_error","message":"no"}}', b'{"error":{"message":"no"}}']
)
def test_a_whole_answer_may_be_an_error(body: bytes) -> None:
    (failed,) = AnthropicCodec().decode_response(body)
    assert isinstance(failed, ResponseFailed)
    assert failed.message == "no"


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b"<html>", b'{"ok":true}', b'{"content":"x"}', b'{"content":[1]}']
)
def test_a_whole_answer_without_content_breaks_the_protocol(body: bytes) -> None:
    with pytest.raises(ModelProtocolError):
        AnthropicCodec().decode_response(body)


@pytest.mark.parametrize("given", [{}, {"x": "half of i"}])
def test_the_last_call_of_a_whole_answer_that_was_cut_off_is_dropped(given: dict[str, Any]) -> None:
    """Servers parse the arguments as far as they came; llama.cpp makes an empty object of them."""
    calls = [{"type": "tool_use", "id": each, "name": "look", "input": given} for each in ("a", "b")]
    events = AnthropicCodec().decode_response(whole(*calls, reason="max_tokens"))
    assert [call.id for call in calls_in(events)] == ["a"]
    assert finish_of(events).reason == "length"


def test_a_whole_answer_that_was_cut_off_after_its_calls_keeps_them() -> None:
    call = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
    cut = whole(call, {"type": "text", "text": "So"}, reason="max_tokens")
    assert [each.id for each in calls_in(AnthropicCodec().decode_response(cut))] == ["a"]


def test_an_error_status_is_told_with_the_providers_message() -> None:
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    error = status_error(529, {}, body)
    assert (error.status, error.is_transient) == (529, True)
    assert "Overloaded" in str(error)

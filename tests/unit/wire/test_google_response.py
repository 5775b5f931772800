import json
from typing import Any

import pytest

from nighthawk_async.errors import ModelProtocolError
from nighthawk_async.types.messages import ProviderContent
from nighthawk_async.types.model import (
    ModelEvent,
    ReasoningDelta,
    ResponseFailed,
    ResponseFinished,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallCompleted,
    ToolCallStarted,
    UsageReported,
)
from nighthawk_async.types.model_output import Refusal
from nighthawk_async.types.usage import Usage
from nighthawk_async.wire.google.codec import GoogleCodec
from nighthawk_async.wire.provider_errors import ProviderMessage, find_bare_error, status_error
from nighthawk_async.wire.sse import ServerSentEvent, ServerSentEventDecoder

from .gemini import answer, call_part, calls_in, chunk, decode, event, finished, names_and_arguments, text_in

STOP = chunk(finish="STOP")
USAGE = {
    "promptTokenCount": 100,
    "toolUsePromptTokenCount": 7,
    "cachedContentTokenCount": 60,
    "candidatesTokenCount": 20,
    "thoughtsTokenCount": 5,
    "totalTokenCount": 132,
}


def failed(events: list[ModelEvent]) -> ResponseFailed:
    last = events[-1]
    assert isinstance(last, ResponseFailed)
    return last


def test_text_is_given_as_it_comes_and_the_end_of_input_ends_the_response() -> None:
    events = decode(chunk({"text": "Hel"}), chunk({"text": ""}), chunk({"text": "lo"}, finish="STOP"))
    assert events == [TextDelta(text="Hel"), TextDelta(text="lo"), ResponseFinished(reason="stop")]


def test_thoughts_are_reasoning_and_no_text() -> None:
    events = decode(chunk({"text": "hm", "thought": True}), chunk({"text": "so"}), STOP)
    assert events[:-1] == [ReasoningDelta(text="hm"), TextDelta(text="so")]


def test_a_finish_reason_ends_nothing_before_the_end_of_input() -> None:
    decoder = GoogleCodec().decoder()
    data = json.dumps(answer({"text": "a"}, finish="STOP")).encode()
    assert decoder.feed(ServerSentEvent(data=data)) == [TextDelta(text="a")]
    assert not decoder.is_ended
    assert decoder.finish() == [ResponseFinished(reason="stop")]
    assert decoder.is_ended
    assert decoder.finish() == []


def test_a_finish_reason_in_every_chunk_does_not_cut_the_text() -> None:
    events = decode(chunk({"text": "a"}, finish="STOP"), chunk({"text": "b"}, finish="STOP"))
    assert text_in(events) == "ab"


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (chunk({"text": "a"}),),
        (chunk({"text": "a"}, finish="FINISH_REASON_UNSPECIFIED"),),
        (event({"usageMetadata": USAGE}),),
        (event({"candidates": []}),),
        (chunk({"text": "a"}), b"data: [DONE]\n\n"),
    ],
)
def test_the_end_of_the_stream_without_a_finish_reason_is_no_success(parts: tuple[bytes, ...]) -> None:
    with pytest.raises(ModelProtocolError, match="ended before the response was finished") as raised:
        decode(*parts)
    assert raised.value.is_transient


def test_a_broken_chunk_after_a_finish_reason_is_no_success() -> None:
    decoder = GoogleCodec().decoder()
    decoder.feed(ServerSentEvent(data=json.dumps(answer({"text": "a"}, finish="STOP")).encode()))
    with pytest.raises(ModelProtocolError, match="not a chunk"):
        decoder.feed(ServerSentEvent(data=b'{"candidates":[{"content":{"par'))
    with pytest.raises(ModelProtocolError, match="ended before"):
        decoder.finish()


def test_done_which_gateways_write_is_nothing() -> None:
    assert decode(STOP, b"data: [DONE]\n\n") == [ResponseFinished(reason="stop")]


def test_a_call_is_given_whole_at_once() -> None:
    events = decode(chunk(call_part("look", {"at": "größe"}, id="7")), STOP)
    arguments = '{"at": "gr\\u00f6\\u00dfe"}'  # as it came, byte for byte
    assert events[:2] == [
        ToolCallStarted(index=0, id="7", name="look"),
        ToolCallArgumentsDelta(index=0, fragment=arguments),
    ]
    assert isinstance(events[2], ToolCallCompleted)
    assert events[2].call.arguments == arguments
    assert events[3] == ResponseFinished(reason="tool_calls")


@pytest.mark.parametrize(
    ("args", "arguments"),
    [
        (b"{}", "{}"),
        (b"null", "{}"),
        (b'{"n":12345678901234567890123,"x":1.50}', '{"n":12345678901234567890123,"x":1.50}'),
        (b'"{\\"a\\":1}"', '{"a":1}'),
        (b"[1]", "[1]"),
    ],
)
def test_arguments_are_the_text_that_came(args: bytes, arguments: str) -> None:
    part = b'{"functionCall":{"name":"look","args":' + args + b"}}"
    data = b'data: {"candidates":[{"content":{"parts":[' + part + b']},"finishReason":"STOP"}]}\n\n'
    assert names_and_arguments(decode(data)) == [("look", arguments)]


def test_a_call_without_arguments_has_an_empty_object() -> None:
    assert names_and_arguments(decode(chunk(call_part("end")), STOP)) == [("end", "{}")]


def test_parallel_calls_come_in_one_chunk_or_in_several() -> None:
    together = decode(chunk(call_part("a", {}), call_part("a", {}), finish="STOP"))
    apart = decode(chunk(call_part("a", {})), chunk(call_part("a", {})), STOP)
    for events in (together, apart):
        assert names_and_arguments(events) == [("a", "{}")] * 2
        assert [each.index for each in events if isinstance(each, ToolCallCompleted)] == [0, 1]


def test_missing_and_repeated_ids_are_made_unique_in_every_conversation() -> None:
    stream = (
        chunk(call_part("a", {}, id="x"), call_part("a", {}, id="x"), call_part("a", {}), call_part("a")),
        STOP,
    )
    ids = [call.id for _ in range(2) for call in calls_in(decode(*stream))]
    assert ids.count("x") == 2  # one in each response
    assert len(set(ids)) == 7


def test_calls_of_a_response_that_was_cut_off_are_whole() -> None:
    events = decode(chunk(call_part("a", {"b": 1}), finish="MAX_TOKENS"))
    assert names_and_arguments(events) == [("a", '{"b": 1}')]
    assert finished(events).reason == "length"


@pytest.mark.parametrize("more", [{"willContinue": True}, {"partialArgs": [{"jsonPath": "$.a"}]}])
def test_a_call_in_pieces_is_refused_and_never_given(more: dict[str, Any]) -> None:
    part = {"functionCall": {"name": "look", "args": {}, **more}}
    with pytest.raises(ModelProtocolError, match="in pieces"):
        decode(chunk(part, finish="STOP"))


def test_a_call_without_a_name_is_refused() -> None:
    with pytest.raises(ModelProtocolError, match="without a name"):
        decode(chunk({"functionCall": {"args": {}}}, finish="STOP"))


@pytest.mark.parametrize(
    ("reason", "normalized"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("CONTINUATION", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("LANGUAGE", "content_filter"),
        ("BLOCKLIST", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("SPII", "content_filter"),
        ("IMAGE_SAFETY", "content_filter"),
        ("IMAGE_PROHIBITED_CONTENT", "content_filter"),
        ("IMAGE_RECITATION", "content_filter"),
        ("OTHER", "other"),
        ("SOMETHING_NEW", "other"),
    ],
)
def test_finish_reasons_are_normalized_and_the_providers_word_is_kept(reason: str, normalized: str) -> None:
    last = finished(decode(chunk({"text": "a"}), chunk(finish=reason)))
    assert (last.reason, last.provider_reason) == (normalized, reason)


@pytest.mark.parametrize(
    ("reason", "is_transient"),
    [
        ("MALFORMED_FUNCTION_CALL", True),
        ("MALFORMED_RESPONSE", True),
        ("UNEXPECTED_TOOL_CALL", True),
        ("TOO_MANY_TOOL_CALLS", True),
        ("MISSING_THOUGHT_SIGNATURE", False),
        ("PUP_LIMITED_DISABLED", False),
    ],
)
def test_failure_finish_reasons_fail_the_response(reason: str, is_transient: bool) -> None:
    events = decode(chunk(finish=reason, message="print(default_api.look("), chunk({"text": "more"}))
    last = failed(events)
    assert events == [last]
    assert (last.error_type, last.is_transient) == (reason, is_transient)
    assert last.message == (
        f"The provider ended the response with the finish reason {reason}: print(default_api.look("
    )


def test_calls_before_a_failure_were_given_and_the_failure_is_last() -> None:
    events = decode(chunk(call_part("look", {}), finish="MALFORMED_FUNCTION_CALL", usageMetadata=USAGE), STOP)
    assert names_and_arguments(events) == [("look", "{}")]
    assert isinstance(events[-2], UsageReported)
    assert failed(events).message.endswith("MALFORMED_FUNCTION_CALL.")


def test_a_blocked_prompt_is_a_refusal_that_names_the_reason() -> None:
    feedback = {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "not this"}
    events = decode(event({"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 3}}))
    assert events == [
        UsageReported(usage=Usage(requests=1, input_tokens=3)),
        ResponseFinished(reason="content_filter"),
    ]
    refusal = Refusal(category="PROHIBITED_CONTENT", explanation="not this")
    assert isinstance(events[-1], ResponseFinished)
    assert (events[-1].refusal, events[-1].provider_reason) == (refusal, "PROHIBITED_CONTENT")


def test_feedback_without_a_block_is_nothing() -> None:
    feedback = {"promptFeedback": {"safetyRatings": [{"category": "X"}], "blockReason": None}}
    assert decode(chunk({"text": "a"}, finish="STOP", **feedback))[-1] == ResponseFinished(reason="stop")


def test_usage_is_cumulative_and_an_unchanged_report_is_not_repeated() -> None:
    first = {"promptTokenCount": 100, "candidatesTokenCount": 1}
    events = decode(
        chunk({"text": "a"}, usageMetadata=first),
        chunk({"text": "b"}, usageMetadata=first),
        chunk(finish="STOP", usageMetadata=USAGE),
    )
    assert [each.usage for each in events if isinstance(each, UsageReported)] == [
        Usage(requests=1, input_tokens=100, output_tokens=1),
        Usage(requests=1, input_tokens=107, output_tokens=25, cache_read_tokens=60, reasoning_tokens=5),
    ]


def test_usage_may_follow_the_finish_reason() -> None:
    events = decode(chunk({"text": "a"}, finish="STOP"), event({"usageMetadata": {"promptTokenCount": 1}}))
    assert events[1:] == [
        UsageReported(usage=Usage(requests=1, input_tokens=1)),
        ResponseFinished(reason="stop"),
    ]


def test_the_response_and_the_model_are_named() -> None:
    names = {"responseId": "r1", "modelVersion": "gemini-3-pro-002"}
    last = finished(decode(chunk({"text": "a"}, **names), STOP))
    assert (last.response_id, last.model_name) == ("r1", "gemini-3-pro-002")


def test_only_the_first_candidate_counts() -> None:
    first = {"index": 0, "content": {"parts": [{"text": "mine"}]}, "finishReason": "STOP"}
    other = {"index": 1, "content": {"parts": [{"text": "other"}]}, "finishReason": "SAFETY"}
    events = decode(event({"candidates": [first, other]}), event({"candidates": [other]}))
    assert events == [TextDelta(text="mine"), ResponseFinished(reason="stop")]


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"candidates": None},
        {"candidates": [{}]},
        {"candidates": [{"content": None, "finishReason": None}]},
        {"candidates": [{"content": {"role": "model"}}]},
        {"candidates": [{"content": {"parts": None}}]},
        {"candidates": [{"content": {"parts": [{}]}, "safetyRatings": []}], "unknown": [1]},
        {"error": None, "usageMetadata": None},
    ],
)
def test_what_is_missing_null_or_unknown_is_nothing(odd: object) -> None:
    assert decode(event(odd), STOP) == [ResponseFinished(reason="stop")]


def test_parts_that_are_neither_text_nor_calls_give_no_events() -> None:
    parts = ({"videoMetadata": {"fps": 1}}, {"inlineData": {"mimeType": "image/png"}}, {"fileData": {}})
    assert decode(chunk(*parts, finish="STOP")) == [ResponseFinished(reason="stop")]


@pytest.mark.parametrize(
    ("error", "error_type", "is_transient"),
    [
        ({"code": 503, "message": "no", "status": "UNAVAILABLE"}, "UNAVAILABLE", True),
        ({"code": 429, "message": "no", "status": "RESOURCE_EXHAUSTED"}, "RESOURCE_EXHAUSTED", True),
        ({"code": 500, "message": "no", "status": "INTERNAL"}, "INTERNAL", True),
        ({"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}, "INVALID_ARGUMENT", False),
        ({"code": 403, "message": "no", "status": "PERMISSION_DENIED"}, "PERMISSION_DENIED", False),
    ],
)
@pytest.mark.parametrize("name", [b"", b"event: error\n"])
def test_an_error_in_the_stream_is_the_last_event(
    error: object, error_type: str, is_transient: bool, name: bytes
) -> None:
    events = decode(chunk({"text": "a"}), name + event({"error": error}), STOP)
    assert events == [
        TextDelta(text="a"),
        ResponseFailed(message="no", error_type=error_type, is_transient=is_transient),
    ]


def test_an_error_after_the_finish_reason_is_still_a_failure() -> None:
    assert failed(decode(STOP, event({"error": {"code": 503, "message": "no"}}))).is_transient


@pytest.mark.parametrize("before", [b"", chunk({"text": "a"})])
@pytest.mark.parametrize("indent", [None, 2])
def test_raw_json_amid_the_stream_is_no_success_and_stays_to_be_read(
    before: bytes, indent: int | None
) -> None:
    error = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
    stream = before + json.dumps(error, indent=indent).encode() + b"\n"
    with pytest.raises(ModelProtocolError, match="ended before the response was finished"):
        decode(stream)
    lines = ServerSentEventDecoder()
    assert len([*lines.feed(stream), *lines.finish()]) == bool(before)
    assert find_bare_error(lines.stray) == ProviderMessage(
        message="overloaded", error_type="UNAVAILABLE", is_transient=True
    )


def test_an_error_event_may_be_plain_text() -> None:
    assert decode(b"event: error\ndata: it broke\n\n") == [ResponseFailed(message="it broke")]


@pytest.mark.parametrize(
    "data",
    [
        b"<html>",
        b"{",
        b"[]",
        b"1",
        b'{"candidates": 1}',
        b'{"candidates":[{"content":{"parts":["x"]}}]}',
        b'{"candidates":[{"content":{"parts":[{"text":1}]}}]}',
        b'{"candidates":[{"content":{"parts":[{"text":"\xff"}]}}]}',
        b"[" * 5_000,
    ],
)
def test_what_is_no_chunk_breaks_the_protocol_and_is_quoted(data: bytes) -> None:
    with pytest.raises(ModelProtocolError, match="not a chunk of a Gemini answer"):
        decode(b"data: " + data + b"\n\n", STOP)


def test_the_message_of_a_failure_is_bounded_and_holds_no_key() -> None:
    secret = "AIza" + "a" * 35
    for part in (
        event({"error": {"message": f"bad key {secret} " + "x" * 10_000}}),
        chunk(finish="MALFORMED_FUNCTION_CALL", message=f"bad key {secret} " + "x" * 10_000),
    ):
        message = failed(decode(part)).message
        assert secret not in message
        assert "[redacted]" in message
        assert len(message) < 700


def test_a_signed_response_is_kept_part_by_part_as_it_came() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1"}}
    events = decode(
        chunk({"text": "h", "thought": True}),
        chunk({"text": "m", "thought": True}),
        chunk({"text": "He"}),
        chunk({"text": "llo"}, code),
        chunk(
            call_part("look", {"at": 1}, id="1", thoughtSignature="c2ln"),
            call_part("look", {"at": 2}, id="2"),
        ),
        chunk({"text": "", "thoughtSignature": "bGFzdA=="}, finish="STOP"),
    )
    assert finished(events).provider_content == ProviderContent(
        protocol="google",
        items=(
            {"text": "hm", "thought": True},
            {"text": "Hello"},
            code,
            call_part("look", {"at": 1}, id="1", thoughtSignature="c2ln"),
            call_part("look", {"at": 2}, id="2"),
            {"text": "", "thoughtSignature": "bGFzdA=="},
        ),
    )


def test_texts_with_a_signature_are_never_joined_with_others() -> None:
    parts = [
        {"text": "a"},
        {"text": "b", "thoughtSignature": "s"},
        {"text": "c", "thoughtSignature": "t"},
        {"text": "d"},
    ]
    content = finished(decode(*[chunk(part) for part in parts], STOP)).provider_content
    assert content is not None
    assert list(content.items) == parts


def test_a_signature_may_come_alone_after_the_finish_reason() -> None:
    signature = {"text": "", "thoughtSignature": "s"}
    content = finished(decode(chunk({"text": "a"}, finish="STOP"), chunk(signature))).provider_content
    assert content is not None
    assert content.items == ({"text": "a"}, signature)


@pytest.mark.parametrize("more", [{}, {"thoughtSignature": None}, {"thoughtSignature": ""}])
def test_an_unsigned_response_needs_no_content_of_its_own(more: dict[str, Any]) -> None:
    assert finished(decode(chunk({"text": "a", **more}, finish="STOP"))).provider_content is None


def test_a_kept_part_that_is_no_utf_8_breaks_the_protocol() -> None:
    part = b'{"text":"a","thoughtSignature":"s","other":"\xff"}'
    data = b'data: {"candidates":[{"content":{"parts":[' + part + b']},"finishReason":"STOP"}]}\n\n'
    with pytest.raises(ModelProtocolError):
        decode(data)


WHOLE = answer(
    {"text": "hm", "thought": True},
    {"text": "Hi"},
    call_part("a", {"x": 1}),
    finish="STOP",
    usageMetadata=USAGE,
)
PIECES = [answer({"text": "H"}), answer({"text": "i"}, call_part("a", {"x": 1})), answer(finish="STOP")]


def test_a_whole_answer_gives_the_same_events() -> None:
    events = GoogleCodec().decode_response(json.dumps(WHOLE).encode())
    assert events[:2] == [ReasoningDelta(text="hm"), TextDelta(text="Hi")]
    assert names_and_arguments(events) == [("a", '{"x": 1}')]
    assert isinstance(events[-2], UsageReported)
    assert events[-1] == ResponseFinished(reason="tool_calls")


@pytest.mark.parametrize("indent", [None, 2])
def test_a_whole_answer_may_be_the_list_of_the_chunks_of_a_stream(indent: int | None) -> None:
    events = GoogleCodec().decode_response(b" \n" + json.dumps(PIECES, indent=indent).encode())
    assert text_in(events) == "Hi"
    assert len(calls_in(events)) == 1
    assert events[-1] == ResponseFinished(reason="tool_calls")


@pytest.mark.parametrize(
    "wrap", [lambda value: value, lambda value: [value], lambda value: [PIECES[0], value]]
)
def test_a_whole_answer_may_be_an_error(wrap: Any) -> None:
    error = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
    events = GoogleCodec().decode_response(json.dumps(wrap(error)).encode())
    assert failed(events) == ResponseFailed(message="overloaded", error_type="UNAVAILABLE", is_transient=True)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"[1]",
        b"[{}",
        b'{"candidates":[]}',
        b"<html>",
        b'{"ok":true}',
        b"[" * 5_000,
        json.dumps(PIECES[:2]).encode(),
        json.dumps(answer({"text": "a"})).encode(),
    ],
)
def test_a_whole_answer_without_a_finish_reason_breaks_the_protocol(body: bytes) -> None:
    with pytest.raises(ModelProtocolError):
        GoogleCodec().decode_response(body)


def test_an_error_status_shows_the_providers_message() -> None:
    body = json.dumps([{"error": {"code": 400, "message": "no such model", "status": "NOT_FOUND"}}]).encode()
    error = status_error(404, {}, body)
    assert (error.status, error.message, error.is_transient) == (404, "HTTP 404: no such model", False)

import json
from typing import Any

import pytest

from nighthawk_async.errors import ModelProtocolError
from nighthawk_async.types.model import (
    ReasoningDelta,
    ResponseFailed,
    ResponseFinished,
    TextDelta,
    ToolCallCompleted,
    UsageReported,
)
from nighthawk_async.types.usage import Usage
from nighthawk_async.wire.openai_chat.codec import OpenAIChatCodec

from .chat import DONE, call_chunk, chunk, decode, event, fragment, names_and_arguments, text_in

STOP = chunk({}, "stop")
USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 60, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 5},
}


def test_text_is_given_as_it_comes() -> None:
    events = decode(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        STOP,
        DONE,
    )
    assert events == [TextDelta(text="Hel"), TextDelta(text="lo"), ResponseFinished(reason="stop")]


def test_a_finish_reason_may_share_a_chunk_with_text() -> None:
    assert decode(chunk({"content": "Hello"}, "stop"), DONE) == [
        TextDelta(text="Hello"),
        ResponseFinished(reason="stop"),
    ]


def test_the_end_of_the_stream_serves_as_well_as_done() -> None:
    assert decode(chunk({"content": "Hello"}, "stop"))[-1] == ResponseFinished(reason="stop")


def test_done_without_a_finish_reason_is_no_success() -> None:
    with pytest.raises(ModelProtocolError, match=r"\[DONE\] without a finish reason"):
        decode(chunk({"content": "Hello"}), DONE)


@pytest.mark.parametrize("parts", [(), (chunk({"content": "Hello"}),), (chunk({"content": "x"}, ""),)])
def test_the_end_of_the_stream_without_a_finish_reason_is_no_success(parts: tuple[bytes, ...]) -> None:
    with pytest.raises(ModelProtocolError, match="ended before the response was finished") as raised:
        decode(*parts)
    assert raised.value.is_transient


def test_what_follows_the_end_is_ignored() -> None:
    assert decode(STOP, DONE, chunk({"content": "more"}), DONE) == [ResponseFinished(reason="stop")]


@pytest.mark.parametrize(
    ("reason", "normalized"),
    [
        ("stop", "stop"),
        ("eos_token", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("tool_calls", "stop"),
        ("something_new", "other"),
    ],
)
def test_finish_reasons_are_normalized(reason: str, normalized: str) -> None:
    assert decode(chunk({}, reason), DONE) == [ResponseFinished(reason=normalized)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "delta",
    [{"reasoning": "hm"}, {"reasoning_content": "hm"}, {"reasoning": "hm", "reasoning_content": "hm"}],
)
def test_reasoning_is_taken_from_either_field_once(delta: dict[str, str]) -> None:
    assert decode(chunk(delta), STOP, DONE)[0] == ReasoningDelta(text="hm")
    assert len(decode(chunk(delta), STOP, DONE)) == 2


def test_a_refusal_is_shown_as_text() -> None:
    assert text_in(decode(chunk({"refusal": "I cannot."}), STOP, DONE)) == "I cannot."


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "something_new"])
def test_a_model_that_only_refuses_has_filtered_its_answer(reason: str) -> None:
    refusal = chunk({"refusal": "I can"}), chunk({"refusal": "not.", "content": ""})
    assert decode(*refusal, chunk({}, reason), DONE)[-1] == ResponseFinished(reason="content_filter")
    whole = {"choices": [{"message": {"content": None, "refusal": "No."}, "finish_reason": reason}]}
    events = OpenAIChatCodec().decode_response(json.dumps(whole).encode())
    assert events == [TextDelta(text="No."), ResponseFinished(reason="content_filter")]


def test_a_refusal_beside_text_or_calls_is_no_filtered_answer() -> None:
    refusal = chunk({"refusal": "Not that."})
    call = call_chunk(fragment('{"x":1}', name="a", index=0))
    assert decode(chunk({"content": "Well."}), refusal, STOP, DONE)[-1] == ResponseFinished(reason="stop")
    assert decode(refusal, chunk({"content": "Well."}), STOP, DONE)[-1] == ResponseFinished(reason="stop")
    assert decode(refusal, call, STOP, DONE)[-1] == ResponseFinished(reason="tool_calls")
    assert decode(refusal, chunk({}, "length"), DONE)[-1] == ResponseFinished(reason="length")


def thinking(text: object) -> dict[str, object]:
    return {"type": "thinking", "thinking": text}


def test_content_may_be_a_list_of_thinking_and_text() -> None:
    events = decode(
        chunk({"content": [thinking([{"type": "text", "text": "let me "}])]}),
        chunk({"content": [thinking("see")]}),
        chunk({"content": [{"type": "text", "text": "It is "}, {"type": "text", "text": "4"}]}),
        chunk({"content": "."}, "stop"),
        DONE,
    )
    assert [each.text for each in events if isinstance(each, ReasoningDelta)] == ["let me ", "see"]
    assert text_in(events) == "It is 4."


@pytest.mark.parametrize("part", [None, 1, "x", [], {}, {"type": "text", "text": 1}, {"type": ["text"]}])
def test_parts_of_the_content_that_nobody_knows_are_ignored(part: object) -> None:
    events = decode(chunk({"content": [part, thinking([part]), {"type": "text", "text": "a"}]}, "stop"), DONE)
    assert events[:-1] == [TextDelta(text="a")]


def test_usage_in_a_chunk_without_choices_is_reported_before_the_end() -> None:
    events = decode(STOP, event({"choices": [], "usage": USAGE}), DONE)
    usage = Usage(requests=1, input_tokens=100, output_tokens=20, cache_read_tokens=60, reasoning_tokens=5)
    assert events == [UsageReported(usage=usage), ResponseFinished(reason="stop")]


def test_usage_may_come_with_a_choice_and_in_every_chunk() -> None:
    first = chunk({"content": "a"}, usage={"prompt_tokens": 5, "completion_tokens": 1})
    last = chunk({"content": "b"}, "stop", usage={"prompt_tokens": 5, "completion_tokens": 2})
    reports = [each.usage for each in decode(first, last, DONE) if isinstance(each, UsageReported)]
    assert reports == [
        Usage(requests=1, input_tokens=5, output_tokens=1),
        Usage(requests=1, input_tokens=5, output_tokens=2),
    ]


def test_null_usage_and_null_details_are_nothing() -> None:
    events = decode(chunk({}, "stop", usage=None), event({"usage": {"prompt_tokens_details": None}}), DONE)
    assert events == [UsageReported(usage=Usage(requests=1)), ResponseFinished(reason="stop")]


def test_empty_choices_null_choices_and_null_deltas_are_nothing() -> None:
    filters: dict[str, Any] = {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}
    events = decode(event(filters), event({"choices": None}), chunk(None), event({}), STOP, DONE)
    assert events == [ResponseFinished(reason="stop")]


def test_other_choices_are_ignored() -> None:
    other = event({"choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": "stop"}]})
    assert text_in(decode(chunk({"content": "mine"}), other, STOP, DONE)) == "mine"


def test_a_single_choice_may_have_any_index_or_none() -> None:
    assert (
        text_in(
            decode(event({"choices": [{"index": 3, "delta": {"content": "a"}, "finish_reason": "stop"}]}))
        )
        == "a"
    )
    assert text_in(decode(event({"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}))) == "a"


def test_unknown_fields_are_ignored() -> None:
    part = chunk(
        {"content": "a", "annotations": [1]}, "stop", timings={"predicted_ms": 1.5}, system_fingerprint=None
    )
    assert text_in(decode(part, DONE)) == "a"


@pytest.mark.parametrize("end", [(), (DONE,)])
@pytest.mark.parametrize(
    ("payload", "message", "error_type", "is_transient"),
    [
        ({"error": {"message": "no", "type": "invalid_request_error"}}, "no", "invalid_request_error", False),
        ({"error": {"message": "no", "type": "server_error", "code": None}}, "no", "server_error", True),
        ({"error": {"message": "no", "type": "rate_limit_error"}}, "no", "rate_limit_error", True),
        ({"error": {"message": "no", "code": 503}}, "no", None, True),
        ({"error": {"message": "no", "code": "429"}}, "no", "429", True),
        ({"error": {"message": "no", "code": 400}}, "no", None, False),
        ({"error": "no"}, "no", None, False),
        ({"object": "error", "message": "no", "code": 40303}, "no", None, False),
        ({"choices": [], "error": {"detail": "no"}}, "no", None, False),
        ({"error": {"why": 1}}, '{"why":1}', None, False),
    ],
)
def test_an_error_in_the_stream_is_the_last_event(
    payload: object, message: str, error_type: str | None, is_transient: bool, end: tuple[bytes, ...]
) -> None:
    events = decode(chunk({"content": "a"}), event(payload), *end)
    failed = ResponseFailed(message=message, error_type=error_type, is_transient=is_transient)
    assert events == [TextDelta(text="a"), failed]


@pytest.mark.parametrize(
    "part",
    [
        b'error: {"code":500,"message":"no","type":"server_error"}\n\n',
        b'event: error\ndata: {"message":"no","type":"server_error"}\n\n',
        b'event: error\ndata: {"error":{"message":"no","type":"server_error"}}\n\n',
    ],
)
def test_an_event_called_error_is_a_failure_however_it_is_written(part: bytes) -> None:
    assert decode(part, DONE) == [ResponseFailed(message="no", error_type="server_error", is_transient=True)]


def test_an_error_event_may_be_plain_text() -> None:
    assert decode(b"event: error\ndata: it broke\n\n") == [ResponseFailed(message="it broke")]


def test_an_error_after_the_finish_reason_is_still_a_failure() -> None:
    assert isinstance(decode(STOP, event({"error": "no"}), DONE)[-1], ResponseFailed)


def test_the_end_tells_what_the_server_called_reason_response_and_model() -> None:
    events = decode(
        event({"id": "", "model": "", "choices": []}),  # Azure's first chunk
        event({"id": "chatcmpl-1", "model": "gpt-x", "choices": []}),
        event({"id": "other", "model": "other", "choices": [{"delta": {}, "finish_reason": "eos_token"}]}),
        DONE,
    )
    (finished,) = events
    assert isinstance(finished, ResponseFinished)
    assert finished.reason == "stop"
    assert finished.provider_reason == "eos_token"
    assert (finished.response_id, finished.model_name) == ("chatcmpl-1", "gpt-x")


@pytest.mark.parametrize("odd", [None, 7, {"a": 1}])
def test_an_odd_or_missing_id_or_model_is_no_error(odd: object) -> None:
    (finished,) = decode(event({"id": odd, "model": odd, "choices": [{"finish_reason": "stop"}]}), DONE)
    assert isinstance(finished, ResponseFinished)
    assert (finished.response_id, finished.model_name) == (None, None)


def test_empty_data_is_skipped() -> None:
    assert decode(b"data:\n\n", b"data:   \n\n", STOP, b"data: \t\n\n", DONE) == [
        ResponseFinished(reason="stop")
    ]


def test_null_error_fields_are_no_errors() -> None:
    part = event(
        {"error": None, "choices": [{"delta": {"content": "a"}, "finish_reason": "stop", "error": None}]}
    )
    assert decode(part, DONE) == [TextDelta(text="a"), ResponseFinished(reason="stop")]


@pytest.mark.parametrize("reason", ["error", "abort", "ERROR", "insufficient_system_resource"])
def test_a_finish_reason_that_means_failure_is_a_failure(reason: str) -> None:
    (failed,) = decode(chunk({}, reason), DONE)
    assert isinstance(failed, ResponseFailed)
    assert failed.is_transient
    assert reason in failed.message


def test_an_error_in_a_choice_is_a_failure_and_usage_stays_before_it() -> None:
    choice = {
        "index": 0,
        "delta": {"content": "a"},
        "finish_reason": "error",
        "error": {"message": "no", "code": 502},
    }
    events = decode(event({"choices": [choice], "usage": USAGE}), DONE)
    assert [type(each) for each in events] == [TextDelta, UsageReported, ResponseFailed]
    assert events[-1] == ResponseFailed(message="no", is_transient=True)


@pytest.mark.parametrize(
    "data",
    [
        b"<html>",
        b"{",
        b"[]",
        b"1",
        b'{"choices": 1}',
        b'{"choices":[{"delta":"x"}]}',
        b'"\xff"',
        b"[" * 5_000,
    ],
)
def test_what_is_no_chunk_breaks_the_protocol_and_is_quoted(data: bytes) -> None:
    with pytest.raises(ModelProtocolError, match="not a Chat Completions chunk"):
        decode(b"data: " + data + b"\n\n")


def test_the_message_of_an_error_is_bounded_and_holds_no_key() -> None:
    secret = "sk-proj-" + "a" * 40
    (failed,) = decode(event({"error": {"message": f"bad key {secret} " + "x" * 10_000}}))
    assert isinstance(failed, ResponseFailed)
    assert secret not in failed.message
    assert "[redacted]" in failed.message
    assert len(failed.message) < 600


def whole(**choice: Any) -> bytes:
    return json.dumps(
        {"object": "chat.completion", "choices": [{"index": 0, **choice}], "usage": USAGE}
    ).encode()


def test_a_whole_answer_gives_the_same_events() -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "a", "arguments": '{"x":1}'}}]
    body = whole(
        message={"content": "Hi", "reasoning": "hm", "tool_calls": calls}, finish_reason="tool_calls"
    )
    events = OpenAIChatCodec().decode_response(body)
    assert events[0] == ReasoningDelta(text="hm")
    assert events[1] == TextDelta(text="Hi")
    assert isinstance(events[-3], ToolCallCompleted)
    assert isinstance(events[-2], UsageReported)
    assert isinstance(events[-1], ResponseFinished)
    assert events[-1].reason == "tool_calls"


def test_calls_of_a_whole_answer_are_different_calls_whatever_they_lack() -> None:
    calls = [fragment("{}", name="a"), fragment("{}", name="a"), fragment("", name="a", index=0)]
    events = OpenAIChatCodec().decode_response(whole(message={"tool_calls": calls}, finish_reason="stop"))
    assert names_and_arguments(events) == [("a", "{}")] * 3


def test_a_whole_answer_may_lack_a_finish_reason() -> None:
    finished = OpenAIChatCodec().decode_response(whole(message={"content": "Hi"}))[-1]
    assert finished == ResponseFinished(reason="stop")
    assert isinstance(finished, ResponseFinished)
    assert finished.provider_reason is None


def test_a_whole_answer_may_be_an_error() -> None:
    (failed,) = OpenAIChatCodec().decode_response(b'{"error":{"message":"no"}}')
    assert failed == ResponseFailed(message="no")


@pytest.mark.parametrize("body", [b"", b"{}", b'{"choices":[]}', b"<html>", b'{"ok":true}'])
def test_a_whole_answer_without_a_choice_breaks_the_protocol(body: bytes) -> None:
    with pytest.raises(ModelProtocolError):
        OpenAIChatCodec().decode_response(body)


def test_a_fragment_in_the_last_chunk_counts() -> None:
    events = decode(call_chunk(fragment('{"x":1}', name="a", index=0), finish_reason="tool_calls"))
    assert names_and_arguments(events) == [("a", '{"x":1}')]

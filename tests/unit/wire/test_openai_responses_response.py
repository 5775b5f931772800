import json
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
from nighthawk_async.types.usage import Usage
from nighthawk_async.wire.openai_responses.codec import OpenAIResponsesCodec
from nighthawk_async.wire.provider_errors import status_error
from nighthawk_async.wire.sse import ServerSentEvent

from .responses import (
    USAGE,
    added,
    call,
    calls_in,
    completed,
    created,
    decode,
    decode_whole,
    done,
    end_of,
    ended,
    event,
    incomplete,
    message,
    reasoning,
    reasoning_in,
    text,
    text_in,
)

STOP = ResponseFinished(reason="stop")
SPENT = UsageReported(
    usage=Usage(
        requests=1,
        input_tokens=100,
        output_tokens=20,
        cache_read_tokens=60,
        cache_write_tokens=30,
        reasoning_tokens=5,
    )
)


def text_done(whole: str, index: int = 0, **fields: Any) -> bytes:
    return event("response.output_text.done", output_index=index, content_index=0, text=whole, **fields)


def summary(kind: str, index: int = 0, **fields: Any) -> bytes:
    return event(
        f"response.reasoning_summary_text.{kind}",
        output_index=0,
        item_id="rs_1",
        summary_index=index,
        **fields,
    )


def test_text_is_given_as_it_comes_and_once() -> None:
    whole = message("Hello")
    part = whole["content"][0]
    events = decode(
        created(),
        added(0, **message()),
        event("response.content_part.added", output_index=0, content_index=0, part={"type": "output_text"}),
        text("Hel"),
        text("lo"),
        text_done("Hello"),
        event("response.content_part.done", output_index=0, content_index=0, part=part),
        done(0, **whole),
        completed(whole, usage=USAGE),
    )
    assert events == [TextDelta(text="Hel"), TextDelta(text="lo"), SPENT, STOP]


def test_the_end_tells_the_providers_own_words() -> None:
    end = end_of(decode(completed()))
    assert (end.provider_reason, end.response_id, end.model_name) == ("completed", "resp_1", "gpt-x")
    end = end_of(decode(incomplete("max_output_tokens")))
    assert (end.reason, end.provider_reason) == ("length", "max_output_tokens")


WHOLE = message("Hello")


@pytest.mark.parametrize(
    "parts",
    [
        (text_done("Hello"),),
        (event("response.content_part.done", output_index=0, part=WHOLE["content"][0]),),
        (done(0, **WHOLE),),
        (done(None, **WHOLE),),
        (completed(WHOLE),),
        (text("Hel"), text_done("Hello")),
        (text("Hel"), done(0, **WHOLE)),
        (text("Hel"), completed(WHOLE)),
        (text("Hel", None, item_id="msg_1"), text("lo", None, item_id="msg_1"), done(None, **WHOLE)),
        (text("Hello", None), done(None, **WHOLE)),
        (text("Hello"), completed(WHOLE | {"id": "msg_other"})),
        (text("Hel", item_id="a"), text("lo", item_id="b"), done(0, **WHOLE | {"id": "c"})),
        (text("Hello", None, item_id="a"), done(None, **WHOLE | {"id": "b"}), completed(WHOLE)),
        (added(0, **message()), text("Hello"), completed(message())),
        (text("Hello"), done(0, type="message", role="assistant", content=None)),
        (text("Hello"), done(0, **WHOLE), done(0, **WHOLE)),
    ],
)
def test_text_that_did_not_come_in_pieces_is_handed_out_once(parts: tuple[bytes, ...]) -> None:
    assert text_in(decode(*parts, completed(WHOLE))) == "Hello"


def test_a_final_form_that_disagrees_takes_nothing_back() -> None:
    assert text_in(decode(text("Hello"), text_done("Goodbye"), completed(message("Goodbye")))) == "Hello"


def test_several_messages_and_parts_are_all_given() -> None:
    two_parts = message("a", "b")
    last = message("c") | {"id": "msg_2"}
    events = decode(
        text("a"),
        event("response.output_text.delta", output_index=0, content_index=1, delta="b"),
        done(0, **two_parts),
        text("c", 1),
        completed(two_parts, last),
    )
    assert text_in(events) == "abc"
    assert text_in(decode(done(None, **two_parts), done(None, **last), completed(two_parts, last))) == "abc"


def test_reasoning_is_given_as_it_comes_and_once() -> None:
    item = reasoning("gAAA", "first", "second")
    events = decode(
        added(0, **reasoning(None)),
        event("response.reasoning_summary_part.added", output_index=0, summary_index=0, part={}),
        summary("delta", delta="fir"),
        summary("delta", delta="st"),
        summary("done", text="first"),
        summary("done", 1, text="second"),
        done(0, **item),
        completed(item),
    )
    assert events[:3] == [
        ReasoningDelta(text="fir"),
        ReasoningDelta(text="st"),
        ReasoningDelta(text="second"),
    ]
    assert reasoning_in(events) == "firstsecond"
    assert text_in(events) == ""


@pytest.mark.parametrize("only_in_the_end", [False, True])
def test_the_text_of_open_reasoning_is_reasoning(only_in_the_end: bool) -> None:
    item = reasoning("", content=[{"type": "reasoning_text", "text": "hm"}])
    pieces = (
        added(None, **reasoning("", content=[])),
        event("response.reasoning_text.delta", item_id="rs_1", delta="h"),
        event("response.reasoning_text.delta", item_id="rs_1", delta="m"),
        event("response.reasoning_text.done", item_id="rs_1", text="hm"),
        event("response.content_part.done", item_id="rs_1", part={"type": "reasoning_text", "text": "hm"}),
    )
    events = decode(*(() if only_in_the_end else pieces), done(None, **item), completed(item))
    assert reasoning_in(events) == "hm"
    assert text_in(events) == ""


def refusal(whole: str) -> dict[str, Any]:
    return message() | {"content": [{"type": "refusal", "refusal": whole}]}


@pytest.mark.parametrize(
    "parts",
    [
        (event("response.refusal.delta", output_index=0, content_index=0, delta="I can"),),
        (event("response.refusal.done", output_index=0, content_index=0, refusal="I cannot."),),
        (),
    ],
)
def test_a_refusal_is_shown_as_text_and_ends_like_a_filtered_answer(parts: tuple[bytes, ...]) -> None:
    events = decode(*parts, completed(refusal("I cannot.")))
    assert text_in(events) == "I cannot."
    assert events[-1] == ResponseFinished(reason="content_filter")


def test_a_refusal_beside_an_answer_or_a_call_does_not_end_like_a_filtered_answer() -> None:
    assert decode(text("Well."), completed(message("Well."), refusal("Not that.")))[-1] == STOP
    events = decode(completed(refusal("Not that."), call(1, "{}")))
    assert events[-1] == ResponseFinished(reason="tool_calls")


@pytest.mark.parametrize(
    ("reason", "normalized"),
    [
        ("max_output_tokens", "length"),
        ("content_filter", "content_filter"),
        ("steered", "steered"),
        ("something_new", "other"),
    ],
)
def test_reasons_for_an_incomplete_response_are_normalized(reason: str, normalized: str) -> None:
    events = decode(text("Hel"), incomplete(reason, message("Hel", status="incomplete"), usage=USAGE))
    assert text_in(events) == "Hel"
    assert events[-2:] == [SPENT, ResponseFinished(reason=normalized)]  # type: ignore[arg-type]


def test_an_incomplete_response_may_say_no_reason() -> None:
    assert decode(ended("incomplete", incomplete_details=None))[-1] == ResponseFinished(reason="other")


def test_the_status_counts_where_the_event_calls_everything_completed() -> None:
    """As vLLM does."""
    response: dict[str, Any] = {
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
    }
    assert decode(event("response.completed", response=response))[-1] == ResponseFinished(reason="length")
    response = {"status": "failed", "error": {"code": "server_error", "message": "no"}}
    (failed,) = decode(event("response.completed", response=response))
    assert failed == ResponseFailed(message="no", error_type="server_error", is_transient=True)


def test_the_event_counts_where_the_response_was_not_updated() -> None:
    assert decode(event("response.completed", response={"status": "in_progress"})) == [STOP]
    assert decode(event("response.completed")) == [STOP]


def test_the_name_of_the_event_counts_where_its_data_has_no_type() -> None:
    part = b'event: response.completed\ndata: {"response": {"status": "completed"}}\n\n'
    assert decode(part) == [STOP]


def test_what_follows_the_end_is_ignored() -> None:
    assert decode(completed(), text("more"), b"data: [DONE]\n\n") == [STOP]


@pytest.mark.parametrize(
    "parts", [(), (created(),), (text("Hello"),), (done(0, **message("Hello")),), (added(0, **call(1)),)]
)
def test_the_end_of_the_stream_without_a_terminal_event_is_no_success(parts: tuple[bytes, ...]) -> None:
    """Ollama swallows an error in mid-stream, and just stops."""
    with pytest.raises(ModelProtocolError, match="ended before the response was finished") as raised:
        decode(*parts)
    assert raised.value.is_transient


def test_done_without_a_terminal_event_is_no_success() -> None:
    with pytest.raises(ModelProtocolError, match=r"\[DONE\] before the response was finished") as raised:
        decode(text("Hello"), b"data: [DONE]\n\n")
    assert raised.value.is_transient


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (
            {"code": "server_error", "message": "Sorry."},
            ResponseFailed(message="Sorry.", error_type="server_error", is_transient=True),
        ),
        (
            {"code": "rate_limit_exceeded", "message": "Slower."},
            ResponseFailed(message="Slower.", error_type="rate_limit_exceeded", is_transient=True),
        ),
        (
            {"code": "invalid_prompt", "message": "Policy."},
            ResponseFailed(message="Policy.", error_type="invalid_prompt"),
        ),
        (
            None,
            ResponseFailed(
                message="The provider ended the response with the status 'failed'.", is_transient=True
            ),
        ),
    ],
)
def test_a_failed_response_is_a_failure(error: Any, failure: ResponseFailed) -> None:
    assert decode(text("Hel"), ended("failed", error=error, usage=USAGE))[1:] == [SPENT, failure]


def test_a_failed_response_completes_no_call() -> None:
    events = decode(added(0, **call(1, "{}")), ended("failed", error=None, output=[call(1, "{}")]))
    assert calls_in(events) == []


def test_a_cancelled_response_is_not_asked_for_again() -> None:
    (failed,) = decode(ended("cancelled"))
    assert isinstance(failed, ResponseFailed)
    assert not failed.is_transient


@pytest.mark.parametrize(
    ("part", "failure"),
    [
        (
            event("error", code="rate_limit_exceeded", message="Slower.", param=None, sequence_number=3),
            ResponseFailed(message="Slower.", error_type="rate_limit_exceeded", is_transient=True),
        ),
        (
            event("error", code=None, message="No.", param=None, sequence_number=3),
            ResponseFailed(message="No."),
        ),
        (
            event(
                "error", error={"type": "invalid_request_error", "code": "context_length", "message": "No."}
            ),
            ResponseFailed(message="No.", error_type="invalid_request_error"),
        ),
        (
            b'event: error\ndata: {"type":"server_error","message":"No."}\n\n',
            ResponseFailed(message="No.", error_type="server_error", is_transient=True),
        ),
        (
            b'data: {"error":{"code":500,"message":"No.","type":"server_error"}}\n\n',
            ResponseFailed(message="No.", error_type="server_error", is_transient=True),
        ),
        (
            b'error: {"code":400,"message":"No.","type":"invalid_request_error"}\n\n',
            ResponseFailed(message="No.", error_type="invalid_request_error"),
        ),
        (b"event: error\ndata: out of memory\n\n", ResponseFailed(message="out of memory")),
    ],
)
def test_an_error_in_any_form_is_a_failure_and_the_end(part: bytes, failure: ResponseFailed) -> None:
    assert decode(text("Hel"), part, completed()) == [TextDelta(text="Hel"), failure]


def test_a_null_error_is_none() -> None:
    assert decode(event("response.in_progress", error=None), completed(error=None)) == [STOP]


def test_the_message_of_an_error_is_bounded_and_holds_no_key() -> None:
    secret = "sk-proj-" + "a" * 40
    (failed,) = decode(event("error", message=f"bad key {secret} " + "x" * 10_000))
    assert isinstance(failed, ResponseFailed)
    assert secret not in failed.message
    assert "[redacted]" in failed.message
    assert len(failed.message) < 600


def test_unknown_events_and_items_are_ignored_whatever_form_they_have() -> None:
    search = {"type": "a_new_call", "id": "ws_1", "status": "completed", "content": {"not": "a list"}}
    events = decode(
        event("response.something.new", delta={"an": "object"}, output_index="first", item=7),
        event("keepalive", sequence_number="many"),
        b'data: {"no": "type"}\n\n',
        text("", 3),
        added(0, **search),
        event("response.web_search_call.searching", output_index=0, item_id="ws_1"),
        event("response.output_text.annotation.added", output_index=1, annotation={}),
        done(0, **search),
        done(1),
        event("response.output_item.done", output_index=2, item=None),
        text("Found.", 3),
        completed(search, message("Found.")),
    )
    assert events == [TextDelta(text="Found."), STOP]


@pytest.mark.parametrize(
    "data",
    [
        b"<html>",
        b"{",
        b"[]",
        b"1",
        b'"\xff"',
        b"[" * 5_000,
        b'{"type":"response.output_text.delta","delta":{}}',
        b'{"type":"response.output_item.done","item":[]}',
        b'{"type":"response.output_item.done","item":{"type":"message","content":"Hello"}}',
        b'{"type":"response.output_item.done","item":{"type":"function_call","arguments":1}}',
        b'{"type":"response.completed","response":[]}',
        b'{"type":"response.completed","response":{"output":{}}}',
        b'{"type":"response.completed","response":{"output":["\xff"]}}',
        b'{"type":"response.completed","response":{"usage":{"input_tokens":"many"}}}',
    ],
)
def test_what_the_protocol_does_not_know_breaks_it_and_is_quoted_in_bounds(data: bytes) -> None:
    with pytest.raises(ModelProtocolError, match="does not know") as raised:
        decode(b"data: " + data + b"\n\n")
    assert len(raised.value.message) < 1_000


def test_usage_without_details_is_reported() -> None:
    usage = {"input_tokens": 7, "output_tokens": 3, "input_tokens_details": None}
    assert decode(completed(usage=usage)) == [
        UsageReported(usage=Usage(requests=1, input_tokens=7, output_tokens=3)),
        STOP,
    ]


def test_a_whole_answer_gives_the_same_events() -> None:
    output = [reasoning("gAAA", "hm"), message("Hi"), call(1, '{"x": 1}')]
    events = decode_whole(status="completed", output=output, usage=USAGE)
    assert events[0] == ReasoningDelta(text="hm")
    assert events[1] == TextDelta(text="Hi")
    assert [each.id for each in calls_in(events)] == ["call_1"]
    assert events[-2] == SPENT
    assert end_of(events).reason == "tool_calls"
    assert end_of(events).response_id == "resp_1"


def test_a_whole_answer_may_be_cut_off_or_fail() -> None:
    cut_off = decode_whole(
        status="incomplete",
        incomplete_details={"reason": "max_output_tokens"},
        output=[message("Hel", status="incomplete"), call(1, '{"x": ', status="incomplete")],
    )
    assert cut_off == [TextDelta(text="Hel"), ResponseFinished(reason="length")]
    error = {"code": "server_error", "message": "no"}
    assert decode_whole(status="failed", error=error, output=[]) == [
        ResponseFailed(message="no", error_type="server_error", is_transient=True)
    ]


def test_a_whole_answer_may_lack_a_status() -> None:
    assert decode_whole(output=[message("Hi")]) == [TextDelta(text="Hi"), STOP]


def test_a_whole_answer_may_be_a_bare_error() -> None:
    (failed,) = OpenAIResponsesCodec().decode_response(b'{"error":{"message":"no"}}')
    assert failed == ResponseFailed(message="no")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"<html>",
        b'{"ok":true}',
        b'{"status":"in_progress","output":[]}',
        b'{"status":"queued"}',
        b'{"output":[[]]}',
    ],
)
def test_a_whole_answer_that_is_no_finished_response_breaks_the_protocol(body: bytes) -> None:
    with pytest.raises(ModelProtocolError):
        OpenAIResponsesCodec().decode_response(body)


def test_a_long_body_that_is_no_response_is_quoted_in_bounds() -> None:
    body = json.dumps({"html": "x" * 10_000}).encode()
    with pytest.raises(ModelProtocolError, match="no finished response") as raised:
        OpenAIResponsesCodec().decode_response(body)
    assert len(raised.value.message) < 700


def test_an_error_status_is_an_error_with_the_providers_message() -> None:
    body = b'{"error":{"message":"Item rs_1 not found.","type":"invalid_request_error"}}'
    error = status_error(404, {}, body)
    assert error.status == 404
    assert not error.is_transient
    assert "rs_1" in error.message


def test_a_decoder_tells_when_it_gave_the_last_event() -> None:
    decoder = OpenAIResponsesCodec().decoder()
    assert not decoder.is_ended
    decoder.feed(ServerSentEvent(data=b'{"type":"response.completed"}'))
    assert decoder.is_ended
    assert decoder.finish() == []

"""However an Anthropic answer is cut, the same model events come out; and no bytes break the decoder."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from nighthawk_async.errors import ModelProtocolError
from nighthawk_async.types.model import ResponseFailed, ResponseFinished
from nighthawk_async.wire.anthropic.codec import AnthropicCodec
from tests.property.splitting import check_cuts, check_every_cut, check_forms, pieces, places, sizes
from tests.unit.wire.anthropic import (
    PING,
    call_block,
    calls_in,
    content_of,
    decode,
    end,
    event,
    finish_of,
    start,
    text_block,
    text_in,
    thinking_block,
)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
arguments = st.dictionaries(st.text(max_size=4), values, max_size=3).map(json.dumps)
calls = st.lists(arguments, max_size=4)

SMALL = (
    start(input_tokens=1)
    + thinking_block(0, "größe 🙂\u2028")
    + call_block(1, '{"é\\"": ', '"}"}')
    + end("tool_use", output_tokens=2)
)
FAILED = start() + text_block(0, "é") + event("error", error={"type": "overloaded_error", "message": "né"})


def stream_of(text: str, call_list: list[str], lengths: list[int]) -> bytes:
    """A response that thinks, speaks and calls, in pieces of these lengths."""
    blocks = [thinking_block(0, *pieces(text, lengths)), PING, text_block(1, *pieces(text, lengths))]
    blocks += [call_block(number, *pieces(given, lengths)) for number, given in enumerate(call_list, start=2)]
    return b"".join([start(input_tokens=3), *blocks, end("tool_use", output_tokens=5)])


@given(text=st.text(max_size=20), call_list=calls, lengths=sizes, shares=places)
def test_a_response_cut_at_any_bytes_gives_the_same_events(
    text: str, call_list: list[str], lengths: list[int], shares: list[float]
) -> None:
    stream = stream_of(text, call_list, lengths)
    events = decode(stream)
    assert text_in(events) == text
    assert [call.arguments for call in calls_in(events)] == call_list
    check_cuts(decode, stream, shares)


@given(text=st.text(max_size=20), call_list=calls, lengths=sizes)
def test_what_goes_back_holds_exactly_what_was_handed_out(
    text: str, call_list: list[str], lengths: list[int]
) -> None:
    events = decode(stream_of(text, call_list, lengths))
    if not text.strip() and not call_list:
        assert finish_of(events).provider_content is None
        return
    items = content_of(events)
    assert "".join(item["text"] for item in items if item["type"] == "text") == text * bool(text.strip())
    assert [(item["id"], item["input"]) for item in items if item["type"] == "tool_use"] == [
        (call.id, json.loads(call.arguments)) for call in calls_in(events)
    ]


@pytest.mark.parametrize("stream", [SMALL, FAILED])
def test_a_response_cut_at_every_single_byte_gives_the_same_events(stream: bytes) -> None:
    check_every_cut(decode, stream)


@pytest.mark.parametrize("stream", [SMALL, FAILED])
def test_every_form_of_an_event_stream_gives_the_same_events(stream: bytes) -> None:
    check_forms(decode, stream)


@given(call_list=calls, lengths=sizes, share=st.floats(0, 1, exclude_max=True))
def test_a_stream_that_breaks_off_is_no_success(
    call_list: list[str], lengths: list[int], share: float
) -> None:
    stream = stream_of("hm", call_list, lengths).removesuffix(b"\n")
    # Without its last line feeds the last event is whole; so at least its last brace is cut off.
    with pytest.raises(ModelProtocolError):
        decode(stream[: int((len(stream) - 2) * share)])


@given(data=st.binary(max_size=100))
def test_any_bytes_end_in_events_or_in_the_typed_error(data: bytes) -> None:
    try:
        events = decode(start(), b"data: " + data + b"\n\n", text_block(0, "a"), end())
    except ModelProtocolError:
        return
    assert isinstance(events[-1], ResponseFinished | ResponseFailed)


kinds = st.sampled_from(
    [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "error",
        "ping",
    ]
)
forms = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(
            [
                "text",
                "thinking",
                "redacted_thinking",
                "tool_use",
                "server_tool_use",
                "text_delta",
                "thinking_delta",
                "signature_delta",
                "input_json_delta",
                "citations_delta",
            ]
        ),
        "id": st.sampled_from(["a", "b", ""]),
        "name": st.sampled_from(["look", ""]),
        "input": values,
        "text": values,
        "thinking": values,
        "signature": values,
        "citations": values,
        "partial_json": st.sampled_from(["", "{", "}", "[", '{"a":1}', "x"]),
        "stop_reason": st.sampled_from([None, "end_turn", "max_tokens", "tool_use"]),
        "citation": values,
        "usage": values,
        "content": values,
    },
)
fields = st.fixed_dictionaries(
    {},
    optional={
        "index": st.none() | st.integers(0, 2),
        "message": forms,
        "content_block": forms,
        "delta": forms,
        "usage": st.none() | st.dictionaries(st.sampled_from(["input_tokens", "output_tokens"]), values),
    },
)
wild_events: st.SearchStrategy[list[tuple[str, dict[str, Any]]]] = st.lists(
    st.tuples(kinds, fields), max_size=8
)


@given(wild=wild_events)
def test_any_events_in_any_order_end_in_events_or_in_the_typed_error(
    wild: list[tuple[str, dict[str, Any]]],
) -> None:
    parts = [event(kind, **held) for kind, held in wild]
    try:
        events = decode(start(), *parts, end())
    except ModelProtocolError:
        return
    assert isinstance(events[-1], ResponseFinished | ResponseFailed)
    ids = [call.id for call in calls_in(events)]
    assert len(ids) == len(set(ids))


@given(data=st.binary(max_size=60) | forms.map(lambda held: json.dumps(held).encode()))
def test_any_whole_answer_ends_in_events_or_in_the_typed_error(data: bytes) -> None:
    try:
        events = AnthropicCodec().decode_response(data)
    except ModelProtocolError:
        return
    assert isinstance(events[-1], ResponseFinished | ResponseFailed)


def test_a_long_call_in_tiny_pieces_is_put_together() -> None:
    text = json.dumps({"code": "x" * 20_000})
    (call,) = calls_in(decode(start(), call_block(0, *pieces(text, [3])), end("tool_use")))
    assert call.arguments == text

"""However a Responses answer is cut, and however its server streams it, the same model events come out."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from nighthawk_async.errors import ModelProtocolError
from nighthawk_async.types.model import ModelEvent, ResponseFailed, ResponseFinished, ToolCallCompleted
from nighthawk_async.wire.openai_responses.codec import OpenAIResponsesCodec
from tests.property.splitting import check_cuts, check_every_cut, check_forms, pieces, places, sizes
from tests.unit.wire.responses import (
    USAGE,
    added,
    arguments,
    arguments_done,
    call,
    calls_in,
    completed,
    created,
    decode,
    done,
    end_of,
    event,
    message,
    reasoning,
    reasoning_in,
    text,
    text_in,
)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=4), values, max_size=3).map(json.dumps)
call_lists = st.lists(st.tuples(st.sampled_from(["look", "assign"]), objects), max_size=4)
styles = st.sampled_from(["full", "no places", "no ids", "places alone", "forms alone", "end alone"])


def stream_of(said: str, calls: list[tuple[str, str]], lengths: list[int], *, style: str) -> list[bytes]:
    """The events in which a server of that style streams reasoning, a text and calls."""
    output = [reasoning("gAAA", said), message(said)]
    output += [call(number, whole, name=name) for number, (name, whole) in enumerate(calls)]
    stream = [created()]
    for position, item in enumerate(output if style != "end alone" else []):
        index = None if style == "no places" else position
        if style == "no ids":
            item = {name: value for name, value in item.items() if name != "id"}
        if style != "forms alone":
            stream.append(added(index, **_empty(item)))
            stream += _pieces_of(item, index, lengths, names_item=style in ("full", "no places"))
        stream.append(done(index, **item))
    return [*stream, completed(*output, usage=USAGE)]


def _empty(item: dict[str, Any]) -> dict[str, Any]:
    emptied = {"content": [], "summary": [], "arguments": "", "encrypted_content": None}
    return item | {name: value for name, value in emptied.items() if name in item}


def _pieces_of(
    item: dict[str, Any], index: int | None, lengths: list[int], *, names_item: bool
) -> list[bytes]:
    name = {"item_id": item["id"]} if names_item else {}
    match item["type"]:
        case "message":
            return [text(piece, index, **name) for piece in pieces(item["content"][0]["text"], lengths)]
        case "function_call":
            whole = item["arguments"]
            deltas = [arguments(piece, index, **name) for piece in pieces(whole, lengths)]
            return [*deltas, arguments_done(whole, index, **name)]
        case _:
            place = {} if index is None else {"output_index": index}
            kind = "response.reasoning_summary_text.delta"
            summary = pieces(item["summary"][0]["text"], lengths)
            return [event(kind, summary_index=0, delta=piece, **place, **name) for piece in summary]


@given(said=st.text(max_size=20), calls=call_lists, lengths=sizes, style=styles)
def test_every_style_of_streaming_gives_the_same_text_and_calls(
    said: str, calls: list[tuple[str, str]], lengths: list[int], style: str
) -> None:
    events = decode(*stream_of(said, calls, lengths, style=style))
    assert text_in(events) == reasoning_in(events) == said
    assert [(each.name, each.arguments) for each in calls_in(events)] == calls
    assert [each.id for each in calls_in(events)] == [f"call_{number}" for number in range(len(calls))]
    indexes = [each.index for each in events if isinstance(each, ToolCallCompleted)]
    assert indexes == list(range(len(calls)))
    end = end_of(events)
    assert end.reason == ("tool_calls" if calls else "stop")
    kept = [item["type"] for item in end.provider_content.items] if end.provider_content else []
    assert kept == ["reasoning", *(["message"] if said else []), *["function_call"] * len(calls)][: len(kept)]
    assert bool(kept) == bool(said or calls)


@given(said=st.text(max_size=20), calls=call_lists, lengths=sizes, shares=places)
def test_a_response_cut_at_any_bytes_gives_the_same_events(
    said: str, calls: list[tuple[str, str]], lengths: list[int], shares: list[float]
) -> None:
    check_cuts(decode, b"".join(stream_of(said, calls, lengths, style="full")), shares)


ANSWER = [reasoning(), message("größe 🙂\u2028"), call(1, '{"é\\"": "}"}')]
FIXTURE = b"".join(
    [
        done(0, **ANSWER[0]),
        *[text(piece, 1) for piece in pieces("größe 🙂\u2028", [6])],
        added(2, **call(1)),
        arguments('{"é\\"": "}', 2),
        completed(*ANSWER),
    ]
)


def test_the_fixture_holds_what_it_should() -> None:
    events = decode(FIXTURE)
    assert text_in(events) == "größe 🙂\u2028"
    assert [each.arguments for each in calls_in(events)] == ['{"é\\"": "}"}']
    assert end_of(events).provider_content is not None


def test_a_response_cut_at_every_single_byte_gives_the_same_events() -> None:
    check_every_cut(decode, FIXTURE)


def test_every_form_of_an_event_stream_gives_the_same_events() -> None:
    check_forms(decode, FIXTURE)


@given(calls=call_lists, lengths=sizes, style=styles, share=st.floats(0, 1))
def test_a_stream_that_breaks_off_is_no_success_and_completes_no_call_that_is_cut(
    calls: list[tuple[str, str]], lengths: list[int], style: str, share: float
) -> None:
    stream = stream_of("Hi", calls, lengths, style=style)[:-1]
    kept = stream[: int(len(stream) * share)]
    with pytest.raises(ModelProtocolError, match="ended before"):
        decode(*kept)
    events = decode(*kept, event("response.incomplete", response={"status": "incomplete"}))
    assert [(each.name, each.arguments) for each in calls_in(events)] == calls[: len(calls_in(events))]


types = st.sampled_from(
    [
        "response.output_item.added",
        "response.output_item.done",
        "response.output_text.delta",
        "response.output_text.done",
        "response.refusal.done",
        "response.content_part.done",
        "response.reasoning_text.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.completed",
        "response.incomplete",
        "response.failed",
        "error",
        "new",
    ]
)
indexes = st.none() | st.integers(0, 2)
ids = st.none() | st.sampled_from(["a", "b"])
parts = st.lists(
    st.fixed_dictionaries({"type": st.sampled_from(["output_text", "refusal"]), "text": st.text(max_size=2)}),
    max_size=2,
)
items = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "reasoning", "function_call", "other"])},
    optional={
        "id": ids,
        "call_id": ids,
        "name": st.just("look"),
        "arguments": st.sampled_from(['{"x": 1}', "{", ""]),
        "content": parts,
        "summary": parts,
        "status": st.sampled_from(["completed", "incomplete"]),
        "phase": st.just("final"),
    },
)
strange_events = st.fixed_dictionaries(
    {"type": types},
    optional={
        "output_index": indexes,
        "content_index": indexes,
        "item_id": ids,
        "delta": st.sampled_from(['{"x"', ": 1}", "", "text"]),
        "text": st.text(max_size=3),
        "refusal": st.text(max_size=3),
        "arguments": st.sampled_from(['{"x": 1}', "{", ""]),
        "name": st.just("look"),
        "item": items,
        "part": parts.map(lambda some: some[0] if some else {}),
        "response": st.fixed_dictionaries({}, optional={"output": st.lists(items, max_size=3)}),
    },
)


@given(stream=st.lists(strange_events, max_size=10))
def test_events_in_any_order_end_in_sound_events_or_in_the_typed_error(stream: list[dict[str, Any]]) -> None:
    try:
        events = decode(*[event(**each) for each in stream], completed())
    except ModelProtocolError:
        return
    assert isinstance(events[-1], ResponseFinished | ResponseFailed)
    assert not any(isinstance(each, ResponseFinished | ResponseFailed) for each in events[:-1])
    check_calls(events)


def check_calls(events: list[ModelEvent]) -> None:
    """Calls are completed once each, in order, under ids of their own, and kept as they were handed out."""
    completions = [each for each in events if isinstance(each, ToolCallCompleted)]
    assert [each.index for each in completions] == sorted({each.index for each in completions})
    handed_out = [each.call for each in completions]
    assert len({each.id for each in handed_out}) == len(handed_out)
    content = events[-1].provider_content if isinstance(events[-1], ResponseFinished) else None
    if content is not None:
        kept = [each for each in content.items if each["type"] == "function_call"]
        assert {(each["call_id"], each["name"], each["arguments"]) for each in kept} == {
            (each.id, each.name, each.arguments) for each in handed_out
        }
        said = [part for each in content.items if each["type"] == "message" for part in each["content"]]
        kept_text = "".join(part.get("refusal" if part["type"] == "refusal" else "text", "") for part in said)
        assert sorted(kept_text) == sorted(text_in(events))


@given(data=st.binary(max_size=100))
def test_any_bytes_end_in_events_or_in_the_typed_error(data: bytes) -> None:
    try:
        events = decode(b"data: " + data + b"\n\n", text("a"), completed())
    except ModelProtocolError:
        return
    assert "a" in text_in(events) or not isinstance(events[-1], ResponseFinished)


@given(
    body=st.binary(max_size=100) | st.recursive(values, st.lists).map(lambda each: json.dumps(each).encode())
)
def test_any_whole_body_ends_in_events_or_in_the_typed_error(body: bytes) -> None:
    try:
        OpenAIResponsesCodec().decode_response(body)
    except ModelProtocolError:
        return

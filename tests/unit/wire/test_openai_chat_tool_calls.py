"""The ways in which servers stream tool calls, each seen at some server."""

import pytest

from nighthawk_async.errors import ModelProtocolError
from nighthawk_async.types.model import (
    FinishReason,
    ResponseFailed,
    ResponseFinished,
    ToolCallArgumentsDelta,
    ToolCallCompleted,
    ToolCallStarted,
)
from nighthawk_async.wire.openai_chat.codec import OpenAIChatCodec
from nighthawk_async.wire.sse import ServerSentEvent

from .chat import DONE, call_chunk, calls_in, chunk, decode, event, fragment, names_and_arguments

FINISH = chunk({}, "tool_calls")


def test_fragments_are_put_together_by_their_index() -> None:
    events = decode(
        call_chunk(fragment("", name="a", index=0, id="1")),
        call_chunk(fragment('{"x"', index=0)),
        call_chunk(fragment(": 1}", index=0)),
        call_chunk(fragment("", name="b", index=1, id="2")),
        call_chunk(fragment('{"y": 2}', index=1)),
        FINISH,
        DONE,
    )
    assert names_and_arguments(events) == [("a", '{"x": 1}'), ("b", '{"y": 2}')]
    assert [call.id for call in calls_in(events)] == ["1", "2"]


def test_a_call_is_complete_the_moment_its_arguments_are() -> None:
    decoder = OpenAIChatCodec().decoder()
    decoder.feed(as_event(call_chunk(fragment('{"x": "}', name="a", index=0, id="1"))))
    events = decoder.feed(as_event(call_chunk(fragment('"}', index=0))))
    assert [type(event) for event in events] == [ToolCallArgumentsDelta, ToolCallCompleted]


def test_the_events_of_a_call_come_in_order() -> None:
    events = decode(
        call_chunk(fragment('{"x"', name="a", index=0, id="1")),
        call_chunk(fragment(":1}", index=0)),
        FINISH,
        DONE,
    )
    assert events[:3] == [
        ToolCallStarted(index=0, id="1", name="a"),
        ToolCallArgumentsDelta(index=0, fragment='{"x"'),
        ToolCallArgumentsDelta(index=0, fragment=":1}"),
    ]
    assert isinstance(events[3], ToolCallCompleted)
    assert events[4:] == [ResponseFinished(reason="tool_calls")]


def test_arguments_may_begin_in_the_first_fragment() -> None:
    events = decode(
        call_chunk(fragment("{", name="a", index=0, id="1")),
        call_chunk(fragment('"x":1}', index=0)),
        FINISH,
        DONE,
    )
    assert names_and_arguments(events) == [("a", '{"x":1}')]


def test_whole_calls_may_come_in_one_chunk() -> None:
    events = decode(
        call_chunk(
            fragment('{"x":1}', name="a", index=0, id="1"),
            fragment('{"x":2}', name="a", index=1, id="2"),
            finish_reason="tool_calls",
        ),
        DONE,
    )
    assert names_and_arguments(events) == [("a", '{"x":1}'), ("a", '{"x":2}')]


def test_without_an_index_a_new_id_begins_a_call_and_other_fragments_go_to_the_last() -> None:
    events = decode(
        call_chunk(fragment('{"x":', name="a", id="1")),
        call_chunk(fragment("1}")),
        call_chunk(fragment('{"y":', name="a", id="2")),
        call_chunk(fragment("2}")),
        FINISH,
        DONE,
    )
    assert names_and_arguments(events) == [("a", '{"x":1}'), ("a", '{"y":2}')]


def test_without_an_index_a_new_name_begins_a_call() -> None:
    events = decode(
        call_chunk(
            fragment('{"x":1}', name="a"), fragment('{"y":2}', name="b"), fragment('{"z":3}', name="b")
        ),
        FINISH,
        DONE,
    )
    assert names_and_arguments(events) == [("a", '{"x":1}'), ("b", '{"y":2}'), ("b", '{"z":3}')]


def test_without_an_index_fragments_find_their_call_by_its_id() -> None:
    events = decode(
        call_chunk(fragment('{"x":', name="a", id="1")),
        call_chunk(fragment('{"y":', name="b", id="2")),
        call_chunk(fragment("2}", id="2")),
        FINISH,
        DONE,
    )
    assert names_and_arguments(events) == [("a", '{"x":'), ("b", '{"y":2}')]


def test_a_repeated_index_with_a_new_id_begins_a_call() -> None:
    events = decode(
        call_chunk(fragment('{"x":1}', name="a", index=0, id="1")),
        call_chunk(fragment('{"x":2}', name="a", index=0, id="2")),
        call_chunk(fragment('{"x":3}', name="a", index=0, id="3")),
        FINISH,
        DONE,
    )
    assert names_and_arguments(events) == [("a", '{"x":1}'), ("a", '{"x":2}'), ("a", '{"x":3}')]
    assert len({call.id for call in calls_in(events)}) == 3


def test_a_repeated_index_without_ids_begins_a_call_once_the_last_one_is_complete() -> None:
    events = decode(
        call_chunk(fragment('{"x":1}', name="a", index=0)),
        call_chunk(fragment('{"x":2}', name="a", index=0)),
        FINISH,
        DONE,
    )
    assert names_and_arguments(events) == [("a", '{"x":1}'), ("a", '{"x":2}')]


def test_an_id_and_name_repeated_in_every_fragment_stay_one_call() -> None:
    parts = [call_chunk(fragment(text, name="a", index=0, id="1")) for text in ('{"x"', ":", "1", "}", "")]
    assert names_and_arguments(decode(*parts, FINISH, DONE)) == [("a", '{"x":1}')]


def test_an_id_that_comes_late_does_not_begin_a_call() -> None:
    events = decode(
        call_chunk(fragment('{"x"', name="a", index=0)),
        call_chunk(fragment(":1}", index=0, id="late")),
        FINISH,
        DONE,
    )
    assert names_and_arguments(events) == [("a", '{"x":1}')]


@pytest.mark.parametrize("missing", [{}, {"id": None}, {"id": ""}])
def test_missing_ids_are_made_up_and_unique_in_every_conversation(missing: dict[str, None]) -> None:
    part = call_chunk(
        fragment('{"x":1}', name="a", index=0, **missing), fragment("{}", name="a", index=1, **missing)
    )
    ids = [call.id for _ in range(3) for call in calls_in(decode(part, FINISH, DONE))]
    assert all(ids)
    assert len(set(ids)) == 6


def test_an_id_used_twice_in_a_response_is_replaced_the_second_time() -> None:
    events = decode(
        call_chunk(
            fragment('{"x":1}', name="a", index=0, id="1"), fragment('{"x":2}', name="a", index=1, id="1")
        ),
        FINISH,
        DONE,
    )
    first, second = calls_in(events)
    assert first.id == "1"
    assert second.id not in ("", "1")


@pytest.mark.parametrize("arguments", ["", " ", None])
def test_a_call_without_arguments_has_an_empty_object(arguments: str | None) -> None:
    assert names_and_arguments(decode(call_chunk(fragment(arguments, name="a", index=0)), FINISH, DONE)) == [
        ("a", "{}")
    ]


def test_an_empty_object_before_the_real_arguments_is_replaced() -> None:
    events = decode(
        call_chunk(fragment("{}", name="a", index=0, id="1")),
        call_chunk(fragment('{"x"', index=0)),
        call_chunk(fragment(":1}", index=0)),
        FINISH,
        DONE,
    )
    assert names_and_arguments(events) == [("a", '{"x":1}')]
    shown = "".join(event.fragment for event in events if isinstance(event, ToolCallArgumentsDelta))
    assert shown == '{"x":1}'


@pytest.mark.parametrize(
    ("pieces", "arguments"),
    [(["{", "}"], "{}"), (["{", " ", "}", "\n"], "{ }"), (["{", "}", '{"x"', ":1}"], '{"x":1}')],
)
def test_what_is_shown_adds_up_to_the_arguments_though_an_empty_object_comes_in_pieces(
    pieces: list[str], arguments: str
) -> None:
    chunks = [call_chunk(fragment(piece, index=0)) for piece in pieces]
    events = decode(call_chunk(fragment("", name="a", index=0, id="1")), *chunks, FINISH, DONE)
    shown = [event.fragment for event in events if isinstance(event, ToolCallArgumentsDelta)]
    assert names_and_arguments(events) == [("a", arguments)]
    assert "".join(shown) == arguments


def test_an_empty_object_is_complete_when_the_next_call_begins() -> None:
    decoder = OpenAIChatCodec().decoder()
    assert [
        type(event) for event in decoder.feed(as_event(call_chunk(fragment("{ }", name="a", index=0))))
    ] == [ToolCallStarted]
    events = decoder.feed(as_event(call_chunk(fragment("", name="b", index=1))))
    assert [type(event) for event in events] == [ToolCallArgumentsDelta, ToolCallCompleted, ToolCallStarted]


def test_calls_announced_together_may_be_interleaved_and_complete_in_order() -> None:
    events = decode(
        call_chunk(fragment("", name="a", index=0, id="1"), fragment("", name="b", index=1, id="2")),
        call_chunk(fragment('{"y":2}', index=1)),
        call_chunk(fragment('{"x":1}', index=0)),
        FINISH,
        DONE,
    )
    assert names_and_arguments(events) == [("a", '{"x":1}'), ("b", '{"y":2}')]
    assert [event.index for event in events if isinstance(event, ToolCallCompleted)] == [0, 1]


def test_without_an_index_the_last_call_is_complete_when_the_next_begins() -> None:
    decoder = OpenAIChatCodec().decoder()
    decoder.feed(as_event(call_chunk(fragment('{"x":', name="a", id="1"))))
    events = decoder.feed(as_event(call_chunk(fragment("", name="b", id="2"))))
    assert [type(event) for event in events] == [ToolCallCompleted, ToolCallStarted]


def test_text_after_complete_arguments_is_ignored() -> None:
    events = decode(
        call_chunk(fragment('{"x":1}}', name="a", index=0, id="1")),
        call_chunk(fragment(" \n}", index=0)),
        FINISH,
        DONE,
    )
    assert names_and_arguments(events) == [("a", '{"x":1}')]


def test_arguments_that_never_become_json_are_handed_out_at_the_finish() -> None:
    events = decode(call_chunk(fragment("x=1", name="a", index=0, id="1")), FINISH, DONE)
    assert names_and_arguments(events) == [("a", "x=1")]


def test_arguments_may_come_as_an_object() -> None:
    call = {"index": 0, "id": "1", "function": {"name": "a", "arguments": {"x": 1}}}
    assert names_and_arguments(decode(call_chunk(call), FINISH, DONE)) == [("a", '{"x":1}')]


def test_a_name_may_come_after_the_id() -> None:
    events = decode(
        call_chunk(fragment("{", index=0, id="1")),
        call_chunk(fragment('"x":1}', name="a", index=0)),
        FINISH,
        DONE,
    )
    assert events[:2] == [
        ToolCallStarted(index=0, id="1", name="a"),
        ToolCallArgumentsDelta(index=0, fragment='{"x":1}'),
    ]
    assert names_and_arguments(events) == [("a", '{"x":1}')]


def test_a_call_without_a_name_breaks_the_protocol() -> None:
    with pytest.raises(ModelProtocolError, match="without a name"):
        decode(call_chunk(fragment('{"x":1}', index=0, id="1")), FINISH, DONE)


@pytest.mark.parametrize("reason", ["length", "max_tokens", "model_length", "MAX_TOKENS", "content_filter"])
def test_calls_cut_off_are_dropped(reason: str) -> None:
    events = decode(
        call_chunk(fragment('{"x":1}', name="a", index=0, id="1")),
        call_chunk(fragment('{"y":', name="b", index=1, id="2")),
        chunk({}, reason),
        DONE,
    )
    assert names_and_arguments(events) == [("a", '{"x":1}')]
    assert events[-1] == ResponseFinished(reason="content_filter" if reason == "content_filter" else "length")


@pytest.mark.parametrize("arguments", ["", "{}", "{ }"])
def test_a_last_call_without_arguments_may_be_cut_off_and_is_dropped(arguments: str) -> None:
    events = decode(
        call_chunk(fragment("{}", name="a", index=0, id="1")),
        call_chunk(fragment(arguments, name="b", index=1, id="2")),
        chunk({}, "length"),
        DONE,
    )
    assert names_and_arguments(events) == [("a", "{}")]


def test_a_call_in_a_stream_that_breaks_off_is_never_completed() -> None:
    with pytest.raises(ModelProtocolError):
        decode(call_chunk(fragment('{"x":', name="a", index=0, id="1")))


@pytest.mark.parametrize("arguments", ["", "{", "{}", '{"x":'])
def test_after_an_unknown_finish_reason_a_last_call_may_be_cut_off_and_is_dropped(arguments: str) -> None:
    first = fragment('{"x":1}', name="a", index=0, id="1")
    last = fragment(arguments, name="b", index=1, id="2")
    events = decode(call_chunk(first), call_chunk(last), chunk({}, "something_new"), DONE)
    assert names_and_arguments(events) == [("a", '{"x":1}')]
    assert events[-1] == ResponseFinished(reason="tool_calls")
    assert decode(call_chunk(last), chunk({}, "something_new"), DONE)[-1] == ResponseFinished(reason="other")


@pytest.mark.parametrize("arguments", ['{"x":1}', "{}", ""])
def test_calls_after_the_finish_reason_are_not_lost(arguments: str) -> None:
    late = call_chunk(fragment(arguments, name="a", index=0, id="1"))
    for end in ((DONE,), ()):
        events = decode(FINISH, late, *end)
        assert names_and_arguments(events) == [("a", arguments or "{}")]
        assert events[-1] == ResponseFinished(reason="tool_calls")


def test_arguments_after_the_finish_reason_belong_to_their_call() -> None:
    events = decode(
        call_chunk(fragment('{"x"', name="a", index=0, id="1"), finish_reason="tool_calls"),
        call_chunk(fragment(":1}", index=0)),
        DONE,
    )
    assert names_and_arguments(events) == [("a", '{"x":1}')]


@pytest.mark.parametrize(("later", "reason"), [("stop", "length"), ("content_filter", "content_filter")])
def test_a_cut_is_not_undone_by_a_later_finish_reason(later: str, reason: FinishReason) -> None:
    call = call_chunk(fragment("{}", name="a", index=0, id="1"))
    events = decode(call, chunk({}, "length"), chunk({}, later), DONE)
    assert calls_in(events) == []
    assert events[-1] == ResponseFinished(reason=reason)


@pytest.mark.parametrize("later", ["stop", "length"])
def test_an_unknown_finish_reason_gives_way_to_a_cut_alone(later: str) -> None:
    call = call_chunk(fragment("{}", name="a", index=0, id="1"))
    events = decode(call, chunk({}, "something_new"), chunk({}, later), DONE)
    assert events[-1] == ResponseFinished(reason="length" if later == "length" else "other")


def test_a_call_is_not_complete_when_an_error_follows_the_finish_reason() -> None:
    call = call_chunk(fragment("{}", name="a", index=0, id="1"))
    events = decode(call, FINISH, event({"error": {"message": "out of memory"}}), DONE)
    assert calls_in(events) == []
    assert events[-1] == ResponseFailed(message="out of memory")


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "function_call", "STOP", "end_turn", "tool_use"])
def test_the_calls_decide_the_finish_reason(reason: str) -> None:
    events = decode(call_chunk(fragment("{}", name="a", index=0, id="1")), chunk({}, reason), DONE)
    assert names_and_arguments(events) == [("a", "{}")]
    assert events[-1] == ResponseFinished(reason="tool_calls")


def test_the_older_form_of_a_call_is_understood() -> None:
    events = decode(
        chunk({"function_call": {"name": "a", "arguments": ""}}),
        chunk({"function_call": {"arguments": '{"x":1}'}}),
        chunk({}, "function_call"),
        DONE,
    )
    assert names_and_arguments(events) == [("a", '{"x":1}')]


def as_event(part: bytes) -> ServerSentEvent:
    return ServerSentEvent(data=part.removeprefix(b"data: ").strip())

"""When function calls are complete, and when they never are."""

import json
from typing import Any

import pytest

from nighthawk_async.errors import ModelProtocolError
from nighthawk_async.types.messages import ToolCall
from nighthawk_async.types.model import (
    ResponseFinished,
    ToolCallArgumentsDelta,
    ToolCallCompleted,
    ToolCallStarted,
)
from nighthawk_async.wire.openai_responses.codec import OpenAIResponsesCodec
from nighthawk_async.wire.sse import ServerSentEvent

from .responses import (
    added,
    arguments,
    arguments_done,
    arguments_in,
    call,
    calls_in,
    completed,
    created,
    decode,
    decode_whole,
    done,
    end_of,
    event,
    incomplete,
    reasoning_in,
    text_in,
)

FIRST = ToolCall(id="call_1", name="look", arguments='{"x": 1}')
SECOND = ToolCall(id="call_2", name="look", arguments='{"x": 2}')


def test_the_events_of_a_call_come_in_order_and_its_result_goes_by_call_id() -> None:
    whole = call(1, '{"x": 1}')
    events = decode(
        created(),
        added(0, **call(1)),
        arguments('{"x"', item_id="fc_1"),
        arguments(": 1}", item_id="fc_1"),
        arguments_done('{"x": 1}', item_id="fc_1", name="look"),
        done(0, **whole),
        completed(whole),
    )
    assert events == [
        ToolCallStarted(index=0, id="call_1", name="look"),
        ToolCallArgumentsDelta(index=0, fragment='{"x"'),
        ToolCallArgumentsDelta(index=0, fragment=": 1}"),
        ToolCallCompleted(index=0, call=FIRST),
        ResponseFinished(reason="tool_calls"),
    ]


@pytest.mark.parametrize("last", [arguments_done('{"x": 1}', item_id="fc_1"), done(0, **call(1, '{"x": 1}'))])
def test_a_call_is_complete_as_soon_as_it_or_its_arguments_are_said_to_be_done(last: bytes) -> None:
    decoder = OpenAIResponsesCodec().decoder()
    for part in (added(0, **call(1)), arguments('{"x": 1}')):
        assert calls_in(decoder.feed(as_event(part))) == []
    assert calls_in(decoder.feed(as_event(last))) == [FIRST]


def test_calls_that_stream_at_the_same_time_are_told_apart_and_complete_in_order() -> None:
    events = decode(
        added(0, **call(1)),
        added(1, **call(2)),
        arguments('{"x": ', 1),
        arguments('{"x": ', 0),
        arguments("2}", 1),
        arguments("1}", 0),
        done(1, **call(2, '{"x": 2}')),
        done(0, **call(1, '{"x": 1}')),
        completed(),
    )
    assert calls_in(events) == [FIRST, SECOND]
    assert [event.index for event in events if isinstance(event, ToolCallCompleted)] == [0, 1]


def test_ids_decide_where_every_item_has_the_same_place() -> None:
    events = decode(
        added(0, **call(1)),
        added(0, **call(2)),
        arguments('{"x": 2}', 0, item_id="fc_2"),
        arguments('{"x": 1}', 0, item_id="fc_1"),
        done(0, **call(1, '{"x": 1}')),
        done(0, **call(2, '{"x": 2}')),
        completed(),
    )
    assert calls_in(events) == [FIRST, SECOND]


def test_places_decide_where_every_event_has_another_id() -> None:
    events = decode(
        added(0, **call(1)),
        added(1, **call(2)),
        arguments('{"x": 2}', 1, item_id="a"),
        arguments('{"x": 1}', 0, item_id="b"),
        done(0, **call(1, '{"x": 1}') | {"id": "c"}),
        done(1, **call(2, '{"x": 2}') | {"id": "d"}),
        completed(call(1, '{"x": 1}') | {"id": "e"}, call(2, '{"x": 2}') | {"id": "f"}),
    )
    assert calls_in(events) == [FIRST, SECOND]


def test_calls_without_places_and_item_ids_are_told_apart_by_call_id() -> None:
    """As llama.cpp streams them: the deltas name the call by its `call_id`, the forms come at the end."""

    def bare(number: int, text: str = "") -> dict[str, Any]:
        return {"type": "function_call", "call_id": f"fc_{number}", "name": "look", "arguments": text}

    events = decode(
        added(None, **bare(1)),
        arguments('{"x": 1}', None, item_id="fc_1"),
        added(None, **bare(2)),
        arguments('{"x": 2}', None, item_id="fc_2"),
        done(None, **bare(1, '{"x": 1}')),
        done(None, **bare(2, '{"x": 2}')),
        completed(bare(1, '{"x": 1}'), bare(2, '{"x": 2}')),
    )
    assert [(each.id, each.arguments) for each in calls_in(events)] == [
        ("fc_1", '{"x": 1}'),
        ("fc_2", '{"x": 2}'),
    ]


def test_calls_with_the_same_id_are_different_calls_with_different_ids() -> None:
    same = {"type": "function_call", "call_id": "fc_", "name": "look"}
    events = decode(
        added(None, **same, arguments=""),
        arguments('{"x": 1}', None, item_id="fc_"),
        added(None, **same, arguments=""),
        arguments('{"x": 2}', None, item_id="fc_"),
        done(None, **same, arguments='{"x": 1}'),
        done(None, **same, arguments='{"x": 2}'),
        completed({**same, "arguments": '{"x": 1}'}, {**same, "arguments": '{"x": 2}'}),
    )
    first, second = calls_in(events)
    assert (first.arguments, second.arguments) == ('{"x": 1}', '{"x": 2}')
    assert first.id == "fc_"
    assert second.id not in ("", "fc_")


def test_events_without_any_name_of_their_item_speak_of_the_open_one() -> None:
    nameless = {"type": "function_call", "name": "look"}
    events = decode(
        added(None, **nameless),
        arguments('{"x"', None),
        arguments(": 1}", None),
        arguments_done('{"x": 1}', None),
        done(None, **nameless, arguments='{"x": 1}'),
        completed(),
    )
    (only,) = calls_in(events)
    assert (only.name, only.arguments) == ("look", '{"x": 1}')
    assert only.id


def test_events_without_any_name_of_their_item_find_one_of_their_own_kind() -> None:
    said = {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}
    thought = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]}
    called = {"type": "function_call", "name": "look", "arguments": '{"x": 1}'}
    events = decode(
        added(None, type="reasoning"),
        added(None, type="function_call", name="look"),
        added(None, type="message"),
        arguments('{"x": 1}', None),
        event("response.reasoning_text.delta", delta="h"),
        event("response.output_text.delta", delta="H"),
        done(None, **called),
        done(None, **said),
        done(None, **thought),
        completed(),
    )
    assert text_in(events) == "Hi"
    assert reasoning_in(events) == "hm"
    assert [each.arguments for each in calls_in(events)] == ['{"x": 1}']
    content = end_of(events).provider_content
    assert content is not None
    assert [item["type"] for item in content.items] == ["reasoning", "function_call", "message"]


def test_pieces_without_any_name_belong_to_the_last_open_call() -> None:
    nameless = {"type": "function_call", "name": "look"}
    events = decode(
        added(None, **nameless),
        arguments('{"x": 1}', None),
        added(None, **nameless),
        arguments('{"x": 2}', None),
        completed(),
    )
    assert [each.arguments for each in calls_in(events)] == ['{"x": 1}', '{"x": 2}']


def test_the_final_form_of_a_call_is_not_taken_for_that_of_a_call_with_another_id() -> None:
    events = decode(
        added(None, **call(1)), arguments('{"x": 1}', None), done(None, **call(2, '{"x": 2}')), completed()
    )
    assert calls_in(events) == [FIRST, SECOND]


def test_ids_decide_which_call_the_finished_response_lists() -> None:
    events = decode(
        added(0, **call(1)), added(1, **call(2)), completed(call(2, '{"x": 2}'), call(1, '{"x": 1}'))
    )
    assert calls_in(events) == [FIRST, SECOND]


def test_missing_ids_are_made_up_and_unique_in_every_conversation() -> None:
    nameless = {"type": "function_call", "name": "look", "arguments": "{}"}
    ids = [each.id for _ in range(3) for each in calls_in(decode(completed(nameless, nameless)))]
    assert all(ids)
    assert len(set(ids)) == 6


def test_a_call_that_was_never_added_is_named_when_it_is_done() -> None:
    events = decode(arguments('{"x"'), arguments(": 1}"), done(0, **call(1, '{"x": 1}')), completed())
    assert calls_in(events) == [FIRST]
    assert arguments_in(events) == '{"x": 1}'


def test_a_call_may_be_named_where_its_arguments_are_done() -> None:
    (only,) = calls_in(decode(arguments_done('{"x": 1}', name="look"), completed()))
    assert (only.name, only.arguments) == ("look", '{"x": 1}')


def test_the_id_of_its_item_serves_a_call_without_a_call_id() -> None:
    (only,) = calls_in(decode(completed(call(1, "{}") | {"call_id": None})))
    assert only.id == "fc_1"


@pytest.mark.parametrize("in_stream", [True, False])
def test_a_call_that_comes_only_in_its_final_form_is_handed_out_once(in_stream: bool) -> None:
    whole = call(1, '{"x": 1}')
    events = decode(*([done(0, **whole)] if in_stream else []), completed(whole))
    assert calls_in(events) == [FIRST]
    assert arguments_in(events) == '{"x": 1}'
    assert isinstance(events[0], ToolCallStarted)


def test_a_call_listed_under_another_id_in_the_end_is_not_handed_out_twice() -> None:
    whole = call(1, '{"x": 1}')
    events = decode(added(0, **call(1)), done(0, **whole), completed(call(9, '{"x": 1}')))
    assert calls_in(events) == [FIRST]


def test_calls_listed_under_other_ids_and_in_another_order_are_not_handed_out_twice() -> None:
    events = decode(
        added(0, **call(1)),
        arguments_done("{}", 0),
        added(1, **call(2)),
        arguments_done('{"x": 2}', 1),
        completed(call(8, '{"x": 2}'), call(9, "{}")),
    )
    assert [each.arguments for each in calls_in(events)] == ["{}", '{"x": 2}']


def test_another_call_listed_in_the_end_is_another_call() -> None:
    events = decode(done(0, **call(1, '{"x": 1}')), completed(call(2, '{"x": 2}')))
    assert calls_in(events) == [FIRST, SECOND]
    events = decode(added(0, **call(1)), completed(call(2, '{"x": 2}', name="assign")))
    assert [each.name for each in calls_in(events)] == ["assign"]


@pytest.mark.parametrize("repeated", ['{"x": 1}', "", "{", None])
def test_the_final_form_completes_what_its_pieces_lack_and_spoils_nothing(repeated: str | None) -> None:
    events = decode(
        added(0, **call(1)), arguments('{"x": 1}'), done(0, **call(1) | {"arguments": repeated}), completed()
    )
    assert calls_in(events) == [FIRST]


@pytest.mark.parametrize("missed", ["", '{"x"'])
def test_pieces_that_were_missed_are_shown_when_the_final_form_brings_them(missed: str) -> None:
    events = decode(added(0, **call(1)), arguments(missed), done(0, **call(1, '{"x": 1}')), completed())
    assert calls_in(events) == [FIRST]
    assert arguments_in(events) == '{"x": 1}'


def test_arguments_of_the_final_form_win() -> None:
    events = decode(added(0, **call(1)), arguments('{"y": 1}'), done(0, **call(1, '{"x": 1}')), completed())
    assert calls_in(events) == [FIRST]


def test_arguments_may_come_as_an_object() -> None:
    events = decode(done(0, **call(1) | {"arguments": {"x": 1}}), completed())
    assert calls_in(events) == [ToolCall(id="call_1", name="look", arguments='{"x":1}')]


@pytest.mark.parametrize("empty", ["", " ", None])
def test_a_call_without_arguments_has_an_empty_object(empty: str | None) -> None:
    (only,) = calls_in(decode(done(0, **call(1) | {"arguments": empty}), completed()))
    assert only.arguments == "{}"


def test_arguments_that_never_become_json_are_handed_out_when_the_call_is_done() -> None:
    for repeated in ("x=1", ""):
        events = decode(added(0, **call(1)), arguments("x=1"), done(0, **call(1, repeated)), completed())
        assert [each.arguments for each in calls_in(events)] == ["x=1"]


def test_arguments_that_are_done_without_being_closed_wait_for_the_word_on_the_call() -> None:
    begun = (added(0, **call(1)), arguments('{"x": '), arguments_done('{"x": '))
    assert calls_in(decode(*begun, incomplete("max_output_tokens"))) == []
    assert calls_in(decode(*begun, done(0, **call(1, '{"x": ', status="incomplete")), completed())) == []
    assert [each.arguments for each in calls_in(decode(*begun, completed()))] == ['{"x": ']


@pytest.mark.parametrize(
    "rest",
    [
        (),
        (arguments_done('{"x": '),),
        (done(1, **call(2, '{"x": ', status="incomplete")),),
        (arguments_done('{"x": '), done(1, **call(2, '{"x": ', status="incomplete"))),
    ],
)
@pytest.mark.parametrize("reason", ["max_output_tokens", "content_filter"])
def test_a_call_that_was_cut_off_is_never_completed(rest: tuple[bytes, ...], reason: str) -> None:
    events = decode(
        added(0, **call(1)),
        done(0, **call(1, '{"x": 1}')),
        added(1, **call(2)),
        arguments('{"x": ', 1),
        *rest,
        incomplete(reason, call(1, '{"x": 1}'), call(2, '{"x": ', status="incomplete")),
    )
    assert calls_in(events) == [FIRST]
    assert events[-1] == ResponseFinished(reason="length" if reason != "content_filter" else "content_filter")


def test_even_a_closed_call_is_dropped_when_the_response_was_cut_off_before_it_was_done() -> None:
    events = decode(added(0, **call(1)), arguments('{"x": 1}'), incomplete("max_output_tokens"))
    assert calls_in(events) == []
    assert events[-1] == ResponseFinished(reason="length")


@pytest.mark.parametrize("empty", ["{}", " { } "])
def test_an_empty_object_waits_for_the_word_on_the_call(empty: str) -> None:
    begun = (added(0, **call(1)), arguments_done(empty))
    cut = done(0, **call(1, empty, status="incomplete"))
    assert calls_in(decode(*begun, cut, completed())) == []
    assert calls_in(decode(*begun, incomplete("max_output_tokens"))) == []
    for rest in ((done(0, **call(1, empty)), incomplete("max_output_tokens")), (completed(),)):
        assert [each.arguments for each in calls_in(decode(*begun, *rest))] == [empty]


def test_a_call_behind_one_that_was_cut_off_is_handed_out() -> None:
    events = decode(
        added(0, **call(1)), added(1, **call(2)), done(1, **call(2, '{"x": 2}')), incomplete("steered")
    )
    assert calls_in(events) == [SECOND]
    assert events[-1] == ResponseFinished(reason="tool_calls")


def test_a_call_that_was_never_done_is_complete_when_the_response_is_and_it_is_closed() -> None:
    assert calls_in(decode(added(0, **call(1)), arguments('{"x": 1}'), completed())) == [FIRST]
    events = decode(added(0, **call(1)), arguments('{"x": '), completed())
    assert calls_in(events) == []
    assert events[-1] == ResponseFinished(reason="stop")


def test_a_call_in_a_stream_that_breaks_off_is_never_completed() -> None:
    decoder = OpenAIResponsesCodec().decoder()
    events = [each for part in (added(0, **call(1)), arguments('{"x": 1}')) for each in feed(decoder, part)]
    assert calls_in(events) == []
    with pytest.raises(ModelProtocolError):
        decoder.finish()


def test_pieces_after_a_call_is_complete_are_ignored() -> None:
    events = decode(done(0, **call(1, '{"x": 1}')), arguments("}"), arguments_done("{}"), completed())
    assert calls_in(events) == [FIRST]
    assert arguments_in(events) == '{"x": 1}'


def test_a_call_without_a_name_breaks_the_protocol() -> None:
    with pytest.raises(ModelProtocolError, match="without a name"):
        decode(completed({"type": "function_call", "call_id": "c", "arguments": "{}"}))


def test_calls_of_other_kinds_are_not_ours_to_carry_out() -> None:
    foreign = {"type": "mcp_call", "id": "mcp_1", "name": "look", "arguments": "{}"}
    events = decode(
        added(0, **foreign),
        event("response.mcp_call_arguments.delta", output_index=0, delta={"any": "form"}),
        done(0, **foreign),
        completed(foreign),
    )
    assert calls_in(events) == []
    assert isinstance(events[-1], ResponseFinished)
    assert events[-1].reason == "stop"


def test_calls_of_a_whole_answer_are_handed_out_in_order() -> None:
    output = [call(1, '{"x": 1}'), call(2, '{"x": 2}')]
    events = decode_whole(status="completed", output=output)
    assert calls_in(events) == [FIRST, SECOND]
    assert events[-1] == ResponseFinished(reason="tool_calls")


def test_text_beside_calls_stays() -> None:
    events = decode(
        event("response.output_text.delta", output_index=0, delta="Let me see."),
        done(1, **call(1, '{"x": 1}')),
        completed(),
    )
    assert text_in(events) == "Let me see."
    assert calls_in(events) == [FIRST]


def feed(decoder: Any, part: bytes) -> Any:
    return decoder.feed(as_event(part))


def as_event(part: bytes) -> ServerSentEvent:
    data = part.partition(b"data: ")[2].strip()
    return ServerSentEvent(data=data, event=json.loads(data)["type"])

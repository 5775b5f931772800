"""Tool calls out of Anthropic answers, and the content that goes back unchanged."""

import json
from typing import Any

import pytest

from nighthawk_async.errors import ModelProtocolError
from nighthawk_async.types.messages import (
    AssistantMessage,
    ProviderContent,
    ToolResult,
    ToolResultsMessage,
    UserMessage,
)
from nighthawk_async.types.model import (
    ModelEvent,
    ModelRequest,
    ResponseFinished,
    ToolCallArgumentsDelta,
    ToolCallCompleted,
    ToolCallStarted,
)
from nighthawk_async.wire.anthropic.codec import AnthropicCodec

from .anthropic import (
    block,
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


def test_a_call_is_complete_at_the_end_of_its_block() -> None:
    events = decode(start(), call_block(0, '{"a":', "1}"), end("tool_use"))
    assert events[0] == ToolCallStarted(index=0, id="toolu_0", name="look")
    assert events[1:3] == [
        ToolCallArgumentsDelta(index=0, fragment='{"a":'),
        ToolCallArgumentsDelta(index=0, fragment="1}"),
    ]
    assert isinstance(events[3], ToolCallCompleted)
    assert events[4] == ResponseFinished(reason="tool_calls")


def test_a_call_is_handed_out_while_the_response_goes_on() -> None:
    events = decode(start(), call_block(0, "{}"), text_block(1, "more"), end())
    kinds = [type(each).__name__ for each in events]
    assert kinds.index("ToolCallCompleted") < kinds.index("TextDelta")


def test_calls_are_counted_apart_from_other_blocks() -> None:
    events = decode(
        start(), text_block(0, "x"), call_block(1, '{"a":1}'), call_block(2, '{"a":2}'), end("tool_use")
    )
    completed = [each for each in events if isinstance(each, ToolCallCompleted)]
    assert [(each.index, each.call.id, each.call.arguments) for each in completed] == [
        (0, "toolu_1", '{"a":1}'),
        (1, "toolu_2", '{"a":2}'),
    ]


@pytest.mark.parametrize("fragments", [(), ("",), ("", " ")])
def test_empty_arguments_are_an_empty_object(fragments: tuple[str, ...]) -> None:
    (call,) = calls_in(decode(start(), call_block(0, *fragments), end("tool_use")))
    assert call.arguments == "{}"


@pytest.mark.parametrize("given", [None, {}, ""])
def test_a_call_may_begin_without_input(given: Any) -> None:
    form = {"type": "tool_use", "id": "toolu_0", "name": "look"} | ({} if given is None else {"input": given})
    delta = {"type": "input_json_delta", "partial_json": '{"a":1}'}
    (call,) = calls_in(decode(start(), block(0, form, delta), end("tool_use")))
    assert call.arguments == '{"a":1}'


def test_arguments_may_come_whole_with_the_beginning() -> None:
    events = decode(start(), call_block(0, input={"a": [1, "é"]}), end("tool_use"))
    assert events[1] == ToolCallArgumentsDelta(index=0, fragment='{"a":[1,"é"]}')
    assert [call.arguments for call in calls_in(events)] == ['{"a":[1,"é"]}']


def test_arguments_that_follow_replace_those_of_the_beginning() -> None:
    (call,) = calls_in(decode(start(), call_block(0, '{"a":2}', input={"a": 1}), end("tool_use")))
    assert call.arguments == '{"a":2}'


def test_what_follows_the_object_is_no_part_of_the_arguments() -> None:
    (call,) = calls_in(decode(start(), call_block(0, '{"a":1}\n', "{}"), end("tool_use")))
    assert call.arguments == '{"a":1}'


@pytest.mark.parametrize("arguments", [(), ("{}",), ('{"a":1}',)])
@pytest.mark.parametrize("reason", ["max_tokens", "refusal", "stop_sequence", "some_new_reason"])
def test_a_call_whose_block_does_not_end_is_not_complete_where_it_may_be_cut(
    arguments: tuple[str, ...], reason: str
) -> None:
    events = decode(start(), call_block(0, *arguments, stop=False), end(reason))
    assert calls_in(events) == []
    assert finish_of(events).reason in ("length", "content_filter", "stop", "other")


@pytest.mark.parametrize("reason", ["tool_use", "end_turn"])
def test_a_good_end_completes_calls_whose_blocks_do_not_end(reason: str) -> None:
    events = decode(
        start(),
        thinking_block(0, "hm"),
        call_block(1, stop=False),
        call_block(2, '{"a":', "1}", stop=False),
        call_block(3, stop=False, input={"b": 2}),
        end(reason),
    )
    assert [(call.id, call.arguments) for call in calls_in(events)] == [
        ("toolu_1", "{}"),
        ("toolu_2", '{"a":1}'),
        ("toolu_3", '{"b":2}'),
    ]
    assert finish_of(events).reason == "tool_calls"
    assert [each["type"] for each in content_of(events)] == ["thinking", *["tool_use"] * 3]


def test_what_comes_for_a_call_after_the_good_end_of_its_response_is_ignored() -> None:
    late = event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": "{}"})
    stop = event("content_block_stop", index=0)
    good = event("message_delta", delta={"stop_reason": "tool_use"})
    events = decode(start(), call_block(0, '{"a":1}', stop=False), good, late, stop, end("tool_use"))
    assert [call.arguments for call in calls_in(events)] == ['{"a":1}']


@pytest.mark.parametrize("arguments", ['{"a":', '{"a": "b', "[1", "[1]"])
@pytest.mark.parametrize(
    ("reason", "normalized"),
    [
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("stop_sequence", "tool_calls"),
        ("some_new_reason", "tool_calls"),
    ],
)
def test_a_call_that_was_cut_off_is_dropped(arguments: str, reason: str, normalized: str) -> None:
    events = decode(start(), call_block(0, "{}"), call_block(1, arguments), end(reason))
    assert [call.arguments for call in calls_in(events)] == ["{}"]
    assert finish_of(events).reason == normalized


@pytest.mark.parametrize("reason", ["max_tokens", "refusal", "stop_sequence", "some_new_reason"])
@pytest.mark.parametrize("last", [call_block(1), call_block(1, "", " "), call_block(1, input={"a": "half"})])
def test_a_call_that_may_have_been_cut_off_is_dropped(last: bytes, reason: str) -> None:
    events = decode(start(), call_block(0), last, end(reason))
    assert [call.id for call in calls_in(events)] == ["toolu_0"]


def test_a_complete_call_is_kept_although_the_response_was_cut_off() -> None:
    events = decode(start(), call_block(0, '{"a":1}'), end("max_tokens"))
    assert len(calls_in(events)) == 1
    assert finish_of(events).reason == "length"


@pytest.mark.parametrize("arguments", ['{"a":', "nonsense", "[1]"])
def test_malformed_arguments_are_handed_out_once_nothing_was_cut_off(arguments: str) -> None:
    events = decode(start(), call_block(0, arguments), end("tool_use"))
    assert [call.arguments for call in calls_in(events)] == [arguments]
    assert [type(each) for each in events[-2:]] == [ToolCallCompleted, ResponseFinished]


@pytest.mark.parametrize("following", [text_block(1, "x"), call_block(1, '{"b":1}')])
def test_another_block_shows_that_malformed_arguments_were_not_cut_off(following: bytes) -> None:
    events = decode(start(), call_block(0, '{"a":'), following, end("max_tokens"))
    assert calls_in(events)[0].arguments == '{"a":'


def test_a_stream_that_breaks_off_completes_no_malformed_call() -> None:
    stream = start() + call_block(0, '{"a":')
    with pytest.raises(ModelProtocolError):
        decode(stream)


def test_missing_and_repeated_ids_are_made_up() -> None:
    first, second, third, fourth = calls_in(
        decode(
            start(),
            call_block(0, id="same"),
            call_block(1, id="same"),
            call_block(2, id=None),
            call_block(3, id=""),
            end("tool_use"),
        )
    )
    assert first.id == "same"
    assert len({first.id, second.id, third.id, fourth.id}) == 4
    assert all(call.id for call in (second, third, fourth))


@pytest.mark.parametrize("name", [None, "", 1])
def test_a_call_without_a_name_breaks_the_protocol(name: Any) -> None:
    with pytest.raises(ModelProtocolError, match="without a name"):
        decode(start(), call_block(0, name=name))


def test_arguments_of_a_call_that_never_began_break_the_protocol() -> None:
    delta = {"type": "input_json_delta", "partial_json": "{}"}
    with pytest.raises(ModelProtocolError, match="never began"):
        decode(start(), event("content_block_delta", index=3, delta=delta))


def test_deltas_and_ends_without_an_index_belong_to_the_last_block() -> None:
    begin = {"type": "tool_use", "id": "toolu_0", "name": "look", "input": {}}
    events = decode(
        start(),
        event("content_block_start", content_block=begin),
        event("content_block_delta", delta={"type": "input_json_delta", "partial_json": '{"a":1}'}),
        event("content_block_stop"),
        event("content_block_start", content_block={"type": "text", "text": ""}),
        event("content_block_delta", delta={"type": "text_delta", "text": "x"}),
        end("tool_use"),
    )
    assert [call.arguments for call in calls_in(events)] == ['{"a":1}']
    assert text_in(events) == "x"


def test_blocks_that_begin_without_an_index_are_counted() -> None:
    empty = {"type": "text", "text": ""}
    begun = event("content_block_start", content_block=empty)
    call = {"type": "tool_use", "id": "toolu_1", "name": "look"}
    delta = {"type": "input_json_delta", "partial_json": '{"a":1}'}
    events = decode(
        start(),
        begun,
        event("content_block_start", content_block=call),
        event("content_block_delta", index=1, delta=delta),
        event("content_block_stop", index=1),
        end("tool_use"),
    )
    assert [call.arguments for call in calls_in(events)] == ['{"a":1}']


def test_arguments_after_the_end_of_their_block_are_ignored() -> None:
    late = event(
        "content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": '{"a":1}'}
    )
    events = decode(start(), call_block(0), late, end("tool_use"))
    assert [call.arguments for call in calls_in(events)] == ["{}"]
    assert not any(isinstance(each, ToolCallArgumentsDelta) for each in events)


def test_blocks_may_overlap() -> None:
    def delta(index: int, text: str) -> bytes:
        return event(
            "content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": text}
        )

    events = decode(
        start(),
        call_block(0, stop=False),
        call_block(1, stop=False),
        delta(0, '{"a":'),
        delta(1, '{"b":'),
        delta(0, "1}"),
        delta(1, "2}"),
        event("content_block_stop", index=0),
        event("content_block_stop", index=1),
        end("tool_use"),
    )
    assert [(call.id, call.arguments) for call in calls_in(events)] == [
        ("toolu_0", '{"a":1}'),
        ("toolu_1", '{"b":2}'),
    ]


def test_calls_without_arguments_may_overlap() -> None:
    begun = call_block(0, stop=False) + call_block(1, stop=False)
    ends = [event("content_block_stop", index=index) for index in (0, 1)]
    events = decode(start(), begun, *ends, end("tool_use"))
    assert [call.id for call in calls_in(events)] == ["toolu_0", "toolu_1"]


def test_text_and_calls_alone_need_nothing_more_to_go_back() -> None:
    assert finish_of(decode(start(), text_block(0, "x"), call_block(1), end())).provider_content is None


def test_signed_thinking_goes_back_with_all_blocks_in_their_order() -> None:
    redacted = {"type": "redacted_thinking", "data": "secret"}
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"url": "u"}]}
    events = decode(
        start(),
        thinking_block(0, "h", "m", signature="c2ln"),
        block(1, redacted),
        block(2, search, {"type": "input_json_delta", "partial_json": '{"query":"q"}'}),
        block(3, found),
        text_block(4, "a", "b"),
        call_block(5, '{"a":', "1}", caller={"type": "direct"}),
        call_block(6),
        end("tool_use"),
    )
    call = {"type": "tool_use", "name": "look"}
    assert content_of(events) == [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        redacted,
        {**search, "input": {"query": "q"}},
        found,
        {"type": "text", "text": "ab"},
        {**call, "id": "toolu_5", "input": {"a": 1}, "caller": {"type": "direct"}},
        {**call, "id": "toolu_6", "input": {}},
    ]


def test_thinking_whose_text_the_provider_keeps_to_itself_goes_back_by_its_signature() -> None:
    events = decode(start(), thinking_block(0, signature="sig"), call_block(1), end("tool_use"))
    assert content_of(events)[0] == {"type": "thinking", "thinking": "", "signature": "sig"}


def test_citations_go_back_with_their_text() -> None:
    cited = block(
        1,
        {"type": "text", "text": "", "citations": None},
        {"type": "text_delta", "text": "x"},
        {"type": "citations_delta", "citation": {"url": "u"}},
    )
    events = decode(start(), thinking_block(0, "hm"), cited, end())
    assert content_of(events)[1] == {"type": "text", "text": "x", "citations": [{"url": "u"}]}


def test_thinking_without_a_signature_does_not_go_back() -> None:
    events = decode(start(), thinking_block(0, "hm", signature=""), call_block(1), end("tool_use"))
    assert finish_of(events).provider_content is None


def test_unsigned_thinking_is_left_out_beside_signed_thinking() -> None:
    events = decode(
        start(), thinking_block(0, "a", signature=""), thinking_block(1, "b"), text_block(2, "x"), end()
    )
    assert [each["type"] for each in content_of(events)] == ["thinking", "text"]


def test_what_was_cut_off_or_is_empty_does_not_go_back() -> None:
    events = decode(
        start(),
        thinking_block(0, "a"),
        text_block(1, " "),
        call_block(2, '{"a":1}'),
        block(3, {"type": "server_tool_use", "id": "s"}, stop=False),
        call_block(4, '{"a":'),
        end("max_tokens"),
    )
    assert [each.get("id", each["type"]) for each in content_of(events)] == ["thinking", "toolu_2"]
    assert [call.id for call in calls_in(events)] == ["toolu_2"]


def test_text_that_was_cut_off_goes_back_as_it_was_handed_out() -> None:
    cut = block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "half"}, stop=False)
    events = decode(start(), thinking_block(0, "a"), cut, end("max_tokens"))
    assert content_of(events)[1] == {"type": "text", "text": "half"}


@pytest.mark.parametrize("last", [b"", call_block(2, '{"a":')])
def test_thinking_that_nothing_follows_does_not_go_back(last: bytes) -> None:
    events = decode(
        start(), thinking_block(0, "a"), block(1, {"type": "redacted_thinking"}), last, end("max_tokens")
    )
    assert finish_of(events).provider_content is None


@pytest.mark.parametrize("kind", [["thinking"], {}, 3.5, None])
def test_a_block_of_no_type_does_not_go_back(kind: Any) -> None:
    odd = block(1, {"type": kind, "data": "x"})
    events = decode(start(), thinking_block(0, "a"), odd, text_block(2, "x"), end())
    assert [each["type"] for each in content_of(events)] == ["thinking", "text"]
    assert finish_of(decode(start(), thinking_block(0, "a"), odd, end())).provider_content is None


def test_malformed_arguments_go_back_as_an_object_that_shows_them() -> None:
    events = decode(start(), thinking_block(0, "a"), call_block(1, "nonsense"), end("tool_use"))
    assert content_of(events)[1]["input"] == {"malformed_arguments": "nonsense"}


def replayed(events: list[ModelEvent]) -> list[dict[str, Any]]:
    """The messages of the request that follows a response, its calls answered."""
    calls = tuple(calls_in(events))
    results = tuple(ToolResult(call_id=call.id, name=call.name, content=("done",)) for call in calls)
    answer = AssistantMessage(
        text=text_in(events), tool_calls=calls, provider_content=finish_of(events).provider_content
    )
    request = ModelRequest(
        messages=(UserMessage(content=("go",)), answer, ToolResultsMessage(results=results))
    )
    return json.loads(AnthropicCodec().encode(request, model_name="m").body)["messages"]


def test_thinking_and_calls_go_back_unchanged_and_in_order() -> None:
    events = decode(
        start(),
        thinking_block(0, "größe 🙂\u2028", signature="a+/b=="),
        text_block(1, "so"),
        thinking_block(2, signature="x"),
        call_block(3, '{"é": "\\u00e9"}'),
        call_block(4, id=None),
        end("tool_use"),
    )
    _, assistant, results = replayed(events)
    assert assistant == {"role": "assistant", "content": content_of(events)}
    assert [each["tool_use_id"] for each in results["content"]] == [
        each["id"] for each in assistant["content"] if each["type"] == "tool_use"
    ]


def test_ids_that_the_provider_refuses_are_replaced_in_its_own_form_as_well() -> None:
    events = decode(start(), thinking_block(0, "a"), call_block(1, id="call:1"), end("tool_use"))
    _, assistant, results = replayed(events)
    assert assistant["content"][1]["id"] == results["content"][0]["tool_use_id"]
    assert assistant["content"][1]["id"].startswith("call_1_")
    assert isinstance(finish_of(events).provider_content, ProviderContent)

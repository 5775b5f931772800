"""What a server wants back besides text and calls, from the bytes of a response to those of a request."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from nighthawk_async.types.messages import AssistantMessage, ProviderContent, UserMessage
from nighthawk_async.types.model import ModelEvent, ModelRequest, ReasoningDelta, ResponseFinished
from nighthawk_async.wire.openai_chat.codec import OpenAIChatCodec
from tests.property.splitting import check_every_cut, check_forms

from .chat import DONE, call_chunk, calls_in, chunk, decode, fragment, text_in

THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
SIGNED = {"google": {"thought_signature": "c2ln"}}


def as_message(events: list[ModelEvent]) -> AssistantMessage:
    """The response as the conversation keeps it."""
    finished = events[-1]
    assert isinstance(finished, ResponseFinished)
    return AssistantMessage(
        text=text_in(events),
        reasoning="".join(each.text for each in events if isinstance(each, ReasoningDelta)),
        tool_calls=tuple(calls_in(events)),
        provider_content=finished.provider_content,
    )


def sent_back(*messages: AssistantMessage, **settings: Any) -> list[dict[str, Any]]:
    """The assistant messages of the next request."""
    request = ModelRequest(messages=(UserMessage(content=("?",)), *messages), settings=settings)
    body = json.loads(OpenAIChatCodec().encode(request, model_name="m").body)
    return [message for message in body["messages"] if message["role"] == "assistant"]


def details_sent_back(*deltas: list[dict[str, Any]]) -> Any:
    chunks = [chunk({"reasoning_details": delta}) for delta in deltas]
    (message,) = sent_back(as_message(decode(*chunks, chunk({}, "stop"), DONE)))
    return message["reasoning_details"]


def text_detail(text: str | None, **fields: Any) -> dict[str, Any]:
    return {"type": "reasoning.text", "text": text, "index": 0, **fields}


def test_text_reasoning_and_calls_alone_need_no_content_of_the_provider() -> None:
    events = decode(
        chunk({"content": "a", "reasoning_content": "hm"}),
        call_chunk(fragment("{}", name="a", index=0)),
        chunk({}, "stop"),
    )
    assert as_message(events).provider_content is None


def test_a_signature_goes_back_on_its_own_call() -> None:
    events = decode(
        chunk({"content": "So "}),
        call_chunk(fragment('{"x":1}', name="a", index=0, id="1", extra_content=SIGNED)),
        call_chunk(fragment('{"x":2}', name="a", index=1, id="2")),
        chunk({}, "tool_calls"),
        DONE,
    )
    (message,) = sent_back(as_message(events))
    assert message["content"] == "So "
    assert [call["id"] for call in message["tool_calls"]] == ["1", "2"]
    assert [call.get("extra_content") for call in message["tool_calls"]] == [SIGNED, None]
    plain = AssistantMessage(text="So ", tool_calls=as_message(events).tool_calls)
    del message["tool_calls"][0]["extra_content"]
    assert [message] == sent_back(plain)


def test_a_signature_may_come_after_the_arguments_of_its_call() -> None:
    events = decode(
        call_chunk(fragment('{"x":1}', name="a", index=0, id="1")),
        call_chunk({"index": 0, "extra_content": SIGNED}),
        chunk({}, "tool_calls"),
        DONE,
    )
    (message,) = sent_back(as_message(events))
    assert message["tool_calls"][0]["extra_content"] == SIGNED


def test_a_signature_on_the_message_goes_back_on_the_message() -> None:
    events = decode(chunk({"content": "a", "extra_content": SIGNED}), chunk({"content": "b"}, "stop"), DONE)
    assert sent_back(as_message(events)) == [{"role": "assistant", "content": "ab", "extra_content": SIGNED}]


def test_a_call_that_was_cut_off_does_not_go_back() -> None:
    events = decode(
        call_chunk(fragment('{"x":1}', name="a", index=0, id="1", extra_content=SIGNED)),
        call_chunk(fragment('{"x":', name="a", index=1, id="2", extra_content=SIGNED)),
        chunk({}, "length"),
        DONE,
    )
    message = as_message(events)
    (encoded,) = sent_back(message)
    assert [call["id"] for call in encoded["tool_calls"]] == [call.id for call in message.tool_calls] == ["1"]


def test_a_made_up_id_goes_back_as_it_was_handed_out() -> None:
    events = decode(
        call_chunk(fragment("{}", name="a", index=0, extra_content=SIGNED)), chunk({}, "stop"), DONE
    )
    (encoded,) = sent_back(as_message(events))
    assert encoded["tool_calls"][0]["id"] == calls_in(events)[0].id


def test_malformed_arguments_go_back_as_valid_json() -> None:
    events = decode(
        call_chunk(fragment("x=1", name="a", index=0, id="1", extra_content=SIGNED)), chunk({}, "stop"), DONE
    )
    (encoded,) = sent_back(as_message(events))
    assert json.loads(encoded["tool_calls"][0]["function"]["arguments"]) == {"malformed_arguments": "x=1"}


def test_pieces_of_reasoning_text_go_back_as_one_signed_entry() -> None:
    assert details_sent_back(
        [text_detail("Let ", format="anthropic-claude-v1", signature=None)],
        [text_detail("me see")],
        [text_detail(None, signature="sig")],
    ) == [text_detail("Let me see", format="anthropic-claude-v1", signature="sig")]


def test_an_entry_may_begin_without_a_text() -> None:
    assert details_sent_back([{"type": "reasoning.text"}], [text_detail("a")]) == [text_detail("a")]


def test_pieces_of_a_summary_go_back_as_one_entry_beside_what_is_encrypted() -> None:
    encrypted = {"type": "reasoning.encrypted", "data": "AAA", "id": "rs_1", "index": 0}
    pieces = [[{"type": "reasoning.summary", "summary": piece, "index": 0}] for piece in ("**Lo", "ok**")]
    assert details_sent_back(*pieces, [encrypted]) == [
        {"type": "reasoning.summary", "summary": "**Look**", "index": 0},
        encrypted,
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (text_detail("a", signature="s"), text_detail("b")),
        (text_detail("a", id="1"), text_detail("b", id="2")),
        (text_detail("a", index=0), text_detail("b", index=1)),
        ({"type": "reasoning.encrypted", "data": "a"}, {"type": "reasoning.encrypted", "data": "b"}),
        ({"type": "reasoning.new"}, {"type": "reasoning.new"}),
        ({"data": "no type"}, {"data": "no type"}),
    ],
)
def test_entries_that_are_not_pieces_of_one_go_back_apart(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    assert details_sent_back([first], [second]) == [first, second]


def test_entries_of_a_whole_answer_go_back_unchanged() -> None:
    details = [text_detail("a"), text_detail("b"), {"type": "reasoning.encrypted", "data": "x"}]
    choice = {"message": {"content": "Hi", "reasoning_details": details}, "finish_reason": "stop"}
    events = OpenAIChatCodec().decode_response(json.dumps({"choices": [choice]}).encode())
    (message,) = sent_back(as_message(events))
    assert message == {"role": "assistant", "content": "Hi", "reasoning_details": details}


@pytest.mark.parametrize("odd", ["text", 1, {"type": "reasoning.text"}, [], [1, None, "x", {}]])
def test_odd_details_and_extras_are_ignored(odd: object) -> None:
    events = decode(
        chunk({"content": "a", "reasoning_details": odd, "extra_content": [odd]}),
        call_chunk(fragment("{}", name="a", index=0, extra_content=[odd])),
        chunk({}, "stop"),
    )
    assert as_message(events).provider_content is None


def test_a_detail_whose_text_is_no_text_goes_back_as_it_came() -> None:
    odd = {"type": "reasoning.text", "text": 3.5, "index": 0}
    assert details_sent_back([odd], [text_detail("a")], [odd]) == [odd, text_detail("a"), odd]


@given(text=st.text(max_size=40), cuts=st.lists(st.integers(0, 40), max_size=6))
def test_however_reasoning_is_streamed_the_same_goes_back(text: str, cuts: list[int]) -> None:
    bounds = [0, *sorted(cuts), 40]
    pieces = [text[start:end] for start, end in pairwise(bounds)]
    assert details_sent_back(*[[text_detail(piece)] for piece in pieces]) == [text_detail(text)]


def test_wherever_the_bytes_are_cut_the_same_goes_back() -> None:
    details = [
        text_detail("é"),
        text_detail("🙂", signature="s"),
        {"type": "reasoning.encrypted", "data": "x"},
    ]
    chunks = [chunk({"reasoning": "é", "reasoning_details": [detail]}) for detail in details]
    call = call_chunk(fragment('{"x":1}', name="a", index=0, id="1", extra_content=SIGNED))
    stream = b"".join([*chunks, call, chunk({}, "tool_calls"), DONE])
    assert as_message(decode(stream)).provider_content is not None
    check_every_cut(decode, stream)
    check_forms(decode, stream)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_goes_back_in_its_field_when_the_setting_says_so(field: str) -> None:
    events = decode(
        chunk({field: "let me "}),
        chunk({field: "see"}),
        call_chunk(fragment("{}", name="a", index=0)),
        chunk({}, "tool_calls"),
    )
    message = as_message(events)
    (encoded,) = sent_back(message, replay_reasoning=True)
    assert encoded[field] == "let me see"
    assert {"reasoning_content", "reasoning"} & encoded.keys() == {field}


@pytest.mark.parametrize("setting", [{}, {"replay_reasoning": False}, {"replay_reasoning": None}])
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_stays_here_without_the_setting(field: str, setting: dict[str, Any]) -> None:
    message = as_message(decode(chunk({field: "hm"}), chunk({"content": "Hi"}, "stop"), DONE))
    assert sent_back(message, **setting) == [{"role": "assistant", "content": "Hi"}]


def test_a_message_without_reasoning_gets_no_field_for_it() -> None:
    """Groq and Mistral refuse the field, even an empty one."""
    thought = as_message(decode(chunk({"reasoning_content": "hm", "content": "a"}, "stop")))
    silent = as_message(decode(chunk({"content": "b"}, "stop")))
    encoded = sent_back(silent, thought, replay_reasoning=True)
    assert [message.get("reasoning_content") for message in encoded] == [None, "hm"]


@pytest.mark.parametrize(
    "delta", [{"reasoning": "hm"}, {"content": [{"type": "thinking", "thinking": "hm"}]}]
)
def test_how_a_message_goes_back_does_not_depend_on_those_after_it(delta: dict[str, Any]) -> None:
    silent = as_message(decode(chunk({"content": "b"}, "stop")))
    later = as_message(decode(chunk(delta, "stop")))
    alone = sent_back(silent, replay_reasoning=True)
    assert sent_back(silent, later, replay_reasoning=True)[:1] == alone


def test_thinking_among_the_content_goes_back_there_when_the_setting_says_so() -> None:
    call = call_chunk(fragment('{"x":1}', name="a", index=0, id="1"))
    message = as_message(
        decode(chunk({"content": [THINKING]}), chunk({"content": "So"}), call, chunk({}, "stop"))
    )
    (replayed,), (plain,) = sent_back(message, replay_reasoning=True), sent_back(message)
    assert replayed == {**plain, "content": [THINKING, {"type": "text", "text": "So"}]}
    assert plain["content"] == "So"
    silent = as_message(decode(chunk({"content": [THINKING]}), call, chunk({}, "stop")))
    (replayed,), (plain,) = sent_back(silent, replay_reasoning=True), sent_back(silent)
    assert (replayed["content"], plain["content"]) == ([THINKING], None)


def test_details_go_back_with_or_without_the_setting() -> None:
    events = decode(chunk({"reasoning": "hm", "reasoning_details": [text_detail("hm")]}), chunk({}, "stop"))
    message = as_message(events)
    for replay in (True, False):
        (encoded,) = sent_back(message, replay_reasoning=replay)
        assert encoded["reasoning_details"] == [text_detail("hm")]
        assert encoded.get("reasoning") == ("hm" if replay else None)


def test_content_of_another_protocol_is_ignored() -> None:
    foreign = ProviderContent(protocol="anthropic", items=({"type": "thinking"},))
    message = AssistantMessage(text="a", reasoning="hm", provider_content=foreign)
    assert sent_back(message) == [{"role": "assistant", "content": "a"}]


def test_the_setting_itself_is_not_sent() -> None:
    request = ModelRequest(messages=(UserMessage(content=("?",)),), settings={"replay_reasoning": True})
    assert b"replay_reasoning" not in OpenAIChatCodec().encode(request, model_name="m").body


def test_content_that_a_program_wrote_goes_back_as_it_is() -> None:
    own = ProviderContent(protocol="openai-chat", items=({"role": "assistant", "audio": {"id": "a1"}},))
    assert sent_back(AssistantMessage(provider_content=own)) == [{"role": "assistant", "audio": {"id": "a1"}}]

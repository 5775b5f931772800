"""Whatever a server makes of a response, it ends once, in events or the typed error, and can be answered."""

import json
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from nighthawk_async.agent.provider_calls import native_calls_in
from nighthawk_async.errors import ModelProtocolError
from nighthawk_async.recording.exchange import RecordedExchange, record_events, replay_events
from nighthawk_async.types.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolResult,
    ToolResultsMessage,
    UserMessage,
)
from nighthawk_async.types.model import (
    ModelCapabilities,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    ResponseFailed,
    ResponseFinished,
    TextDelta,
    ToolCallCompleted,
    ToolCallStarted,
)
from nighthawk_async.types.native_tools import NativeCallFinished, NativeCallStarted
from nighthawk_async.wire.sse import ServerSentEvent
from tests.property.good_responses import GOOD_RESPONSES, GoodResponse
from tests.property.mutations import every_single_change, mutated

CAPABILITIES = ModelCapabilities(reasoning=True, prompt_caching=True, structured_output=True)

protocols = pytest.mark.parametrize("protocol", GOOD_RESPONSES)


OF_EVERY_CHANGE = 5
"""One in so many changes is tried, unless all cases are asked for; the next value has other replacements."""


def changes_of(document: Any, all_cases: bool) -> Iterator[Any]:
    return islice(every_single_change(document), 0, None, 1 if all_cases else OF_EVERY_CHANGE)


def decoded(good: GoodResponse, stream: list[Any]) -> list[ModelEvent] | None:
    """The events of a streamed response; None when it ends in the typed error."""
    decoder = good.codec.decoder()
    payloads = [ServerSentEvent(data=json.dumps(each).encode()) for each in [*stream, "more"]]
    events: list[ModelEvent] = []
    try:
        for payload in payloads[:-1]:
            events += decoder.feed(payload)
        events += decoder.finish()
    except ModelProtocolError:
        assert not any(isinstance(each, ResponseFinished | ResponseFailed) for each in events)
        return None
    assert decoder.is_ended
    assert [*decoder.feed(payloads[-1]), *decoder.finish()] == []
    return events


def whole_events(good: GoodResponse, whole: Any) -> list[ModelEvent] | None:
    """The events of an answer in one document; None when it ends in the typed error."""
    try:
        return good.codec.decode_response(json.dumps(whole).encode())
    except ModelProtocolError:
        return None


def calls_in(events: list[ModelEvent]) -> tuple[ToolCall, ...]:
    return tuple(each.call for each in events if isinstance(each, ToolCallCompleted))


def check_events(events: list[ModelEvent]) -> None:
    """One end, the last event; and every call is begun before it is complete, under an id of its own."""
    ends = [isinstance(each, ResponseFinished | ResponseFailed) for each in events]
    assert ends.count(True) == 1
    assert ends[-1]
    begun: dict[int, tuple[str, str]] = {}
    for each in events:
        if isinstance(each, ToolCallStarted):
            assert each.index not in begun
            begun[each.index] = (each.id, each.name)
        elif isinstance(each, ToolCallCompleted):
            assert begun[each.index] == (each.call.id, each.call.name)
        elif isinstance(each, NativeCallStarted | NativeCallFinished):
            assert all(isinstance(getattr(each, name), str) for name in ("id", "name", "arguments"))
    ids = [id for id, _ in begun.values()]
    assert len(ids) == len(set(ids))
    assert all(ids)


def answered(events: list[ModelEvent]) -> tuple[Message, ...]:
    """A conversation in which the response was given, and its calls were carried out."""
    finished = events[-1]
    assert isinstance(finished, ResponseFinished)
    calls = calls_in(events)
    assistant = AssistantMessage(
        text="".join(each.text for each in events if isinstance(each, TextDelta)),
        reasoning="".join(each.text for each in events if isinstance(each, ReasoningDelta)),
        tool_calls=calls,
        provider_content=finished.provider_content,
    )
    assert all(isinstance(each, NativeCallFinished) for each in native_calls_in(assistant))
    results = [ToolResult(call_id=call.id, name=call.name, content=("done",)) for call in calls]
    answer = ToolResultsMessage(results=tuple(results)) if calls else UserMessage(content=("go on",))
    return (UserMessage(content=("begin",)), assistant, answer)


def calls_and_results(protocol: str, body: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """What ties the calls in a request to their results, and the results to their calls."""
    match protocol:
        case "openai-chat":
            calls = [call["id"] for each in body["messages"] for call in each.get("tool_calls", ())]
            return calls, [each["tool_call_id"] for each in body["messages"] if each["role"] == "tool"]
        case "openai-responses":
            calls = [each["call_id"] for each in body["input"] if each.get("type") == "function_call"]
            kind = "function_call_output"
            return calls, [each["call_id"] for each in body["input"] if each.get("type") == kind]
        case "anthropic":
            blocks = [block for each in body["messages"] for block in each["content"]]
            calls = [block["id"] for block in blocks if block.get("type") == "tool_use"]
            return calls, [block["tool_use_id"] for block in blocks if block.get("type") == "tool_result"]
        case _:
            parts = [part for each in body["contents"] for part in each["parts"]]
            calls, results = (
                [(part[kind].get("id"), part[kind]["name"]) for part in parts if part.get(kind) is not None]
                for kind in ("functionCall", "functionResponse")
            )
            return calls, results


def check_answers(good: GoodResponse, events: list[ModelEvent]) -> None:
    """Every protocol can go on with the conversation, and ties one result to each call."""
    messages = answered(events)
    for protocol, other in GOOD_RESPONSES.items():
        of_same = good.request_settings if other is good else {}
        request = ModelRequest(messages=messages, settings=of_same)
        body = json.loads(other.codec.encode(request, model_name="m", capabilities=CAPABILITIES).body)
        calls, results = calls_and_results(protocol, body)
        assert Counter(calls) == Counter(results), protocol
        assert len(calls) == len(calls_in(events)), protocol


def check(good: GoodResponse, events: list[ModelEvent] | None) -> None:
    if events is None:
        return
    check_events(events)
    recorded = RecordedExchange(step=(), model="m", digest="d", request={}, **record_events(events))
    written = msgspec.json.decode(msgspec.json.encode(recorded), type=RecordedExchange)
    assert record_events(replay_events(written)) == record_events(events)
    if isinstance(events[-1], ResponseFinished):
        check_answers(good, events)


@protocols
def test_the_good_responses_are_good(protocol: str) -> None:
    good = GOOD_RESPONSES[protocol]
    for events in (decoded(good, good.stream), good.codec.decode_response(json.dumps(good.whole).encode())):
        assert events is not None
        assert [(call.name, json.loads(call.arguments)) for call in calls_in(events)] == [
            ("look", {"a": 1}),
            ("end", {}),
        ]
        check(good, events)
        assert isinstance(events[-1], ResponseFinished)
        assert events[-1].provider_content is not None


@protocols
def test_a_stream_with_one_value_changed_ends_once_and_can_be_answered(
    protocol: str, all_cases: bool
) -> None:
    good = GOOD_RESPONSES[protocol]
    for stream in changes_of(good.stream, all_cases):
        check(good, decoded(good, stream))


@protocols
@given(data=st.data())
def test_a_stream_with_several_changes_ends_once_and_can_be_answered(
    protocol: str, data: st.DataObject
) -> None:
    good = GOOD_RESPONSES[protocol]
    check(good, decoded(good, data.draw(mutated(good.stream))))


@protocols
def test_a_whole_answer_with_one_value_changed_ends_once_and_can_be_answered(
    protocol: str, all_cases: bool
) -> None:
    good = GOOD_RESPONSES[protocol]
    for whole in changes_of(good.whole, all_cases):
        check(good, whole_events(good, whole))


@protocols
@given(data=st.data())
def test_a_whole_answer_with_several_changes_ends_once_and_can_be_answered(
    protocol: str, data: st.DataObject
) -> None:
    good = GOOD_RESPONSES[protocol]
    check(good, whole_events(good, data.draw(mutated(good.whole))))

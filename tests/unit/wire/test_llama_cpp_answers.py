"""What llama.cpp (build 11549) answered in three protocols, byte for byte, decoded without it.

The model called a tool, once to the end, and once until `max_tokens` cut the call off after two characters of
its arguments. `tests/faults/test_llama_cpp_protocols.py` asks the server itself.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from nighthawk_async.types.messages import ToolCall
from nighthawk_async.types.model import FinishReason, ModelEvent, ResponseFinished, ToolCallCompleted
from nighthawk_async.wire.anthropic.codec import AnthropicCodec
from nighthawk_async.wire.codec import Codec
from nighthawk_async.wire.openai_chat.codec import OpenAIChatCodec
from nighthawk_async.wire.openai_responses.codec import OpenAIResponsesCodec
from tests.property.splitting import check_every_cut, check_forms, decode_with

ANSWERS = Path(__file__).with_name("llama_cpp")
CODECS: Mapping[str, Callable[[], Codec]] = {
    "openai-chat": OpenAIChatCodec,
    "openai-responses": OpenAIResponsesCodec,
    "anthropic": AnthropicCodec,
}
each_answer = pytest.mark.parametrize("form", ["sse", "json"])
each_protocol = pytest.mark.parametrize("protocol", list(CODECS))


def decode(protocol: str, name: str, form: str) -> list[ModelEvent]:
    content = (ANSWERS / f"{protocol}_{name}.{form}").read_bytes()
    codec = CODECS[protocol]()
    return decode_with(codec, content) if form == "sse" else codec.decode_response(content)


def calls(events: list[ModelEvent]) -> list[ToolCall]:
    return [event.call for event in events if isinstance(event, ToolCallCompleted)]


def reason(events: list[ModelEvent]) -> FinishReason:
    assert isinstance(events[-1], ResponseFinished)
    return events[-1].reason


@each_protocol
@each_answer
def test_a_call_comes_whole(protocol: str, form: str) -> None:
    events = decode(protocol, "call", form)
    (call,) = calls(events)
    assert call.name == "look"
    assert call.arguments.replace(" ", "") == '{"at":"Paris"}'
    assert call.id
    assert reason(events) == "tool_calls"


@pytest.mark.parametrize("protocol", ["openai-chat", "anthropic"])
@each_answer
def test_a_call_that_is_cut_off_is_dropped(protocol: str, form: str) -> None:
    """Not streamed, half an object has no form in Anthropic Messages, and the server writes an empty one."""
    events = decode(protocol, "cut_call", form)
    assert calls(events) == []
    assert reason(events) == "length"


@each_answer
def test_a_call_that_is_cut_off_and_called_complete_keeps_its_torn_arguments(form: str) -> None:
    """In Responses the server says `completed` whatever happened; nothing tells that the call was cut off."""
    events = decode("openai-responses", "cut_call", form)
    assert [call.arguments for call in calls(events)] == ['{"']


@each_protocol
@pytest.mark.parametrize("name", ["call", "cut_call"])
def test_a_stream_gives_the_same_events_in_every_form(protocol: str, name: str) -> None:
    stream = (ANSWERS / f"{protocol}_{name}.sse").read_bytes()
    check_forms(partial(decode_with, CODECS[protocol]()), stream)


@each_protocol
def test_a_stream_gives_the_same_events_wherever_it_is_cut(protocol: str) -> None:
    stream = (ANSWERS / f"{protocol}_cut_call.sse").read_bytes()
    check_every_cut(partial(decode_with, CODECS[protocol]()), stream)

"""Builds Chat Completions bytes, and reads events out of them."""

import json
from typing import Any

from nighthawk_async.types.messages import ToolCall
from nighthawk_async.types.model import ModelEvent, TextDelta, ToolCallCompleted
from nighthawk_async.wire.openai_chat.codec import OpenAIChatCodec
from nighthawk_async.wire.sse import ServerSentEventDecoder

DONE = b"data: [DONE]\n\n"


def event(value: object) -> bytes:
    """A value as one event."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def chunk(delta: dict[str, Any] | None = None, finish_reason: str | None = None, **fields: Any) -> bytes:
    """A chunk with one choice."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return event({"id": "x", "object": "chat.completion.chunk", "choices": [choice], **fields})


def call_chunk(*calls: dict[str, Any], finish_reason: str | None = None) -> bytes:
    """A chunk with fragments of tool calls."""
    return chunk({"tool_calls": list(calls)}, finish_reason)


def fragment(arguments: str | None = None, *, name: str | None = None, **fields: Any) -> dict[str, Any]:
    """A fragment of a tool call; `index` and `id` are left out unless given."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**fields, "function": function}


def decode(*parts: bytes) -> list[ModelEvent]:
    """All events of a streamed response."""
    lines = ServerSentEventDecoder()
    decoder = OpenAIChatCodec().decoder()
    events: list[ModelEvent] = []
    for part in parts:
        for line_event in lines.feed(part):
            events += decoder.feed(line_event)
    for line_event in lines.finish():
        events += decoder.feed(line_event)
    return events + decoder.finish()


def calls_in(events: list[ModelEvent]) -> list[ToolCall]:
    """The completed calls."""
    return [each.call for each in events if isinstance(each, ToolCallCompleted)]


def names_and_arguments(events: list[ModelEvent]) -> list[tuple[str, str]]:
    """The completed calls without their ids."""
    return [(call.name, call.arguments) for call in calls_in(events)]


def text_in(events: list[ModelEvent]) -> str:
    """The visible text."""
    return "".join(each.text for each in events if isinstance(each, TextDelta))

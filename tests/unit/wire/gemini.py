"""Builds Gemini bytes, and reads events out of them."""

import json
from typing import Any

from nighthawk_async.types.messages import AssistantMessage, ToolCall
from nighthawk_async.types.model import (
    ModelEvent,
    ReasoningDelta,
    ResponseFinished,
    TextDelta,
    ToolCallCompleted,
)
from nighthawk_async.wire.google.codec import GoogleCodec
from nighthawk_async.wire.sse import ServerSentEventDecoder


def event(value: object) -> bytes:
    """A value as one event."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def answer(
    *parts: object, finish: str | None = None, message: str | None = None, **fields: Any
) -> dict[str, Any]:
    """What a chunk holds: parts of one candidate."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    if finish is not None:
        candidate["finishReason"] = finish
    if message is not None:
        candidate["finishMessage"] = message
    return {"candidates": [candidate], **fields}


def chunk(*parts: object, finish: str | None = None, message: str | None = None, **fields: Any) -> bytes:
    """A chunk with parts of one candidate."""
    return event(answer(*parts, finish=finish, message=message, **fields))


def call_part(name: str, args: object = None, *, id: str | None = None, **fields: Any) -> dict[str, Any]:
    """A part with a function call; the id and the arguments are left out unless given."""
    named = {"name": name, "args": args, "id": id}
    return {"functionCall": {key: value for key, value in named.items() if value is not None}, **fields}


def decode(*parts: bytes) -> list[ModelEvent]:
    """All events of a streamed response."""
    lines = ServerSentEventDecoder()
    decoder = GoogleCodec().decoder()
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


def finished(events: list[ModelEvent]) -> ResponseFinished:
    """The last event of a good response."""
    last = events[-1]
    assert isinstance(last, ResponseFinished)
    return last


def message_of(events: list[ModelEvent]) -> AssistantMessage:
    """The message that a response adds to the conversation."""
    return AssistantMessage(
        text=text_in(events),
        reasoning="".join(each.text for each in events if isinstance(each, ReasoningDelta)),
        tool_calls=tuple(calls_in(events)),
        provider_content=finished(events).provider_content,
    )

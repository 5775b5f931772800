"""Builds Responses bytes, and reads events out of them."""

import json
from typing import Any

from nighthawk_async.types.messages import ToolCall
from nighthawk_async.types.model import (
    ModelEvent,
    ReasoningDelta,
    ResponseFinished,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallCompleted,
)
from nighthawk_async.wire.openai_responses.codec import OpenAIResponsesCodec
from nighthawk_async.wire.sse import ServerSentEventDecoder

USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 120,
}


def event(type: str, **fields: Any) -> bytes:
    """One event, named as OpenAI names it: before its data and in it."""
    data = json.dumps({"type": type, **fields}).encode()
    return b"event: " + type.encode() + b"\ndata: " + data + b"\n\n"


def created() -> bytes:
    """The first event of every stream."""
    return event("response.created", response={"id": "resp_1", "status": "in_progress", "output": []})


def added(index: int | None, **item: Any) -> bytes:
    """An item begins."""
    return event("response.output_item.added", **at(index), item=item)


def done(index: int | None, **item: Any) -> bytes:
    """An item is done."""
    return event("response.output_item.done", **at(index), item=item)


def text(delta: str, index: int | None = 0, **fields: Any) -> bytes:
    """More visible text."""
    return event("response.output_text.delta", **at(index), content_index=0, delta=delta, **fields)


def arguments(delta: str, index: int | None = 0, **fields: Any) -> bytes:
    """More arguments of a call."""
    return event("response.function_call_arguments.delta", **at(index), delta=delta, **fields)


def arguments_done(whole: str, index: int | None = 0, **fields: Any) -> bytes:
    """All arguments of a call."""
    return event("response.function_call_arguments.done", **at(index), arguments=whole, **fields)


def completed(*output: dict[str, Any], **fields: Any) -> bytes:
    """The end of a good stream."""
    return ended("completed", output=list(output), **fields)


def ended(status: str, **fields: Any) -> bytes:
    """The end of a stream."""
    response = {"id": "resp_1", "object": "response", "model": "gpt-x", "status": status, **fields}
    return event(f"response.{status}", response=response)


def incomplete(reason: str, *output: dict[str, Any], **fields: Any) -> bytes:
    """The end of a stream that was cut off."""
    return ended("incomplete", incomplete_details={"reason": reason}, output=list(output), **fields)


def at(index: int | None) -> dict[str, int]:
    """The field that tells an item's place, where a server sends it."""
    return {} if index is None else {"output_index": index}


def call(number: int, arguments: str = "", *, name: str = "look", **fields: Any) -> dict[str, Any]:
    """A function call as an item."""
    ids = {"id": f"fc_{number}", "call_id": f"call_{number}"}
    return {"type": "function_call", **ids, "name": name, "arguments": arguments, **fields}


def message(*texts: str, **fields: Any) -> dict[str, Any]:
    """A message as an item."""
    content: list[dict[str, Any]] = [
        {"type": "output_text", "text": each, "annotations": []} for each in texts
    ]
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": content, **fields}


def reasoning(encrypted: str | None = "gAAA", *summary: str, **fields: Any) -> dict[str, Any]:
    """Reasoning as an item."""
    parts = [{"type": "summary_text", "text": each} for each in summary]
    return {"type": "reasoning", "id": "rs_1", "summary": parts, "encrypted_content": encrypted, **fields}


def decode(*parts: bytes) -> list[ModelEvent]:
    """All events of a streamed response."""
    lines = ServerSentEventDecoder()
    decoder = OpenAIResponsesCodec().decoder()
    events: list[ModelEvent] = []
    for part in parts:
        for line_event in lines.feed(part):
            events += decoder.feed(line_event)
    for line_event in lines.finish():
        events += decoder.feed(line_event)
    return events + decoder.finish()


def decode_whole(**fields: Any) -> list[ModelEvent]:
    """All events of a response in one piece."""
    body = {"id": "resp_1", "object": "response", "model": "gpt-x", "error": None, **fields}
    return OpenAIResponsesCodec().decode_response(json.dumps(body).encode())


def calls_in(events: list[ModelEvent]) -> list[ToolCall]:
    """The completed calls."""
    return [each.call for each in events if isinstance(each, ToolCallCompleted)]


def text_in(events: list[ModelEvent]) -> str:
    """The visible text."""
    return "".join(each.text for each in events if isinstance(each, TextDelta))


def reasoning_in(events: list[ModelEvent]) -> str:
    """The reasoning text."""
    return "".join(each.text for each in events if isinstance(each, ReasoningDelta))


def arguments_in(events: list[ModelEvent], index: int = 0) -> str:
    """What was shown of a call's arguments on the way."""
    return "".join(
        each.fragment for each in events if isinstance(each, ToolCallArgumentsDelta) and each.index == index
    )


def end_of(events: list[ModelEvent]) -> ResponseFinished:
    """The last event, which must be a good end."""
    assert isinstance(events[-1], ResponseFinished)
    return events[-1]

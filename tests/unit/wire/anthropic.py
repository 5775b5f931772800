"""Builds Anthropic Messages bytes, and reads events out of them."""

import json
from typing import Any

from nighthawk_async.types.messages import ProviderContent, ToolCall
from nighthawk_async.types.model import ModelEvent, ResponseFinished, TextDelta, ToolCallCompleted
from nighthawk_async.types.usage import Usage
from nighthawk_async.wire.anthropic.codec import AnthropicCodec
from tests.property.splitting import decode_with

PING = b'event: ping\ndata: {"type": "ping"}\n\n'
STOP = b'event: message_stop\ndata: {"type": "message_stop"}\n\n'


def event(kind: str, **fields: Any) -> bytes:
    """An event of a kind."""
    data = json.dumps({"type": kind, **fields}).encode()
    return b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"


def start(**usage: Any) -> bytes:
    """The beginning of a response."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": []}
    return event("message_start", message={**message, "stop_reason": None, "usage": usage or None})


def block(index: int, form: dict[str, Any], *deltas: dict[str, Any], stop: bool = True) -> bytes:
    """A block with its deltas, and its end unless it is cut off."""
    parts = [event("content_block_start", index=index, content_block=form)]
    parts += [event("content_block_delta", index=index, delta=delta) for delta in deltas]
    return b"".join(parts) + (event("content_block_stop", index=index) if stop else b"")


def text_block(index: int, *texts: str) -> bytes:
    """A block of text."""
    deltas = [{"type": "text_delta", "text": text} for text in texts]
    return block(index, {"type": "text", "text": ""}, *deltas)


def thinking_block(index: int, *texts: str, signature: str = "sig") -> bytes:
    """A block of thinking with its signature."""
    deltas = [{"type": "thinking_delta", "thinking": text} for text in texts]
    signed = {"type": "signature_delta", "signature": signature}
    return block(index, {"type": "thinking", "thinking": "", "signature": ""}, *deltas, signed)


def call_block(index: int, *fragments: str, stop: bool = True, **fields: Any) -> bytes:
    """A block with a tool call; its id is `toolu_` and the index unless another is given."""
    form = {"type": "tool_use", "id": f"toolu_{index}", "name": "look", "input": {}, **fields}
    deltas = [{"type": "input_json_delta", "partial_json": fragment} for fragment in fragments]
    return block(index, form, *deltas, stop=stop)


def end(reason: str | None = "end_turn", **usage: Any) -> bytes:
    """The end of a response."""
    delta = {"stop_reason": reason, "stop_sequence": None}
    return event("message_delta", delta=delta, usage=usage or None) + STOP


def decode(*parts: bytes) -> list[ModelEvent]:
    """All events of a streamed response."""
    return decode_with(AnthropicCodec(), *parts)


def calls_in(events: list[ModelEvent]) -> list[ToolCall]:
    """The completed calls."""
    return [each.call for each in events if isinstance(each, ToolCallCompleted)]


def text_in(events: list[ModelEvent]) -> str:
    """The visible text."""
    return "".join(each.text for each in events if isinstance(each, TextDelta))


def finish_of(events: list[ModelEvent]) -> ResponseFinished:
    """The last event, which must be the good end."""
    assert isinstance(events[-1], ResponseFinished)
    return events[-1]


def content_of(events: list[ModelEvent]) -> list[Any]:
    """What goes back in the provider's own form."""
    content = finish_of(events).provider_content
    assert isinstance(content, ProviderContent)
    assert content.protocol == "anthropic"
    return list(content.items)


def usage_of(**counts: Any) -> Usage:
    """Usage of one request."""
    return Usage(requests=1, **counts)

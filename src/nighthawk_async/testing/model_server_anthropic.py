"""Replies of a `ModelServer` in Anthropic Messages.

Reasoning becomes a thinking block whose signature fits its text. What a real endpoint refuses is in
`model_server_anthropic_checks`.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any

from ..types.usage import Usage
from .model_reply import ModelReply, RecordedRequest
from .model_server_anthropic_checks import find_fault
from .model_server_protocol import (
    identified_calls,
    parsed_arguments,
    pieces,
    refusal,
    seal,
    server_sent_event,
    to_json,
)

__all__ = ["AnthropicReplies"]

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class AnthropicReplies:
    """Speaks Anthropic Messages. See `ReplyProtocol`."""

    def __init__(self) -> None:
        self._numbers = count()
        self._calls_after_thinking: set[str] = set()

    def serves(self, path: str) -> bool:
        """Whether a path belongs to the protocol."""
        return path.endswith("/messages")

    def is_streamed(self, request: RecordedRequest) -> bool:
        """Whether a request asks for a stream."""
        return request.body.get("stream") is True

    def stream(self, reply: ModelReply, request: RecordedRequest) -> list[bytes]:
        """The events of a streamed reply."""
        usage = _encode_usage(reply.usage)
        begun: dict[str, Any] = {"content": [], "stop_reason": None, "usage": usage}
        if usage:
            begun["usage"] = usage | {"output_tokens": 1}
        message = self._message(request.body) | begun
        events: list[dict[str, Any]] = [{"type": "message_start", "message": message}, {"type": "ping"}]
        for index, block in enumerate(self._blocks(reply)):
            events += _block_events(index, block, reply)
        if reply.error is not None:
            events.append({"type": "error", "error": reply.error})
        else:
            delta = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
            events.append({"type": "message_delta", "delta": delta, "usage": usage})
            if reply.fault != "no_terminal":
                events.append({"type": "message_stop"})
        return [server_sent_event(event, event["type"]) for event in events]

    def whole(self, reply: ModelReply, request: RecordedRequest) -> bytes:
        """A reply that is not streamed."""
        if reply.error is not None:
            return to_json({"type": "error", "error": reply.error})
        content = [_whole_block(block) for block in self._blocks(reply)]
        message = self._message(request.body) | {"content": content}
        if reply.fault != "no_terminal":
            message["stop_reason"] = _stop_reason(reply)
        if usage := _encode_usage(reply.usage):
            message["usage"] = usage
        return to_json(message)

    def error(self, reply: ModelReply) -> bytes:
        """The body of a reply with an error status."""
        message = reply.text or f"scripted status {reply.status}"
        scripted = {"type": _ERROR_TYPES.get(reply.status, "api_error"), "message": message}
        return to_json({"type": "error", "error": reply.error or scripted, "request_id": "req_0"})

    def check(self, request: RecordedRequest) -> ModelReply | None:
        """Refuse what a real endpoint refuses."""
        if "anthropic-version" not in request.headers:
            return refusal("anthropic-version: header is required")
        fault = find_fault(request.body, self._calls_after_thinking)
        return None if fault is None else refusal(fault)

    def _message(self, body: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        model = body.get("model", "")
        return {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model}

    def _blocks(self, reply: ModelReply) -> list[dict[str, Any]]:
        """The content; a call's arguments are still their text."""
        blocks: list[dict[str, Any]] = []
        if reply.reasoning:
            signature = seal(reply.reasoning)
            blocks.append({"type": "thinking", "thinking": reply.reasoning, "signature": signature})
        if reply.text:
            blocks.append({"type": "text", "text": reply.text})
        for call in identified_calls(reply, lambda: f"toolu_{next(self._numbers)}"):
            block = {"type": "tool_use", "id": call.id, "name": call.name, "input": call}
            if not call.id:
                del block["id"]
            elif reply.reasoning:
                self._calls_after_thinking.add(call.id)
            blocks.append(block)
        return blocks


def _whole_block(block: dict[str, Any]) -> dict[str, Any]:
    return {**block, "input": parsed_arguments(block["input"]) or {}} if "input" in block else block


def _block_events(index: int, block: dict[str, Any], reply: ModelReply) -> Iterator[dict[str, Any]]:
    empty: dict[str, Any] = {"text": "", "thinking": "", "signature": "", "input": {}}
    start = {name: empty.get(name, value) for name, value in block.items()}
    yield {"type": "content_block_start", "index": index, "content_block": start}
    for delta in _deltas(block, reply):
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _deltas(block: dict[str, Any], reply: ModelReply) -> Iterator[dict[str, Any]]:
    if block["type"] == "text":
        for piece in pieces(block["text"], reply):
            yield {"type": "text_delta", "text": piece}
    elif block["type"] == "thinking":
        for piece in pieces(block["thinking"], reply):
            yield {"type": "thinking_delta", "thinking": piece}
        yield {"type": "signature_delta", "signature": block["signature"]}
    else:
        yield {"type": "input_json_delta", "partial_json": ""}
        for piece in pieces(block["input"].arguments, reply):
            yield {"type": "input_json_delta", "partial_json": piece}


def _encode_usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    return {
        "input_tokens": usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }


def _stop_reason(reply: ModelReply) -> str:
    return reply.finish_reason or ("tool_use" if reply.tool_calls else "end_turn")

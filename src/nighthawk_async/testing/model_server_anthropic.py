"""Replies of a `ModelServer` in Anthropic Messages.

Reasoning becomes a thinking block whose signature fits its text.
"""

from collections.abc import Iterator, Set
from itertools import count
from typing import Any, TypeAlias

from ..types.messages import ToolCall
from ..types.usage import Usage
from .model_reply import (
    ModelReply,
    RecordedRequest,
    SentBlocks,
    as_objects,
    identified_calls,
    parsed_arguments,
    pieces,
    refusal,
    seal,
    server_sent_event,
    to_json,
)

_Turn: TypeAlias = tuple[str, list[dict[str, Any]]]

_NO_TURN: _Turn = ("", [])


def find_fault(body: dict[str, Any], calls_after_thinking: Set[str]) -> str | None:
    """Return the reason why a real endpoint would refuse a request; None for a valid one.

    Args:
        body: The request's body.
        calls_after_thinking: The ids of the tool calls that the server sent after a thinking block.
    """
    if "max_tokens" not in body:
        return "max_tokens: Field required"
    turns = _merged_turns(body)
    for number, turn in enumerate(turns):
        before, after = (
            turns[place] if 0 <= place < len(turns) else _NO_TURN for place in (number - 1, number + 1)
        )
        is_current = not any(map(_is_question, turns[number + 1 :]))
        fault = (
            _find_fault_in_blocks(turn)
            or _find_wrong_pairing(before, turn, after)
            or (_find_missing_thinking(turn, calls_after_thinking) if is_current else None)
        )
        if fault is not None:
            return f"messages.{number}: {fault}"
    return None


def _merged_turns(body: dict[str, Any]) -> list[_Turn]:
    """Return the messages; successive ones of the same role are merged, as at the real endpoint."""
    turns: list[_Turn] = []
    for message in as_objects(body.get("messages")):
        role, content = str(message.get("role")), message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else as_objects(content)
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        else:
            turns.append((role, list(blocks)))
    return turns


def _is_question(turn: _Turn) -> bool:
    """Whether a turn begins a new question, so that earlier thinking need not be sent back."""
    role, blocks = turn
    return role == "user" and not any(block.get("type") == "tool_result" for block in blocks)


def _find_fault_in_blocks(turn: _Turn) -> str | None:
    if not turn[1]:
        return "all messages must have non-empty content except for the optional final assistant message"
    for block in turn[1]:
        if block.get("type") == "text" and not block.get("text"):
            return "text content blocks must be non-empty"
        if block.get("type") == "thinking" and block.get("signature") != seal(str(block.get("thinking"))):
            return "Invalid `signature` in `thinking` block"
    return None


def _find_wrong_pairing(before: _Turn, turn: _Turn, after: _Turn) -> str | None:
    asked = _ids(before, "tool_use", "id")
    for answered in _ids(turn, "tool_result", "tool_use_id"):
        if answered not in asked:
            return (
                f"unexpected `tool_use_id` found in `tool_result` blocks: {answered}. Each `tool_result` "
                "block must have a corresponding `tool_use` block in the previous message."
            )
    answers = _ids(after, "tool_result", "tool_use_id")
    missing = [each for each in _ids(turn, "tool_use", "id") if each not in answers]
    if missing:
        return (
            "`tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in "
            "the next message."
        )
    return None


def _find_missing_thinking(turn: _Turn, calls_after_thinking: Set[str]) -> str | None:
    has_thinking = False
    for block in turn[1]:
        has_thinking |= block.get("type") in ("thinking", "redacted_thinking")
        if block.get("type") == "tool_use" and block.get("id") in calls_after_thinking and not has_thinking:
            return (
                "content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When "
                "`thinking` is enabled, a final `assistant` message must start with a thinking block."
            )
    return None


def _ids(turn: _Turn, kind: str, field: str) -> list[str]:
    return [str(block.get(field)) for block in turn[1] if block.get("type") == kind]


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
    """The protocol Anthropic Messages. See `ReplyProtocol`."""

    def __init__(self) -> None:
        self._numbers = count()
        self._calls_after_thinking: set[str] = set()
        self._sent = SentBlocks()

    def serves(self, path: str) -> bool:
        """Whether a path belongs to the protocol."""
        return path.endswith(("/messages", ":rawPredict", ":streamRawPredict"))

    def is_streamed(self, request: RecordedRequest) -> bool:
        """Whether a request asks for a stream."""
        return request.body.get("stream") is True

    def stream(self, reply: ModelReply, request: RecordedRequest) -> list[bytes]:
        """Return the events of a streamed reply."""
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
        """Return a reply that is not streamed."""
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
        """Return the body of a reply with an error status."""
        message = reply.text or f"scripted status {reply.status}"
        scripted = {"type": _ERROR_TYPES.get(reply.status, "api_error"), "message": message}
        return to_json({"type": "error", "error": reply.error or scripted, "request_id": "req_0"})

    def check(self, request: RecordedRequest) -> ModelReply | None:
        """Refuse requests that a real endpoint refuses."""
        if "anthropic-version" not in request.headers:
            return refusal("anthropic-version: header is required")
        fault = find_fault(request.body, self._calls_after_thinking)
        blocks = [block for _, turn in _merged_turns(request.body) for block in turn]
        if changed := self._sent.find_changed(blocks, request.content):
            fault = f"messages: the block {changed} is not as it was sent"
        return None if fault is None else refusal(fault)

    def _message(self, body: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        model = body.get("model", "")
        return {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model}

    def _blocks(self, reply: ModelReply) -> list[dict[str, Any]]:
        """Return the content; the arguments of calls are still texts."""
        blocks: list[dict[str, Any]] = []
        if reply.reasoning:
            signature = seal(reply.reasoning)
            blocks.append({"type": "thinking", "thinking": reply.reasoning, "signature": signature})
        self._sent.remember(reply.blocks)
        blocks += map(dict, reply.blocks)
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


_STREAMED = frozenset({"server_tool_use", "text", "thinking", "tool_use"})
"""The types of blocks whose content comes in pieces."""


def _whole_block(block: dict[str, Any]) -> dict[str, Any]:
    is_call = isinstance(block.get("input"), ToolCall)
    return {**block, "input": parsed_arguments(block["input"]) or {}} if is_call else block


def _block_events(index: int, block: dict[str, Any], reply: ModelReply) -> Iterator[dict[str, Any]]:
    if block["type"] not in _STREAMED:  # in one piece
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_stop", "index": index}
        return
    empty: dict[str, Any] = {"text": "", "thinking": "", "signature": "", "input": {}, "citations": []}
    start = {name: empty.get(name, value) for name, value in block.items()}
    yield {"type": "content_block_start", "index": index, "content_block": start}
    for delta in _deltas(block, reply):
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _deltas(block: dict[str, Any], reply: ModelReply) -> Iterator[dict[str, Any]]:
    if block["type"] == "text":
        for citation in as_objects(block.get("citations")):
            yield {"type": "citations_delta", "citation": citation}
        for piece in pieces(block["text"], reply):
            yield {"type": "text_delta", "text": piece}
    elif block["type"] == "thinking":
        for piece in pieces(block["thinking"], reply):
            yield {"type": "thinking_delta", "thinking": piece}
        yield {"type": "signature_delta", "signature": block["signature"]}
    else:
        yield {"type": "input_json_delta", "partial_json": ""}
        call = block["input"]
        arguments = call.arguments if isinstance(call, ToolCall) else to_json(call).decode()
        for piece in pieces(arguments, reply):
            yield {"type": "input_json_delta", "partial_json": piece}


def _encode_usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    return {
        "input_tokens": usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write_tokens - usage.cache_write_1h_tokens,
            "ephemeral_1h_input_tokens": usage.cache_write_1h_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
        **({"server_tool_use": {"web_search_requests": usage.web_searches}} if usage.web_searches else {}),
    }


def _stop_reason(reply: ModelReply) -> str:
    return reply.finish_reason or ("tool_use" if reply.tool_calls else "end_turn")

"""Streams of Anthropic Messages."""

from collections.abc import Iterable
from typing import Any

from .events import PROSE, named_event, pieces, split, tool_arguments

__all__ = ["reasoning", "text", "tool_calls"]

_MESSAGE: dict[str, Any] = {
    "id": "msg_01AbCdEfGhIjKlMnOpQrStUv",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5-20250929",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 812, "cache_read_input_tokens": 768, "output_tokens": 1},
}


def text(deltas: int) -> bytes:
    """An answer in prose."""
    said = ({"type": "text_delta", "text": piece} for piece in pieces(PROSE, deltas))
    return _stream([_block(0, {"type": "text", "text": ""}, said)], "end_turn")


def reasoning(deltas: int) -> bytes:
    """Thinking with its signature, and a short answer."""
    thoughts: list[dict[str, Any]] = [
        {"type": "thinking_delta", "thinking": piece} for piece in pieces(PROSE, deltas)
    ]
    thoughts.append({"type": "signature_delta", "signature": "EqQBCgIYAhIM" * 64})
    thinking = _block(0, {"type": "thinking", "thinking": "", "signature": ""}, thoughts)
    answer = _block(1, {"type": "text", "text": ""}, [{"type": "text_delta", "text": "Yes."}])
    return _stream([thinking, answer], "end_turn")


def tool_calls(deltas: int) -> bytes:
    """Four tool calls with large arguments, one after the other."""
    return _stream([_call(index, tool_arguments(deltas // 4)) for index in range(4)], "tool_use")


def _call(index: int, arguments: str) -> list[bytes]:
    begun = {"type": "tool_use", "id": f"toolu_{index:024}", "name": "nh_assign", "input": {}}
    return _block(
        index, begun, ({"type": "input_json_delta", "partial_json": piece} for piece in split(arguments, 3))
    )


def _block(index: int, begun: dict[str, Any], deltas: Iterable[dict[str, Any]]) -> list[bytes]:
    return [
        _event("content_block_start", index=index, content_block=begun),
        *(_event("content_block_delta", index=index, delta=delta) for delta in deltas),
        _event("content_block_stop", index=index),
    ]


def _stream(blocks: Iterable[list[bytes]], stop_reason: str) -> bytes:
    events = [_event("message_start", message=_MESSAGE), _event("ping")]
    for block in blocks:
        events += block
    ending = {"stop_reason": stop_reason, "stop_sequence": None}
    events.append(_event("message_delta", delta=ending, usage={"output_tokens": 4096}))
    return b"".join([*events, _event("message_stop")])


def _event(kind: str, **fields: Any) -> bytes:
    return named_event(kind, {"type": kind, **fields})

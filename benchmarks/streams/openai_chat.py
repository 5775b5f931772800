"""Streams of OpenAI Chat Completions."""

from collections.abc import Iterable
from typing import Any

from .events import PROSE, pieces, split, tool_arguments, unnamed_event

__all__ = ["reasoning", "text", "tool_calls"]


def text(deltas: int) -> bytes:
    """An answer in prose."""
    return _stream(({"content": piece} for piece in pieces(PROSE, deltas)), "stop")


def reasoning(deltas: int) -> bytes:
    """Reasoning, as DeepSeek and many servers of open models send it, and a short answer."""
    thoughts = ({"reasoning_content": piece, "content": None} for piece in pieces(PROSE, deltas))
    return _stream([*thoughts, {"content": "Yes."}], "stop")


def tool_calls(deltas: int) -> bytes:
    """Four tool calls with large arguments, one after the other."""
    fragments: list[dict[str, Any]] = []
    for index in range(4):
        function = {"name": "nh_assign", "arguments": ""}
        begin = {"index": index, "id": f"call_{index:024}", "type": "function", "function": function}
        fragments.append({"tool_calls": [begin]})
        for piece in split(tool_arguments(deltas // 4), 3):
            fragments.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    return _stream(fragments, "tool_calls")


def _stream(deltas: Iterable[dict[str, Any]], finish_reason: str) -> bytes:
    events = [_chunk({"role": "assistant", "content": "", "refusal": None})]
    events += map(_chunk, deltas)
    events.append(_chunk({}, finish_reason))
    counts = {"prompt_tokens": 812, "completion_tokens": 4096, "total_tokens": 4908}
    details = {"prompt_tokens_details": {"cached_tokens": 768, "audio_tokens": 0}}
    events.append(unnamed_event({**_HEAD, "choices": [], "usage": {**counts, **details}}))
    return b"".join([*events, b"data: [DONE]\n\n"])


_HEAD = {
    "id": "chatcmpl-C1aBcDeFgHiJkLmNoPqRsTuVwXyZ0",
    "object": "chat.completion.chunk",
    "created": 1_760_000_000,
    "model": "gpt-5.4-nano-2026-03-17",
    "service_tier": "default",
    "system_fingerprint": "fp_3f0c2b8d1e",
}


def _chunk(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return unnamed_event({**_HEAD, "choices": [choice], "usage": None, "obfuscation": "aB3xY9"})

"""Streams of the Gemini API. It sends larger pieces than others, and calls whole."""

import json
from collections.abc import Iterable
from typing import Any

from .events import PROSE, pieces, tool_arguments, unnamed_event

__all__ = ["reasoning", "text", "tool_calls"]


def text(deltas: int) -> bytes:
    """An answer in prose."""
    return _stream({"text": piece} for piece in pieces(PROSE, deltas))


def reasoning(deltas: int) -> bytes:
    """Summaries of thoughts, and a short answer with a signature."""
    thoughts: list[dict[str, Any]] = [{"text": piece, "thought": True} for piece in pieces(PROSE, deltas)]
    return _stream([*thoughts, {"text": "Yes.", "thoughtSignature": "CiQB" * 256}])


def tool_calls(deltas: int) -> bytes:
    """Function calls with arguments of some hundred bytes."""
    args = json.loads(tool_arguments(100))
    calls = (
        {"functionCall": {"id": f"call-{number}", "name": "nh_assign", "args": args}}
        for number in range(max(1, deltas // 16))
    )
    return _stream(calls)


def _stream(parts: Iterable[dict[str, Any]]) -> bytes:
    events = [_chunk(part, number) for number, part in enumerate(parts, 1)]
    return b"".join([*events, _chunk({"text": ""}, len(events), finish={"finishReason": "STOP"})])


def _chunk(part: dict[str, Any], tokens: int, finish: dict[str, Any] | None = None) -> bytes:
    content = {"parts": [part], "role": "model"}
    counts = {"promptTokenCount": 812, "candidatesTokenCount": tokens, "totalTokenCount": 812 + tokens}
    return unnamed_event(
        {
            "candidates": [{"content": content, "index": 0, **(finish or {})}],
            "usageMetadata": {
                **counts,
                "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 812}],
            },
            "modelVersion": "gemini-3.1-flash-lite",
            "responseId": "q1ZYabCdEfGhIjKlMnOp",
        }
    )

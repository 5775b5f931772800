"""Streams of OpenAI Responses."""

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from .events import PROSE, named_event, pieces, split, tool_arguments

__all__ = ["reasoning", "text", "tool_calls"]

_RESPONSE: dict[str, Any] = {
    "id": "resp_68f0a1b2c3d48190a1b2c3d4e5f60718",
    "object": "response",
    "created_at": 1_760_000_000,
    "status": "in_progress",
    "error": None,
    "incomplete_details": None,
    "model": "gpt-5.4-nano-2026-03-17",
    "output": [],
    "usage": None,
}
_USAGE = {
    "input_tokens": 812,
    "input_tokens_details": {"cached_tokens": 768},
    "output_tokens": 4096,
    "output_tokens_details": {"reasoning_tokens": 1024},
    "total_tokens": 4908,
}


def text(deltas: int) -> bytes:
    """An answer in prose."""
    said = list(pieces(PROSE, deltas))
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": "".join(said)}
    item = {"id": "msg_0", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
    place = {"item_id": "msg_0", "output_index": 0, "content_index": 0}
    begun = {**part, "text": ""}
    deltas_of_text = (
        {**place, "delta": piece, "logprobs": [], "obfuscation": "aB3xY9kLmN"} for piece in said
    )
    inner = [
        ("response.content_part.added", {**place, "part": begun}),
        *(("response.output_text.delta", delta) for delta in deltas_of_text),
        ("response.output_text.done", {**place, "text": part["text"], "logprobs": []}),
        ("response.content_part.done", {**place, "part": part}),
    ]
    return _stream([({**item, "status": "in_progress", "content": []}, inner, item)])


def reasoning(deltas: int) -> bytes:
    """A summary of reasoning, sealed reasoning, and nothing else."""
    said = list(pieces(PROSE, deltas))
    part = {"type": "summary_text", "text": "".join(said)}
    item = {"id": "rs_0", "type": "reasoning", "encrypted_content": "gAAAAABo" * 256, "summary": [part]}
    place = {"item_id": "rs_0", "output_index": 0, "summary_index": 0}
    prefix = "response.reasoning_summary"
    inner = [
        (f"{prefix}_part.added", {**place, "part": {**part, "text": ""}}),
        *((f"{prefix}_text.delta", {**place, "delta": piece, "obfuscation": "aB3xY9"}) for piece in said),
        (f"{prefix}_text.done", {**place, "text": part["text"]}),
        (f"{prefix}_part.done", {**place, "part": part}),
    ]
    return _stream([({**item, "summary": []}, inner, item)])


def tool_calls(deltas: int) -> bytes:
    """Four tool calls with large arguments, one after the other."""
    return _stream([_call(index, tool_arguments(deltas // 4)) for index in range(4)])


def _call(index: int, arguments: str) -> "_Item":
    ids = {"id": f"fc_{index}", "call_id": f"call_{index:024}"}
    item = {
        **ids,
        "type": "function_call",
        "status": "completed",
        "arguments": arguments,
        "name": "nh_assign",
    }
    place = {"item_id": f"fc_{index}", "output_index": index}
    prefix = "response.function_call_arguments"
    inner = [
        *(
            (f"{prefix}.delta", {**place, "delta": each, "obfuscation": "aB3x"})
            for each in split(arguments, 3)
        ),
        (f"{prefix}.done", {**place, "arguments": arguments}),
    ]
    return {**item, "status": "in_progress", "arguments": ""}, inner, item


_Event = tuple[str, dict[str, Any]]
_Item = tuple[dict[str, Any], list[_Event], dict[str, Any]]
"""How an item begins, what comes of it, and what it is in the end."""


def _stream(items: Iterable[_Item]) -> bytes:
    numbers = count()
    return b"".join(
        named_event(name, {"type": name, "sequence_number": next(numbers), **fields})
        for name, fields in _events(list(items))
    )


def _events(items: list[_Item]) -> Iterator[_Event]:
    yield "response.created", {"response": _RESPONSE}
    yield "response.in_progress", {"response": _RESPONSE}
    for index, (begun, inner, done) in enumerate(items):
        yield "response.output_item.added", {"output_index": index, "item": begun}
        yield from inner
        yield "response.output_item.done", {"output_index": index, "item": done}
    output = [done for _, _, done in items]
    ended = {**_RESPONSE, "status": "completed", "output": output, "usage": _USAGE}
    yield "response.completed", {"response": ended}

"""Replies of a `ModelServer` as Chat Completions bytes. Floor 5.

Written from the protocol's description and not with the library's codec, so that the two check each other.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from ..types.messages import ToolCall
from ..types.usage import Usage
from .model_reply import ModelReply

__all__ = ["ChatReplies"]


class ChatReplies:
    """Writes replies; counts what needs a number."""

    path = "/chat/completions"

    def __init__(self) -> None:
        self._numbers = count()

    def stream(self, reply: ModelReply, request: Any) -> list[bytes]:
        """The events of a streamed reply, each as bytes.

        Args:
            reply: The reply.
            request: The request's body.
        """
        head = self._head("chat.completion.chunk", request)
        chunks = [_choice_chunk(head, {"role": "assistant", "content": ""}, None)]
        chunks += [_choice_chunk(head, delta, None) for delta in self._deltas(reply)]
        if reply.error is not None:
            chunks.append({"error": reply.error})
        else:
            chunks.append(_choice_chunk(head, {}, _finish_reason(reply)))
            options: dict[str, Any] = request.get("stream_options") or {}
            if reply.usage is not None and options.get("include_usage"):
                chunks.append({**head, "choices": [], "usage": _encode_usage(reply.usage)})
        done = [b"data: [DONE]\n\n"] if reply.sends_done else []
        return [b"data: " + _to_json(chunk) + b"\n\n" for chunk in chunks] + done

    def whole(self, reply: ModelReply, request: Any) -> bytes:
        """A reply that is not streamed.

        Args:
            reply: The reply.
            request: The request's body.
        """
        if reply.error is not None:
            return _to_json({"error": reply.error})
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.reasoning:
            message["reasoning_content"] = reply.reasoning
        if reply.tool_calls:
            message["tool_calls"] = [_encode_call(self._identified(call)) for call in reply.tool_calls]
        choice = {"index": 0, "message": message, "finish_reason": _finish_reason(reply)}
        answer = {**self._head("chat.completion", request), "choices": [choice]}
        return _to_json(answer if reply.usage is None else {**answer, "usage": _encode_usage(reply.usage)})

    def error(self, reply: ModelReply) -> bytes:
        """The body of a reply with an error status.

        Args:
            reply: The reply.
        """
        message = reply.text or f"scripted status {reply.status}"
        return _to_json({"error": reply.error or {"message": message, "type": "scripted_error"}})

    def _head(self, kind: str, request: Any) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{next(self._numbers)}",
            "object": kind,
            "created": 0,
            "model": request.get("model", ""),
        }

    def _deltas(self, reply: ModelReply) -> Iterator[dict[str, Any]]:
        size = reply.pacing.fragment_characters
        for piece in _pieces(reply.reasoning, size):
            yield {"reasoning_content": piece}
        for piece in _pieces(reply.text, size):
            yield {"content": piece}
        for index, call in enumerate(map(self._identified, reply.tool_calls)):
            yield {"tool_calls": [{"index": index, **_encode_call(replace(call, arguments=""))}]}
            for piece in _pieces(call.arguments, size):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}

    def _identified(self, call: ToolCall) -> ToolCall:
        return call if call.id else replace(call, id=f"call_{next(self._numbers)}")


def _choice_chunk(head: dict[str, Any], delta: dict[str, Any], finish_reason: str | None) -> dict[str, Any]:
    return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def _encode_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _encode_usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _finish_reason(reply: ModelReply) -> str:
    return reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop")


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


def _to_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

"""Replies of a `ModelServer` in Chat Completions."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from ..types.messages import ToolCall
from ..types.usage import Usage
from .model_reply import (
    ModelReply,
    RecordedRequest,
    as_objects,
    identified_calls,
    pieces,
    refusal,
    server_sent_event,
    to_json,
)
from .model_server_schemas import find_strict_refusal


class ChatReplies:
    """The protocol Chat Completions. See `ReplyProtocol`."""

    def __init__(self) -> None:
        self._numbers = count()

    def serves(self, path: str) -> bool:
        """Whether a path belongs to the protocol."""
        return path.endswith("/chat/completions")

    def is_streamed(self, request: RecordedRequest) -> bool:
        """Whether a request asks for a stream."""
        return request.body.get("stream") is True

    def stream(self, reply: ModelReply, request: RecordedRequest) -> list[bytes]:
        """Return the events of a streamed reply."""
        head = self._head("chat.completion.chunk", request.body)
        chunks = [_choice_chunk(head, {"role": "assistant", "content": ""}, None)]
        chunks += [_choice_chunk(head, delta, None) for delta in self._deltas(reply)]
        if reply.error is not None:
            chunks.append({"error": reply.error})
        elif reply.fault != "no_terminal":
            chunks.append(_choice_chunk(head, {}, _finish_reason(reply)))
            options = as_objects([request.body.get("stream_options")])
            if reply.usage is not None and any(each.get("include_usage") for each in options):
                chunks.append({**head, "choices": [], "usage": _encode_usage(reply.usage)})
        done = [b"data: [DONE]\n\n"] if reply.sends_done else []
        return [server_sent_event(chunk) for chunk in chunks] + done

    def whole(self, reply: ModelReply, request: RecordedRequest) -> bytes:
        """Return a reply that is not streamed."""
        if reply.error is not None:
            return to_json({"error": reply.error})
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.reasoning:
            message["reasoning_content"] = reply.reasoning
        for block in reply.blocks:
            message |= block
        if reply.tool_calls:
            message["tool_calls"] = [_encode_call(call) for call in self._calls(reply)]
        finish_reason = None if reply.fault == "no_terminal" else _finish_reason(reply)
        choice = {"index": 0, "message": message, "finish_reason": finish_reason}
        answer = {**self._head("chat.completion", request.body), "choices": [choice]}
        return to_json(answer if reply.usage is None else {**answer, "usage": _encode_usage(reply.usage)})

    def error(self, reply: ModelReply) -> bytes:
        """Return the body of a reply with an error status."""
        message = reply.text or f"scripted status {reply.status}"
        return to_json({"error": reply.error or {"message": message, "type": "scripted_error"}})

    def check(self, request: RecordedRequest) -> ModelReply | None:
        """Refuse requests that a real endpoint refuses."""
        if not isinstance(request.body.get("stream_options"), dict | None):
            return refusal("Invalid type for 'stream_options': expected an object.")
        tools = as_objects(request.body.get("tools"))
        functions = as_objects([each.get("function") for each in tools])
        return find_strict_refusal(functions) or self._check_pairing(request.body)

    def _check_pairing(self, body: dict[str, Any]) -> ModelReply | None:
        """Refuse results without a call, and calls without a result."""
        awaited: list[str] = []
        for number, message in enumerate([*as_objects(body.get("messages")), {}]):
            if message.get("role") != "tool":
                if awaited:
                    return refusal(
                        "An assistant message with 'tool_calls' must be followed by tool messages responding "
                        "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
                        + ", ".join(awaited)
                    )
                awaited = [str(call.get("id")) for call in as_objects(message.get("tool_calls"))]
            elif (call_id := str(message.get("tool_call_id"))) in awaited:
                awaited.remove(call_id)
            else:
                return refusal(
                    f"Invalid parameter: messages[{number}] with role 'tool' must be a response to a "
                    f"preceding message with 'tool_calls'; {call_id!r} is none of its calls."
                )
        return None

    def _head(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{next(self._numbers)}",
            "object": kind,
            "created": 0,
            "model": body.get("model", ""),
        }

    def _calls(self, reply: ModelReply) -> list[ToolCall]:
        return identified_calls(reply, lambda: f"call_{next(self._numbers)}")

    def _deltas(self, reply: ModelReply) -> Iterator[dict[str, Any]]:
        for piece in pieces(reply.reasoning, reply):
            yield {"reasoning_content": piece}
        yield from map(dict, reply.blocks)
        for piece in pieces(reply.text, reply):
            yield {"content": piece}
        for position, call in enumerate(self._calls(reply)):
            index = {} if reply.fault == "no_call_index" else {"index": position}
            yield {"tool_calls": [{**index, **_encode_call(replace(call, arguments=""))}]}
            for piece in pieces(call.arguments, reply):
                yield {"tool_calls": [{**index, "function": {"arguments": piece}}]}


def _choice_chunk(head: dict[str, Any], delta: dict[str, Any], finish_reason: str | None) -> dict[str, Any]:
    return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def _encode_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {**({"id": call.id} if call.id else {}), "type": "function", "function": function}


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

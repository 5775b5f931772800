"""Replies of a `ModelServer` in the Gemini API.

After reasoning, the first function call carries a thought signature, or the last part where there is no
call. What a real endpoint refuses is in `model_server_google_checks`.
"""

from itertools import count
from typing import Any

from ..types.messages import ToolCall
from ..types.usage import Usage
from .model_reply import ModelReply, RecordedRequest
from .model_server_google_checks import call_key, find_fault
from .model_server_protocol import identified_calls, parsed_arguments, pieces, refusal, seal, to_json

__all__ = ["GoogleReplies"]

_STREAMED = ":streamGenerateContent"
_WHOLE = ":generateContent"
_STATUS_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class GoogleReplies:
    """Speaks the Gemini API. See `ReplyProtocol`."""

    def __init__(self) -> None:
        self._numbers = count()
        self._signed_calls: set[str] = set()

    def serves(self, path: str) -> bool:
        """Whether a path belongs to the protocol."""
        return path.endswith((_STREAMED, _WHOLE))

    def is_streamed(self, request: RecordedRequest) -> bool:
        """Whether a request asks for a stream of events; without `alt=sse`, a stream is one JSON list."""
        path, _, query = request.path.partition("?")
        return path.endswith(_STREAMED) and "alt=sse" in query.split("&")

    def stream(self, reply: ModelReply, request: RecordedRequest) -> list[bytes]:
        """The events of a streamed reply."""
        events = [b"data: " + to_json(chunk) + b"\r\n\r\n" for chunk in self._chunks(reply, request)]
        if reply.error is not None:  # raw JSON of several lines, which is no event
            message = to_json({"code": 500, "status": "INTERNAL", **reply.error})
            events.append(b'{\n  "error": ' + message + b"\n}\n")
        return events

    def whole(self, reply: ModelReply, request: RecordedRequest) -> bytes:
        """A reply that is not streamed, or not as events."""
        if reply.error is not None:
            return to_json({"error": reply.error})
        if request.path.partition("?")[0].endswith(_STREAMED):
            return to_json(self._chunks(reply, request))
        parts = self._parts(reply, fragment=False)
        return to_json(self._chunk(parts, reply, request) | _usage(reply))

    def error(self, reply: ModelReply) -> bytes:
        """The body of a reply with an error status."""
        message = reply.text or f"scripted status {reply.status}"
        status = _STATUS_NAMES.get(reply.status, "INTERNAL")
        return to_json({"error": reply.error or {"code": reply.status, "message": message, "status": status}})

    def check(self, request: RecordedRequest) -> ModelReply | None:
        """Refuse what a real endpoint refuses."""
        fault = find_fault(request.body, self._signed_calls)
        return None if fault is None else refusal(fault)

    def _calls(self, reply: ModelReply) -> list[ToolCall]:
        return identified_calls(reply, lambda: f"call_{next(self._numbers)}")

    def _chunks(self, reply: ModelReply, request: RecordedRequest) -> list[dict[str, Any]]:
        parts = self._parts(reply, fragment=True)
        if not parts or "thoughtSignature" not in parts[-1] or "functionCall" in parts[-1]:
            last: list[dict[str, Any]] = [{"text": ""}]
        else:
            last = [parts.pop()]
        chunks = [self._chunk([part], None, request) | _usage(reply) for part in parts]
        if reply.error is None:
            chunks.append(self._chunk(last, reply, request) | _usage(reply))
        return chunks

    def _chunk(
        self, parts: list[dict[str, Any]], ended: ModelReply | None, request: RecordedRequest
    ) -> dict[str, Any]:
        """A part of the response; the last one says how it ended."""
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        if ended is not None and ended.fault != "no_terminal":
            candidate["finishReason"] = _finish_reason(ended)
        model = request.path.partition("?")[0].rpartition("/")[2].partition(":")[0]
        number = next(self._numbers)
        return {"candidates": [candidate], "modelVersion": model, "responseId": f"response-{number}"}

    def _parts(self, reply: ModelReply, *, fragment: bool) -> list[dict[str, Any]]:
        texts = pieces(reply.text, reply) if fragment else filter(None, [reply.text])
        thoughts = pieces(reply.reasoning, reply) if fragment else filter(None, [reply.reasoning])
        parts: list[dict[str, Any]] = [{"text": piece, "thought": True} for piece in thoughts]
        parts += [{"text": piece} for piece in texts]
        calls = [part for call in self._calls(reply) for part in _call_parts(call)]
        if reply.reasoning and calls:
            key = call_key(calls[0]["functionCall"])
            self._signed_calls.add(key)
            calls[0]["thoughtSignature"] = seal(key)
        elif reply.reasoning:
            parts.append({"text": "", "thoughtSignature": seal(reply.text)})
        return parts + calls


def _call_parts(call: ToolCall) -> list[dict[str, Any]]:
    """A call as a part; none when its arguments are no object, which the protocol cannot say."""
    arguments = parsed_arguments(call)
    if arguments is None:
        return []
    told = {"id": call.id} if call.id else {}
    return [{"functionCall": {**told, "name": call.name, "args": arguments}}]


def _finish_reason(reply: ModelReply) -> str:
    is_malformed = any(parsed_arguments(call) is None for call in reply.tool_calls)
    return reply.finish_reason or ("MALFORMED_FUNCTION_CALL" if is_malformed else "STOP")


def _usage(reply: ModelReply) -> dict[str, Any]:
    return {} if reply.usage is None else {"usageMetadata": _encode_usage(reply.usage)}


def _encode_usage(usage: Usage) -> dict[str, Any]:
    return {
        "promptTokenCount": usage.input_tokens,
        "cachedContentTokenCount": usage.cache_read_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
        "thoughtsTokenCount": usage.reasoning_tokens,
        "totalTokenCount": usage.input_tokens + usage.output_tokens,
    }

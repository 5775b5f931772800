"""Replies of a `ModelServer` in the Gemini API.

After reasoning, the first function call has a thought signature; without calls, the last part has it.
"""

import base64
import json
from collections.abc import Set
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
    to_json,
)

_Turn: TypeAlias = tuple[str, list[dict[str, Any]]]

_NO_TURN: _Turn = ("", [])

_UNCHECKED = "skip_thought_signature_validator"
_UNCHECKED_SIGNATURES = (_UNCHECKED, base64.b64encode(_UNCHECKED.encode()).decode())


def call_key(call: dict[str, Any]) -> str:
    """Return a key for a function call without an id.

    Args:
        call: The call in the form of the protocol.
    """
    return json.dumps([call.get("name"), call.get("args") or {}], sort_keys=True)


def find_fault(body: dict[str, Any], signed_calls: Set[str]) -> str | None:
    """Return the reason why a real endpoint would refuse a request; None for a valid one.

    Args:
        body: The request's body.
        signed_calls: The calls that the server signed, each as its `call_key`.
    """
    turns = _merged_turns(body)
    if not turns:
        return "* GenerateContentRequest.contents: contents is not specified"
    for number, turn in enumerate(turns):
        before, after = (
            turns[place] if 0 <= place < len(turns) else _NO_TURN for place in (number - 1, number + 1)
        )
        is_current = not any(map(_is_question, turns[number + 1 :]))
        fault = _find_wrong_pairing(before, turn, after)
        fault = fault or _find_wrong_signature(turn, signed_calls if is_current else frozenset())
        if fault is not None:
            return f"{fault} (position {number + 1})"
    return None


def _merged_turns(body: dict[str, Any]) -> list[_Turn]:
    """Return the contents; successive ones of the same role are merged, as at the real endpoint."""
    turns: list[_Turn] = []
    for content in as_objects(body.get("contents")):
        role, parts = str(content.get("role", "user")), as_objects(content.get("parts"))
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(parts)
        else:
            turns.append((role, list(parts)))
    return turns


def _is_question(turn: _Turn) -> bool:
    """Whether a turn begins a new question, so that earlier signatures need not be sent back."""
    return turn[0] == "user" and not any("functionResponse" in part for part in turn[1])


def _find_wrong_pairing(before: _Turn, turn: _Turn, after: _Turn) -> str | None:
    responses = _each(turn, "functionResponse")
    if responses and not _each(before, "functionCall"):
        return "Please ensure that function response turn comes immediately after a function call turn."
    calls, answers = _each(turn, "functionCall"), _each(after, "functionResponse")
    if len(calls) != len(answers):
        return (
            "Please ensure that the number of function response parts is equal to the number of function "
            "call parts of the function call turn."
        )
    for name in ("id", "name"):
        asked = sorted(str(call[name]) for call in calls if call.get(name))
        answered = sorted(str(answer[name]) for answer in answers if answer.get(name))
        if answered and asked and answered != asked:
            return f"The function responses have other values of {name!r} than the function calls."
    return None


def _find_wrong_signature(turn: _Turn, signed_calls: Set[str]) -> str | None:
    is_first = True  # of parallel calls, only the first is signed
    for part in turn[1]:
        for call in as_objects([part.get("functionCall")]):
            key, signature = call_key(call), part.get("thoughtSignature")
            is_wanted, is_first = is_first and key in signed_calls, False
            if signature is None and is_wanted:
                return f"Function call `{call.get('name')}` is missing a `thought_signature` in its part."
            if signature is not None and signature not in (seal(key), *_UNCHECKED_SIGNATURES):
                return "Corrupted thought signature."
    return None


def _each(turn: _Turn, name: str) -> list[dict[str, Any]]:
    return [each for part in turn[1] for each in as_objects([part.get(name)])]


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
    """The protocol of the Gemini API. See `ReplyProtocol`."""

    def __init__(self) -> None:
        self._numbers = count()
        self._signed_calls: set[str] = set()
        self._sent = SentBlocks()

    def serves(self, path: str) -> bool:
        """Whether a path belongs to the protocol."""
        return path.endswith((_STREAMED, _WHOLE))

    def is_streamed(self, request: RecordedRequest) -> bool:
        """Whether a request asks for a stream of events; without `alt=sse`, a stream is one JSON list."""
        path, _, query = request.path.partition("?")
        return path.endswith(_STREAMED) and "alt=sse" in query.split("&")

    def stream(self, reply: ModelReply, request: RecordedRequest) -> list[bytes]:
        """Return the events of a streamed reply."""
        events = [b"data: " + to_json(chunk) + b"\r\n\r\n" for chunk in self._chunks(reply, request)]
        if reply.error is not None:  # raw JSON of several lines, which is not an event
            message = to_json({"code": 500, "status": "INTERNAL", **reply.error})
            events.append(b'{\n  "error": ' + message + b"\n}\n")
        return events

    def whole(self, reply: ModelReply, request: RecordedRequest) -> bytes:
        """Return a reply that is not streamed, or not as events."""
        if reply.error is not None:
            return to_json({"error": reply.error})
        if request.path.partition("?")[0].endswith(_STREAMED):
            return to_json(self._chunks(reply, request))
        parts = self._parts(reply, fragment=False)
        return to_json(self._chunk(parts, reply, request) | _usage(reply))

    def error(self, reply: ModelReply) -> bytes:
        """Return the body of a reply with an error status."""
        message = reply.text or f"scripted status {reply.status}"
        status = _STATUS_NAMES.get(reply.status, "INTERNAL")
        return to_json({"error": reply.error or {"code": reply.status, "message": message, "status": status}})

    def check(self, request: RecordedRequest) -> ModelReply | None:
        """Refuse requests that a real endpoint refuses."""
        fault = find_fault(request.body, self._signed_calls)
        parts = [part for _, turn in _merged_turns(request.body) for part in turn]
        if changed := self._sent.find_changed(parts, request.content):
            fault = f"The part {changed} is not as it was sent."
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
        """Return a part of the response; the last one has the finish reason."""
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        if ended is not None and ended.fault != "no_terminal":
            candidate["finishReason"] = _finish_reason(ended)
            if ended.usage is not None and ended.usage.web_searches:
                queries = [f"query {number}" for number in range(1, ended.usage.web_searches + 1)]
                candidate["groundingMetadata"] = {"webSearchQueries": queries}
        model = request.path.partition("?")[0].rpartition("/")[2].partition(":")[0]
        number = next(self._numbers)
        return {"candidates": [candidate], "modelVersion": model, "responseId": f"response-{number}"}

    def _parts(self, reply: ModelReply, *, fragment: bool) -> list[dict[str, Any]]:
        texts = pieces(reply.text, reply) if fragment else filter(None, [reply.text])
        thoughts = pieces(reply.reasoning, reply) if fragment else filter(None, [reply.reasoning])
        parts: list[dict[str, Any]] = [{"text": piece, "thought": True} for piece in thoughts]
        self._sent.remember(reply.blocks)
        parts += map(dict, reply.blocks)
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
    """Return a call as a part; none if its arguments are not an object, which the protocol cannot express."""
    arguments = parsed_arguments(call)
    if arguments is None:
        return []
    identity = {"id": call.id} if call.id else {}
    return [{"functionCall": {**identity, "name": call.name, "args": arguments}}]


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

"""Turns of a script as responses of the Chat Completions protocol. No I/O here."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from .answer import STAMP, Answer, streamed_answer, whole_answer
from .script import SENT_AT, Call, Turn

__all__ = ["ChatRequest", "chat_answers", "pieces"]

PIECE = 12
"""Characters in one piece of a text or of arguments, about what one to three tokens are."""

_USAGE = {
    "prompt_tokens": 1000,
    "completion_tokens": 50,
    "total_tokens": 1050,
    "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
}


class _Message(msgspec.Struct):
    role: str


class ChatRequest(msgspec.Struct):
    """What of a request decides the answer."""

    messages: list[_Message]
    stream: bool = False

    @property
    def turn(self) -> int:
        """Which turn of the script is asked for."""
        return sum(message.role == "assistant" for message in self.messages)


def chat_answers(
    turn: Turn, index: int, *, goes_on: bool, fields: Mapping[str, Any]
) -> tuple[Answer, Answer]:
    """A turn in one piece and as a stream.

    Args:
        turn: The turn.
        index: Which turn of its script it is; it is in the ids.
        goes_on: Whether the stream goes on with the text, if there is one, once the calls are complete;
            otherwise the text is first.
        fields: What the response in one piece holds in place of the usual or besides it.
    """
    return _whole(turn, index, fields), _streamed(turn, index, goes_on=goes_on)


def pieces(text: str) -> Iterator[str]:
    """A text in pieces as a model sends it, none of them cutting the moment of sending."""
    head, stamp, tail = text.partition(STAMP.decode())
    for part in (head, stamp, tail):
        size = PIECE if part != stamp else len(part)
        yield from (part[start : start + size] for start in range(0, len(part), size or 1))


def _whole(turn: Turn, index: int, fields: Mapping[str, Any]) -> Answer:
    message: dict[str, Any] = {"role": "assistant", "content": turn.text or None, "refusal": None}
    if turn.calls:
        message["tool_calls"] = [
            {"id": _call_id(index, number), "type": "function", "function": _function(call)}
            for number, call in enumerate(turn.calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": _reason(turn), "logprobs": None}
    body = {**_shell(index, "chat.completion"), "choices": [choice], "usage": _USAGE, **fields}
    return whole_answer(msgspec.json.encode(body))


def _streamed(turn: Turn, index: int, *, goes_on: bool) -> Answer:
    text = [_event(index, {"content": piece}) for piece in pieces(turn.text)]
    calls = [_event(index, delta) for delta in _call_deltas(turn, index)]
    opening = _event(index, {"role": "assistant", "content": "" if turn.text else None, "refusal": None})
    usage = {**_shell(index, "chat.completion.chunk"), "choices": [], "usage": _USAGE}
    ending = [_event(index, {}, _reason(turn)), _as_event(usage), b"data: [DONE]\n\n"]
    if goes_on and text:
        return streamed_answer([opening, *calls], [*text, b"".join(ending)])
    return streamed_answer([opening, *text, *calls, *ending])


def _call_deltas(turn: Turn, index: int) -> Iterator[dict[str, Any]]:
    for number, call in enumerate(turn.calls):
        function = {"name": call.name, "arguments": ""}
        yield {
            "tool_calls": [
                {"index": number, "id": _call_id(index, number), "type": "function", "function": function}
            ]
        }
        for piece in pieces(_function(call)["arguments"]):
            yield {"tool_calls": [{"index": number, "function": {"arguments": piece}}]}


def _function(call: Call) -> dict[str, str]:
    arguments = msgspec.json.encode(call.arguments).decode()
    return {"name": call.name, "arguments": arguments.replace(SENT_AT, STAMP.decode())}


def _call_id(index: int, number: int) -> str:
    return f"call_{index:04}{number:04}abcdefghijklmnop"


def _reason(turn: Turn) -> str:
    return "tool_calls" if turn.calls else "stop"


def _shell(index: int, kind: str) -> dict[str, Any]:
    name = f"chatcmpl-{index:04}abcdefghijklmnopqrstuvwxy"
    return {
        "id": name,
        "object": kind,
        "created": 1700000000,
        "model": "benchmark",
        "system_fingerprint": "fp_1",
    }


def _event(index: int, delta: dict[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    return _as_event({**_shell(index, "chat.completion.chunk"), "choices": [choice], "usage": None})


def _as_event(value: dict[str, Any]) -> bytes:
    return b"data: %s\n\n" % msgspec.json.encode(value)

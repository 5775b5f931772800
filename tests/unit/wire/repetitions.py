"""Responses in which one thing is repeated, for each protocol and each thing that can be.

Each is made of two parts: what stands around it, and the things, so many as are asked for.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

__all__ = ["REPETITIONS", "WHOLE_REPETITIONS", "event_stream"]

MakePayloads: TypeAlias = Callable[[int], Iterable[Any]]


def event_stream(payloads: Iterable[Any]) -> bytes:
    """Payloads as unnamed events; bytes stand for themselves."""
    return b"".join(
        each if isinstance(each, bytes) else b"data: %s\n\n" % json.dumps(each).encode() for each in payloads
    )


# --- Responses ---


def _completed(*output: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "response.completed", "response": {"status": "completed", "output": list(output)}}


def _added(**item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "item": item}


def _done(**item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "item": item}


def _call(number: int, **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": f"c{number}", "name": "look", "arguments": "{}", **fields}


def _text(delta: str = "word ", **fields: Any) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "delta": delta, **fields}


def _arguments(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.function_call_arguments.{kind}", **fields}


_LOOK = _added(type="function_call", id="i", call_id="c", name="look")
_PART = {"type": "output_text", "text": "word"}

RESPONSES: Mapping[str, MakePayloads] = {
    "text deltas": lambda n: [*[_text(item_id="m")] * n, _completed()],
    "text deltas of no item behind other items": lambda n: [
        _text(),
        *[_added(type="reasoning", id=f"r{each}") for each in range(n)],
        *[_text()] * n,
        _completed(),
    ],
    "ends of one text": lambda n: [
        *[_text(item_id="m")] * n,
        *[{"type": "response.output_text.done", "item_id": "m", "text": ""}] * n,
        _completed(),
    ],
    "ends of one text between its deltas": lambda n: [
        *[_text(item_id="m"), {"type": "response.output_text.done", "item_id": "m", "text": ""}] * n,
        _completed(),
    ],
    "ends of one part": lambda n: [
        *[_text(item_id="m")] * n,
        *[{"type": "response.content_part.done", "item_id": "m", "part": {"type": "output_text"}}] * n,
        _completed(),
    ],
    "content parts": lambda n: [
        *[_text(item_id="m", content_index=each) for each in range(n)],
        _done(type="message", id="m", content=[_PART] * n),
        _completed(),
    ],
    "reasoning summaries": lambda n: [
        *[
            {"type": "response.reasoning_summary_text.delta", "delta": "hm", "summary_index": each}
            for each in range(n)
        ],
        _completed(),
    ],
    "items listed at the end": lambda n: [_completed(*[{"type": "message", "content": [_PART]}] * n)],
    "items added and listed": lambda n: [
        *[_added(type="message")] * n,
        _completed(*[{"type": "message"}] * n),
    ],
    "items added and listed under ids": lambda n: [
        *[_added(type="message", id=f"m{each}") for each in range(n)],
        _completed(*[{"type": "message", "id": f"m{each}"} for each in range(n)]),
    ],
    "items added and listed under one id": lambda n: [
        *[_added(type="message", id="m")] * n,
        *[_done(type="message", id="m")] * n,
        _completed(*[{"type": "message", "id": "m"}] * n),
    ],
    "items added, and others listed between them": lambda n: [
        *[_added(type="message", id=f"m{each}") for each in range(n)],
        _completed(
            *[
                item
                for each in range(n)
                for item in ({"type": "message", "id": f"m{each}"}, {"type": "reasoning", "id": f"r{each}"})
            ]
        ),
    ],
    "calls added, and others listed": lambda n: [
        *[_added(**_call(each)) for each in range(n)],
        *[_done(**_call(each)) for each in range(n)],
        _completed(*[_call(n + each, name="other", arguments='{"a": 1}') for each in range(n)]),
    ],
    "calls added, and done under other ids": lambda n: [
        *[_added(**_call(each)) for each in range(n)],
        *[_done(**_call(n + each)) for each in range(n)],
        _completed(),
    ],
    "items done and never added": lambda n: [
        *[_done(type="reasoning", id=f"r{each}") for each in range(n)],
        _completed(),
    ],
    "arguments of one call": lambda n: [
        _LOOK,
        _arguments("delta", item_id="i", delta='{"a": "'),
        *[_arguments("delta", item_id="i", delta="word ")] * n,
        _arguments("delta", item_id="i", delta='"}'),
        _completed(),
    ],
    "arguments of a call without a name": lambda n: [
        *[_arguments("delta", item_id="i", delta="word ")] * n,
        _completed(),
    ],
    "ends of the arguments of one call": lambda n: [
        _LOOK,
        *[_arguments("delta", item_id="i", delta='{"a": ')] * n,
        *[_arguments("done", item_id="i", arguments="")] * n,
        _completed(),
    ],
    "ends of the arguments of one call between its arguments": lambda n: [
        _LOOK,
        *[_arguments("delta", item_id="i", delta='{"a": '), _arguments("done", item_id="i", arguments="")]
        * n,
        _completed(),
    ],
    "ends of arguments that are an empty object": lambda n: [
        _LOOK,
        _arguments("delta", item_id="i", delta="{}"),
        *[_arguments("delta", item_id="i", delta=" "), _arguments("done", item_id="i", arguments="")] * n,
        _completed(),
    ],
    "unknown events": lambda n: [
        *[{"type": "response.output_text.annotation.added", "annotation": {"index": 1}}] * n,
        _completed(),
    ],
}

# --- Chat Completions ---


def _chunk(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta}]}


def _fragment(arguments: str = "", **fields: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": fields.pop("name")} if "name" in fields else {})}
    return _chunk(tool_calls=[{**fields, "function": function}])


_CHAT_END = ({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}, b"data: [DONE]\n\n")
_DETAIL = {"type": "reasoning.text", "text": "hm", "index": 0}

CHAT: Mapping[str, MakePayloads] = {
    "text deltas": lambda n: [*[_chunk(content="word ")] * n, *_CHAT_END],
    "reasoning deltas": lambda n: [*[_chunk(reasoning="word ")] * n, *_CHAT_END],
    "reasoning details": lambda n: [*[_chunk(reasoning_details=[_DETAIL])] * n, *_CHAT_END],
    "reasoning details of one chunk": lambda n: [_chunk(reasoning_details=[_DETAIL] * n), *_CHAT_END],
    "content parts": lambda n: [_chunk(content=[{"type": "text", "text": "word "}] * n), *_CHAT_END],
    "calls": lambda n: [
        *[_fragment('{"a": 1}', index=each, id=f"c{each}", name="look") for each in range(n)],
        *_CHAT_END,
    ],
    "calls of one chunk": lambda n: [
        _chunk(
            tool_calls=[
                {"index": each, "id": f"c{each}", "function": {"name": "look", "arguments": '{"a": 1}'}}
                for each in range(n)
            ]
        ),
        *_CHAT_END,
    ],
    "calls that are never complete": lambda n: [
        *[_fragment('{"a": ', index=each, id=f"c{each}", name="look") for each in range(n)],
        *_CHAT_END,
    ],
    "calls behind one that has no name": lambda n: [
        _fragment('{"a": 1}', index=0, id="c0"),
        *[_fragment('{"a": 1}', index=each, id=f"c{each}", name="look") for each in range(1, n)],
        _fragment(index=0, name="look"),
        *_CHAT_END,
    ],
    "calls with empty objects": lambda n: [
        _fragment(index=0, id="c0", name="look"),
        *[_fragment("{}", index=each, id=f"c{each}", name="look") for each in range(1, n)],
        *_CHAT_END,
    ],
    "calls at one place": lambda n: [
        *[_fragment('{"a": ', index=0, id=f"c{each}", name="look") for each in range(n)],
        *_CHAT_END,
    ],
    "arguments of one call": lambda n: [
        _fragment('{"a": "', index=0, id="c", name="look"),
        *[_fragment("word ", index=0)] * n,
        _fragment('"}', index=0),
        *_CHAT_END,
    ],
    "arguments of a call without a name": lambda n: [
        _fragment('{"a": "', index=0, id="c"),
        *[_fragment("word ", index=0)] * n,
        _fragment('"}', index=0, name="look"),
        *_CHAT_END,
    ],
    "empty objects of one call": lambda n: [
        _fragment("{}", index=0, id="c", name="look"),
        *[_fragment("{}", index=0)] * n,
        *_CHAT_END,
    ],
    "choices": lambda n: [
        {"choices": [{"index": each, "delta": {"content": "word "}} for each in range(n)]},
        *_CHAT_END,
    ],
    "probabilities": lambda n: [
        {"choices": [{"index": 0, "delta": {}, "logprobs": {"content": [{"token": "word"}] * n}}]},
        *_CHAT_END,
    ],
    "signed calls": lambda n: [
        *[
            _fragment('{"a": 1}', index=each, id=f"c{each}", name="look", extra_content={"google": {}})
            for each in range(n)
        ],
        *_CHAT_END,
    ],
    "reports of usage": lambda n: [
        *[{"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": each}} for each in range(n)],
        *_CHAT_END,
    ],
    "ends": lambda n: [*[_CHAT_END[0]] * n, *_CHAT_END],
}

# --- Anthropic Messages ---


def _start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _delta(index: int, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


_CUT = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}}
_ANTHROPIC_END = (_CUT, {"type": "message_stop"})
_TOOL = {"type": "tool_use", "id": "t", "name": "look", "input": {}}

ANTHROPIC: Mapping[str, MakePayloads] = {
    "text deltas": lambda n: [*[_delta(0, type="text_delta", text="word ")] * n, *_ANTHROPIC_END],
    "thinking deltas": lambda n: [
        *[_delta(0, type="thinking_delta", thinking="word ")] * n,
        _delta(0, type="signature_delta", signature="S"),
        *_ANTHROPIC_END,
    ],
    "signatures": lambda n: [*[_delta(0, type="signature_delta", signature="S")] * n, *_ANTHROPIC_END],
    "citations": lambda n: [
        *[_delta(0, type="text_delta", text="a"), _delta(0, type="citations_delta", citation={"a": 1})] * n,
        *_ANTHROPIC_END,
    ],
    "calls": lambda n: [
        *[
            event
            for each in range(n)
            for event in (
                _start(each, **_TOOL),
                _delta(each, type="input_json_delta", partial_json='{"a": 1}'),
                _stop(each),
            )
        ],
        *_ANTHROPIC_END,
    ],
    "calls that are never complete": lambda n: [
        *[event for each in range(n) for event in (_start(each, **_TOOL), _stop(each))],
        *_ANTHROPIC_END,
    ],
    "blocks that never end": lambda n: [
        *[_start(each, type="text", text="word") for each in range(n)],
        *_ANTHROPIC_END,
    ],
    "arguments of one call": lambda n: [
        _start(0, **_TOOL),
        _delta(0, type="input_json_delta", partial_json='{"a": "'),
        *[_delta(0, type="input_json_delta", partial_json="word ")] * n,
        _delta(0, type="input_json_delta", partial_json='"}'),
        _stop(0),
        *_ANTHROPIC_END,
    ],
    "ends of blocks": lambda n: [_start(0, type="text"), *[_stop(0)] * n, *_ANTHROPIC_END],
    "stop reasons behind blocks": lambda n: [
        *[event for each in range(n) for event in (_start(each, type="text", text="a"), _stop(each))],
        *[_CUT] * n,
        *_ANTHROPIC_END,
    ],
    "pings": lambda n: [*[{"type": "ping"}] * n, *_ANTHROPIC_END],
}

# --- Gemini ---


def _candidate(*parts: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts)}, **fields}]}


_GOOGLE_END = _candidate(finishReason="STOP")
_LOOK_CALL = {"functionCall": {"name": "look", "args": {"a": 1}}}

GOOGLE: Mapping[str, MakePayloads] = {
    "texts": lambda n: [*[_candidate({"text": "word "})] * n, _GOOGLE_END],
    "texts of one chunk": lambda n: [_candidate(*[{"text": "word "}] * n), _GOOGLE_END],
    "texts of a signed answer": lambda n: [
        _candidate({"text": "hm", "thought": True, "thoughtSignature": "S"}),
        *[_candidate({"text": "word "})] * n,
        _GOOGLE_END,
    ],
    "signed texts": lambda n: [*[_candidate({"text": "a", "thoughtSignature": "S"})] * n, _GOOGLE_END],
    "calls": lambda n: [*[_candidate(_LOOK_CALL)] * n, _GOOGLE_END],
    "calls of one chunk": lambda n: [_candidate(*[_LOOK_CALL] * n), _GOOGLE_END],
    "candidates": lambda n: [
        {"candidates": [{"index": each, "content": {"parts": [{"text": "a"}]}} for each in range(n)]},
        _GOOGLE_END,
    ],
    "reports of usage": lambda n: [
        *[{"usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": each}} for each in range(n)],
        _GOOGLE_END,
    ],
    "ends": lambda n: [_GOOGLE_END] * n,
}

# --- the lines of an event stream, before any protocol ---

LINES: Mapping[str, MakePayloads] = {
    "comments": lambda n: [b": ping\n\n" * n, *_CHAT_END],
    "empty lines": lambda n: [b"\n" * n, *_CHAT_END],
    "empty events": lambda n: [b"data:\n\n" * n, *_CHAT_END],
    "lines of one event": lambda n: [b"data: {\n" + b"data: \n" * n + b"data: }\n\n", *_CHAT_END],
    "fields": lambda n: [b"event: a\nid: 1\nretry: 2\nother: b\n" * n + b"\n", *_CHAT_END],
    "characters of one line": lambda n: [_chunk(content="word " * n), *_CHAT_END],
}

REPETITIONS: Mapping[str, Mapping[str, MakePayloads]] = {
    "openai-responses": RESPONSES,
    "openai-chat": {**CHAT, **LINES},
    "anthropic": ANTHROPIC,
    "google": GOOGLE,
}
"""By protocol, and by what is repeated: the payloads of a stream with so many of it."""

_CHAT_CALL = {"id": "c", "function": {"name": "look", "arguments": '{"a": 1}'}}

WHOLE_REPETITIONS: Mapping[str, Mapping[str, Callable[[int], Any]]] = {
    "openai-responses": {
        "items": lambda n: {"status": "completed", "output": [{"type": "message", "content": [_PART]}] * n},
        "calls": lambda n: {"status": "completed", "output": [_call(each) for each in range(n)]},
        "parts": lambda n: {"status": "completed", "output": [{"type": "message", "content": [_PART] * n}]},
    },
    "openai-chat": {
        "calls": lambda n: {"choices": [{"message": {"tool_calls": [_CHAT_CALL] * n}}]},
        "choices": lambda n: {"choices": [{"message": {"content": "a"}}] * n},
    },
    "anthropic": {
        "calls": lambda n: {"content": [_TOOL] * n, "stop_reason": "tool_use"},
        "texts": lambda n: {"content": [{"type": "text", "text": "a"}] * n, "stop_reason": "end_turn"},
        "thinking": lambda n: {
            "content": [
                {"type": "thinking", "thinking": "a", "signature": "S"},
                {"type": "text", "text": "a"},
            ]
            * n,
            "stop_reason": "end_turn",
        },
    },
    "google": {
        "chunks": lambda n: [*[_candidate({"text": "a", "thoughtSignature": "S"})] * n, _GOOGLE_END],
        "calls": lambda n: _candidate(*[_LOOK_CALL] * n, finishReason="STOP"),
    },
}
"""The same for answers in one JSON document."""

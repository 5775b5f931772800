"""One good response of each protocol, streamed and whole, with everything in it that a codec keeps.

Each holds reasoning that the provider wants back, text, a call with arguments and one without, and usage.
Tests change them: `mutations`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nighthawk_async.wire.anthropic.codec import AnthropicCodec
from nighthawk_async.wire.codec import Codec
from nighthawk_async.wire.google.codec import GoogleCodec
from nighthawk_async.wire.openai_chat.codec import OpenAIChatCodec
from nighthawk_async.wire.openai_responses.codec import OpenAIResponsesCodec

__all__ = ["GOOD_RESPONSES", "GoodResponse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodResponse:
    """A response that a codec understands.

    Args:
        codec: The codec.
        stream: The payloads of its events, in order.
        whole: The same in one document.
        request_settings: Settings with which as much of it as possible is sent back.
    """

    codec: Codec
    stream: list[Any]
    whole: Any
    request_settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


def _anthropic() -> GoodResponse:
    blocks = [
        ({"type": "thinking", "thinking": "", "signature": ""}, {"type": "thinking_delta", "thinking": "hm"}),
        ({"type": "redacted_thinking", "data": "R"},),
        ({"type": "text", "text": ""}, {"type": "text_delta", "text": "So."}),
        (
            {"type": "tool_use", "id": "t1", "name": "look", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"a":'},
            {"type": "input_json_delta", "partial_json": "1}"},
        ),
        ({"type": "tool_use", "id": "t2", "name": "end", "input": {}},),
    ]
    usage = {"input_tokens": 3, "output_tokens": 1, "cache_read_input_tokens": 2}
    start = {"id": "m1", "model": "claude", "role": "assistant", "content": [], "usage": usage}
    events: list[Any] = [{"type": "message_start", "message": start}]
    for index, (block, *deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        if index == 0:
            deltas.append({"type": "signature_delta", "signature": "S"})
        events += [{"type": "content_block_delta", "index": index, "delta": each} for each in deltas]
        events.append({"type": "content_block_stop", "index": index})
    end = {"delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": {"output_tokens": 9}}
    events += [{"type": "message_delta", **end}, {"type": "message_stop"}]
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "S"},
        {"type": "text", "text": "So.", "citations": [{"cited_text": "x"}]},
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"a": 1}},
        {"type": "tool_use", "id": "t2", "name": "end", "input": {}},
    ]
    whole = {"type": "message", **start, "content": content, "stop_reason": "tool_use"}
    return GoodResponse(codec=AnthropicCodec(), stream=events, whole=whole)


def _google() -> GoodResponse:
    parts: list[dict[str, Any]] = [
        {"text": "hm", "thought": True},
        {"text": "So."},
        {"functionCall": {"id": "g1", "name": "look", "args": {"a": 1}}, "thoughtSignature": "U0lH"},
        {"functionCall": {"name": "end", "args": {}}},
    ]
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 4, "thoughtsTokenCount": 2}
    chunks: list[Any] = [
        {"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}], "modelVersion": "g"}
        for part in parts
    ]
    last = {"content": {"parts": [{"text": "", "thoughtSignature": "RU5E"}]}, "finishReason": "STOP"}
    chunks += [{"candidates": [last], "responseId": "r1"}, {"usageMetadata": usage}]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    return GoodResponse(
        codec=GoogleCodec(), stream=chunks, whole={"candidates": [candidate], "usageMetadata": usage}
    )


def _responses() -> GoodResponse:
    reasoning = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "E",
        "status": "completed",
    }
    text = {"type": "output_text", "text": "So.", "annotations": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "content": [text]}
    first = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": '{"a":1}'}
    last = {"type": "function_call", "id": "fc_2", "call_id": "c2", "name": "end", "arguments": "{}"}
    items = [reasoning, message, first, last]
    response: dict[str, Any] = {"id": "resp_1", "model": "gpt", "status": "completed", "output": items}
    response["usage"] = {
        "input_tokens": 3,
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 2},
    }
    inside: list[tuple[str, int, dict[str, Any]]] = [
        ("reasoning_summary_text.delta", 0, {"item_id": "rs_1", "summary_index": 0, "delta": "hm"}),
        ("output_text.delta", 1, {"item_id": "msg_1", "content_index": 0, "delta": "So"}),
        ("content_part.done", 1, {"item_id": "msg_1", "content_index": 0, "part": text}),
        ("function_call_arguments.delta", 2, {"item_id": "fc_1", "delta": '{"a"'}),
        ("function_call_arguments.done", 2, {"item_id": "fc_1", "arguments": '{"a":1}'}),
    ]
    events: list[Any] = [{"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}]
    empty = {"summary": [], "content": [], "arguments": ""}
    for index, item in enumerate(items):
        begun = {name: empty.get(name, value) for name, value in item.items()}
        events.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        events += [
            {"type": f"response.{kind}", "output_index": place, **fields}
            for kind, place, fields in inside
            if place == index
        ]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": response})
    return GoodResponse(codec=OpenAIResponsesCodec(), stream=events, whole=response)


def _chat() -> GoodResponse:
    def detail(text: str, **fields: str) -> dict[str, Any]:
        return {"type": "reasoning.text", "text": text, "index": 0, **fields}

    def call(index: int, id: str, name: str, arguments: str) -> dict[str, Any]:
        function = {"name": name, "arguments": arguments}
        return {"index": index, "id": id, "type": "function", "function": function}

    signed = {**call(0, "c1", "look", '{"a":'), "extra_content": {"google": {"thought_signature": "S"}}}
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "reasoning": "h", "reasoning_details": [detail("h")]},
        {"reasoning": "m", "reasoning_details": [detail("m", signature="S")]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "E", "index": 1}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "!"}]}]},
        {"content": "So.", "refusal": None},
        {"tool_calls": [signed]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]},
        {"tool_calls": [call(1, "c2", "end", "{}")]},
    ]
    events: list[Any] = [
        {"id": "x", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 2}}
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    events.append({"choices": [], "usage": usage})
    message = {
        "role": "assistant",
        "content": "So.",
        "reasoning_content": "hm",
        "reasoning_details": [detail("hm", signature="S")],
        "tool_calls": [call(0, "c1", "look", '{"a":1}'), call(1, "c2", "end", "{}")],
    }
    whole = {
        "id": "x",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage,
    }
    return GoodResponse(
        codec=OpenAIChatCodec(), stream=events, whole=whole, request_settings={"replay_reasoning": True}
    )


GOOD_RESPONSES: Mapping[str, GoodResponse] = {
    good.codec.name: good for good in (_anthropic(), _google(), _responses(), _chat())
}
"""By the name of the protocol."""

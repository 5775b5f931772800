"""One good response of each protocol, streamed and whole, with everything in it that a codec keeps.

Each holds reasoning that the provider wants back, text, a call with arguments and one without, usage, and
calls of the provider's own tools in protocols that show them.
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
    found = {"type": "web_search_result", "url": "https://a.example", "encrypted_content": "E"}
    searched = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [found]}
    fault = {"type": "bash_code_execution_tool_result_error", "error_code": "unavailable"}
    failed = {"type": "bash_code_execution_tool_result", "tool_use_id": "s2", "content": fault}
    blocks = [
        ({"type": "thinking", "thinking": "", "signature": ""}, {"type": "thinking_delta", "thinking": "hm"}),
        ({"type": "redacted_thinking", "data": "R"},),
        (
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"query": "q"}'},
        ),
        (searched,),
        ({"type": "server_tool_use", "id": "s2", "name": "bash_code_execution", "input": {"command": "ls"}},),
        (failed,),
        (
            {"type": "text", "text": ""},
            {"type": "text_delta", "text": "So."},
            {"type": "citations_delta", "citation": {"cited_text": "x"}},
        ),
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
    uses = {"server_tool_use": {"web_search_requests": 1}}
    stop = {"stop_reason": "tool_use", "stop_sequence": None, "container": {"id": "container_1"}}
    end = {"delta": stop, "usage": {"output_tokens": 9, **uses}}
    events += [{"type": "message_delta", **end}, {"type": "message_stop"}]
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "S"},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
        searched,
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
        {"toolCall": {"id": "n1", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["q"]}}},
        {"toolResponse": {"id": "n1", "toolType": "GOOGLE_SEARCH_WEB", "response": {"html": "h"}}},
        {"executableCode": {"id": "n2", "language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"id": "n2", "outcome": "OUTCOME_OK", "output": "1"}},
        {"functionCall": {"id": "g1", "name": "look", "args": {"a": 1}}, "thoughtSignature": "U0lH"},
        {"functionCall": {"name": "end", "args": {}}},
    ]
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 4, "thoughtsTokenCount": 2}
    chunks: list[Any] = [
        {"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}], "modelVersion": "g"}
        for part in parts
    ]
    sources = {"groundingMetadata": {"webSearchQueries": ["q"]}}
    signature = {"parts": [{"text": "", "thoughtSignature": "RU5E"}]}
    last = {"content": signature, "finishReason": "STOP", **sources}
    chunks += [{"candidates": [last], "responseId": "r1"}, {"usageMetadata": usage}]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0, **sources}
    return GoodResponse(
        codec=GoogleCodec(), stream=chunks, whole={"candidates": [candidate], "usageMetadata": usage}
    )


def _native_items() -> list[dict[str, Any]]:
    """Calls of OpenAI's own tools."""
    source = {"type": "url", "url": "https://a.example"}
    action = {"type": "search", "query": "q", "sources": [source]}
    run = {"code": "1", "container_id": "cntr_1", "outputs": [{"type": "logs", "logs": "1"}]}
    return [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": action},
        {"type": "code_interpreter_call", "id": "ci_1", "status": "completed", **run},
        {"type": "file_search_call", "id": "fs_1", "status": "failed", "queries": ["q"], "results": None},
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "server_label": "s",
            "name": "n",
            "arguments": "{}",
            "output": "o",
        },
    ]


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
    items = [reasoning, *_native_items(), message, first, last]
    response: dict[str, Any] = {"id": "resp_1", "model": "gpt", "status": "completed", "output": items}
    response["tool_usage"] = {"web_search": {"num_requests": 1}}
    response["usage"] = {
        "input_tokens": 3,
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 2},
    }
    inside: list[tuple[str, int, dict[str, Any]]] = [
        ("reasoning_summary_text.delta", 0, {"item_id": "rs_1", "summary_index": 0, "delta": "hm"}),
        ("output_text.delta", 5, {"item_id": "msg_1", "content_index": 0, "delta": "So"}),
        ("content_part.done", 5, {"item_id": "msg_1", "content_index": 0, "part": text}),
        ("function_call_arguments.delta", 6, {"item_id": "fc_1", "delta": '{"a"'}),
        ("function_call_arguments.done", 6, {"item_id": "fc_1", "arguments": '{"a":1}'}),
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
        "annotations": [{"type": "url_citation", "url_citation": {"url": "https://a.example"}}],
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

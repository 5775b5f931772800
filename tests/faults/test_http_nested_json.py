"""JSON that is nested more than anybody can walk through, wherever an endpoint can send it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from nighthawk_async.agent.outcome_codec import parse_json_object
from nighthawk_async.errors import ExecutionError, ModelProtocolError, ModelStatusError
from nighthawk_async.models.providers import create_codec
from nighthawk_async.types.messages import ToolCall
from nighthawk_async.wire.json_text import MAX_DEPTH, arguments_object, check_depth, decode_json
from nighthawk_async.wire.provider_errors import find_bare_error, status_error
from nighthawk_async.wire.sse import ServerSentEvent

DEPTHS = [MAX_DEPTH, 900, 1_100, 8_000, 50_000]

_HOLE = '"HOLE"'


def nested_list(depth: int) -> str:
    return "[" * depth + "]" * depth


def nested_object(depth: int) -> str:
    return '{"text":' * depth + "1" + "}" * depth


def nested_parts(depth: int) -> str:
    return '[{"type":"text","text":' * (depth // 2) + '"a"' + "}]" * (depth // 2)


def unclosed(depth: int) -> str:
    return "[" * depth


EVENTS: dict[str, list[Any]] = {
    "openai-chat": [
        {"choices": [{"delta": {"content": "HOLE"}}]},
        {"choices": [{"delta": {"reasoning_details": "HOLE"}}]},
        {"choices": [{"delta": {"extra_content": "HOLE"}}]},
        {"choices": [{"delta": {"tool_calls": [{"function": {"name": "f", "arguments": "HOLE"}}]}}]},
        {"choices": [{"error": "HOLE"}]},
        {"error": "HOLE"},
        {"error": {"message": "HOLE"}},
        {"unknown": "HOLE"},
    ],
    "openai-responses": [
        {"type": "response.output_item.done", "item": {"type": "reasoning", "content": "HOLE"}},
        {"type": "response.output_item.done", "item": {"type": "new", "more": "HOLE"}},
        {"type": "response.output_item.done", "item": {"type": "function_call", "arguments": {"a": "HOLE"}}},
        {"type": "response.completed", "response": {"output": [{"type": "message", "content": "HOLE"}]}},
        {"type": "response.failed", "response": {"error": "HOLE"}},
        {"type": "error", "message": "HOLE"},
        {"type": "response.new", "more": "HOLE"},
    ],
    "anthropic": [
        {"type": "content_block_start", "content_block": {"type": "tool_use", "name": "f", "input": "HOLE"}},
        {"type": "content_block_start", "content_block": {"type": "HOLE"}},
        {"type": "content_block_delta", "delta": {"type": "citations_delta", "citation": {"a": "HOLE"}}},
        {"type": "error", "error": "HOLE"},
        {"type": "new", "more": "HOLE"},
    ],
    "google": [
        {"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": "HOLE"}}]}}]},
        {"candidates": [{"content": {"parts": [{"new": "HOLE", "thoughtSignature": "S"}]}}]},
        {"error": "HOLE"},
        {"new": "HOLE"},
    ],
}


@pytest.mark.parametrize("nested", [nested_list, nested_object, nested_parts, unclosed])
@pytest.mark.parametrize("protocol", EVENTS)
def test_an_event_of_any_depth_is_a_protocol_error(protocol: str, nested: Callable[[int], str]) -> None:
    let_through: list[tuple[str, int, str]] = []
    for template in map(json.dumps, EVENTS[protocol]):
        for depth in DEPTHS:
            data = template.replace(_HOLE, nested(depth)).encode()
            for name, decode in _decoders(protocol).items():
                try:
                    decode(data)
                except ModelProtocolError:
                    continue
                except Exception as error:
                    name = f"{name}: {type(error).__name__}"
                let_through.append((template, depth, name))
    assert let_through == []


def _decoders(protocol: str) -> dict[str, Callable[[bytes], object]]:
    return {
        "event": lambda data: create_codec(protocol).decoder().feed(ServerSentEvent(data=data)),
        "error event": lambda data: (
            create_codec(protocol).decoder().feed(ServerSentEvent(data=data, event="error"))
        ),
        "response": lambda data: create_codec(protocol).decode_response(data),
    }


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("nested", [nested_list, nested_object, unclosed])
def test_the_body_of_an_error_may_be_of_any_depth(nested: Callable[[int], str], depth: int) -> None:
    for template in (_HOLE, f'{{"error": {_HOLE}}}', f'{{"error": {{"message": {_HOLE}}}}}'):
        body = template.replace(_HOLE, nested(depth)).encode()
        error = status_error(503, {}, body)

        assert isinstance(error, ModelStatusError)
        assert error.is_transient
        assert len(str(error)) < 1_000
        assert find_bare_error(body[:4_096]) is None or len(body) <= 4_096


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("nested", [nested_list, nested_object, unclosed])
def test_arguments_of_any_depth_go_back_as_a_text(nested: Callable[[int], str], depth: int) -> None:
    arguments = f'{{"a": {nested(depth)}}}'
    call = ToolCall(id="c", name="look", arguments=arguments)

    assert arguments_object(call.arguments) == {"malformed_arguments": arguments}


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("nested", [nested_list, nested_object, unclosed])
def test_an_answer_of_any_depth_is_refused(nested: Callable[[int], str], depth: int) -> None:
    with pytest.raises(ExecutionError, match="not JSON"):
        parse_json_object(f'{{"a": {nested(depth)}}}')


def test_brackets_in_texts_do_not_count() -> None:
    text = json.dumps({"text": '[{"\\' * 1_000, "more": [[["]" * 1_000]]]})

    check_depth(text)
    check_depth(text.encode())
    assert decode_json(text) == json.loads(text)


def test_brackets_beside_each_other_do_not_count() -> None:
    assert decode_json("[" + "[{}]," * 100_000 + "1]")[-1] == 1


def test_the_deepest_that_is_allowed_is_decoded() -> None:
    assert json.dumps(decode_json(nested_list(MAX_DEPTH)), separators=(",", ":")) == nested_list(MAX_DEPTH)

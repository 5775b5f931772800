"""Content is shown when somebody asks for it, in the shapes of the conventions, and never with keys."""

import json
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.catalog.telemetry_names import BASELINE
from nighthawk_async.telemetry.attributes import request_content
from nighthawk_async.testing import ModelReply, ModelServer

from .agents import OUTCOME, act, agent, assign, evaluate
from .test_span_attributes import endpoint_of
from .traces import Traces, telemetry

pytestmark = pytest.mark.anyio

CONTENT = {
    "gen_ai.system_instructions",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.tool.definitions",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
}


def shown(traces: Traces) -> set[str]:
    return {name for span in traces.spans for name in span.attributes or {}}


async def test_no_content_is_shown_unless_somebody_asks(traces: Traces) -> None:
    async with nh.run(agent(assign("'a secret'"))):
        await act()
    assert shown(traces).isdisjoint(CONTENT)
    assert not any("a secret" in str(dict(span.attributes or {})) for span in traces.spans)


async def test_messages_and_calls_have_the_shapes_of_the_conventions(traces: Traces) -> None:
    with telemetry(capture_content=True):
        async with nh.run(agent(assign("'ü'"))):
            await act("How?")
    first, second = ({**(span.attributes or {})} for span in traces.named("chat"))
    (question,) = json.loads(first["gen_ai.input.messages"])
    assert question["role"] == "user"
    assert question["parts"][0]["type"] == "text"
    assert "How?" in question["parts"][0]["content"]
    (instructions,) = json.loads(first["gen_ai.system_instructions"])
    assert instructions["type"] == "text"
    arguments = {"target_path": "answer", "expression": "'ü'"}
    call = {"type": "tool_call", "id": "call_0", "name": "nh_assign", "arguments": arguments}
    answer = {"role": "assistant", "parts": [call], "finish_reason": "tool_call"}
    assert json.loads(first["gen_ai.output.messages"]) == [answer]
    tools = json.loads(first["gen_ai.tool.definitions"])
    assert {tool["type"] for tool in tools} == {"function"}
    assert {"nh_assign", "nh_outcome"} <= {tool["name"] for tool in tools}
    assert tools[0].keys() == {"type", "name", "description", "parameters"}
    _, assistant, results = json.loads(second["gen_ai.input.messages"])
    assert assistant == {"role": "assistant", "parts": [call]}
    ((part,), role) = results["parts"], results["role"]
    assert (role, part["type"], part["id"]) == ("tool", "tool_call_response", "call_0")
    told = traces.attributes("execute_tool")
    assert json.loads(told["gen_ai.tool.call.arguments"]) == arguments
    result = json.loads(told["gen_ai.tool.call.result"])  # an object, not its text once more
    assert result == json.loads(part["response"])
    assert result["value"]["target_path"] == "answer"


async def test_the_latest_conventions_tell_finish_reasons_beside_the_messages(traces: Traces) -> None:
    with telemetry(capture_content=True, semantic_conventions="latest"):
        async with nh.run(agent()):
            await act()
    told = traces.attributes("chat")
    (message,) = json.loads(told["gen_ai.output.messages"])
    assert message.keys() == {"role", "parts"}
    assert told["gen_ai.response.finish_reasons"] == ("tool_call",)


@pytest.mark.parametrize("word", ["true", "TRUE", "span_only"])
async def test_an_environment_variable_asks_for_content(
    traces: Traces, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", word)
    with telemetry():
        async with nh.run(agent(assign())):
            await act()
    assert shown(traces) >= CONTENT


async def test_keys_are_redacted_wherever_they_stand(traces: Traces) -> None:
    key, own = "sk-0123456789abcdef-key", 'quoted"secret'
    calls = (evaluate(f"'{key}'"), evaluate(repr(own)), OUTCOME)
    with telemetry(capture_content=True):
        async with (
            ModelServer([ModelReply(tool_calls=calls)]) as server,
            nh.run(endpoint_of(server, extra_headers={"x-own-token": own})),
        ):
            await act(f"What is {key}, and {own}?")
    traces.check()
    told = str([dict(span.attributes or {}) for span in traces.spans])
    assert "[redacted]" in told
    assert key not in told
    assert "quoted" not in told


async def test_half_a_character_of_a_model_breaks_nothing(traces: Traces) -> None:
    call = nh.models.ToolCall(id="1", name="nh_eval", arguments='{"expression": "\'\ud800\'"}')
    with telemetry(capture_content=True):
        async with nh.run(agent(call)):
            await act("\ud800")
    told = [value for span in traces.spans for value in (span.attributes or {}).values()]
    assert str(told).encode()
    assert "d800" in traces.attributes("execute_tool")["gen_ai.tool.call.arguments"]


def test_media_stand_by_kind_type_and_address_without_their_bytes() -> None:
    content: tuple[Any, ...] = (
        nh.BinaryContent(data=b"bytes", media_type="image/png"),
        nh.ImageUrl(url="https://example.org/a.png"),
        nh.models.AudioUrl(url="https://example.org/a.mp3", media_type="audio/mpeg"),
        nh.models.VideoUrl(url="https://example.org/a.mp4"),
        nh.models.DocumentUrl(url="https://example.org/a.pdf"),
        nh.models.UploadedFile(file_id="file-1", provider_name="openai", media_type="video/mp4"),
    )
    result = nh.models.ToolResult(call_id="1", name="look", content=("seen", content[1]))
    messages = (nh.models.UserMessage(content=content), nh.models.ToolResultsMessage(results=(result,)))
    told = request_content(BASELINE, nh.models.ModelRequest(messages=messages), ())
    asked, answered = json.loads(told["gen_ai.input.messages"])
    image = {"type": "uri", "modality": "image", "uri": "https://example.org/a.png"}
    assert asked["parts"] == [
        {"type": "blob", "modality": "image", "mime_type": "image/png", "content": ""},
        image,
        {"type": "uri", "modality": "audio", "mime_type": "audio/mpeg", "uri": "https://example.org/a.mp3"},
        {"type": "uri", "modality": "video", "uri": "https://example.org/a.mp4"},
        {"type": "uri", "modality": "document", "uri": "https://example.org/a.pdf"},
        {"type": "file", "modality": "video", "mime_type": "video/mp4", "file_id": "file-1"},
    ]
    assert answered["parts"][0]["response"] == [{"type": "text", "content": "seen"}, image]


def test_arguments_that_are_no_json_stay_the_text_that_the_model_wrote() -> None:
    call = nh.models.ToolCall(id="1", name="look", arguments='{"a": ')
    request = nh.models.ModelRequest(
        messages=(nh.models.AssistantMessage(reasoning="Hm.", text="Yes", tool_calls=(call,)),)
    )
    ((reasoning, text, told),) = (
        message["parts"]
        for message in json.loads(request_content(BASELINE, request, ())["gen_ai.input.messages"])
    )
    assert reasoning == {"type": "reasoning", "content": "Hm."}
    assert text == {"type": "text", "content": "Yes"}
    assert told["arguments"] == '{"a": '

"""Compaction by providers: the setting that asks for it, what comes back, and what goes back unchanged."""

import json
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.models.fitting import check_features
from nighthawk_async.types.messages import AssistantMessage, ProviderContent, UserMessage
from nighthawk_async.types.model import ModelCapabilities, ModelRequest, ResponseFinished
from nighthawk_async.wire.anthropic.codec import AnthropicCodec
from nighthawk_async.wire.openai_responses.codec import OpenAIResponsesCodec

from . import anthropic, responses

ASKED = UserMessage(content=("Go on.",))
CLEARING = {"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": 3}}
COMPACTING = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 100_000}}


def encoded(codec: Any, *messages: Any, **settings: Any) -> Any:
    return codec.encode(ModelRequest(messages=(*messages, ASKED), settings=settings), model_name="model")


def content_of(events: list[Any]) -> ProviderContent:
    content = events[-1].provider_content
    assert isinstance(events[-1], ResponseFinished)
    assert content is not None
    return content


@pytest.mark.parametrize(
    ("edits", "betas"),
    [
        ([CLEARING], "context-management-2025-06-27"),
        ([COMPACTING], "compact-2026-01-12"),
        ([CLEARING, CLEARING, COMPACTING], "context-management-2025-06-27,compact-2026-01-12"),
    ],
    ids=["clearing", "compacting", "both"],
)
def test_anthropic_gets_the_edits_and_the_headers_that_they_need(edits: list[Any], betas: str) -> None:
    sent = encoded(AnthropicCodec(), context_management={"edits": edits})
    assert json.loads(sent.body)["context_management"] == {"edits": edits}
    assert sent.headers["anthropic-beta"] == betas


@pytest.mark.parametrize(
    ("management", "message"),
    [
        ({"edits": [{**COMPACTING, "pause_after_compaction": True}]}, "cannot be continued"),
        ({"edits": "compact"}, "must be a list of objects"),
        ([COMPACTING], "context_management"),
    ],
    ids=["pause", "no list", "no object"],
)
def test_edits_that_cannot_be_kept_are_refused(management: Any, message: str) -> None:
    with pytest.raises(nh.errors.ConfigurationError, match=message):
        encoded(AnthropicCodec(), context_management=management)


@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_compaction_block_of_anthropic_goes_back_unchanged(is_streamed: bool) -> None:
    block = {"type": "compaction", "content": "So far: nothing."}
    usage = {
        "input_tokens": 23_000,
        "output_tokens": 1_000,
        "iterations": [
            {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500},
            {"type": "message", "input_tokens": 23_000, "output_tokens": 1_000},
        ],
    }
    if is_streamed:
        events = anthropic.decode(
            anthropic.start(input_tokens=1),
            anthropic.block(
                0,
                {"type": "compaction", "content": None},
                {"type": "compaction_delta", "content": "So far: nothing."},
            ),
            anthropic.call_block(1, '{"a": 1}'),
            anthropic.end("tool_use", **usage),
        )
    else:
        call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": 1}}
        answer = {"type": "message", "content": [block, call], "stop_reason": "tool_use", "usage": usage}
        events = AnthropicCodec().decode_response(json.dumps(answer).encode())
    content = content_of(events)
    assert content.items[0] == block
    reported = [each.usage for each in events if isinstance(each, nh.models.UsageReported)][-1]
    assert (reported.input_tokens, reported.output_tokens) == (203_000, 4_500)
    past = AssistantMessage(tool_calls=tuple(anthropic.calls_in(events)), provider_content=content)
    sent = json.loads(encoded(AnthropicCodec(), ASKED, past).body)
    assert sent["messages"][1]["content"][0] == block


def test_openai_gets_the_threshold_and_its_compaction_item_back() -> None:
    management = [{"type": "compaction", "compact_threshold": 200_000}]
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}
    call = responses.call(1, '{"a": 1}')
    events = responses.decode(
        responses.created(),
        responses.done(0, **item),
        responses.done(1, **call),
        responses.completed(item, call),
    )
    content = content_of(events)
    assert content.items[0] == item
    past = AssistantMessage(tool_calls=tuple(responses.calls_in(events)), provider_content=content)
    sent = json.loads(encoded(OpenAIResponsesCodec(), ASKED, past, context_management=management).body)
    assert sent["context_management"] == management
    assert item in sent["input"]


def test_a_model_without_the_capability_is_refused() -> None:
    request = ModelRequest(messages=(ASKED,), settings={"context_management": {"edits": [CLEARING]}})
    with pytest.raises(nh.errors.ConfigurationError, match="context_management"):
        check_features(request, ModelCapabilities(), model_id="anthropic:old")
    check_features(request, ModelCapabilities(context_management=True), model_id="anthropic:new")


@pytest.mark.parametrize(
    ("model_id", "can"),
    [
        ("anthropic:claude-opus-4-6", True),
        ("openai-responses:gpt-5.4", True),
        ("openai-chat:gpt-5.4", False),
        ("openai-responses:gpt-4.1", False),
        ("google:gemini-2.5-pro", False),
    ],
)
def test_the_catalog_knows_which_models_can(model_id: str, can: bool) -> None:
    from nighthawk_async.catalog.models import find_model_facts

    assert find_model_facts(model_id).capabilities.context_management is can

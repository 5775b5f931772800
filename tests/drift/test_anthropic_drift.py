"""Anthropic Messages as our codec speaks it, and as the SDK of Anthropic has it."""

from dataclasses import replace
from typing import Any

import pytest
from anthropic.types.beta import (
    BetaCompactionIterationUsage,
    BetaContainer,
    BetaContentBlock,
    BetaMessage,
    BetaMessageDeltaUsage,
    BetaRawContentBlockDelta,
    BetaRawMessageStreamEvent,
    BetaServerToolUsage,
    BetaServerToolUseBlock,
    BetaStopReason,
    BetaUsage,
    beta_raw_message_delta_event,
)
from anthropic.types.beta.message_create_params import (
    MessageCreateParamsNonStreaming,
    MessageCreateParamsStreaming,
)

from nighthawk_async.types.messages import ProviderContent, UploadedFile
from nighthawk_async.types.model import ModelCapabilities, NamedToolChoice
from nighthawk_async.types.native_tools import CodeExecution, WebSearch
from nighthawk_async.wire.anthropic import events
from nighthawk_async.wire.anthropic.codec import AnthropicCodec
from nighthawk_async.wire.anthropic.native_tools import OWN_CALL
from nighthawk_async.wire.anthropic.response import STOP_REASONS, USED_DELTAS, USED_EVENTS

from .sample_requests import (
    ABLE,
    CHOICES,
    FORMAT,
    IMAGE,
    LINK,
    LOCATION,
    PAGES,
    TOOLS,
    body_of,
    conversation,
    settings_variants,
)
from .sdk_types import differences, fields_of, skip_if_new, types_in, vanished_fields, variants_of, words_of

CODEC = AnthropicCodec()
BUDGETING = replace(ABLE, reasoning_control="budget")
EDITS = (
    {"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": 3}},
    {"type": "compact_20260112"},
)
SETTINGS: dict[str, tuple[Any, ...]] = {
    "temperature": (0.5,),
    "top_p": (0.5,),
    "max_tokens": (100,),
    "stop": ("END", ["END"]),
    "parallel_tool_calls": (True, False),
    "reasoning_effort": ("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    "service_tier": ("auto",),
    "stream": (True, False),
    "native_tools": (
        [WebSearch(max_uses=3, allowed_domains=["a.example"], user_location=LOCATION)],
        [WebSearch(blocked_domains=["a.example"]), CodeExecution(container="container_1")],
    ),
    "strict_tools": (True, False),
    "top_k": (5,),
    "thinking": ({"type": "adaptive"}, {"type": "enabled", "budget_tokens": 2_000}),
    "thinking_budget_tokens": (2_000,),
    "prompt_caching": (True, "5m", "1h"),
    "metadata": ({"user_id": "u"},),
    "context_management": tuple({"edits": [edit]} for edit in EDITS),
    "betas": (["some-beta"],),
}
OF_OLDER_MODELS = frozenset({"temperature", "top_k", "top_p"})
"""Fields that the SDK has no more, because current models refuse them; see the capability `sampling`.

Older models and compatible servers take them.
"""

UNUSED = frozenset({"compaction"})
"""Words of the SDK that mean nothing here: a response that pauses after compaction is never asked for."""

FILE = UploadedFile(file_id="file_1", provider_name="anthropic", media_type="application/pdf")
THINKING = ProviderContent(
    protocol=CODEC.name,
    items=(
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "text", "text": "Well."},
        {"type": "tool_use", "id": "call_1", "name": "look", "input": {}},
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "q"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srv_1",
            "content": [
                {
                    "type": "web_search_result",
                    "title": "A",
                    "url": "https://a.example",
                    "encrypted_content": "e",
                }
            ],
        },
        {"type": "server_tool_use", "id": "srv_2", "name": "bash_code_execution", "input": {"command": "ls"}},
        {
            "type": "bash_code_execution_tool_result",
            "tool_use_id": "srv_2",
            "content": {
                "type": "bash_code_execution_result",
                "stdout": "",
                "stderr": "",
                "return_code": 0,
                "content": [],
            },
        },
    ),
)
"""What goes back: thinking, a call, and calls of the provider's own tools with their results."""


def sent(capabilities: ModelCapabilities = ABLE, **fields: Any) -> list[str]:
    body = body_of(CODEC, capabilities, **fields)
    form = MessageCreateParamsStreaming if body.get("stream") else MessageCreateParamsNonStreaming
    return [each for each in differences(body, form) if each not in OF_OLDER_MODELS]


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: choice if isinstance(choice, str) else "named")
def test_every_field_of_a_request_exists(choice: str | NamedToolChoice) -> None:
    messages = conversation(IMAGE, LINK, PAGES, FILE, content_of_provider=THINKING)
    found = sent(
        system_prompt="Be brief.", messages=messages, tools=TOOLS, tool_choice=choice, response_format=FORMAT
    )
    assert found == []


def test_a_field_or_word_that_vanished_would_be_named() -> None:
    lost = {"messages": [{"role": "user", "content": [{"type": "text", "gone": "x"}]}], "gone": 1}
    assert sent(settings={"extra_body": lost}) == ["messages[0].content[0].gone", "gone"]
    assert "output_config.effort = 'gone'" in sent(
        settings={"extra_body": {"output_config": {"effort": "gone"}}}
    )
    assert OF_OLDER_MODELS & fields_of(MessageCreateParamsStreaming).keys() == set()


def test_every_field_of_deferred_tools_exists() -> None:
    assert sent(tools=(TOOLS[0], replace(TOOLS[0], name="other", is_deferred=True))) == []


@pytest.mark.parametrize("capabilities", [ABLE, BUDGETING], ids=["effort", "budget"])
def test_every_setting_exists_with_its_values(capabilities: ModelCapabilities) -> None:
    found: list[str] = []
    for settings in settings_variants(CODEC, SETTINGS, but=("seed",)):
        if capabilities is BUDGETING or "thinking_budget_tokens" not in settings:
            found += sent(capabilities, settings=settings, tools=TOOLS)
    assert found == []


STREAM_EVENTS, BLOCKS = variants_of(BetaRawMessageStreamEvent), variants_of(BetaContentBlock)
DELTAS = [*variants_of(BetaRawContentBlockDelta), beta_raw_message_delta_event.Delta]


@pytest.mark.parametrize(
    ("shape", "forms", "of_others"),
    [
        pytest.param(events.Event, STREAM_EVENTS, ("error",), id="Event"),
        pytest.param(events.Delta, DELTAS, (), id="Delta"),
        pytest.param(events.Message, [BetaMessage], (), id="Message"),
        pytest.param(events.WireUsage, [BetaUsage], (), id="WireUsage at the beginning"),
        pytest.param(
            events.WireUsage, [BetaMessageDeltaUsage], ("cache_creation",), id="WireUsage at the end"
        ),
        pytest.param(
            events.OutputTokens,
            variants_of(fields_of(BetaUsage)["output_tokens_details"]),
            (),
            id="OutputTokens",
        ),
        pytest.param(events.Iteration, [BetaCompactionIterationUsage], (), id="Iteration"),
        pytest.param(events.ServerToolUse, [BetaServerToolUsage], (), id="ServerToolUse"),
        pytest.param(events.Container, [BetaContainer], (), id="Container"),
    ],
)
def test_every_field_of_a_response_exists(shape: Any, forms: list[Any], of_others: tuple[str, ...]) -> None:
    assert (
        vanished_fields(shape, *(form for form in forms if form is not type(None)), of_others=of_others) == []
    )


def test_every_event_and_delta_that_is_used_exists() -> None:
    assert USED_EVENTS - types_in(BetaRawMessageStreamEvent) == set()
    assert USED_DELTAS - types_in(BetaRawContentBlockDelta) == set()


@pytest.mark.parametrize(
    ("type_of_block", "names"),
    [
        ("compaction", {"content"}),
        ("redacted_thinking", {"data"}),
        ("bash_code_execution_tool_result", {"content", "tool_use_id"}),
        ("code_execution_tool_result", {"content", "tool_use_id"}),
        (OWN_CALL, {"id", "input", "name"}),
        ("text", {"citations", "text"}),
        ("thinking", {"signature", "thinking"}),
        ("tool_use", {"id", "input", "name"}),
        ("text_editor_code_execution_tool_result", {"content", "tool_use_id"}),
        ("web_search_tool_result", {"content", "tool_use_id"}),
    ],
)
def test_every_field_of_blocks_that_is_used_exists(type_of_block: str, names: set[str]) -> None:
    forms = [form for form in BLOCKS if type_of_block in words_of(fields_of(form)["type"])]
    assert forms, f"the block {type_of_block} is gone"
    assert names - fields_of(forms[0]).keys() == set()


def test_every_native_tool_that_is_named_exists() -> None:
    names = words_of(fields_of(BetaServerToolUseBlock)["name"])
    known = {"bash_code_execution", "text_editor_code_execution", "web_search", "tool_search_tool_bm25"}
    assert known - names == set()


def test_every_stop_reason_exists() -> None:
    assert STOP_REASONS.keys() - words_of(BetaStopReason) == set()


def test_everything_of_the_sdk_is_known() -> None:
    new = {
        *(types_in(BetaRawMessageStreamEvent) - USED_EVENTS),
        *(types_in(BetaRawContentBlockDelta) - USED_DELTAS),
        *(words_of(BetaStopReason) - STOP_REASONS.keys()),
    }
    skip_if_new("anthropic", "events, deltas or stop reasons", new, unused=UNUSED)

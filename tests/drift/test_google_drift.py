"""The Gemini API as our codec speaks it, and as the SDK of Google has it."""

from dataclasses import replace
from typing import Any

import pytest
from google.genai import types as sdk

from nighthawk_async.types.messages import ProviderContent, UploadedFile
from nighthawk_async.types.model import ModelCapabilities, NamedToolChoice
from nighthawk_async.types.native_tools import CodeExecution, FileSearch, WebSearch
from nighthawk_async.wire.google import native_tools, response
from nighthawk_async.wire.google.codec import GoogleCodec

from .sample_requests import (
    ABLE,
    CHOICES,
    FORMAT,
    IMAGE,
    LINK,
    PAGES,
    SOUND,
    TOOLS,
    body_of,
    conversation,
    settings_variants,
)
from .sdk_types import differences, fields_of, skip_if_new, vanished_fields, words_of

CODEC = GoogleCodec()
BUDGETING = replace(ABLE, reasoning_control="budget")
SETTINGS: dict[str, tuple[Any, ...]] = {
    "temperature": (0.5,),
    "top_p": (0.5,),
    "max_tokens": (100,),
    "stop": ("END", ["END"]),
    "seed": (1,),
    "parallel_tool_calls": (True,),
    "reasoning_effort": ("minimal", "low", "medium", "high"),
    "service_tier": ("standard",),
    "stream": (True, False),
    "native_tools": (
        [WebSearch(), CodeExecution(), FileSearch(vector_store_ids=["fileSearchStores/1"], max_results=2)],
    ),
    "top_k": (5,),
    "frequency_penalty": (0.1,),
    "presence_penalty": (0.1,),
    "thinking_budget_tokens": (2_000,),
    "include_thoughts": (True,),
    "safety_settings": ([{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_ONLY_HIGH"}],),
    "cached_content": ("cachedContents/c",),
    "labels": ({"a": "b"},),
}
CONFIG = fields_of(sdk.GenerateContentConfig)
BODY = {
    "contents": list[sdk.Content],
    "systemInstruction": sdk.Content,
    "tools": list[sdk.Tool],
    "toolConfig": sdk.ToolConfig,
    "generationConfig": sdk.GenerationConfig,
    "safetySettings": list[sdk.SafetySetting],
    **{name: CONFIG.get(name) for name in ("cachedContent", "labels", "serviceTier")},
}
"""The types of the body's fields. The SDK has no type of the body: it makes one from its configuration."""

UNUSED = frozenset({"FINISH_REASON_UNSPECIFIED", "NO_IMAGE", "OTHER"})
"""Words of the SDK that mean no more than `other`."""

FILE = UploadedFile(file_id="https://example.com/files/1", provider_name="google", media_type="video/mp4")
SIGNED = ProviderContent(
    protocol=CODEC.name,
    items=(
        {"text": "Hm.", "thought": True},
        {"functionCall": {"id": "call_1", "name": "look", "args": {}}, "thoughtSignature": "AAAA"},
        {"toolCall": {"id": "t_1", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["q"]}}},
        {"toolResponse": {"id": "t_1", "toolType": "GOOGLE_SEARCH_WEB", "response": {}}},
        {"executableCode": {"id": "c_1", "language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"id": "c_1", "outcome": "OUTCOME_OK", "output": "1"}},
    ),
)


def sent(capabilities: ModelCapabilities = ABLE, **fields: Any) -> list[str]:
    body = body_of(CODEC, capabilities, **fields)
    gone = [name for name in body if BODY.get(name) is None]
    return [
        *gone,
        *(found for name in body if name not in gone for found in differences(body[name], BODY[name], name)),
    ]


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: choice if isinstance(choice, str) else "named")
def test_every_field_of_a_request_exists(choice: str | NamedToolChoice) -> None:
    messages = conversation(IMAGE, LINK, SOUND, PAGES, FILE, content_of_provider=SIGNED)
    found = sent(
        system_prompt="Be brief.", messages=messages, tools=TOOLS, tool_choice=choice, response_format=FORMAT
    )
    assert found == []


def test_a_field_or_word_that_vanished_would_be_named() -> None:
    lost = {"contents": [{"parts": [{"gone": "x"}]}], "gone": 1}
    assert sorted(sent(settings={"extra_body": lost})) == ["contents[0].parts[0].gone", "gone"]
    level = {"generationConfig": {"thinkingConfig": {"thinkingLevel": "GONE"}}}
    found = sent(settings={"extra_body": level})
    assert "generationConfig.thinkingConfig.thinkingLevel = 'GONE'" in found


@pytest.mark.parametrize("capabilities", [ABLE, BUDGETING], ids=["effort", "budget"])
def test_every_setting_exists_with_its_values(capabilities: ModelCapabilities) -> None:
    variants = settings_variants(CODEC, SETTINGS)
    assert [each for settings in variants for each in sent(capabilities, settings=settings)] == []


@pytest.mark.parametrize(
    ("shape", "forms", "of_others"),
    [
        pytest.param(response.Chunk, [sdk.GenerateContentResponse], ("error",), id="Chunk"),
        pytest.param(response.Candidate, [sdk.Candidate], (), id="Candidate"),
        pytest.param(response.Content, [sdk.Content], (), id="Content"),
        pytest.param(response.Part, [sdk.Part], (), id="Part"),
        pytest.param(response.FunctionCall, [sdk.FunctionCall], (), id="FunctionCall"),
        pytest.param(
            response.PromptFeedback, [sdk.GenerateContentResponsePromptFeedback], (), id="PromptFeedback"
        ),
        pytest.param(
            response.UsageMetadata, [sdk.GenerateContentResponseUsageMetadata], (), id="UsageMetadata"
        ),
        pytest.param(native_tools.NativePart, [sdk.Part], (), id="NativePart"),
        pytest.param(native_tools.ServerCall, [sdk.ToolCall, sdk.ToolResponse], (), id="ServerCall"),
        pytest.param(native_tools.ExecutableCode, [sdk.ExecutableCode], (), id="ExecutableCode"),
        pytest.param(native_tools.CodeResult, [sdk.CodeExecutionResult], (), id="CodeResult"),
        pytest.param(native_tools.GroundingMetadata, [sdk.GroundingMetadata], (), id="GroundingMetadata"),
    ],
)
def test_every_field_of_a_response_exists(shape: Any, forms: list[Any], of_others: tuple[str, ...]) -> None:
    assert vanished_fields(shape, *forms, of_others=of_others) == []


def test_every_native_tool_and_outcome_that_is_used_exists() -> None:
    assert native_tools.NAMES.keys() - words_of(sdk.ToolType) == set()
    assert native_tools.GOOD_OUTCOMES - words_of(sdk.Outcome) == set()


def test_native_tools_are_asked_to_show_their_calls_beside_functions() -> None:
    assert sent(tools=TOOLS, tool_choice="required", settings={"native_tools": [WebSearch()]}) == []


def test_every_part_that_is_known_exists() -> None:
    assert response.PART_FIELDS - fields_of(sdk.Part).keys() == set()


def test_every_finish_reason_exists() -> None:
    known = {*response.FINISH_REASONS, *response.FAILURES, "FINISH_REASON_UNSPECIFIED"}
    assert known - words_of(sdk.FinishReason) == set()
    assert "BLOCKED_REASON_UNSPECIFIED" in words_of(sdk.BlockedReason)


def test_everything_of_the_sdk_is_known() -> None:
    reasons = {*response.FINISH_REASONS, *response.FAILURES}
    new = {*(words_of(sdk.FinishReason) - reasons), *(fields_of(sdk.Part).keys() - response.PART_FIELDS)}
    skip_if_new("google-genai", "finish reasons or parts", new, unused=UNUSED)

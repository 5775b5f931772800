"""Responses as our codec speaks it, and as the SDK of OpenAI has it."""

from dataclasses import replace
from typing import Any

import pytest
from openai.types.responses import (
    Response,
    ResponseIncludable,
    ResponseOutputItem,
    ResponseStatus,
    ResponseStreamEvent,
    ResponseUsage,
    response,
    response_output_message,
    response_reasoning_item,
    response_usage,
)
from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
)

from nighthawk_async.types.messages import ProviderContent
from nighthawk_async.types.model import NamedToolChoice
from nighthawk_async.types.native_tools import CodeExecution, FileSearch, WebSearch
from nighthawk_async.wire.openai_responses import events
from nighthawk_async.wire.openai_responses.codec import OpenAIResponsesCodec
from nighthawk_async.wire.openai_responses.native_tools import ARGUMENTS, FAILED, NATIVE_ITEMS, OUTPUTS
from nighthawk_async.wire.openai_responses.response import is_output_event, is_unused_event

from .sample_requests import (
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

CODEC = OpenAIResponsesCodec()
SETTINGS: dict[str, tuple[Any, ...]] = {
    "temperature": (0.5,),
    "top_p": (0.5,),
    "max_tokens": (100,),
    "parallel_tool_calls": (True, False),
    "reasoning_effort": ("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    "service_tier": ("auto",),
    "stream": (True, False),
    "native_tools": (
        [WebSearch(max_uses=3, allowed_domains=["a.example"], user_location=LOCATION, context_size="low")],
        [CodeExecution(), FileSearch(vector_store_ids=["vs_1"], max_uses=1, max_results=2)],
        [CodeExecution(container="cntr_1")],
    ),
    "reasoning_summary": ("auto", "concise", "detailed"),
    "verbosity": ("low", "medium", "high"),
    "truncation": ("auto", "disabled"),
    "context_management": ([{"type": "compaction", "compact_threshold": 1_000}],),
    "store": (True, False),
    "user": ("u",),
    "metadata": ({"a": "b"},),
    "prompt_cache_key": ("k",),
    "prompt_cache_retention": ("24h",),
}
MISSING_SETTINGS = ("seed", "stop")
UNUSED = frozenset({"max_messages", "steered"})
"""Words of the SDK that mean nothing here: they end responses of features that the library does not use."""

TERMINALS = {"response.completed", "response.failed", "response.incomplete", "error"}
USED = {
    *TERMINALS,
    *("response.content_part.done", "response.function_call_arguments.delta"),
    *("response.function_call_arguments.done", "response.output_item.added", "response.output_item.done"),
    *("response.output_text.delta", "response.output_text.done", "response.reasoning_text.delta"),
    *("response.reasoning_text.done", "response.reasoning_summary_text.delta"),
    *("response.reasoning_summary_text.done", "response.refusal.delta", "response.refusal.done"),
}
REASONING = ProviderContent(
    protocol=CODEC.name,
    items=(
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{}"},
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {
                "type": "search",
                "query": "q",
                "sources": [{"type": "url", "url": "https://a.example"}],
            },
        },
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "status": "completed",
            "code": "1",
            "container_id": "cntr_1",
            "outputs": [{"type": "logs", "logs": "1"}],
        },
        {
            "type": "file_search_call",
            "id": "fs_1",
            "status": "completed",
            "queries": ["q"],
            "results": [{"file_id": "f_1", "score": 0.5, "text": "t", "filename": "f", "attributes": {}}],
        },
    ),
)
"""What goes back: reasoning, a call, and calls of the provider's own tools with their results."""


def sent(**fields: Any) -> list[str]:
    body = body_of(CODEC, **fields)
    form = ResponseCreateParamsStreaming if body["stream"] else ResponseCreateParamsNonStreaming
    return differences(body, form)


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: choice if isinstance(choice, str) else "named")
def test_every_field_of_a_request_exists(choice: str | NamedToolChoice) -> None:
    messages = conversation(IMAGE, LINK, PAGES, content_of_provider=REASONING)
    found = sent(
        system_prompt="Be brief.", messages=messages, tools=TOOLS, tool_choice=choice, response_format=FORMAT
    )
    assert found == []


def test_a_field_or_word_that_vanished_would_be_named() -> None:
    lost = {"input": [{"role": "user", "content": [{"type": "input_text", "gone": "x"}]}], "gone": 1}
    assert sent(settings={"extra_body": lost}) == ["input[0].content[0].gone", "gone"]
    assert "truncation = 'gone'" in sent(settings={"extra_body": {"truncation": "gone"}})


def test_every_field_of_deferred_tools_exists() -> None:
    assert sent(tools=(replace(TOOLS[0], is_deferred=True),)) == []


def test_every_setting_exists_with_its_values() -> None:
    variants = settings_variants(CODEC, SETTINGS, but=MISSING_SETTINGS)
    assert [each for settings in variants for each in sent(settings=settings)] == []


EVENTS, ITEMS = variants_of(ResponseStreamEvent), variants_of(ResponseOutputItem)


@pytest.mark.parametrize(
    ("shape", "forms", "of_others"),
    [
        pytest.param(events.Envelope, EVENTS, ("error",), id="Envelope"),
        pytest.param(events.Event, EVENTS, ("error", "name"), id="Event"),  # other servers name calls late
        pytest.param(events.Item, ITEMS, (), id="Item"),
        pytest.param(
            events.Part,
            [
                *variants_of(fields_of(response_output_message.ResponseOutputMessage)["content"].__args__[0]),
                response_reasoning_item.Summary,
                response_reasoning_item.Content,
            ],
            (),
            id="Part",
        ),
        pytest.param(events.WireUsage, [ResponseUsage], (), id="WireUsage"),
        pytest.param(events.InputTokens, [response_usage.InputTokensDetails], (), id="InputTokens"),
        pytest.param(
            events.OutputTokens, [response_usage.OutputTokensDetails], ("image_tokens",), id="OutputTokens"
        ),
        pytest.param(events.IncompleteDetails, [response.IncompleteDetails], (), id="IncompleteDetails"),
        pytest.param(events.Response, [Response], (), id="Response"),
        pytest.param(events.ToolUsage, [response.ToolUsage], (), id="ToolUsage"),
        pytest.param(events.WebSearches, [response.ToolUsageWebSearch], (), id="WebSearches"),
    ],
)
def test_every_field_of_a_response_exists(shape: Any, forms: list[Any], of_others: tuple[str, ...]) -> None:
    assert vanished_fields(shape, *forms, of_others=of_others) == []


def test_every_event_that_is_used_exists() -> None:
    assert USED - types_in(ResponseStreamEvent) == set()


def test_every_event_of_the_sdk_is_known() -> None:
    known = {each for each in types_in(ResponseStreamEvent) if is_output_event(each) or is_unused_event(each)}
    skip_if_new("openai", "events of Responses", types_in(ResponseStreamEvent) - known - TERMINALS)


def test_every_type_of_item_that_is_used_exists() -> None:
    assert {"function_call", "message", "reasoning"} - types_in(ResponseOutputItem) == set()


def forms_of(type_of_item: str) -> list[Any]:
    return [form for form in ITEMS if type_of_item in words_of(fields_of(form)["type"])]


@pytest.mark.parametrize("type_of_item", NATIVE_ITEMS)
def test_every_field_of_native_calls_that_is_used_exists(type_of_item: str) -> None:
    forms = forms_of(type_of_item)
    assert forms, f"the item {type_of_item} is gone"
    names = {"id", "status", *ARGUMENTS.get(type_of_item, ()), *OUTPUTS.get(type_of_item, ())}
    missing = names - fields_of(forms[0]).keys()
    assert {f"{type_of_item}.{name}" for name in missing} <= words_of(ResponseIncludable)
    assert words_of(fields_of(forms[0])["status"]) & FAILED


def test_the_action_that_is_a_search_exists() -> None:
    actions = variants_of(fields_of(forms_of("web_search_call")[0])["action"])
    searches = [form for form in actions if "search" in words_of(fields_of(form)["type"])]
    assert searches
    assert "sources" in fields_of(searches[0])


def test_every_status_and_reason_exists() -> None:
    assert {"cancelled", "completed", "failed", "incomplete"} - words_of(ResponseStatus) == set()
    reasons = words_of(fields_of(response.IncompleteDetails)["reason"])
    assert {"content_filter", "max_output_tokens"} - reasons == set()


def test_every_reason_of_the_sdk_is_known() -> None:
    reasons = words_of(fields_of(response.IncompleteDetails)["reason"])
    new = reasons - {"content_filter", "max_output_tokens"}
    skip_if_new("openai", "reasons of Responses", new, unused=UNUSED)

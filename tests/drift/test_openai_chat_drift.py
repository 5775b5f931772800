"""Chat Completions as our codec speaks it, and as the SDK of OpenAI has it."""

from typing import Any, get_args

import pytest
from openai.types import completion_usage
from openai.types.chat import (
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionMessage,
    ChatCompletionMessageFunctionToolCall,
    chat_completion,
    chat_completion_chunk,
    chat_completion_message_function_tool_call,
)
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)

from nighthawk_async.types.model import NamedToolChoice
from nighthawk_async.types.native_tools import WebSearch
from nighthawk_async.wire.openai_chat import additions, content, response
from nighthawk_async.wire.openai_chat.codec import OpenAIChatCodec
from nighthawk_async.wire.openai_chat.response import ChatResponseDecoder
from nighthawk_async.wire.sse import ServerSentEvent

from .sample_requests import (
    CHOICES,
    FORMAT,
    IMAGE,
    LINK,
    LOCATION,
    PAGES,
    SOUND,
    TOOLS,
    body_of,
    conversation,
    settings_variants,
)
from .sdk_types import differences, fields_of, skip_if_new, vanished_fields, variants_of, words_of

CODEC = OpenAIChatCodec()
SETTINGS: dict[str, tuple[Any, ...]] = {
    "temperature": (0.5,),
    "top_p": (0.5,),
    "max_tokens": (100,),
    "stop": ("END", ["END"]),
    "seed": (1,),
    "parallel_tool_calls": (True, False),
    "reasoning_effort": ("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    "service_tier": ("auto",),
    "native_tools": ([WebSearch(user_location=LOCATION, context_size="low")],),
    "stream": (True, False),
    "frequency_penalty": (0.1,),
    "presence_penalty": (0.1,),
    "logit_bias": ({"1": 2},),
    "verbosity": ("low", "medium", "high"),
    "user": ("u",),
    "store": (True,),
    "metadata": ({"a": "b"},),
    "prompt_cache_key": ("k",),
    "replay_reasoning": (False,),
    "strict_tools": (True, False),
}
OWN_FINISH_REASONS = {"content_filter", "function_call", "length", "stop", "tool_calls"}
"""The words of OpenAI among those that the codec knows; the others are those of other servers."""


def sent(**fields: Any) -> list[str]:
    body = body_of(CODEC, **fields)
    form = CompletionCreateParamsStreaming if body["stream"] else CompletionCreateParamsNonStreaming
    return differences(body, form)


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: choice if isinstance(choice, str) else "named")
def test_every_field_of_a_request_exists(choice: str | NamedToolChoice) -> None:
    messages = conversation(IMAGE, LINK, SOUND, PAGES)
    found = sent(
        system_prompt="Be brief.",
        messages=messages,
        tools=TOOLS,
        tool_choice=choice,
        response_format=FORMAT,
        settings={"strict_tools": True},
    )
    assert found == []


def test_a_field_or_word_that_vanished_would_be_named() -> None:
    lost = {"messages": [{"role": "user", "content": [{"type": "text", "gone": "x"}]}], "gone": 1}
    assert sent(settings={"extra_body": lost}) == ["messages[0].content[0].gone", "gone"]
    assert "verbosity = 'gone'" in sent(settings={"extra_body": {"verbosity": "gone"}})


def test_every_setting_exists_with_its_values() -> None:
    found = [each for settings in settings_variants(CODEC, SETTINGS) for each in sent(settings=settings)]
    assert found == []


@pytest.mark.parametrize(
    ("shape", "forms", "of_others"),
    [
        (response.Chunk, (ChatCompletionChunk, ChatCompletion), ("error", "citations", "search_results")),
        (
            response.Choice,
            (chat_completion_chunk.Choice, chat_completion.Choice),
            ("error", "content_filter_results"),
        ),
        (
            response.Delta,
            (chat_completion_chunk.ChoiceDelta, ChatCompletionMessage),
            (
                *("extra_content", "reasoning", "reasoning_content", "reasoning_details"),
                *("images", "executed_tools"),
            ),
        ),
        (
            response.ToolCallDelta,
            (chat_completion_chunk.ChoiceDeltaToolCall, ChatCompletionMessageFunctionToolCall),
            ("extra_content",),
        ),
        (
            response.FunctionFragment,
            (
                chat_completion_chunk.ChoiceDeltaToolCallFunction,
                chat_completion_message_function_tool_call.Function,
            ),
            (),
        ),
        (
            content.WireUsage,
            (completion_usage.CompletionUsage,),
            ("num_cached_tokens", "cached_tokens", "prompt_cache_hit_tokens"),
        ),
        (content.PromptTokens, (completion_usage.PromptTokensDetails,), ()),
        (content.CompletionTokens, (completion_usage.CompletionTokensDetails,), ("image_tokens",)),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_every_field_of_a_response_exists(
    shape: Any, forms: tuple[Any, ...], of_others: tuple[str, ...]
) -> None:
    assert vanished_fields(shape, *forms, of_others=of_others) == []


def test_every_citation_of_a_search_exists() -> None:
    annotations = [
        word
        for each in variants_of(fields_of(ChatCompletionMessage)["annotations"])
        for form in get_args(each)
        for word in words_of(fields_of(form)["type"])
    ]
    assert additions.CITATION in annotations


def finish_reasons() -> set[str]:
    chunk, whole = fields_of(chat_completion_chunk.Choice), fields_of(chat_completion.Choice)
    return words_of(chunk["finish_reason"]) | words_of(whole["finish_reason"])


def test_every_finish_reason_exists() -> None:
    assert OWN_FINISH_REASONS - finish_reasons() == set()


def test_every_finish_reason_of_the_sdk_is_known() -> None:
    skip_if_new("openai", "finish reasons of Chat Completions", finish_reasons() - OWN_FINISH_REASONS)


def test_the_word_for_chunks_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    for form in (ChatCompletionChunk, ChatCompletion):
        for word in words_of(fields_of(form)["object"]):
            ChatResponseDecoder().feed(ServerSentEvent(data=f'{{"object": "{word}"}}'.encode()))
    assert caplog.text == ""

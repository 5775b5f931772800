import json
from types import MappingProxyType
from typing import Any

import pytest

from nighthawk_async.errors import ConfigurationError
from nighthawk_async.types.messages import (
    AssistantMessage,
    BinaryContent,
    ProviderContent,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResultsMessage,
    UploadedFile,
    UserMessage,
)
from nighthawk_async.types.model import ModelCapabilities, ModelRequest, NamedToolChoice, ResponseFormat
from nighthawk_async.wire.anthropic.codec import AnthropicCodec
from nighthawk_async.wire.codec import UNKNOWN_CAPABILITIES, EncodedRequest

HELLO = (UserMessage(content=("hello",)),)
TOOL = ToolDefinition(
    name="look", description="Looks.", parameters={"type": "object", "properties": {"b": {}, "a": {}}}
)
PNG = BinaryContent(data=b"\x89PNG", media_type="image/png")
FILE = UploadedFile(file_id="file_1", provider_name="anthropic")
WORDED = ModelCapabilities(reasoning=True, reasoning_control="effort")
NUMBERED = ModelCapabilities(reasoning=True, reasoning_control="budget")


def encoded(capabilities: ModelCapabilities = UNKNOWN_CAPABILITIES, **fields: Any) -> EncodedRequest:
    request = ModelRequest(**{"messages": HELLO, **fields})
    return AnthropicCodec().encode(request, model_name="m", capabilities=capabilities)


def encode(capabilities: ModelCapabilities = UNKNOWN_CAPABILITIES, **fields: Any) -> dict[str, Any]:
    return json.loads(encoded(capabilities, **fields).body)


def messages(*conversation: Any) -> list[dict[str, Any]]:
    return encode(messages=conversation)["messages"]


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def test_a_plain_request_streams() -> None:
    request = encoded()
    assert request.path == "/messages"
    assert request.headers["accept"] == "text/event-stream"
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert "anthropic-beta" not in request.headers
    assert json.loads(request.body) == {
        "model": "m",
        "max_tokens": 4096,
        "stream": True,
        "messages": [{"role": "user", "content": [text("hello")]}],
    }


def test_the_system_prompt_stands_apart_and_an_empty_one_is_left_out() -> None:
    assert encode(system_prompt="be brief")["system"] == [text("be brief")]
    assert "system" not in encode(system_prompt=" ")


def test_a_request_that_is_not_streamed_says_so() -> None:
    assert encode(settings={"stream": False})["stream"] is False


def test_betas_travel_in_the_header_once_each_and_not_in_the_body() -> None:
    result = ToolResult(call_id="1", name="look", content=(FILE,))
    for conversation in ((UserMessage(content=("see", FILE)),), (ToolResultsMessage(results=(result,)),)):
        request = encoded(messages=conversation, settings={"betas": ["b1", "b1", "b2"]})
        assert request.headers["anthropic-beta"] == "b1,b2,files-api-2025-04-14"
        assert "betas" not in json.loads(request.body)
    assert encoded(messages=(UserMessage(content=(FILE,)),)).headers["anthropic-beta"]


def test_tools_are_described_and_auto_is_left_to_the_server() -> None:
    body = encode(tools=(TOOL,))
    assert body["tools"] == [{"name": "look", "description": "Looks.", "input_schema": TOOL.parameters}]
    assert "tool_choice" not in body


def test_a_tool_without_parameters_takes_an_object() -> None:
    (tool,) = encode(tools=(ToolDefinition(name="look", description="", parameters={}),))["tools"]
    assert tool["input_schema"] == {"type": "object"}


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("required", {"type": "any"}),
        ("none", {"type": "none"}),
        (NamedToolChoice(name="look"), {"type": "tool", "name": "look"}),
    ],
)
def test_another_tool_choice_is_told(choice: Any, sent: dict[str, str]) -> None:
    assert encode(tools=(TOOL,), tool_choice=choice)["tool_choice"] == sent


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", {"type": "any", "disable_parallel_tool_use": True}),
        ("none", {"type": "none"}),
        (
            NamedToolChoice(name="look"),
            {"type": "tool", "name": "look", "disable_parallel_tool_use": True},
        ),
    ],
)
def test_parallel_calls_are_turned_off_beside_the_choice(choice: Any, sent: dict[str, Any]) -> None:
    settings = {"parallel_tool_calls": False}
    assert encode(tools=(TOOL,), tool_choice=choice, settings=settings)["tool_choice"] == sent


def test_parallel_calls_are_what_the_endpoint_does_anyway() -> None:
    assert "tool_choice" not in encode(tools=(TOOL,), settings={"parallel_tool_calls": True})


def test_a_tool_choice_without_its_tool_is_left_out_or_refused() -> None:
    assert "tool_choice" not in encode(tool_choice="none")
    with pytest.raises(ConfigurationError, match="offers no tool"):
        encode(tool_choice="required")
    with pytest.raises(ConfigurationError, match="demands the tool 'other' but does not offer it"):
        encode(tools=(TOOL,), tool_choice=NamedToolChoice(name="other"))


@pytest.mark.parametrize(
    ("settings", "capabilities"),
    [
        ({"reasoning_effort": "low"}, WORDED),
        ({"reasoning_effort": "low"}, NUMBERED),
        ({"thinking_budget_tokens": 2000}, UNKNOWN_CAPABILITIES),
        ({"thinking": {"type": "adaptive"}}, UNKNOWN_CAPABILITIES),
        ({"thinking": {"type": "between_tools"}}, UNKNOWN_CAPABILITIES),
    ],
)
def test_a_model_that_thinks_cannot_be_forced_to_call(
    settings: dict[str, Any], capabilities: ModelCapabilities
) -> None:
    body = encode(capabilities, tools=(TOOL,), tool_choice="required", settings=settings)
    assert "tool_choice" not in body
    with pytest.raises(ConfigurationError, match="cannot demand the tool 'look' while the model thinks"):
        encode(capabilities, tools=(TOOL,), tool_choice=NamedToolChoice(name="look"), settings=settings)


@pytest.mark.parametrize(
    ("capabilities", "settings"),
    [
        (WORDED, {}),
        (WORDED, {"reasoning_effort": "none"}),
        (WORDED, {"thinking": {"type": "disabled"}}),
        (NUMBERED, {"thinking_budget_tokens": 0}),
        (NUMBERED, {}),
    ],
)
def test_a_model_that_is_not_asked_to_think_is_forced_to_call(
    capabilities: ModelCapabilities, settings: dict[str, Any]
) -> None:
    body = encode(capabilities, tools=(TOOL,), tool_choice="required", settings=settings)
    assert body["tool_choice"] == {"type": "any"}
    named = NamedToolChoice(name="look")
    body = encode(capabilities, tools=(TOOL,), tool_choice=named, settings=settings)
    assert body["tool_choice"] == {"type": "tool", "name": "look"}


@pytest.mark.parametrize("settings", [{}, {"thinking": {"type": "disabled"}}, {"reasoning_effort": "low"}])
def test_a_model_that_can_never_be_forced_to_call_is_not(settings: dict[str, Any]) -> None:
    unforced = ModelCapabilities(reasoning=True, reasoning_control="effort", forced_tool_choice=False)
    body = encode(unforced, tools=(TOOL,), tool_choice="required", settings=settings)
    assert "tool_choice" not in body
    with pytest.raises(ConfigurationError, match="cannot be made to call a tool, so not 'look'"):
        encode(unforced, tools=(TOOL,), tool_choice=NamedToolChoice(name="look"), settings=settings)
    assert encode(unforced, tools=(TOOL,), tool_choice="none")["tool_choice"] == {"type": "none"}


def test_settings_go_into_the_body_under_the_words_of_the_protocol() -> None:
    settings = {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 5,
        "max_tokens": 7,
        "stop": "END",
        "service_tier": "auto",
        "metadata": {"user_id": "u"},
        "some_new_setting": {"deep": [1]},
        "timeout": 1,
        "api_key": "secret",
        "seed": None,
    }
    assert encode(settings=settings) == {
        "model": "m",
        "max_tokens": 7,
        "stream": True,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 5,
        "service_tier": "auto",
        "metadata": {"user_id": "u"},
        "some_new_setting": {"deep": [1]},
        "stop_sequences": ["END"],
        "messages": [{"role": "user", "content": [text("hello")]}],
    }


def test_several_stop_texts_stay_several() -> None:
    assert encode(settings={"stop": ("a", "b")})["stop_sequences"] == ["a", "b"]
    assert encode(settings={"stop": ["", "a"]})["stop_sequences"] == ["a"]


@pytest.mark.parametrize("stop", ["", [], [""]])
def test_stop_texts_that_say_nothing_are_left_out(stop: Any) -> None:
    assert "stop_sequences" not in encode(settings={"stop": stop})


def test_a_seed_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="has no setting 'seed'"):
        encode(settings={"seed": 1})


def test_a_bad_setting_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="top_k"):
        encode(settings={"top_k": "many"})


@pytest.mark.parametrize("name", ["messages", "model", "stop_sequences", "system", "tool_choice", "tools"])
def test_settings_that_only_the_library_writes_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        encode(settings={name: 1})


def test_extra_body_has_the_last_word_and_is_merged() -> None:
    settings = {
        "reasoning_effort": "low",
        "extra_body": {"output_config": {"task_budget": 1}, "model": "other"},
    }
    body = encode(WORDED, settings=settings)
    assert body["model"] == "other"
    assert body["output_config"] == {"effort": "low", "task_budget": 1}


def test_a_setting_that_is_not_json_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not JSON"):
        encode(settings={"speed": object()})


def test_a_response_format_is_sent_in_the_subset_of_the_endpoint() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}, "required": ["a"]}
    body = encode(
        response_format=ResponseFormat(name="outcome", schema=schema),
        settings={"output_config": {"task_budget": {"total": 1}}},
    )
    closed = {
        "type": "object",
        "properties": {"a": {"type": "integer", "description": "(minimum: 1)"}},
        "additionalProperties": False,
        "required": ["a"],
    }
    assert body["output_config"] == {
        "task_budget": {"total": 1},
        "format": {"type": "json_schema", "schema": closed},
    }


def test_the_format_of_the_output_is_written_by_the_library() -> None:
    with pytest.raises(ConfigurationError, match=r"output_config\.format"):
        encode(settings={"output_config": {"format": {"type": "json_schema"}}})


def test_an_output_config_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="output_config"):
        encode(settings={"output_config": "x"})


def test_equal_requests_are_equal_byte_for_byte_and_a_longer_conversation_keeps_the_prefix() -> None:
    def body(*more: Any) -> bytes:
        return encoded(
            WORDED,
            system_prompt="s" * 100,
            messages=(*HELLO, *more),
            tools=(TOOL,),
            settings=MappingProxyType({"temperature": 0, "reasoning_effort": "low"}),
        ).body

    assert body() == body()
    longer = body(AssistantMessage(text="hi"), UserMessage(content=("again",)))
    assert longer.startswith(body().removesuffix(b"]}"))


def test_the_order_of_a_schema_is_kept() -> None:
    body = encoded(tools=(TOOL,)).body
    assert body.index(b'"b":{}') < body.index(b'"a":{}')


def test_an_assistant_message_carries_text_and_calls_and_no_reasoning() -> None:
    call = ToolCall(id="toolu_1", name="look", arguments='{"a": 1}')
    assert messages(*HELLO, AssistantMessage(text="so", reasoning="hm", tool_calls=(call,)))[1] == {
        "role": "assistant",
        "content": [
            text("so"),
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": 1}},
        ],
    }


@pytest.mark.parametrize("arguments", ['{"a":', "nonsense", "[1]", "", "[" * 5_000])
def test_malformed_arguments_of_the_past_are_sent_as_an_object(arguments: str) -> None:
    call = ToolCall(id="1", name="look", arguments=arguments)
    (message,) = messages(AssistantMessage(tool_calls=(call,)))
    assert message["content"][0]["input"] == {"malformed_arguments": arguments}


def test_content_in_the_providers_form_takes_the_place_of_text_and_calls() -> None:
    items = ({"type": "thinking", "thinking": "", "signature": "s"}, text("so"))
    content = ProviderContent(protocol="anthropic", items=items)
    assert messages(*HELLO, AssistantMessage(text="so", provider_content=content))[1] == {
        "role": "assistant",
        "content": list(items),
    }


def test_content_in_the_form_of_another_protocol_is_ignored() -> None:
    content = ProviderContent(protocol="google", items=({"text": "so"},))
    assert messages(*HELLO, AssistantMessage(text="so", provider_content=content))[1]["content"] == [
        text("so")
    ]


@pytest.mark.parametrize("empty", ["", "  \n"])
def test_texts_without_a_visible_character_are_left_out(empty: str) -> None:
    result = ToolResult(call_id="1", name="look", content=(empty,))
    sent = messages(
        UserMessage(content=(empty, "a", empty)),
        AssistantMessage(text=empty),
        ToolResultsMessage(results=(result,)),
    )
    tool_result = {"type": "tool_result", "tool_use_id": "1"}
    assert sent == [{"role": "user", "content": [tool_result, text("a")]}]


@pytest.mark.parametrize("nothing", [(), (AssistantMessage(text=""),)])
def test_a_conversation_without_a_message_is_refused(nothing: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigurationError, match="needs a message"):
        messages(*nothing)


@pytest.mark.parametrize("silent", [UserMessage(content=(" ",)), UserMessage(content=())])
def test_a_turn_of_the_user_that_says_nothing_has_a_placeholder(silent: Any) -> None:
    said = {"role": "user", "content": [text("[no text]")]}
    answer = {"role": "assistant", "content": [text("hi")]}
    assert messages(silent) == [said]
    steered = messages(*HELLO, AssistantMessage(text="hi"), silent)
    assert steered[1:] == [answer, said]
    assert messages(*HELLO, AssistantMessage(text="hi"), silent, AssistantMessage(text="hi"))[1:] == [
        answer,
        said,
        answer,
    ]


def test_silence_beside_other_words_of_the_user_needs_no_placeholder() -> None:
    silent = UserMessage(content=("",))
    assert messages(*HELLO, silent) == [{"role": "user", "content": [text("hello")]}]


def test_messages_of_the_same_role_become_one() -> None:
    sent = messages(
        UserMessage(content=("a",)),
        UserMessage(content=("b",)),
        AssistantMessage(text="c"),
        AssistantMessage(text="d"),
    )
    assert sent == [
        {"role": "user", "content": [text("a"), text("b")]},
        {"role": "assistant", "content": [text("c"), text("d")]},
    ]


def test_all_results_of_a_response_stand_in_one_user_message_before_what_was_steered() -> None:
    results = tuple(ToolResult(call_id=str(each), name="look", content=(f"r{each}",)) for each in range(2))
    calls = tuple(ToolCall(id=str(each), name="look", arguments="{}") for each in range(2))
    for steered_first in (True, False):
        said: list[Any] = [ToolResultsMessage(results=results), UserMessage(content=("steered",))]
        said = said[::-1] if steered_first else said
        last = messages(*HELLO, AssistantMessage(tool_calls=calls), *said)[-1]
        assert last == {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "0", "content": [text("r0")]},
                {"type": "tool_result", "tool_use_id": "1", "content": [text("r1")]},
                text("steered"),
            ],
        }


def test_a_failed_call_says_so_and_a_good_one_does_not() -> None:
    failed = ToolResult(call_id="1", name="look", content=("no",), is_error=True)
    (message,) = messages(ToolResultsMessage(results=(failed,)))
    assert message["content"] == [
        {"type": "tool_result", "tool_use_id": "1", "content": [text("no")], "is_error": True}
    ]


@pytest.mark.parametrize("call_id", ["call:1", "fc.1|x", "größe", "", "\ud800", "x" * 60 + "!"])
def test_ids_that_the_endpoint_refuses_are_replaced_alike_in_calls_and_results(call_id: str) -> None:
    call = ToolCall(id=call_id, name="look", arguments="{}")
    result = ToolResult(call_id=call_id, name="look", content=("r",))
    assistant, user = messages(AssistantMessage(tool_calls=(call,)), ToolResultsMessage(results=(result,)))
    sent = assistant["content"][0]["id"]
    assert sent == user["content"][0]["tool_use_id"]
    assert sent.replace("_", "").replace("-", "").isalnum()
    assert sent.isascii()
    assert len(sent) <= 64


def test_different_ids_stay_different() -> None:
    calls = tuple(ToolCall(id=each, name="look", arguments="{}") for each in ("a:b", "a.b", "a_b", "a-b"))
    (message,) = messages(AssistantMessage(tool_calls=calls))
    assert len({each["id"] for each in message["content"]}) == 4


def test_lone_surrogates_do_not_break_a_request() -> None:
    body = encode(system_prompt="a\ud800b", messages=(UserMessage(content=("\udfff 🙂",)),), tools=(TOOL,))
    assert body["system"] == [text("a\ufffdb")]
    assert body["messages"][0]["content"] == [text("\ufffd 🙂")]

import json
from types import MappingProxyType
from typing import Any

import pytest

from nighthawk_async.errors import ConfigurationError, UnsupportedContentError
from nighthawk_async.types.messages import (
    AssistantMessage,
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    FileUrl,
    ImageUrl,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResultsMessage,
    UploadedFile,
    UserContent,
    UserMessage,
    VideoUrl,
)
from nighthawk_async.types.model import ModelCapabilities, ModelRequest, NamedToolChoice, ResponseFormat
from nighthawk_async.wire.codec import UNKNOWN_CAPABILITIES
from nighthawk_async.wire.openai_responses.codec import OpenAIResponsesCodec

HELLO = (UserMessage(content=("hello",)),)
REASONING = ModelCapabilities(reasoning=True)
LOOSE: dict[str, Any] = {"type": "object", "properties": {"b": {}, "a": {}}}
STRICT: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
TOOL = ToolDefinition(name="look", description="Looks.", parameters=LOOSE)
PNG = BinaryContent(data=b"\x89PNG", media_type="image/png")


def encode(*, capabilities: ModelCapabilities = UNKNOWN_CAPABILITIES, **fields: Any) -> dict[str, Any]:
    request = ModelRequest(**{"messages": HELLO, **fields})
    encoded = OpenAIResponsesCodec().encode(request, model_name="m", capabilities=capabilities)
    return json.loads(encoded.body)


def encode_with(**settings: Any) -> dict[str, Any]:
    return encode(settings=settings)


def user_content(*content: UserContent) -> Any:
    return encode(messages=(UserMessage(content=content),))["input"][0]["content"]


def test_a_plain_request_streams_and_has_nothing_stored() -> None:
    encoded = OpenAIResponsesCodec().encode(ModelRequest(messages=HELLO), model_name="m")
    assert encoded.path == "/responses"
    assert encoded.headers["accept"] == "text/event-stream"
    assert json.loads(encoded.body) == {
        "model": "m",
        "stream": True,
        "store": False,
        "input": [{"type": "message", "role": "user", "content": "hello"}],
    }


def test_the_system_prompt_is_the_instructions() -> None:
    assert encode(system_prompt="be brief")["instructions"] == "be brief"


@pytest.mark.parametrize(("parameters", "strict"), [(LOOSE, False), (STRICT, True)])
def test_tools_always_say_whether_they_are_strict(parameters: dict[str, Any], strict: bool) -> None:
    tool = ToolDefinition(name="look", description="Looks.", parameters=parameters)
    body = encode(tools=(tool,))
    assert body["tools"] == [
        {
            "type": "function",
            "name": "look",
            "description": "Looks.",
            "parameters": parameters,
            "strict": strict,
        }
    ]
    assert "tool_choice" not in body


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("required", "required"),
        ("none", "none"),
        (NamedToolChoice(name="look"), {"type": "function", "name": "look"}),
    ],
)
def test_another_tool_choice_is_told(choice: Any, sent: Any) -> None:
    assert encode(tools=(TOOL,), tool_choice=choice)["tool_choice"] == sent


def test_a_tool_choice_without_its_tool_is_left_out_or_refused() -> None:
    assert "tool_choice" not in encode(tool_choice="none")
    with pytest.raises(ConfigurationError, match="offers no tool"):
        encode(tool_choice="required")
    with pytest.raises(ConfigurationError, match="'assign'"):
        encode(tools=(TOOL,), tool_choice=NamedToolChoice(name="assign"))


@pytest.mark.parametrize(("schema", "strict"), [(LOOSE, False), (STRICT, True)])
def test_a_response_format_is_strict_where_its_schema_allows(schema: dict[str, Any], strict: bool) -> None:
    body = encode(
        response_format=ResponseFormat(name="outcome", schema=schema), settings={"verbosity": "low"}
    )
    assert body["text"] == {
        "verbosity": "low",
        "format": {"type": "json_schema", "name": "outcome", "schema": schema, "strict": strict},
    }


def test_settings_are_written_by_the_protocols_names() -> None:
    body = encode_with(
        temperature=0,
        top_p=0.5,
        max_tokens=500,
        parallel_tool_calls=False,
        reasoning_effort="low",
        reasoning_summary="auto",
        service_tier="flex",
        truncation="auto",
        user="u",
        metadata={"a": "b"},
        prompt_cache_key="k",
        prompt_cache_retention="24h",
        verbosity="high",
        top_logprobs=None,
        some_new_setting={"deep": [1]},
    )
    for name in ("model", "stream", "store", "include", "input"):
        del body[name]
    assert body == {
        "temperature": 0,
        "top_p": 0.5,
        "max_output_tokens": 500,
        "parallel_tool_calls": False,
        "reasoning": {"effort": "low", "summary": "auto"},
        "service_tier": "flex",
        "truncation": "auto",
        "user": "u",
        "metadata": {"a": "b"},
        "prompt_cache_key": "k",
        "prompt_cache_retention": "24h",
        "text": {"verbosity": "high"},
        "some_new_setting": {"deep": [1]},
    }


def test_settings_of_the_transport_stay_out_of_the_body() -> None:
    body = encode_with(base_url="http://localhost", api_key="secret", max_retries=0, idle_timeout=1)
    assert body.keys() == {"model", "stream", "store", "input"}


def test_the_protocols_own_objects_are_filled_up() -> None:
    body = encode_with(
        reasoning={"context": "all_turns"}, reasoning_effort="high", text={"new": 1}, verbosity="low"
    )
    assert body["reasoning"] == {"context": "all_turns", "effort": "high"}
    assert body["text"] == {"new": 1, "verbosity": "low"}


@pytest.mark.parametrize("name", ["reasoning", "text", "include"])
def test_the_protocols_own_objects_must_have_their_form(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        encode(settings={name: "much"}, capabilities=REASONING)


@pytest.mark.parametrize("name", ["stop", "seed"])
def test_settings_that_the_protocol_lacks_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"OpenAI Responses protocol has no setting '{name}'"):
        encode(settings={name: 1})
    assert encode(settings={name: None})


@pytest.mark.parametrize(
    "name",
    ["conversation", "input", "instructions", "model", "previous_response_id", "tool_choice", "tools"],
)
def test_settings_that_only_the_library_writes_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        encode(settings={name: 1})


def test_the_format_of_the_text_is_written_by_the_library() -> None:
    with pytest.raises(ConfigurationError, match=r"text\.format"):
        encode_with(text={"format": {"type": "json_object"}})


@pytest.mark.parametrize("settings", [{"max_tokens": "many"}, {"reasoning_effort": "heroic"}])
def test_a_bad_setting_is_refused_by_name(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        encode(settings=settings)


def test_a_setting_that_is_not_json_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not JSON"):
        encode_with(some_new_setting=object())


def test_extra_body_has_the_last_word_at_every_depth() -> None:
    extra = {"reasoning": {"summary": "detailed"}, "model": "other"}
    body = encode(tools=(TOOL,), settings={"reasoning_effort": "low", "extra_body": extra})
    assert body["reasoning"] == {"effort": "low", "summary": "detailed"}
    assert body["model"] == "other"


@pytest.mark.parametrize(
    ("settings", "capabilities"),
    [
        ({}, REASONING),
        ({"reasoning_effort": "low"}, ModelCapabilities()),
        ({"reasoning_effort": "none"}, REASONING),
        ({"reasoning_summary": "auto"}, ModelCapabilities()),
        ({"store": False}, REASONING),
        ({"store": True, "extra_body": {"store": False}}, REASONING),
    ],
)
def test_encrypted_reasoning_is_asked_for_where_it_is_the_only_way_back(
    settings: dict[str, Any], capabilities: ModelCapabilities
) -> None:
    body = encode(settings=settings, capabilities=capabilities)
    assert body["include"] == ["reasoning.encrypted_content"]


@pytest.mark.parametrize(
    ("settings", "capabilities"),
    [
        ({}, ModelCapabilities()),
        ({"reasoning_effort": "none"}, ModelCapabilities()),
        ({"store": True}, REASONING),
        ({"store": True, "reasoning_effort": "high"}, REASONING),
        ({"extra_body": {"store": True}}, REASONING),
    ],
)
def test_encrypted_reasoning_is_not_asked_of_models_that_refuse_or_of_responses_that_are_stored(
    settings: dict[str, Any], capabilities: ModelCapabilities
) -> None:
    assert "include" not in encode(settings=settings, capabilities=capabilities)


@pytest.mark.parametrize("own", [["x"], ["x", "reasoning.encrypted_content"]])
def test_what_else_should_be_included_stays(own: list[str]) -> None:
    body = encode(settings={"include": own}, capabilities=REASONING)
    assert body["include"] == ["x", "reasoning.encrypted_content"]


def test_a_request_may_ask_for_an_answer_in_one_piece() -> None:
    assert encode_with(stream=False)["stream"] is False


def test_equal_requests_are_equal_byte_for_byte_and_a_longer_conversation_keeps_the_prefix() -> None:
    def body(*more: Any) -> bytes:
        request = ModelRequest(
            system_prompt="s" * 100,
            messages=(*HELLO, *more),
            tools=(TOOL,),
            tool_choice="required",
            response_format=ResponseFormat(name="outcome", schema=STRICT),
            settings=MappingProxyType({"temperature": 0, "max_tokens": 5, "reasoning_effort": "low"}),
        )
        return OpenAIResponsesCodec().encode(request, model_name="m").body

    assert body() == body()
    longer = body(AssistantMessage(text="hi"), UserMessage(content=("again",)))
    assert longer.startswith(body().removesuffix(b"]}"))


def test_the_order_of_a_schema_is_kept() -> None:
    body = OpenAIResponsesCodec().encode(ModelRequest(messages=HELLO, tools=(TOOL,)), model_name="m").body
    assert body.index(b'"b":{}') < body.index(b'"a":{}')


def test_several_texts_of_a_prompt_are_one_text() -> None:
    assert user_content("a", "b") == "a\n\nb"
    assert user_content() == ""


def test_images_travel_as_bytes_by_url_and_by_id() -> None:
    assert user_content(
        "see",
        PNG,
        ImageUrl(url="http://x/y"),
        ImageUrl(url="data:image/png;base64,AA=="),
        FileUrl(url="http://x/z", media_type="image/gif"),
        UploadedFile(file_id="f1", provider_name="openai", media_type="image/png"),
    ) == [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBORw=="},
        {"type": "input_image", "detail": "auto", "image_url": "http://x/y"},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AA=="},
        {"type": "input_image", "detail": "auto", "image_url": "http://x/z"},
        {"type": "input_image", "detail": "auto", "file_id": "f1"},
    ]


def test_documents_travel_as_named_bytes_by_url_and_by_id() -> None:
    assert user_content(
        BinaryContent(data=b"%PDF", media_type="application/pdf"),
        BinaryContent(data=b"x", media_type="text/plain", identifier="notes.txt"),
        DocumentUrl(url="http://x/d"),
        FileUrl(url="http://x/f"),
        UploadedFile(file_id="f1", provider_name="openai-responses"),
    ) == [
        {
            "type": "input_file",
            "filename": "document.pdf",
            "file_data": "data:application/pdf;base64,JVBERg==",
        },
        {"type": "input_file", "filename": "notes.txt", "file_data": "data:text/plain;base64,eA=="},
        {"type": "input_file", "file_url": "http://x/d"},
        {"type": "input_file", "file_url": "http://x/f"},
        {"type": "input_file", "file_id": "f1"},
    ]


@pytest.mark.parametrize(
    ("item", "named"),
    [
        (BinaryContent(data=b"x", media_type="video/mp4"), "video video/mp4, 1 bytes"),
        (BinaryContent(data=b"x", media_type="audio/wav"), "audio audio/wav"),
        (VideoUrl(url="http://x/v"), "video at http://x/v"),
        (AudioUrl(url="http://x/a"), "audio at http://x/a"),
        (FileUrl(url="http://x/f", media_type="audio/mpeg"), "audio audio/mpeg at http://x/f"),
        (ImageUrl(url="file:///etc/passwd"), "image at file:///etc/passwd"),
        (ImageUrl(url="gs://b/a.png"), "image at gs://b/a.png"),
        (DocumentUrl(url="file:///etc/passwd"), "document at file:///etc/passwd"),
        (DocumentUrl(url="data:application/pdf;base64,AA=="), "document at data:application/pdf"),
        (UploadedFile(file_id="f1", provider_name="google"), "document uploaded to google as f1"),
        (
            UploadedFile(file_id="f1", provider_name="openai", media_type="audio/wav"),
            "audio audio/wav uploaded",
        ),
    ],
)
def test_what_the_protocol_cannot_carry_is_refused_by_name(item: Any, named: str) -> None:
    with pytest.raises(UnsupportedContentError, match=named):
        user_content(item)
    assert named in (OpenAIResponsesCodec().find_refusal(item) or "")


def test_what_the_protocol_can_carry_is_not_refused() -> None:
    assert OpenAIResponsesCodec().find_refusal(PNG) is None


def results(*contents: tuple[UserContent, ...]) -> ToolResultsMessage:
    return ToolResultsMessage(
        results=tuple(
            ToolResult(call_id=f"call_{number}", name="look", content=content)
            for number, content in enumerate(contents)
        )
    )


def test_results_are_one_item_each_in_order_and_go_by_call_id() -> None:
    assert encode(messages=(results(("a", "b"), ("c",), ()),))["input"] == [
        {"type": "function_call_output", "call_id": "call_0", "output": "a\nb"},
        {"type": "function_call_output", "call_id": "call_1", "output": "c"},
        {"type": "function_call_output", "call_id": "call_2", "output": ""},
    ]


def test_media_of_results_stand_in_the_result() -> None:
    pdf = BinaryContent(data=b"%PDF", media_type="application/pdf")
    (item,) = encode(messages=(results(("see", PNG, "and", pdf, VideoUrl(url="http://x/y.mp4"))),))["input"]
    assert [part["type"] for part in item["output"]] == [
        "input_text",
        "input_image",
        "input_text",
        "input_file",
        "input_text",
    ]
    assert item["output"][-1]["text"] == "[video at http://x/y.mp4; it cannot be shown to this model]"


def test_media_of_results_that_cannot_travel_are_described() -> None:
    (item,) = encode(
        messages=(
            results(
                ("see", VideoUrl(url="http://x/y.mp4")),
            ),
        )
    )["input"]
    assert item["output"] == "see\n[video at http://x/y.mp4; it cannot be shown to this model]"


def test_a_past_response_is_a_message_and_calls() -> None:
    call = ToolCall(id="call_1", name="look", arguments='{"a": 1}')
    message = AssistantMessage(text="so", reasoning="hm", tool_calls=(call,))
    assert encode(messages=(message,))["input"] == [
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "so", "annotations": []}],
        },
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"a": 1}'},
    ]


def test_a_past_response_without_text_is_no_message() -> None:
    call = ToolCall(id="call_1", name="look", arguments="{}")
    items = encode(messages=(AssistantMessage(tool_calls=(call,)), AssistantMessage()))["input"]
    assert [item["type"] for item in items] == ["function_call"]


@pytest.mark.parametrize("arguments", ['{"a":', "nonsense", "[1]", "", "[" * 5_000])
def test_malformed_arguments_of_the_past_are_sent_as_valid_json(arguments: str) -> None:
    call = ToolCall(id="call_1", name="look", arguments=arguments)
    (item,) = encode(messages=(AssistantMessage(tool_calls=(call,)),))["input"]
    assert json.loads(item["arguments"]) == {"malformed_arguments": arguments}


def test_lone_surrogates_do_not_break_a_request() -> None:
    body = encode(system_prompt="a\ud800b", messages=(UserMessage(content=("\udfff 🙂",)),), tools=(TOOL,))
    assert body["instructions"] == "a\ufffdb"
    assert body["input"][0]["content"] == "\ufffd 🙂"

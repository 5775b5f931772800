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
    MultimodalContent,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResultsMessage,
    UploadedFile,
    UserContent,
    UserMessage,
    VideoUrl,
)
from nighthawk_async.types.model import ModelRequest, NamedToolChoice, ResponseFormat, ToolChoice
from nighthawk_async.wire.openai_chat.codec import OpenAIChatCodec

HELLO = (UserMessage(content=("hello",)),)
TOOL = ToolDefinition(
    name="look", description="Looks.", parameters={"type": "object", "properties": {"b": {}, "a": {}}}
)
PNG = BinaryContent(data=b"\x89PNG", media_type="image/png")


def encode(**fields: Any) -> dict[str, Any]:
    request = ModelRequest(**{"messages": HELLO, **fields})
    return json.loads(OpenAIChatCodec().encode(request, model_name="m").body)


def user_content(*content: UserContent) -> Any:
    return encode(messages=(UserMessage(content=content),))["messages"][0]["content"]


def test_a_plain_request_streams_and_asks_for_usage() -> None:
    encoded = OpenAIChatCodec().encode(ModelRequest(messages=HELLO), model_name="m")
    assert encoded.path == "/chat/completions"
    assert encoded.headers["accept"] == "text/event-stream"
    assert json.loads(encoded.body) == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "hello"}],
    }


def test_the_system_prompt_comes_first() -> None:
    assert encode(system_prompt="be brief")["messages"][0] == {"role": "system", "content": "be brief"}


def test_tools_are_described_and_auto_is_left_to_the_server() -> None:
    body = encode(tools=(TOOL,))
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": "look", "description": "Looks.", "parameters": TOOL.parameters},
        }
    ]
    assert "tool_choice" not in body


def test_only_tools_in_the_strict_subset_claim_it_and_only_if_asked() -> None:
    closed = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    tools = (TOOL, ToolDefinition(name="see", description="Sees.", parameters=closed))
    body = encode(tools=tools, settings={"strict_tools": True})
    look, see = (tool["function"] for tool in body["tools"])
    assert "strict" not in look
    assert see["strict"] is True
    for settings in ({}, {"strict_tools": False}):
        assert "strict" not in json.dumps(encode(tools=tools, settings=settings))
    assert "strict_tools" not in encode(settings={"strict_tools": True})


@pytest.mark.parametrize("choice", ["required", "none"])
def test_another_tool_choice_is_told(choice: str) -> None:
    assert encode(tools=(TOOL,), tool_choice=choice)["tool_choice"] == choice


def test_a_named_tool_choice_is_told_by_name() -> None:
    body = encode(tools=(TOOL,), tool_choice=NamedToolChoice(name="look"))
    assert body["tool_choice"] == {"type": "function", "function": {"name": "look"}}


def test_a_named_tool_choice_must_name_an_offered_tool() -> None:
    with pytest.raises(ConfigurationError, match="'jump' but does not offer it"):
        encode(tools=(TOOL,), tool_choice=NamedToolChoice(name="jump"))


@pytest.mark.parametrize("choice", ["required", NamedToolChoice(name="look")])
def test_a_tool_choice_without_tools_is_left_out_or_refused(choice: ToolChoice) -> None:
    assert "tool_choice" not in encode(tool_choice="none")
    with pytest.raises(ConfigurationError, match="offers no tool"):
        encode(tool_choice=choice)


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (
            {
                "type": "object",
                "properties": {"a": {"type": "integer"}},
                "required": ["a"],
                "additionalProperties": False,
            },
            True,
        ),
        (
            {"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False},
            False,
        ),
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, False),
    ],
)
def test_a_response_format_is_strict_where_its_schema_allows(schema: dict[str, Any], strict: bool) -> None:
    body = encode(response_format=ResponseFormat(name="outcome", schema=schema))
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "outcome", "schema": schema, "strict": strict},
    }


def test_known_and_unknown_settings_go_into_the_body_and_transport_settings_do_not() -> None:
    settings = {
        "temperature": 0,
        "max_tokens": 5,
        "seed": 1,
        "stop": ["x"],
        "logit_bias": {"5": -100},
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
        "service_tier": "flex",
        "user": "u",
        "some_new_setting": {"deep": [1]},
        "top_p": None,
    }
    transport = {
        "base_url": "http://localhost",
        "api_key": "secret",
        "extra_headers": {"x": "y"},
        "timeout": 1,
        "connect_timeout": 1,
        "idle_timeout": 1,
        "max_retries": 0,
        "capabilities": {},
    }
    body = encode(settings={**settings, **transport}, tools=(TOOL,))
    expected = {name: value for name, value in settings.items() if value is not None}
    assert {name: value for name, value in body.items() if name in settings or name in transport} == expected


def test_extra_body_has_the_last_word_and_is_merged_into_objects() -> None:
    extra = {"temperature": 0, "model": "other", "logit_bias": {"6": 1}, "stream_options": {"more": True}}
    body = encode(settings={"temperature": 1, "logit_bias": {"5": 1}, "extra_body": extra})
    assert (body["temperature"], body["model"]) == (0, "other")
    assert body["logit_bias"] == {"5": 1, "6": 1}
    assert body["stream_options"] == {"include_usage": True, "more": True}


@pytest.mark.parametrize(
    ("name", "value"),
    [("temperature", "hot"), ("stop", 5), ("reasoning_effort", "a bit"), ("parallel_tool_calls", "perhaps")],
)
def test_a_bad_value_of_a_setting_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=f"Bad model setting '{name}"):
        encode(settings={name: value})


@pytest.mark.parametrize("allowed", [True, False])
def test_whether_calls_may_be_parallel_is_told_only_beside_tools(allowed: bool) -> None:
    settings = {"parallel_tool_calls": allowed}
    assert encode(settings=settings, tools=(TOOL,))["parallel_tool_calls"] is allowed
    assert "parallel_tool_calls" not in encode(settings=settings)


def test_extra_body_must_be_a_mapping() -> None:
    with pytest.raises(ConfigurationError, match="extra_body"):
        encode(settings={"extra_body": "x"})


@pytest.mark.parametrize("name", ["messages", "model", "n", "response_format", "tool_choice", "tools"])
def test_settings_that_only_the_library_writes_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        encode(settings={name: 1})


def test_a_setting_that_is_not_json_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not JSON"):
        encode(settings={"some_new_setting": object()})


def test_a_request_that_is_not_streamed_does_not_ask_for_usage_in_the_stream() -> None:
    for settings in ({"stream": False}, {"extra_body": {"stream": False}}):
        body = encode(settings=settings)
        assert body["stream"] is False
        assert "stream_options" not in body


def test_equal_requests_are_equal_byte_for_byte_and_a_longer_conversation_keeps_the_prefix() -> None:
    def body(*more: Any) -> bytes:
        request = ModelRequest(
            system_prompt="s" * 100,
            messages=(*HELLO, *more),
            tools=(TOOL,),
            tool_choice="required",
            settings=MappingProxyType({"seed": 1, "temperature": 0}),
        )
        return OpenAIChatCodec().encode(request, model_name="m").body

    assert body() == body()
    longer = body(AssistantMessage(text="hi"), UserMessage(content=("again",)))
    assert longer.startswith(body().removesuffix(b"]}"))


def test_the_order_of_a_schema_is_kept() -> None:
    body = OpenAIChatCodec().encode(ModelRequest(messages=HELLO, tools=(TOOL,)), model_name="m").body
    assert body.index(b'"b":{}') < body.index(b'"a":{}')


def test_an_assistant_message_carries_text_and_calls() -> None:
    call = ToolCall(id="1", name="look", arguments='{"a": 1}')
    messages = encode(messages=(AssistantMessage(text="so", reasoning="hm", tool_calls=(call,)),))["messages"]
    function = {"name": "look", "arguments": '{"a": 1}'}
    assert messages == [
        {
            "role": "assistant",
            "content": "so",
            "tool_calls": [{"id": "1", "type": "function", "function": function}],
        }
    ]


def test_an_assistant_message_without_text_has_null_beside_calls_and_an_empty_text_alone() -> None:
    call = ToolCall(id="1", name="look", arguments="{}")
    messages = encode(messages=(AssistantMessage(tool_calls=(call,)), AssistantMessage()))["messages"]
    assert [message["content"] for message in messages] == [None, ""]


@pytest.mark.parametrize("arguments", ['{"a":', "nonsense", "[1]", "", "[" * 5_000])
def test_malformed_arguments_of_the_past_are_sent_as_valid_json(arguments: str) -> None:
    call = ToolCall(id="1", name="look", arguments=arguments)
    (message,) = encode(messages=(AssistantMessage(tool_calls=(call,)),))["messages"]
    sent = json.loads(message["tool_calls"][0]["function"]["arguments"])
    assert sent == {"malformed_arguments": arguments}


def results(*contents: tuple[UserContent, ...]) -> ToolResultsMessage:
    return ToolResultsMessage(
        results=tuple(
            ToolResult(call_id=str(number), name="look", content=content)
            for number, content in enumerate(contents)
        )
    )


def test_tool_results_are_one_message_each_in_order() -> None:
    assert encode(messages=(results(("a", "b"), ("c",), ()),))["messages"] == [
        {"role": "tool", "tool_call_id": "0", "content": "a\nb"},
        {"role": "tool", "tool_call_id": "1", "content": "c"},
        {"role": "tool", "tool_call_id": "2", "content": ""},
    ]


def test_media_of_tool_results_follow_in_a_user_message_in_order() -> None:
    messages = encode(messages=(results(("see", PNG, "and"), (ImageUrl(url="http://x/y.png"),)),))["messages"]
    assert [message["role"] for message in messages] == ["tool", "tool", "user"]
    assert messages[0]["content"] == "see\n[image image/png, 4 bytes; shown in the next message]\nand"
    kinds = [part["type"] for part in messages[2]["content"]]
    assert kinds == ["text", "image_url", "text", "image_url"]
    assert "call 0" in messages[2]["content"][0]["text"]
    assert "call 1" in messages[2]["content"][2]["text"]


def test_media_of_several_results_follow_all_tool_messages_in_the_order_of_the_calls() -> None:
    gif = BinaryContent(data=b"GIF", media_type="image/gif")
    message = results((PNG, gif), ("text alone",), (VideoUrl(url="http://x/v"),), (gif, "between", PNG))
    messages = encode(messages=(message, UserMessage(content=("go on",))))["messages"]
    assert [each["role"] for each in messages] == ["tool", "tool", "tool", "tool", "user", "user"]
    assert [each["tool_call_id"] for each in messages[:4]] == ["0", "1", "2", "3"]
    parts = messages[4]["content"]
    titles = [part["text"].rpartition(", ")[2] for part in parts if part["type"] == "text"]
    assert titles == ["call 0]", "call 0]", "call 3]", "call 3]"]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    assert [url[5:14] for url in urls] == ["image/png", "image/gif", "image/gif", "image/png"]
    assert messages[5]["content"] == "go on"


def test_media_of_tool_results_that_cannot_travel_are_described() -> None:
    (message,) = encode(messages=(results((VideoUrl(url="http://x/y.mp4"),)),))["messages"]
    assert message["content"] == "[video at http://x/y.mp4; it cannot be shown to this model]"


def test_several_texts_of_a_prompt_are_one_text() -> None:
    assert user_content("a", "b") == "a\n\nb"
    assert user_content() == ""


def test_images_travel_as_urls() -> None:
    assert user_content(
        "see", PNG, ImageUrl(url="http://x/y"), FileUrl(url="http://x/z", media_type="image/gif")
    ) == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
        {"type": "image_url", "image_url": {"url": "http://x/y"}},
        {"type": "image_url", "image_url": {"url": "http://x/z"}},
    ]


@pytest.mark.parametrize(
    ("media_type", "name"),
    [("audio/mpeg", "mp3"), ("audio/x-wav", "wav"), ("Audio/WAV; codecs=1", "wav")],
)
def test_sounds_travel_with_the_name_of_their_format(media_type: str, name: str) -> None:
    (part,) = user_content(BinaryContent(data=b"\0", media_type=media_type))
    assert part == {"type": "input_audio", "input_audio": {"data": "AA==", "format": name}}


def test_documents_travel_as_named_files() -> None:
    pdf = BinaryContent(data=b"%PDF", media_type="application/pdf")
    named = BinaryContent(data=b"x", media_type="text/plain", identifier="notes.txt")
    parts = user_content(pdf, named)
    assert [part["file"]["filename"] for part in parts] == ["document.pdf", "notes.txt"]
    assert parts[0]["file"]["file_data"] == "data:application/pdf;base64,JVBERg=="


def test_an_uploaded_file_travels_by_its_id() -> None:
    assert user_content(UploadedFile(file_id="f1", provider_name="openai")) == [
        {"type": "file", "file": {"file_id": "f1"}}
    ]


@pytest.mark.parametrize(
    ("item", "named"),
    [
        (BinaryContent(data=b"x", media_type="video/mp4"), "video video/mp4, 1 bytes"),
        (BinaryContent(data=b"x", media_type="audio/ogg"), "audio audio/ogg"),
        (VideoUrl(url="http://x/v"), "video at http://x/v"),
        (AudioUrl(url="http://x/a"), "audio at http://x/a"),
        (DocumentUrl(url="http://x/d"), "document at http://x/d"),
        (FileUrl(url="http://x/f"), "document at http://x/f"),
        (UploadedFile(file_id="f1", provider_name="google"), "document uploaded to google as f1"),
    ],
)
def test_what_the_protocol_cannot_carry_is_refused_by_name(item: UserContent, named: str) -> None:
    with pytest.raises(UnsupportedContentError, match=named):
        user_content(item)


def test_lone_surrogates_do_not_break_a_request() -> None:
    body = encode(system_prompt="a\ud800b", messages=(UserMessage(content=("\udfff 🙂",)),), tools=(TOOL,))
    assert body["messages"][0]["content"] == "a\ufffdb"
    assert body["messages"][1]["content"] == "\ufffd 🙂"


@pytest.mark.parametrize(
    "item",
    [
        UploadedFile(file_id="f1", provider_name="openai", media_type="image/png"),
        UploadedFile(file_id="f1", provider_name="openai", media_type="audio/mpeg"),
        UploadedFile(file_id="f1", provider_name="openai", media_type="video/mp4"),
        ImageUrl(url="file:///etc/passwd"),
        ImageUrl(url="gs://bucket/x.png"),
        ImageUrl(url="x.png"),
        FileUrl(url="file:///x.png", media_type="image/png"),
    ],
)
def test_files_that_are_no_documents_and_urls_that_are_not_fetched_are_refused(
    item: MultimodalContent,
) -> None:
    with pytest.raises(UnsupportedContentError, match="Chat Completions protocol cannot carry"):
        user_content(item)


def test_an_image_may_be_a_url_that_holds_its_data() -> None:
    url = "data:image/png;base64,iVBORw0KGgo="
    assert user_content(ImageUrl(url=url)) == [{"type": "image_url", "image_url": {"url": url}}]


@pytest.mark.parametrize("stop", ["", [], [""]])
def test_a_stop_without_text_is_not_sent(stop: object) -> None:
    assert "stop" not in encode(settings={"stop": stop})


def test_a_number_that_json_cannot_write_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'temperature'"):
        encode(settings={"temperature": float("nan")})

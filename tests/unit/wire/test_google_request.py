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
    Message,
    ProviderContent,
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
from nighthawk_async.wire.google.codec import GoogleCodec

from .gemini import call_part, calls_in, chunk, decode, message_of

HELLO = (UserMessage(content=("hello",)),)
TOOL = ToolDefinition(
    name="look",
    description="Looks.",
    parameters={"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "integer"}}},
)
PNG = BinaryContent(data=b"\x89PNG", media_type="image/png")
PNG_PART = {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}
SIGNING = ModelCapabilities(reasoning=True, reasoning_control="effort")
BUDGETING = ModelCapabilities(reasoning=True, reasoning_control="budget")


def encode(*, capabilities: ModelCapabilities = UNKNOWN_CAPABILITIES, **fields: Any) -> dict[str, Any]:
    request = ModelRequest(**{"messages": HELLO, **fields})
    return json.loads(GoogleCodec().encode(request, model_name="m", capabilities=capabilities).body)


def contents(*messages: Message, capabilities: ModelCapabilities = UNKNOWN_CAPABILITIES) -> Any:
    return encode(messages=messages, capabilities=capabilities)["contents"]


def user_parts(*content: UserContent) -> Any:
    return contents(UserMessage(content=content))[0]["parts"]


def call(name: str, id: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments)


def result(name: str, id: str, *content: UserContent, is_error: bool = False) -> ToolResult:
    return ToolResult(call_id=id, name=name, content=content, is_error=is_error)


def results(*each: ToolResult) -> ToolResultsMessage:
    return ToolResultsMessage(results=each)


def path_of(model_name: str, **settings: Any) -> str:
    request = ModelRequest(messages=HELLO, settings=settings)
    return GoogleCodec().encode(request, model_name=model_name).path


def test_a_plain_request_is_its_contents() -> None:
    encoded = GoogleCodec().encode(ModelRequest(messages=HELLO), model_name="gemini-3-pro")
    assert encoded.path == "/models/gemini-3-pro:streamGenerateContent?alt=sse"
    assert encoded.headers == {"accept": "text/event-stream", "content-type": "application/json"}
    assert json.loads(encoded.body) == {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}


def test_a_response_in_one_piece_has_another_path_and_no_field_for_it() -> None:
    encoded = GoogleCodec().encode(ModelRequest(messages=HELLO, settings={"stream": False}), model_name="m")
    assert encoded.path == "/models/m:generateContent"
    assert encoded.headers["accept"] == "application/json"
    assert "stream" not in json.loads(encoded.body)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("models/gemini-2.5-pro", "/models/gemini-2.5-pro"),
        ("tunedModels/mine-7", "/tunedModels/mine-7"),
        ("../files", "/models/..%2Ffiles"),
        ("models/../../x", "/models/..%2F..%2Fx"),
        ("m?key=1&a#b", "/models/m%3Fkey%3D1%26a%23b"),
        ("m:countTokens?", "/models/m%3AcountTokens%3F"),
        ("größe 1", "/models/gr%C3%B6%C3%9Fe%201"),
    ],
)
def test_a_models_name_never_leads_elsewhere(name: str, path: str) -> None:
    assert path_of(name) == f"{path}:streamGenerateContent?alt=sse"


def test_the_system_prompt_stands_apart() -> None:
    assert encode(system_prompt="be brief")["systemInstruction"] == {"parts": [{"text": "be brief"}]}


def test_tools_are_described_by_json_schema_and_auto_is_left_to_the_server() -> None:
    body = encode(tools=(TOOL,))
    declaration = {"name": "look", "description": "Looks.", "parametersJsonSchema": TOOL.parameters}
    assert body["tools"] == [{"functionDeclarations": [declaration]}]
    assert "toolConfig" not in body


@pytest.mark.parametrize(
    "parameters",
    [{}, {"type": "object"}, {"type": "object", "properties": {}, "additionalProperties": False}],
)
def test_a_tool_without_parameters_has_no_schema(parameters: dict[str, Any]) -> None:
    tool = ToolDefinition(name="end", description="Ends.", parameters=parameters)
    declaration = encode(tools=(tool,))["tools"][0]["functionDeclarations"][0]
    assert declaration == {"name": "end", "description": "Ends."}


def test_a_tool_that_takes_any_object_has_a_schema() -> None:
    parameters = {"type": "object", "additionalProperties": True}
    tool = ToolDefinition(name="end", description="Ends.", parameters=parameters)
    declaration = encode(tools=(tool,))["tools"][0]["functionDeclarations"][0]
    assert declaration["parametersJsonSchema"] == parameters


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("required", {"mode": "ANY"}),
        ("none", {"mode": "NONE"}),
        (NamedToolChoice(name="look"), {"mode": "ANY", "allowedFunctionNames": ["look"]}),
    ],
)
def test_another_tool_choice_is_told(choice: Any, config: dict[str, Any]) -> None:
    assert encode(tools=(TOOL,), tool_choice=choice)["toolConfig"] == {"functionCallingConfig": config}


def test_a_tool_choice_without_its_tool_is_left_out_or_refused() -> None:
    assert encode(tool_choice="none").keys() == {"contents"}
    with pytest.raises(ConfigurationError, match="offers no tool"):
        encode(tool_choice="required")
    with pytest.raises(ConfigurationError, match="'end' but does not offer it"):
        encode(tools=(TOOL,), tool_choice=NamedToolChoice(name="end"))


def test_a_response_format_is_json_by_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"const": "x"}}, "required": ["a"]}
    body = encode(response_format=ResponseFormat(name="outcome", schema=schema), settings={"seed": 1})
    assert body["generationConfig"] == {
        "seed": 1,
        "responseMimeType": "application/json",
        "responseJsonSchema": {**schema, "properties": {"a": {"enum": ["x"], "type": "string"}}},
    }


def test_settings_have_the_protocols_names_and_unknown_ones_pass_through() -> None:
    settings = {
        "temperature": 0,
        "top_p": 0.5,
        "top_k": 40,
        "max_tokens": 5,
        "stop": "x",
        "seed": 1,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "parallel_tool_calls": True,
        "include_thoughts": True,
        "safety_settings": [{"category": "C", "threshold": "OFF"}],
        "cached_content": "abc",
        "labels": {"team": "a"},
        "service_tier": "flex",
        "someNewField": {"deep": [1]},
        "stream": True,
        "base_url": "http://localhost",
        "api_key": "secret",
        "max_retries": 0,
    }
    body = encode(settings=settings)
    del body["contents"]
    assert body == {
        "generationConfig": {
            "temperature": 0,
            "topP": 0.5,
            "topK": 40,
            "maxOutputTokens": 5,
            "stopSequences": ["x"],
            "seed": 1,
            "presencePenalty": 0.1,
            "frequencyPenalty": 0.2,
            "thinkingConfig": {"includeThoughts": True},
        },
        "safetySettings": [{"category": "C", "threshold": "OFF"}],
        "cachedContent": "cachedContents/abc",
        "labels": {"team": "a"},
        "serviceTier": "flex",
        "someNewField": {"deep": [1]},
    }


def test_settings_that_are_none_are_left_out_and_names_in_full_stay() -> None:
    settings = {"temperature": None, "stop": ["x", "y"], "cached_content": "cachedContents/abc"}
    body = encode(settings=settings)
    assert body["generationConfig"] == {"stopSequences": ["x", "y"]}
    assert body["cachedContent"] == "cachedContents/abc"


@pytest.mark.parametrize("stop", ["", [], [""]])
def test_stop_texts_that_say_nothing_are_left_out(stop: Any) -> None:
    assert "generationConfig" not in encode(settings={"stop": stop})


@pytest.mark.parametrize(
    ("capabilities", "settings", "thinking"),
    [
        (SIGNING, {"reasoning_effort": "minimal"}, {"thinkingLevel": "MINIMAL"}),
        (SIGNING, {"reasoning_effort": "xhigh"}, {"thinkingLevel": "XHIGH"}),
        (SIGNING, {"thinking_budget_tokens": 7}, {"thinkingBudget": 7}),
        (BUDGETING, {"reasoning_effort": "none"}, {"thinkingBudget": 0}),
        (BUDGETING, {"reasoning_effort": "minimal"}, {"thinkingBudget": 512}),
        (BUDGETING, {"reasoning_effort": "low"}, {"thinkingBudget": 1024}),
        (BUDGETING, {"reasoning_effort": "medium"}, {"thinkingBudget": 8192}),
        (
            BUDGETING,
            {"reasoning_effort": "high", "include_thoughts": False},
            {"thinkingBudget": 24576, "includeThoughts": False},
        ),
        (BUDGETING, {"thinking_budget_tokens": -1}, {"thinkingBudget": -1}),
    ],
)
def test_reasoning_is_told_by_a_word_or_by_a_number(
    capabilities: ModelCapabilities, settings: dict[str, Any], thinking: dict[str, Any]
) -> None:
    body = encode(settings=settings, capabilities=capabilities)
    assert body["generationConfig"] == {"thinkingConfig": thinking}


@pytest.mark.parametrize(
    ("capabilities", "settings", "complaint"),
    [
        (SIGNING, {"reasoning_effort": "none"}, "no thinking level 'none'"),
        (SIGNING, {"reasoning_effort": "max"}, "no thinking level 'max'"),
        (BUDGETING, {"reasoning_effort": "max"}, "thinking_budget_tokens"),
        (SIGNING, {"reasoning_effort": "low", "thinking_budget_tokens": 7}, "exclude each other"),
        (SIGNING, {"parallel_tool_calls": False}, "parallel_tool_calls"),
        (SIGNING, {"temperature": "hot"}, "temperature"),
    ],
)
def test_what_the_protocol_has_no_word_for_is_refused(
    capabilities: ModelCapabilities, settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        encode(settings=settings, capabilities=capabilities)


@pytest.mark.parametrize(
    "name",
    [
        "contents",
        "generationConfig",
        "generation_config",
        "model",
        "systemInstruction",
        "toolConfig",
        "tools",
    ],
)
def test_settings_that_only_the_library_writes_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        encode(settings={name: {}})


def test_extra_body_has_the_last_word_at_every_depth() -> None:
    extra = {"generationConfig": {"temperature": 0, "responseModalities": ["TEXT"]}, "store": False}
    body = encode(settings={"temperature": 1, "seed": 2, "extra_body": extra})
    assert body["generationConfig"] == {"temperature": 0, "seed": 2, "responseModalities": ["TEXT"]}
    assert body["store"] is False


def test_equal_requests_are_equal_byte_for_byte_and_a_longer_conversation_keeps_the_prefix() -> None:
    def body(*more: Any) -> bytes:
        request = ModelRequest(
            system_prompt="s" * 100,
            messages=(*HELLO, *more),
            tools=(TOOL,),
            tool_choice="required",
            settings=MappingProxyType({"seed": 1, "temperature": 0, "labels": {"a": "b"}}),
        )
        return GoogleCodec().encode(request, model_name="m").body

    assert body() == body()
    longer = body(AssistantMessage(text="hi"), UserMessage(content=("again",)))
    assert longer.startswith(body().removesuffix(b"]}"))


def test_the_order_of_a_schema_is_kept() -> None:
    body = GoogleCodec().encode(ModelRequest(messages=HELLO, tools=(TOOL,)), model_name="m").body
    assert body.index(b'"b":{') < body.index(b'"a":{')


def test_a_conversation_alternates_and_results_carry_the_ids_of_their_calls() -> None:
    assert contents(
        *HELLO,
        AssistantMessage(
            text="so", reasoning="hm", tool_calls=(call("look", "1", '{"a": 1}'), call("end", "2"))
        ),
        results(result("look", "1", "seen", "well"), result("end", "2", "no", is_error=True)),
    ) == [
        {"role": "user", "parts": [{"text": "hello"}]},
        {
            "role": "model",
            "parts": [
                {"text": "so"},
                {"functionCall": {"id": "1", "name": "look", "args": {"a": 1}}},
                {"functionCall": {"id": "2", "name": "end", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "1", "name": "look", "response": {"output": "seen\nwell"}}},
                {"functionResponse": {"id": "2", "name": "end", "response": {"error": "no"}}},
            ],
        },
    ]


def test_messages_of_the_same_side_become_one_content() -> None:
    assert contents(
        *HELLO,
        UserMessage(content=("again", "more")),
        AssistantMessage(text="a"),
        AssistantMessage(text="b"),
        results(result("look", "1", "seen")),
        UserMessage(content=("on",)),
    ) == [
        {"role": "user", "parts": [{"text": "hello"}, {"text": "again"}, {"text": "more"}]},
        {"role": "model", "parts": [{"text": "a"}, {"text": "b"}]},
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "1", "name": "look", "response": {"output": "seen"}}},
                {"text": "on"},
            ],
        },
    ]


def test_an_empty_message_is_no_content() -> None:
    assert contents(*HELLO, AssistantMessage(), UserMessage(content=("on",))) == [
        {"role": "user", "parts": [{"text": "hello"}, {"text": "on"}]}
    ]


def test_empty_texts_are_left_out_and_a_turn_of_the_user_without_words_has_a_placeholder() -> None:
    silent = UserMessage(content=("",))
    assert user_parts("", "a", "") == [{"text": "a"}]
    assert contents(*HELLO, silent) == contents(*HELLO)
    for nothing in (silent, UserMessage(content=())):
        assert contents(nothing) == [{"role": "user", "parts": [{"text": "[no text]"}]}]
        assert contents(*HELLO, AssistantMessage(text="hi"), nothing)[1:] == [
            {"role": "model", "parts": [{"text": "hi"}]},
            {"role": "user", "parts": [{"text": "[no text]"}]},
        ]


@pytest.mark.parametrize("arguments", ["{", "", "[1]", '"x"', "\ud800"])
def test_arguments_that_are_no_object_are_shown_in_one(arguments: str) -> None:
    sent = contents(AssistantMessage(tool_calls=(call("look", "1", arguments),)))
    args = sent[0]["parts"][0]["functionCall"]["args"]
    assert args == {"malformed_arguments": arguments.replace("\ud800", "\ufffd")}


def test_content_of_the_protocol_goes_back_as_it_came_in_place_of_text_and_calls() -> None:
    items = (
        {"text": "hm", "thought": True, "thoughtSignature": "s"},
        {"text": "so"},
        call_part("look", {"a": 1}, id="1", thoughtSignature="t"),
    )
    content = ProviderContent(protocol="google", items=items)
    message = AssistantMessage(text="so", tool_calls=(call("look", "1"),), provider_content=content)
    assert contents(message, capabilities=SIGNING) == [{"role": "model", "parts": list(items)}]


def test_content_of_another_protocol_is_ignored() -> None:
    content = ProviderContent(protocol="anthropic", items=({"type": "thinking"},))
    message = AssistantMessage(text="so", provider_content=content)
    assert contents(message) == [{"role": "model", "parts": [{"text": "so"}]}]


def test_the_first_of_unsigned_calls_says_that_it_has_no_signature_where_one_is_demanded() -> None:
    message = AssistantMessage(text="so", tool_calls=(call("look", "1"), call("end", "2")))
    first, second = contents(message, capabilities=SIGNING)[0]["parts"][1:]
    assert first["thoughtSignature"] == "skip_thought_signature_validator"
    assert "thoughtSignature" not in second
    for capabilities in (UNKNOWN_CAPABILITIES, BUDGETING):
        parts = contents(message, capabilities=capabilities)[0]["parts"]
        assert not any("thoughtSignature" in part for part in parts)


@pytest.mark.parametrize("capabilities", [SIGNING, BUDGETING])
def test_a_signed_response_and_its_results_go_back_with_the_ids_the_server_gave(
    capabilities: ModelCapabilities,
) -> None:
    parts = [
        call_part("look", {"at": 1.5}, id="x", thoughtSignature="c2ln"),
        call_part("look", {"at": 2}, id="x"),
        call_part("look", {"at": 3}),
        {"text": "", "thoughtSignature": "bGFzdA=="},
    ]
    events = decode(*[chunk(part) for part in parts], chunk(finish="STOP"))
    answers = [result(each.name, each.id, str(number)) for number, each in enumerate(calls_in(events))]
    model, user = contents(message_of(events), results(*answers), capabilities=capabilities)
    assert model["parts"] == parts
    responses = [part["functionResponse"] for part in user["parts"]]
    assert [each.get("id", "none") for each in responses] == ["x", "x", "none"]
    assert [each["response"]["output"] for each in responses] == ["0", "1", "2"]


def test_an_unsigned_response_and_its_results_go_back_with_the_same_made_up_ids() -> None:
    events = decode(chunk(call_part("look", {"at": 1}), call_part("look", {"at": 2}), finish="STOP"))
    answers = [result(each.name, each.id, "seen") for each in calls_in(events)]
    model, user = contents(message_of(events), results(*answers))
    calls = [part["functionCall"]["id"] for part in model["parts"]]
    assert calls == [part["functionResponse"]["id"] for part in user["parts"]]
    assert len(set(calls)) == 2


@pytest.mark.parametrize(
    ("item", "part"),
    [
        ("text", {"text": "text"}),
        (PNG, PNG_PART),
        (
            BinaryContent(data=b"a", media_type="Text/CSV; charset=utf-8"),
            {"inlineData": {"mimeType": "text/csv", "data": "YQ=="}},
        ),
        (
            BinaryContent(data=b"a", media_type="video/mp4"),
            {"inlineData": {"mimeType": "video/mp4", "data": "YQ=="}},
        ),
        (
            ImageUrl(url="https://x.org/a", media_type="image/webp"),
            {"fileData": {"mimeType": "image/webp", "fileUri": "https://x.org/a"}},
        ),
        (
            DocumentUrl(url="https://x.org/a.pdf?sig=1#p"),
            {"fileData": {"mimeType": "application/pdf", "fileUri": "https://x.org/a.pdf?sig=1#p"}},
        ),
        (AudioUrl(url="gs://b/a.mp3"), {"fileData": {"mimeType": "audio/mpeg", "fileUri": "gs://b/a.mp3"}}),
        (
            VideoUrl(url="https://www.youtube.com/watch?v=1"),
            {"fileData": {"fileUri": "https://www.youtube.com/watch?v=1"}},
        ),
        (
            UploadedFile(file_id="files/abc", provider_name="google", media_type="audio/wav"),
            {
                "fileData": {
                    "mimeType": "audio/wav",
                    "fileUri": "https://generativelanguage.googleapis.com/v1beta/files/abc",
                }
            },
        ),
        (
            UploadedFile(file_id="https://g.org/v1beta/files/abc", provider_name="google"),
            {"fileData": {"fileUri": "https://g.org/v1beta/files/abc"}},
        ),
    ],
)
def test_every_kind_of_content_has_its_part(item: UserContent, part: dict[str, Any]) -> None:
    assert user_parts(item) == [part]


@pytest.mark.parametrize(
    "item",
    [
        ImageUrl(url="data:image/png;base64,AA=="),
        FileUrl(url="file:///etc/passwd"),
        FileUrl(url="picture.png"),
        UploadedFile(file_id="file-1", provider_name="openai"),
    ],
)
def test_what_the_protocol_cannot_carry_is_refused_with_its_description(item: Any) -> None:
    refusal = GoogleCodec().find_refusal(item)
    assert refusal is not None
    assert refusal.startswith("the Gemini protocol cannot carry")
    with pytest.raises(UnsupportedContentError, match="cannot carry"):
        user_parts(item)


def test_media_of_results_stand_in_the_response_where_the_model_takes_them_there() -> None:
    video = BinaryContent(data=b"a", media_type="video/mp4")
    answer = results(result("look", "1", "seen", PNG, video), result("end", "2", "done"))
    (content,) = contents(answer, capabilities=SIGNING)
    first, second, title, attachment = content["parts"]
    assert first["functionResponse"] == {
        "id": "1",
        "name": "look",
        "response": {
            "output": "seen\n[image image/png, 4 bytes; shown with this response]\n"
            "[video video/mp4, 1 bytes; shown after the responses]"
        },
        "parts": [PNG_PART],
    }
    assert second["functionResponse"]["name"] == "end"
    assert title == {"text": "[video video/mp4, 1 bytes; result of call 1, look]"}
    assert attachment["inlineData"]["mimeType"] == "video/mp4"


def test_media_of_results_stand_behind_the_responses_elsewhere() -> None:
    (content,) = contents(results(result("look", "1", PNG), result("end", "2", "done")))
    assert ["functionResponse" in part for part in content["parts"]] == [True, True, False, False]
    assert content["parts"][2:] == [{"text": "[image image/png, 4 bytes; result of call 1, look]"}, PNG_PART]


def test_media_of_results_that_cannot_travel_are_described() -> None:
    item = UploadedFile(file_id="file-1", provider_name="openai")
    (content,) = contents(results(result("look", "1", item)))
    (part,) = content["parts"]
    assert "it cannot be shown to this model" in part["functionResponse"]["response"]["output"]

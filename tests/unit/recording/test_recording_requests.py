"""The canonical form of a request holds what reaches the model, and nothing that changes from run to run."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from nighthawk_async.recording.requests import canonical_request, digest_of
from nighthawk_async.types.messages import (
    AssistantMessage,
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
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
from nighthawk_async.types.model import ModelRequest, NamedToolChoice, ResponseFormat


def request_of(*content: UserContent, **fields: Any) -> ModelRequest:
    return ModelRequest(messages=(UserMessage(content=content or ("Hello",)),), **fields)


def digest(request: ModelRequest) -> str:
    return digest_of("a:model", canonical_request(request))


def conversation(*call_ids: str, signature: str = "s") -> ModelRequest:
    """A conversation with two calls of those ids and their results."""
    calls = tuple(ToolCall(id=call_id, name="look", arguments="{}") for call_id in call_ids)
    items = ({"type": "thinking", "signature": signature}, *({"type": "call", "id": id} for id in call_ids))
    answer = AssistantMessage(
        tool_calls=calls, provider_content=ProviderContent(protocol="anthropic", items=items)
    )
    results = tuple(ToolResult(call_id=call.id, name="look", content=(call.name,)) for call in calls)
    return ModelRequest(
        messages=(UserMessage(content=("Hello",)), answer, ToolResultsMessage(results=results))
    )


def test_everything_that_reaches_the_model_is_there() -> None:
    parameters = {"type": "object", "properties": {}}
    request = request_of(
        "Hello",
        system_prompt="Be brief.",
        tools=(ToolDefinition(name="look", description="Looks.", parameters=parameters, metadata={"a": 1}),),
        tool_choice=NamedToolChoice(name="look"),
        response_format=ResponseFormat(name="answer", schema={"type": "object"}),
        settings={"temperature": 0.5, "extra_body": {"custom": [1]}, "seed": None},
    )
    assert canonical_request(request) == {
        "system_prompt": "Be brief.",
        "messages": [{"user": "Hello"}],
        "tools": [{"name": "look", "description": "Looks.", "parameters": parameters}],
        "tool_choice": {"name": "look"},
        "response_format": {"name": "answer", "schema": {"type": "object"}},
        "settings": {"temperature": 0.5, "extra_body": {"custom": [1]}},
    }


@pytest.mark.parametrize(
    "settings",
    [
        {"api_key": "the-key-of-somebody"},
        {"api_key": SecretStr("the-key-of-somebody")},
        {"extra_headers": {"x-team": "the-key-of-somebody"}},
        {"base_url": "https://example.com/v1", "timeout": 3, "max_retries": 9},
        {"capabilities": {"images": True}, "max_concurrent_requests": 2, "stream": False},
    ],
    ids=lambda settings: ",".join(settings),
)
def test_how_a_request_is_sent_makes_no_difference(settings: Mapping[str, Any]) -> None:
    assert canonical_request(request_of(settings=settings)) == canonical_request(request_of())


@pytest.mark.parametrize(
    "other",
    [
        request_of("Bye"),
        request_of("Hello", system_prompt="Be brief."),
        request_of("Hello", settings={"temperature": 1}),
        request_of("Hello", settings={"extra_body": {"a": 1}}),
        request_of("Hello", response_format=ResponseFormat(name="a", schema={})),
        request_of("Hello", tools=(ToolDefinition(name="look", description="", parameters={}),)),
    ],
)
def test_what_reaches_the_model_makes_a_difference(other: ModelRequest) -> None:
    assert digest(other) != digest(request_of("Hello"))


def test_the_model_makes_a_difference() -> None:
    canonical = canonical_request(request_of())
    assert digest_of("a:model", canonical) != digest_of("a:nother", canonical)


def test_the_order_of_settings_makes_no_difference() -> None:
    settings = {"temperature": 1, "extra_body": {"a": 1, "b": 2}}
    other = {"extra_body": {"b": 2, "a": 1}, "temperature": 1}
    assert digest(request_of(settings=settings)) == digest(request_of(settings=other))


def test_secrets_by_name_are_hidden_in_what_goes_into_the_body() -> None:
    settings = {"extra_body": {"auth": {"Authorization": "abc"}, "max_tokens": 3}, "user_api_key": "abc"}
    assert canonical_request(request_of(settings=settings))["settings"] == {
        "extra_body": {"auth": {"Authorization": "[redacted]"}, "max_tokens": 3},
        "user_api_key": "[redacted]",
    }


def test_identifiers_of_calls_make_no_difference_but_their_order_does() -> None:
    assert digest(conversation("a1", "b2")) == digest(conversation("x9", "y8"))
    first, second = conversation("a", "b"), conversation("a", "b")
    answer, results = second.messages[1:]
    assert isinstance(results, ToolResultsMessage)
    swapped = ToolResultsMessage(results=results.results[::-1])
    assert digest(first) != digest(ModelRequest(messages=(second.messages[0], answer, swapped)))


def test_calls_that_share_an_identifier_across_turns_are_told_apart() -> None:
    one_turn = conversation("call_0").messages
    again = (*one_turn, *one_turn[1:])
    messages = canonical_request(ModelRequest(messages=again))["messages"]
    assert [messages[2]["tool_results"][0]["id"], messages[4]["tool_results"][0]["id"]] == [
        "call 1",
        "call 2",
    ]


def test_what_only_the_provider_can_read_makes_a_difference_and_is_not_spelled_out() -> None:
    secret = "opaque" * 100
    assert digest(conversation("a")) != digest(conversation("a", signature=secret))
    assert secret not in repr(canonical_request(conversation("a", signature=secret)))


@pytest.mark.parametrize(
    ("item", "form"),
    [
        (ImageUrl(url="https://e.x/a.png"), {"image_url": "https://e.x/a.png"}),
        (AudioUrl(url="https://e.x/a"), {"audio_url": "https://e.x/a"}),
        (VideoUrl(url="https://e.x/a"), {"video_url": "https://e.x/a"}),
        (
            DocumentUrl(url="https://e.x/a", media_type="application/pdf"),
            {"document_url": "https://e.x/a", "media_type": "application/pdf"},
        ),
        (UploadedFile(file_id="f1", provider_name="p"), {"file_id": "f1", "provider_name": "p"}),
    ],
)
def test_media_by_reference_are_shown(item: UserContent, form: dict[str, str]) -> None:
    assert canonical_request(request_of(item))["messages"] == [{"user": form}]


def test_media_by_value_are_shown_by_their_digest() -> None:
    one, same, other = (BinaryContent(data=data, media_type="image/png") for data in (b"1", b"1", b"2"))
    form = canonical_request(request_of("See:", one))["messages"][0]["user"]
    assert form[0] == "See:"
    assert form[1]["media_type"] == "image/png"
    assert form[1]["bytes"] == 1
    assert digest(request_of(one)) == digest(request_of(same)) != digest(request_of(other))
    long = "data:image/png;base64," + "A" * 5_000
    assert len(repr(canonical_request(request_of(ImageUrl(url=long))))) < 200


def test_settings_of_any_type_have_a_form() -> None:
    class Opaque:
        def __str__(self) -> str:
            return "opaque"

    class Kind(Enum):
        FLEX = "flex"

    class Thinking(BaseModel):
        budget: int = 1
        kind: str = "none"

    settings = {
        "stop": ("a", "b"),
        "metadata": {1: Opaque()},
        "user": b"bytes",
        "service_tier": Kind.FLEX,
        "thinking": Thinking(budget=10**30),
        "safety_settings": [{"password": "abc"}],
    }
    form = canonical_request(request_of(settings=settings))["settings"]
    assert form["stop"] == ["a", "b"]
    assert form["metadata"] == {"1": "opaque"}
    assert form["user"]["bytes"] == 5
    assert form["service_tier"] == "flex"
    assert form["thinking"] == {"budget": 10**30}
    assert form["safety_settings"] == [{"password": "[redacted]"}]
    assert digest(request_of(settings=settings)) == digest(request_of(settings=settings))

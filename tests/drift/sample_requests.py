"""Requests that use as much of a protocol as one request can."""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from nighthawk_async.types.messages import (
    AssistantMessage,
    BinaryContent,
    ImageUrl,
    Message,
    ProviderContent,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResultsMessage,
    UserContent,
    UserMessage,
)
from nighthawk_async.types.model import (
    ModelCapabilities,
    ModelRequest,
    NamedToolChoice,
    ResponseFormat,
    ToolChoice,
)
from nighthawk_async.types.native_tools import UserLocation
from nighthawk_async.wire.codec import Codec
from nighthawk_async.wire.transport_settings import TRANSPORT_SETTINGS

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = (ToolDefinition(name="look", description="Looks.", parameters=SCHEMA),)
FORMAT = ResponseFormat(name="answer", schema=SCHEMA)
ABLE = ModelCapabilities(
    structured_output=True,
    images=True,
    audio=True,
    video=True,
    documents=True,
    prompt_caching=True,
    reasoning=True,
)
IMAGE = BinaryContent(data=b"\x89PNG", media_type="image/png")
LINK = ImageUrl(url="https://example.com/a.png", media_type="image/png")
SOUND = BinaryContent(data=b"RIFF", media_type="audio/wav")
PAGES = BinaryContent(data=b"%PDF", media_type="application/pdf", identifier="pages")
LOCATION = UserLocation(city="Bern", region="Bern", country="CH", timezone="Europe/Zurich")
CHOICES: tuple[ToolChoice, ...] = ("auto", "required", "none", NamedToolChoice(name="look"))


def conversation(
    *content: UserContent, content_of_provider: ProviderContent | None = None
) -> tuple[Message, ...]:
    """A conversation with media, a call, its result, and a response in the provider's own form."""
    call = ToolCall(id="call_1", name="look", arguments='{"city": "Bern"}')
    result = ToolResult(call_id="call_1", name="look", content=("It rains.",))
    failure = ToolResult(call_id="call_1", name="look", content=("No.",), is_error=True)
    return (
        UserMessage(content=("Look.", *content)),
        AssistantMessage(text="I look.", tool_calls=(call,)),
        ToolResultsMessage(results=(result,)),
        AssistantMessage(text="Again.", tool_calls=(call,), provider_content=content_of_provider),
        ToolResultsMessage(results=(failure,)),
    )


def settings_variants(
    codec: Codec, values: Mapping[str, tuple[Any, ...]], *, but: Collection[str] = ()
) -> Iterator[dict[str, Any]]:
    """Yield the settings of requests that have every value of every setting of a protocol, one each.

    Args:
        codec: The codec of the protocol.
        values: The values by the names of settings.
        but: The settings that the protocol lacks.

    Raises:
        AssertionError: A setting has no value here.
    """
    names: frozenset[str] = codec.settings_form.__optional_keys__
    assert names - TRANSPORT_SETTINGS - values.keys() - set(but) == set(), "these settings need values here"
    for name, choices in values.items():
        for choice in choices:
            yield {name: choice}


def body_of(codec: Codec, capabilities: ModelCapabilities = ABLE, **fields: Any) -> dict[str, Any]:
    """The body of a request."""
    request = ModelRequest(**{"messages": conversation(), **fields})
    return json.loads(codec.encode(request, model_name="m", capabilities=capabilities).body)

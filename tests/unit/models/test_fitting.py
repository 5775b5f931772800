from typing import Any

import pytest

from nighthawk_async.errors import ConfigurationError, UnsupportedContentError
from nighthawk_async.models.fitting import fit_request
from nighthawk_async.types.content import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    MultimodalContent,
    UploadedFile,
    VideoUrl,
)
from nighthawk_async.types.messages import AssistantMessage, ToolResult, ToolResultsMessage, UserMessage
from nighthawk_async.types.model import ModelCapabilities, ModelRequest, NamedToolChoice, ResponseFormat
from nighthawk_async.types.tools import ToolDefinition

PLAIN = ModelCapabilities()
PNG = BinaryContent(data=b"123", media_type="image/png", identifier="photo")
TOOL = ToolDefinition(name="look", description="", parameters={"type": "object"})


def request(*messages: Any, **fields: Any) -> ModelRequest:
    return ModelRequest(messages=messages or (UserMessage(content=("hi",)),), **fields)


def fit(given: ModelRequest, capabilities: ModelCapabilities = PLAIN) -> ModelRequest:
    return fit_request(given, capabilities, model_id="p:m", find_refusal=lambda item: None)


def result(*content: Any) -> ToolResultsMessage:
    return ToolResultsMessage(results=(ToolResult(call_id="1", name="look", content=content),))


def test_a_request_that_fits_is_the_same_object() -> None:
    given = request(UserMessage(content=("hi",)), AssistantMessage(text="x"), result("a"), tools=(TOOL,))
    assert fit(given) is given


def test_tools_for_a_model_without_them_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="p:m: the model does not call tools"):
        fit(request(tools=(TOOL,)), ModelCapabilities(tools=False))


def test_a_schema_for_a_model_without_structured_output_is_refused() -> None:
    given = request(response_format=ResponseFormat(name="x", schema={"type": "object"}))
    with pytest.raises(
        ConfigurationError, match=r"p:m: the model does not hold.*capabilities=\{'structured_output': True\}"
    ):
        fit(given)
    assert fit(given, ModelCapabilities(structured_output=True)) is given


@pytest.mark.parametrize("tools", [(), (TOOL,)])
def test_a_tool_that_must_be_called_must_be_offered(tools: tuple[ToolDefinition, ...]) -> None:
    with pytest.raises(ConfigurationError, match=r"p:m: .*the tool 'jump' but does not offer it"):
        fit(request(tools=tools, tool_choice=NamedToolChoice(name="jump")))
    given = request(tools=(TOOL,), tool_choice=NamedToolChoice(name="look"))
    assert fit(given) is given


@pytest.mark.parametrize(
    ("name", "value", "capability"),
    [
        ("reasoning_effort", "low", "reasoning"),
        ("reasoning_effort", "none", "reasoning"),
        ("reasoning_summary", "auto", "reasoning"),
        ("thinking", {"type": "adaptive"}, "reasoning"),
        ("thinking_budget_tokens", 0, "reasoning"),
        ("thinking_budget_tokens", 1_024, "reasoning"),
        ("include_thoughts", True, "reasoning"),
        ("prompt_caching", True, "prompt_caching"),
        ("prompt_caching", "5m", "prompt_caching"),
        ("prompt_caching", "1h", "prompt_caching"),
        ("parallel_tool_calls", True, "parallel_tool_calls"),
    ],
)
def test_a_setting_for_what_the_model_lacks_is_refused_with_the_remedy(
    name: str, value: object, capability: str
) -> None:
    given = request(settings={name: value})
    with pytest.raises(ConfigurationError) as raised:
        fit(given, ModelCapabilities(parallel_tool_calls=False))
    assert str(raised.value).startswith("p:m: the model c")
    assert repr(name) in str(raised.value)
    assert f"capabilities={{{capability!r}: True}}" in str(raised.value)
    assert fit(given, ModelCapabilities(**{"parallel_tool_calls": False, capability: True})) is given


@pytest.mark.parametrize("name", ["reasoning_effort", "prompt_caching", "parallel_tool_calls", "max_tokens"])
@pytest.mark.parametrize("value", [None, False])
def test_a_setting_that_asks_for_nothing_is_no_fault(name: str, value: object) -> None:
    given = request(settings={name: value})
    assert fit(given, ModelCapabilities(parallel_tool_calls=False, max_output_tokens=1)) is given


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_more_tokens_than_a_response_holds_are_refused_and_both_numbers_named(name: str) -> None:
    capabilities = ModelCapabilities(max_output_tokens=8_192)
    with pytest.raises(ConfigurationError, match=rf"'{name}' is 8,193, .* at most 8,192 tokens"):
        fit(request(settings={name: 8_193}), capabilities)
    for settings in ({name: 8_192}, {name: "many"}, {}):
        given = request(settings=settings)
        assert fit(given, capabilities) is given
    unbounded = request(settings={name: 10**9})
    assert fit(unbounded) is unbounded


@pytest.mark.parametrize(
    ("item", "capability"),
    [
        (PNG, "images"),
        (ImageUrl(url="http://x/y.png"), "images"),
        (BinaryContent(data=b"", media_type="audio/wav"), "audio"),
        (AudioUrl(url="http://x/y.wav"), "audio"),
        (BinaryContent(data=b"", media_type="application/pdf"), "documents"),
        (BinaryContent(data=b"", media_type="video/mp4"), "video"),
        (VideoUrl(url="http://x/y.mp4"), "video"),
        (DocumentUrl(url="http://x/y.pdf"), "documents"),
        (UploadedFile(file_id="f", provider_name="openai"), "documents"),
        (UploadedFile(file_id="f", provider_name="openai", media_type="image/png"), "images"),
    ],
)
def test_media_of_a_prompt_that_the_model_cannot_take_is_refused_by_name(
    item: MultimodalContent, capability: str
) -> None:
    given = request(UserMessage(content=("see", item)))
    with pytest.raises(UnsupportedContentError, match=f"^p:m: the model cannot take .*{capability}"):
        fit(given)
    assert fit(given, ModelCapabilities(**{capability: True})) is given


def test_media_of_a_tool_result_that_the_model_cannot_take_is_described_in_its_place() -> None:
    fitted = fit(request(result("before", PNG, "after"), result("plain")))
    assert fitted.messages == (
        result("before", "[image 'photo' image/png, 3 bytes; it cannot be shown to this model]", "after"),
        result("plain"),
    )


def test_media_of_a_tool_result_that_the_model_can_take_stays() -> None:
    given = request(result("before", PNG))
    assert fit(given, ModelCapabilities(images=True)).messages == given.messages


def test_what_the_protocol_cannot_carry_is_refused_first_and_without_recommending_a_setting() -> None:
    video = VideoUrl(url="http://x/y.mp4")
    given = request(UserMessage(content=(PNG,)), UserMessage(content=("see", video)))

    def refuse_video(item: MultimodalContent) -> str | None:
        return "the protocol carries no video" if item is video else None

    with pytest.raises(UnsupportedContentError) as raised:
        fit_request(given, PLAIN, model_id="p:m", find_refusal=refuse_video)
    assert str(raised.value) == "p:m: the protocol carries no video."

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
from nighthawk_async.types.model import ModelCapabilities, ModelRequest, ResponseFormat
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


@pytest.mark.parametrize(
    ("item", "capability"),
    [
        (PNG, "images"),
        (ImageUrl(url="http://x/y.png"), "images"),
        (BinaryContent(data=b"", media_type="audio/wav"), "audio"),
        (AudioUrl(url="http://x/y.wav"), "audio"),
        (BinaryContent(data=b"", media_type="application/pdf"), "documents"),
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


def test_video_is_left_to_the_protocol() -> None:
    given = request(UserMessage(content=(VideoUrl(url="http://x/y.mp4"),)))
    assert fit(given) is given


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

import json
from typing import Any

import pytest

from nighthawk_async.errors import UnsupportedContentError
from nighthawk_async.types.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    FileUrl,
    ImageUrl,
    Message,
    MultimodalContent,
    ToolResult,
    ToolResultsMessage,
    UploadedFile,
    UserContent,
    UserMessage,
    VideoUrl,
)
from nighthawk_async.types.model import ModelRequest
from nighthawk_async.wire.anthropic.codec import AnthropicCodec

PNG = BinaryContent(data=b"\x89PNG", media_type="image/png")
PNG_BLOCK = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}}
MP3 = BinaryContent(data=b"\0", media_type="audio/mpeg")


def sent(message: Message) -> Any:
    request = ModelRequest(messages=(message,))
    return json.loads(AnthropicCodec().encode(request, model_name="m").body)["messages"][0]["content"]


def user_content(*content: UserContent) -> Any:
    return sent(UserMessage(content=content))


def result_content(*content: UserContent, is_error: bool = False) -> Any:
    result = ToolResult(call_id="1", name="look", content=content, is_error=is_error)
    return sent(ToolResultsMessage(results=(result,)))[0].get("content")


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def test_texts_of_a_prompt_stay_apart() -> None:
    assert user_content("a", "b") == [text("a"), text("b")]


def test_images_travel_as_bytes_urls_and_files() -> None:
    assert user_content(
        "see",
        PNG,
        BinaryContent(data=b"x", media_type="Image/JPG; a=b"),
        ImageUrl(url="http://x/y"),
        FileUrl(url="http://x/z", media_type="image/gif"),
        UploadedFile(file_id="f1", provider_name="anthropic", media_type="image/png"),
    ) == [
        text("see"),
        PNG_BLOCK,
        {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "eA=="}},
        {"type": "image", "source": {"type": "url", "url": "http://x/y"}},
        {"type": "image", "source": {"type": "url", "url": "http://x/z"}},
        {"type": "image", "source": {"type": "file", "file_id": "f1"}},
    ]


def test_documents_travel_as_bytes_text_urls_and_files() -> None:
    assert user_content(
        BinaryContent(data=b"%PDF", media_type="application/pdf", identifier="a.pdf"),
        BinaryContent(data="é".encode(), media_type="text/markdown; charset=utf-8"),
        DocumentUrl(url="http://x/y"),
        FileUrl(url="http://x/z", media_type="application/pdf"),
        UploadedFile(file_id="f1", provider_name="anthropic"),
    ) == [
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
            "title": "a.pdf",
        },
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "é"}},
        {"type": "document", "source": {"type": "url", "url": "http://x/y"}},
        {"type": "document", "source": {"type": "url", "url": "http://x/z"}},
        {"type": "document", "source": {"type": "file", "file_id": "f1"}},
    ]


@pytest.mark.parametrize(
    ("item", "named"),
    [
        (BinaryContent(data=b"x", media_type="video/mp4"), "video video/mp4, 1 bytes"),
        (BinaryContent(data=b"x", media_type="audio/wav"), "audio audio/wav"),
        (BinaryContent(data=b"x", media_type="image/bmp"), "image image/bmp"),
        (BinaryContent(data=b"x", media_type="application/zip"), "document application/zip"),
        (BinaryContent(data=b"\xff", media_type="text/plain"), "document text/plain"),
        (VideoUrl(url="http://x/v"), "video at http://x/v"),
        (AudioUrl(url="http://x/a"), "audio at http://x/a"),
        (DocumentUrl(url="http://x/d", media_type="text/csv"), "document text/csv at http://x/d"),
        (FileUrl(url="http://x/f"), "document at http://x/f"),
        (ImageUrl(url="data:image/png;base64,AA=="), "image at data:image/png"),
        (ImageUrl(url="file:///etc/passwd"), "image at file:///etc/passwd"),
        (ImageUrl(url="picture.png"), "image at picture.png"),
        (DocumentUrl(url="gs://b/a.pdf"), "document at gs://b/a.pdf"),
        (UploadedFile(file_id="f1", provider_name="openai"), "document uploaded to openai as f1"),
        (
            UploadedFile(file_id="f1", provider_name="anthropic", media_type="audio/wav"),
            "audio audio/wav uploaded to anthropic as f1",
        ),
    ],
)
def test_what_the_protocol_cannot_carry_is_refused_by_name(item: MultimodalContent, named: str) -> None:
    with pytest.raises(UnsupportedContentError, match=named):
        user_content(item)
    assert named in (AnthropicCodec().find_refusal(item) or "")


def test_what_the_protocol_can_carry_is_not_refused() -> None:
    assert AnthropicCodec().find_refusal(PNG) is None


def test_tool_results_carry_media_in_their_place() -> None:
    pdf = BinaryContent(data=b"%PDF", media_type="application/pdf")
    assert result_content("a", "b", PNG, "c", pdf) == [
        text("a\nb"),
        PNG_BLOCK,
        text("c"),
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
        },
    ]


def test_media_of_tool_results_that_cannot_travel_are_described() -> None:
    assert result_content("hear", MP3, PNG) == [
        text("hear\n[audio audio/mpeg, 1 bytes; it cannot be shown to this model]"),
        PNG_BLOCK,
    ]


def test_a_failed_call_describes_its_media_since_the_endpoint_takes_text_alone() -> None:
    assert result_content("no", PNG, is_error=True) == [
        text("no\n[image image/png, 4 bytes; it cannot be shown to this model]")
    ]


@pytest.mark.parametrize("content", [(), ("",), ("", " ")])
def test_a_result_that_says_nothing_has_no_content(content: tuple[str, ...]) -> None:
    assert result_content(*content) is None


@pytest.mark.parametrize("content", [(), ("",), ("", " ")])
def test_a_failed_call_always_says_something_since_the_endpoint_wants_it(content: tuple[str, ...]) -> None:
    assert result_content(*content, is_error=True) == [text("[no text]")]

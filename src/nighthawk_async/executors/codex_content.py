"""Content as Codex takes it: text and images; other media are described in words. Pure."""

from base64 import b64encode
from collections.abc import Iterable
from typing import Any

from ..types.messages import BinaryContent, ImageUrl, UserContent
from ..wire.media import describe_media


def input_items(content: Iterable[UserContent]) -> list[dict[str, Any]]:
    """Messages of a user."""
    items: list[dict[str, Any]] = []
    for item in content:
        url = _image(item)
        if url is None:
            items.append({"type": "text", "text": _text(item), "text_elements": []})
        else:
            items.append({"type": "image", "url": url})
    return items


def result_items(content: Iterable[UserContent]) -> list[dict[str, str]]:
    """The result of a call."""
    items: list[dict[str, str]] = []
    for item in content:
        url = _image(item)
        if url is None:
            items.append({"type": "inputText", "text": _text(item)})
        else:
            items.append({"type": "inputImage", "imageUrl": url})
    return items


def text_of_content(content: Iterable[UserContent]) -> str:
    """The content as text."""
    return "\n".join(map(_text, content))


def _text(item: UserContent) -> str:
    return item if isinstance(item, str) else f"[{describe_media(item)}]"


def _image(item: UserContent) -> str | None:
    """The address of an image; None for what is none."""
    if isinstance(item, ImageUrl):
        return item.url
    if isinstance(item, BinaryContent) and item.media_type.startswith("image/"):
        return f"data:{item.media_type};base64,{b64encode(item.data).decode()}"
    return None

"""Content items as blocks of an Anthropic message.

The protocol carries text, images (JPEG, PNG, GIF and WebP bytes, and URLs), documents (PDF bytes and URLs,
and plain text) and files uploaded beforehand, in user messages and in tool results alike. URLs are those that
the provider fetches itself, no `data:` URLs. It carries neither audio nor video.

Source: `image_block_param.py`, `document_block_param.py` and the `…_source_param.py` of the official SDK.
"""

import base64
from collections.abc import Iterable, Sequence
from typing import Any

from ..errors import UnsupportedContentError
from ..types.content import BinaryContent, DocumentUrl, FileUrl, MultimodalContent, UploadedFile, UserContent
from ..types.messages import ToolResult
from .media import WEB_SCHEMES, bare_media_type, describe_media, has_scheme, media_kind
from .placeholders import NO_TEXT

__all__ = ["encode_result_content", "encode_user_content", "find_refusal", "text_block"]

FILE_PROVIDERS = frozenset({"anthropic"})
"""The providers whose uploaded files an endpoint of this protocol may know."""

_IMAGE_TYPES = {
    "image/gif": "image/gif",
    "image/jpeg": "image/jpeg",
    "image/jpg": "image/jpeg",
    "image/png": "image/png",
    "image/webp": "image/webp",
}
_PDF = "application/pdf"


def text_block(text: str) -> list[dict[str, Any]]:
    """A text as a list of one block, or of none: the endpoint refuses blocks without a visible character.

    Args:
        text: The text.
    """
    return [{"type": "text", "text": text}] if text.strip() else []


def encode_user_content(content: Iterable[UserContent]) -> list[dict[str, Any]]:
    """The content of a user message.

    Args:
        content: The items, in order.

    Raises:
        UnsupportedContentError: The protocol cannot carry an item.
    """
    blocks: list[dict[str, Any]] = []
    for item in content:
        blocks += text_block(item) if isinstance(item, str) else [_encode_or_refuse(item)]
    return blocks


def encode_result_content(result: ToolResult) -> list[dict[str, Any]]:
    """The content of a tool result; what the protocol cannot carry there is described in words.

    Args:
        result: The result. That of a failed call must hold text, and nothing else.
    """
    blocks: list[dict[str, Any]] = []
    texts: list[str] = []
    for item in result.content:
        if isinstance(item, str):
            texts.append(item)
        elif result.is_error or find_refusal(item) is not None:
            texts.append(f"[{describe_media(item)}; it cannot be shown to this model]")
        else:
            blocks += [*_joined(texts), _encode_media(item)]
            texts.clear()
    blocks += _joined(texts)
    return blocks or (text_block(NO_TEXT) if result.is_error else [])


def find_refusal(item: MultimodalContent) -> str | None:
    """Return the reason why the protocol cannot carry a media item; None when it can.

    Args:
        item: The media item.
    """
    kind = media_kind(item)
    if isinstance(item, UploadedFile):
        is_carried = item.provider_name in FILE_PROVIDERS and kind in ("image", "document")
    elif isinstance(item, FileUrl):
        is_fit = kind == "image" or (kind == "document" and _may_be_pdf(item))
        is_carried = is_fit and has_scheme(item, WEB_SCHEMES)
    else:
        is_carried = _image_type(item) is not None or _is_pdf(item) or _plain_text(item) is not None
    return None if is_carried else f"the Anthropic Messages protocol cannot carry {describe_media(item)}"


def _joined(texts: Sequence[str]) -> list[dict[str, Any]]:
    # One block: servers that know only text put several together without anything in between.
    return text_block("\n".join(texts))


def _encode_or_refuse(item: MultimodalContent) -> dict[str, Any]:
    refusal = find_refusal(item)
    if refusal is not None:
        raise UnsupportedContentError(f"{refusal}.")
    return _encode_media(item)


def _encode_media(item: MultimodalContent) -> dict[str, Any]:
    block_type = "image" if media_kind(item) == "image" else "document"
    if isinstance(item, UploadedFile):
        return {"type": block_type, "source": {"type": "file", "file_id": item.file_id}}
    if isinstance(item, FileUrl):
        return {"type": block_type, "source": {"type": "url", "url": item.url}}
    block = {"type": block_type, "source": _inline_source(item)}
    return block | {"title": item.identifier} if block_type == "document" and item.identifier else block


def _inline_source(item: BinaryContent) -> dict[str, Any]:
    text = _plain_text(item)
    if text is not None:
        return {"type": "text", "media_type": "text/plain", "data": text}
    data = base64.b64encode(item.data).decode()
    return {"type": "base64", "media_type": _image_type(item) or _PDF, "data": data}


def _image_type(item: BinaryContent) -> str | None:
    return _IMAGE_TYPES.get(bare_media_type(item.media_type))


def _is_pdf(item: BinaryContent) -> bool:
    return bare_media_type(item.media_type) == _PDF


def _may_be_pdf(item: FileUrl) -> bool:
    """Whether the endpoint may find a PDF at the URL, the only kind of document that it fetches."""
    if item.media_type is None:
        return isinstance(item, DocumentUrl)
    return bare_media_type(item.media_type) == _PDF


def _plain_text(item: BinaryContent) -> str | None:
    """The characters of a text of any kind, Markdown and CSV included; None when it is no UTF-8 text."""
    if not bare_media_type(item.media_type).startswith("text/"):
        return None
    try:
        return item.data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None

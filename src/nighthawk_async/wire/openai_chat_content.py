"""Content items as parts of a Chat Completions message. Floor 1.

The protocol carries text, images (bytes and URLs), audio (WAV and MP3 bytes), documents (bytes) and files
uploaded beforehand. It carries no video, and no audio or documents by URL.
"""

import base64
from typing import Any

from ..errors import UnsupportedContentError
from ..types.content import BinaryContent, FileUrl, MultimodalContent, UploadedFile, UserContent
from .media import data_url, describe_media, is_all_text, media_kind

__all__ = ["encode_media", "encode_user_content"]

FILE_PROVIDERS = frozenset({"openai", "openai-chat", "openai-responses"})
"""The providers whose uploaded files an endpoint of this protocol may know."""

_AUDIO_FORMATS = {
    "audio/mp3": "mp3",
    "audio/mpeg": "mp3",
    "audio/vnd.wave": "wav",
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
}


def encode_user_content(content: tuple[UserContent, ...], *, model_name: str) -> str | list[dict[str, Any]]:
    """The content of a user message: a plain text where there is no media, which every server understands.

    Args:
        content: The items, in order.
        model_name: The model's name, for the error.

    Raises:
        UnsupportedContentError: The protocol cannot carry an item.
    """
    if is_all_text(content):
        return "\n\n".join(str(item) for item in content)
    return [
        {"type": "text", "text": item} if isinstance(item, str) else _encode_or_refuse(item, model_name)
        for item in content
    ]


def encode_media(item: MultimodalContent) -> dict[str, Any] | None:
    """A media item as a content part; None when the protocol cannot carry it.

    Args:
        item: The media item.
    """
    if isinstance(item, UploadedFile):
        is_known = item.provider_name in FILE_PROVIDERS
        return {"type": "file", "file": {"file_id": item.file_id}} if is_known else None
    kind = media_kind(item)
    if isinstance(item, FileUrl):
        return {"type": "image_url", "image_url": {"url": item.url}} if kind == "image" else None
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": data_url(item)}}
    if kind == "audio":
        return _encode_audio(item)
    return _encode_document(item) if kind == "document" else None


def _encode_or_refuse(item: MultimodalContent, model_name: str) -> dict[str, Any]:
    part = encode_media(item)
    if part is None:
        raise UnsupportedContentError(
            f"Model {model_name!r}: the Chat Completions protocol cannot carry {describe_media(item)}."
        )
    return part


def _encode_audio(item: BinaryContent) -> dict[str, Any] | None:
    audio_format = _AUDIO_FORMATS.get(item.media_type.partition(";")[0].strip().lower())
    if audio_format is None:
        return None
    data = base64.b64encode(item.data).decode()
    return {"type": "input_audio", "input_audio": {"data": data, "format": audio_format}}


def _encode_document(item: BinaryContent) -> dict[str, Any]:
    subtype = item.media_type.partition(";")[0].rpartition("/")[2] or "bin"
    name = item.identifier or f"document.{subtype}"
    return {"type": "file", "file": {"filename": name, "file_data": data_url(item)}}

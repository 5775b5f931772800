"""Kinds of media, and their descriptions for when they cannot be sent."""

import base64
from collections.abc import Iterable, Set
from typing import Literal, TypeAlias

from ..types.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    FileUrl,
    ImageUrl,
    MultimodalContent,
    UploadedFile,
    UserContent,
    VideoUrl,
)
from .redaction import excerpt

WEB_SCHEMES = frozenset({"http", "https"})
"""The schemes of URLs that every provider fetches itself."""

OPENAI_FILE_PROVIDERS = frozenset({"openai", "openai-chat", "openai-responses"})
"""The providers whose uploaded files an endpoint of OpenAI's protocols may know."""

MediaKind: TypeAlias = Literal["image", "audio", "video", "document"]

_URL_CHARACTERS = 200

_KINDS_OF_URLS: tuple[tuple[type[FileUrl], MediaKind], ...] = (
    (ImageUrl, "image"),
    (AudioUrl, "audio"),
    (VideoUrl, "video"),
    (DocumentUrl, "document"),
)


def media_kind(item: MultimodalContent) -> MediaKind:
    """The kind of a media item; anything else than image, audio or video is a document.

    Args:
        item: The media item.
    """
    for url_type, kind in _KINDS_OF_URLS:
        if isinstance(item, url_type):
            return kind
    main_type = (item.media_type or "").partition("/")[0].lower()
    return main_type if main_type in ("image", "audio", "video") else "document"


def describe_media(item: MultimodalContent) -> str:
    """A short description of a media item: its kind, its type, and its size, URL or file id.

    Args:
        item: The media item.
    """
    kind = media_kind(item)
    media_type = f" {item.media_type}" if item.media_type else ""
    match item:
        case BinaryContent():
            name = f" {item.identifier!r}" if item.identifier else ""
            return f"{kind}{name}{media_type}, {len(item.data)} bytes"
        case FileUrl():
            return f"{kind}{media_type} at {excerpt(item.url, limit=_URL_CHARACTERS)}"
        case UploadedFile():
            return f"{kind}{media_type} uploaded to {item.provider_name} as {item.file_id}"


def bare_media_type(media_type: str) -> str:
    """A media type without its parameters, in lower case.

    Args:
        media_type: The media type, for example `text/plain; charset=utf-8`.
    """
    return media_type.partition(";")[0].strip().lower()


def document_name(item: BinaryContent) -> str:
    """Return a file name for a document, for protocols that require one.

    Args:
        item: The document.
    """
    subtype = bare_media_type(item.media_type).rpartition("/")[2]
    return item.identifier or f"document.{subtype or 'bin'}"


def has_scheme(item: FileUrl, schemes: Set[str]) -> bool:
    """Whether a URL is of one of these schemes; a path or a bare name has none.

    Args:
        item: The reference.
        schemes: The schemes that the protocol carries, in lower case, such as `WEB_SCHEMES`.
    """
    scheme, colon, _ = item.url.partition(":")
    return bool(colon) and scheme.lower() in schemes


def data_url(item: BinaryContent) -> str:
    """The bytes of a media item as a `data:` URL.

    Args:
        item: The media item.
    """
    return f"data:{item.media_type};base64,{base64.b64encode(item.data).decode()}"


def is_all_text(content: Iterable[UserContent]) -> bool:
    """Whether content is text alone.

    Args:
        content: Content items.
    """
    return all(isinstance(item, str) for item in content)

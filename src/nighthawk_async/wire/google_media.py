"""Media items as parts of a Gemini content.

The protocol carries bytes of every kind, files uploaded to the provider, and URLs, which the provider
fetches itself: public or signed `https` URLs, `gs` URLs of files registered with it, and YouTube videos. It
carries no `data:` URLs. Where a URL comes without a media type, which the endpoint demands, the name at its
end tells it.
"""

import base64
from mimetypes import MimeTypes
from typing import Any

from ..errors import UnsupportedContentError
from ..types.content import BinaryContent, FileUrl, MultimodalContent, UploadedFile, UserContent
from .media import WEB_SCHEMES, bare_media_type, describe_media, has_scheme

__all__ = ["encode_item", "encode_media", "encode_response_media", "find_refusal"]

_FILE_PROVIDER = "google"
_FILES_URL = "https://generativelanguage.googleapis.com/v1beta/"
_SCHEMES = WEB_SCHEMES | {"gs"}

# Multimodal function responses, in the provider's documentation of function calling.
_RESPONSE_MEDIA_TYPES = frozenset({"application/pdf", "image/jpeg", "image/png", "image/webp", "text/plain"})

_guess_media_type = MimeTypes().guess_type


def find_refusal(item: MultimodalContent) -> str | None:
    """Return the reason why the protocol cannot carry a media item; None when it can.

    Args:
        item: The media item.
    """
    if isinstance(item, UploadedFile):
        is_carried = item.provider_name == _FILE_PROVIDER
    elif isinstance(item, FileUrl):
        is_carried = has_scheme(item, _SCHEMES)
    else:
        is_carried = True
    return None if is_carried else f"the Gemini protocol cannot carry {describe_media(item)}"


def encode_item(item: UserContent) -> dict[str, Any]:
    """An item of a user message as a part.

    Args:
        item: The item.

    Raises:
        UnsupportedContentError: The protocol cannot carry the item.
    """
    if isinstance(item, str):
        return {"text": item}
    if (refusal := find_refusal(item)) is not None:
        raise UnsupportedContentError(f"{refusal}.")
    return _encode_media(item)


def encode_media(item: MultimodalContent) -> dict[str, Any] | None:
    """A media item as a part; None when the protocol cannot carry it.

    Args:
        item: The media item.
    """
    return None if find_refusal(item) else _encode_media(item)


def encode_response_media(item: MultimodalContent) -> dict[str, Any] | None:
    """A media item as a part of a function response; None when it must stand beside the response.

    Args:
        item: The media item.
    """
    if not isinstance(item, BinaryContent) or bare_media_type(item.media_type) not in _RESPONSE_MEDIA_TYPES:
        return None
    return _encode_media(item)


def _encode_media(item: MultimodalContent) -> dict[str, Any]:
    if isinstance(item, BinaryContent):
        data = base64.b64encode(item.data).decode()
        # The endpoint does not know the parameters of a type.
        return {"inlineData": {"mimeType": bare_media_type(item.media_type), "data": data}}
    if isinstance(item, UploadedFile):
        # The endpoint takes the file's URI; users often hold its name, `files/…`.
        uri = _FILES_URL + item.file_id if item.file_id.startswith("files/") else item.file_id
        return _file_data(uri, item.media_type)
    return _file_data(item.url, item.media_type or _guessed_type(item.url))


def _file_data(uri: str, media_type: str | None) -> dict[str, Any]:
    """A reference to a file; the type of an uploaded file and of a YouTube video may stay open."""
    file = {"fileUri": uri}
    return {"fileData": {"mimeType": bare_media_type(media_type), **file} if media_type else file}


def _guessed_type(url: str) -> str | None:
    """The media type that the name at the end of a URL speaks of, when it does."""
    path = url.partition("#")[0].partition("?")[0].partition("://")[2].partition("/")[2]
    return _guess_media_type(path)[0]

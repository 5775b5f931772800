"""Content items as parts of a Responses message or function result.

The protocol carries text, images and documents, each of the latter as bytes, by URL, or uploaded beforehand,
to the model and in function results alike. A URL is one that the provider fetches itself, or for an image a
`data:` URL. It carries no video, and no audio: the type `input_audio` exists, but neither messages nor
results may hold it.

Source: `response_input_content_param.py` and `response_function_call_output_item_list_param.py` of the
official SDK.
"""

from typing import Any

from ..errors import UnsupportedContentError
from ..types.content import BinaryContent, FileUrl, MultimodalContent, UploadedFile, UserContent
from .media import (
    WEB_SCHEMES,
    data_url,
    describe_media,
    document_name,
    has_scheme,
    is_all_text,
    media_kind,
)
from .openai_chat_content import FILE_PROVIDERS

__all__ = ["encode_result_content", "encode_user_content", "find_refusal"]


def encode_user_content(content: tuple[UserContent, ...]) -> str | list[dict[str, Any]]:
    """The content of a user message: a plain text where there is no media, which every server understands.

    Args:
        content: The items, in order.

    Raises:
        UnsupportedContentError: The protocol cannot carry an item.
    """
    if is_all_text(content):
        return "\n\n".join(str(item) for item in content)
    return [_text_part(item) if isinstance(item, str) else _encode_or_refuse(item) for item in content]


def encode_result_content(content: tuple[UserContent, ...]) -> str | list[dict[str, Any]]:
    """Encode the result of a function: a plain text, unless it holds media that the protocol carries.

    Media that it does not carry are described in words, since a result can no longer be refused.

    Args:
        content: The items, in order.
    """
    parts = [_project(item) for item in content]
    if all(part["type"] == "input_text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def find_refusal(item: MultimodalContent) -> str | None:
    """Return the reason why the protocol cannot carry a media item; None when it can.

    Args:
        item: The media item.
    """
    kind = media_kind(item)
    is_carried = kind in ("image", "document")
    if isinstance(item, UploadedFile):
        is_carried &= item.provider_name in FILE_PROVIDERS
    elif isinstance(item, FileUrl):
        is_carried &= has_scheme(item, WEB_SCHEMES | {"data"} if kind == "image" else WEB_SCHEMES)
    if is_carried:
        return None
    return f"the OpenAI Responses protocol cannot carry {describe_media(item)}"


def _encode_or_refuse(item: MultimodalContent) -> dict[str, Any]:
    refusal = find_refusal(item)
    if refusal is not None:
        raise UnsupportedContentError(f"{refusal}.")
    return _encode_media(item)


def _project(item: UserContent) -> dict[str, Any]:
    if isinstance(item, str):
        return _text_part(item)
    if find_refusal(item) is not None:
        return _text_part(f"[{describe_media(item)}; it cannot be shown to this model]")
    return _encode_media(item)


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _encode_media(item: MultimodalContent) -> dict[str, Any]:
    return _encode_image(item) if media_kind(item) == "image" else _encode_document(item)


def _encode_image(item: MultimodalContent) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "input_image", "detail": "auto"}
    match item:
        case BinaryContent():
            return part | {"image_url": data_url(item)}
        case FileUrl():
            return part | {"image_url": item.url}
        case UploadedFile():
            return part | {"file_id": item.file_id}


def _encode_document(item: MultimodalContent) -> dict[str, Any]:
    match item:
        case BinaryContent():
            return {"type": "input_file", "filename": document_name(item), "file_data": data_url(item)}
        case FileUrl():
            return {"type": "input_file", "file_url": item.url}
        case UploadedFile():
            return {"type": "input_file", "file_id": item.file_id}

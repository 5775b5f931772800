"""Content items as parts of a Chat Completions message, and responses as assistant messages.

The protocol carries text, images (bytes, and URLs of the web or with the data inside), audio (WAV and MP3
bytes), and documents (bytes, and files uploaded beforehand). It carries no video, no audio or documents by
URL, and no uploaded files of other kinds: a file part is read as a document.

An assistant message goes back to the endpoint with every later request. Only this module makes the shape,
both for the library's own messages and for messages that a decoder keeps in the provider's form (`response`).
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import UnsupportedContentError
from ...types.messages import (
    AssistantMessage,
    BinaryContent,
    FileUrl,
    MultimodalContent,
    ToolCall,
    UploadedFile,
    UserContent,
)
from ..json_text import valid_arguments
from ..media import (
    OPENAI_FILE_PROVIDERS,
    WEB_SCHEMES,
    bare_media_type,
    data_url,
    describe_media,
    document_name,
    has_scheme,
    is_all_text,
    media_kind,
)

PROTOCOL = "openai-chat"
"""The name of the protocol, in model ids and in `ProviderContent`."""

USUAL_REASONING_FIELD = "reasoning_content"
OTHER_REASONING_FIELD = "reasoning"
"""The fields in which servers send reasoning text: vLLM renamed its field, and others use either name."""


def assistant_message(text: str, calls: Sequence[ToolCall]) -> dict[str, Any]:
    """The message in the form that every server understands.

    Args:
        text: The visible text.
        calls: The tool calls, in order.
    """
    if not calls:
        return {"role": "assistant", "content": text}
    tool_calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": valid_arguments(call.arguments)},
        }
        for call in calls
    ]
    return {"role": "assistant", "content": text or None, "tool_calls": tool_calls}


def thinking_content(reasoning: str, text: str) -> list[dict[str, Any]]:
    """The content of a message in which the reasoning is a part before the text, as with Mistral.

    Args:
        reasoning: The reasoning text.
        text: The visible text.
    """
    texts = [{"type": "text", "text": text}] if text else []
    return [{"type": "thinking", "thinking": [{"type": "text", "text": reasoning}]}, *texts]


def encode_assistant_message(message: AssistantMessage, *, replays_reasoning: bool) -> dict[str, Any]:
    """The message as a request carries it.

    It depends on nothing but this message, so that it stays the same in every request.

    Args:
        message: The message.
        replays_reasoning: Whether the model gets its reasoning text back, in the field in which the server
            sent it.
    """
    plain = assistant_message(message.text, message.tool_calls)
    encoded = {**(_own_content(message) or plain)}
    is_in_parts = isinstance(encoded.get("content"), list)
    if not replays_reasoning:
        encoded.pop(OTHER_REASONING_FIELD, None)
        return encoded | {"content": plain["content"]} if is_in_parts else encoded
    if not is_in_parts and OTHER_REASONING_FIELD not in encoded:
        # Even an empty text: DeepSeek refuses a conversation in which a call has no reasoning.
        encoded[USUAL_REASONING_FIELD] = message.reasoning
    return encoded


def _own_content(message: AssistantMessage) -> Mapping[str, Any] | None:
    """The message as a server of this protocol sent it, when it was kept."""
    content = message.provider_content
    return content.items[0] if content is not None and content.protocol == PROTOCOL else None


_IMAGE_SCHEMES = WEB_SCHEMES | {"data"}

_AUDIO_FORMATS = {
    "audio/mp3": "mp3",
    "audio/mpeg": "mp3",
    "audio/vnd.wave": "wav",
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
}


def encode_user_content(content: tuple[UserContent, ...]) -> str | list[dict[str, Any]]:
    """The content of a user message: a plain text if there are no media, which every server understands.

    Args:
        content: The items, in order.

    Raises:
        UnsupportedContentError: The protocol cannot carry an item.
    """
    if is_all_text(content):
        return "\n\n".join(str(item) for item in content)
    return [
        {"type": "text", "text": item} if isinstance(item, str) else _encode_or_refuse(item)
        for item in content
    ]


def find_refusal(item: MultimodalContent) -> str | None:
    """Return the reason why the protocol cannot carry a media item; None when it can.

    Args:
        item: The media item.
    """
    kind = media_kind(item)
    if isinstance(item, UploadedFile):
        is_carried = item.provider_name in OPENAI_FILE_PROVIDERS and kind == "document"
    elif isinstance(item, FileUrl):
        is_carried = kind == "image" and has_scheme(item, _IMAGE_SCHEMES)
    else:
        is_carried = _audio_format(item) is not None if kind == "audio" else kind != "video"
    return None if is_carried else f"the Chat Completions protocol cannot carry {describe_media(item)}"


def encode_media(item: MultimodalContent) -> dict[str, Any] | None:
    """A media item as a content part; None when the protocol cannot carry it.

    Args:
        item: The media item.
    """
    return None if find_refusal(item) else _encode_media(item)


def _encode_or_refuse(item: MultimodalContent) -> dict[str, Any]:
    refusal = find_refusal(item)
    if refusal is not None:
        raise UnsupportedContentError(f"{refusal}.")
    return _encode_media(item)


def _encode_media(item: MultimodalContent) -> dict[str, Any]:
    if isinstance(item, UploadedFile):
        return {"type": "file", "file": {"file_id": item.file_id}}
    if isinstance(item, FileUrl):
        return {"type": "image_url", "image_url": {"url": item.url}}
    kind = media_kind(item)
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": data_url(item)}}
    return _encode_audio(item) if kind == "audio" else _encode_document(item)


def _audio_format(item: BinaryContent) -> str | None:
    return _AUDIO_FORMATS.get(bare_media_type(item.media_type))


def _encode_audio(item: BinaryContent) -> dict[str, Any]:
    data = base64.b64encode(item.data).decode()
    return {"type": "input_audio", "input_audio": {"data": data, "format": _audio_format(item)}}


def _encode_document(item: BinaryContent) -> dict[str, Any]:
    return {"type": "file", "file": {"filename": document_name(item), "file_data": data_url(item)}}

"""A conversation as the input items of a Responses request.

The model's own past responses go back in one of two forms: as the provider's own items, if they hold more
than text and calls, or as items made from text and calls.

The protocol carries text, images and documents, each of the latter as bytes, by URL, or uploaded beforehand,
to the model and in function results alike. A URL is one that the provider fetches itself, or for an image a
`data:` URL. It carries no video, and no audio: the type `input_audio` exists, but neither messages nor
results may hold it.

Source: `response_input_content_param.py` and `response_function_call_output_item_list_param.py` of the
official SDK.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ...errors import UnsupportedContentError
from ...lazy_exports import LazyModule
from ...types.messages import (
    AssistantMessage,
    BinaryContent,
    FileUrl,
    Message,
    MultimodalContent,
    ProviderContent,
    ToolResultsMessage,
    UploadedFile,
    UserContent,
    UserMessage,
)
from ..json_text import valid_arguments
from ..media import (
    OPENAI_FILE_PROVIDERS,
    WEB_SCHEMES,
    data_url,
    describe_media,
    document_name,
    has_scheme,
    media_kind,
)

if TYPE_CHECKING:
    from .. import held_media
else:
    held_media = LazyModule("nighthawk_async.wire.held_media")  # few answers hold media


def encode_user_content(content: tuple[UserContent, ...]) -> str | list[dict[str, Any]]:
    """The content of a user message: a plain text if there are no media, which every server understands.

    Args:
        content: The items, in order.

    Raises:
        UnsupportedContentError: The protocol cannot carry an item.
    """
    texts = [item for item in content if isinstance(item, str)]
    if len(texts) == len(content):
        return "\n\n".join(texts)
    return [_text_part(item) if isinstance(item, str) else _encode_or_refuse(item) for item in content]


def encode_result_content(content: tuple[UserContent, ...]) -> str | list[dict[str, Any]]:
    """Encode the result of a function: a plain text, unless it holds media that the protocol carries.

    Other media are described in words, since a result can no longer be refused.

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
        is_carried &= item.provider_name in OPENAI_FILE_PROVIDERS
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


PROTOCOL = "openai-responses"
"""The protocol's name in `ProviderContent.protocol`."""

SEARCH_ITEMS = ("tool_search_call", "tool_search_output")
"""The types of the items with which the provider records a search for tools."""

_OUTPUT_ONLY = frozenset({"status"})
_REFERENCES = _OUTPUT_ONLY | {"id"}
_SEARCH_REFERENCES = frozenset({"created_by", "id"})


def encode_input(messages: Iterable[Message], *, is_stored: bool) -> list[dict[str, Any]]:
    """The conversation as input items.

    Args:
        messages: The messages, oldest first.
        is_stored: Whether the provider keeps responses, and so finds past items by their ids.

    Raises:
        UnsupportedContentError: A user message holds content that the protocol cannot carry.
    """
    items: list[dict[str, Any]] = []
    for message in messages:
        match message:
            case UserMessage():
                content = encode_user_content(message.content)
                items.append({"type": "message", "role": "user", "content": content})
            case AssistantMessage():
                items += _encode_response(message, is_stored=is_stored)
            case ToolResultsMessage():
                items += _encode_results(message)
    return items


def _encode_results(message: ToolResultsMessage) -> Iterator[dict[str, Any]]:
    for result in message.results:
        output = encode_result_content(result.content)
        yield {"type": "function_call_output", "call_id": result.call_id, "output": output}


def _encode_response(message: AssistantMessage, *, is_stored: bool) -> Iterator[dict[str, Any]]:
    content = message.provider_content
    if content is not None and content.protocol == PROTOCOL:
        items = _replay(content, is_stored=is_stored)
        yield from held_media.with_media(list(items), message.media) if message.media else items
        return
    text = held_media.text_with_media(message) if message.media else message.text
    if text:
        part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
        yield {"type": "message", "role": "assistant", "content": [part]}
    for call in message.tool_calls:
        arguments = valid_arguments(call.arguments)
        yield {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments}


def _replay(content: ProviderContent, *, is_stored: bool) -> Iterator[dict[str, Any]]:
    """The provider's own items, without the fields that it does not accept back.

    It refuses `status` in a reasoning item. An id makes it look the item up, which fails if nothing was
    stored; if both a reasoning item and the item after it have ids, it also checks that they belong together.
    So messages and calls, which need no id, are sent back without one. A reasoning item must have an id, and
    is read from its own content instead of looked up if it has any; without content, there is nothing to send
    back. (OpenAI's own Codex, which stores nothing either, likewise sends no such ids.)
    """
    for item in content.items:
        match item.get("type"):
            case "reasoning":
                if is_stored or item.get("encrypted_content") or item.get("content"):
                    yield _without(item, _OUTPUT_ONLY)
            case "message":
                yield _without(item, _OUTPUT_ONLY if is_stored else _REFERENCES)
            case "function_call":
                call = _without(item, _OUTPUT_ONLY if is_stored else _REFERENCES)
                yield call | {"arguments": valid_arguments(str(item.get("arguments", "")))}
            case "tool_search_call" | "tool_search_output" if not is_stored:
                yield _without(item, _SEARCH_REFERENCES)
            case _:
                yield dict(item)


def _without(item: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """The item without these fields and without null ones, which the provider does not always accept."""
    return {name: value for name, value in item.items() if name not in names and value is not None}

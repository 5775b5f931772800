"""A conversation as the contents of a Gemini request.

Contents of the user and of the model alternate, so several messages of one side become one content. Results
of function calls are the user's. The endpoint refuses empty texts, so they are left out; an empty turn of the
user gets a placeholder.

A function response carries the id that its function call carries in the same request. A response that is sent
back unchanged may hold calls without ids; their results then have none either, and follow the order of the
calls.

The protocol carries bytes of every kind, files uploaded to the provider, and URLs, which the provider
fetches itself: public or signed `https` URLs, `gs` URLs of files registered with it, and YouTube videos. It
carries no `data:` URLs. If a URL has no media type, which the endpoint demands, it is guessed from the file
name at its end.
"""

import base64
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
    ToolCall,
    ToolResult,
    ToolResultsMessage,
    UploadedFile,
    UserContent,
    UserMessage,
    guess_media_type,
)
from ..json_text import NO_TEXT, arguments_object
from ..media import WEB_SCHEMES, bare_media_type, describe_media, has_scheme

if TYPE_CHECKING:
    from .. import held_media
else:
    held_media = LazyModule("nighthawk_async.wire.held_media")  # few answers hold media

_FILE_PROVIDER = "google"
_FILES_URL = "https://generativelanguage.googleapis.com/v1beta/"
_SCHEMES = WEB_SCHEMES | {"gs"}

# Multimodal function responses, in the provider's documentation of function calling.
_RESPONSE_MEDIA_TYPES = frozenset({"application/pdf", "image/jpeg", "image/png", "image/webp", "text/plain"})


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
    """A media item as a part of a function response; None when it must be beside the response.

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
    """A reference to a file; the type of an uploaded file and of a YouTube video may be missing."""
    file = {"fileUri": uri}
    return {"fileData": {"mimeType": bare_media_type(media_type), **file} if media_type else file}


def _guessed_type(url: str) -> str | None:
    """The media type implied by the file name at the end of a URL, if any."""
    path = url.partition("#")[0].partition("?")[0].partition("://")[2].partition("/")[2]
    return guess_media_type(path)


PROTOCOL = "google"
"""The protocol's name, in the catalog and on provider content."""

# Models that sign their calls refuse calls without a signature, and take this in place of one for calls of
# another model. Only the first call of a response is signed. Source: "Thought signatures", FAQ, of the
# provider's documentation.
_NO_SIGNATURE = "skip_thought_signature_validator"

_Part = Mapping[str, Any]


def encode_contents(
    messages: Iterable[Message], *, signs_calls: bool, has_text_beside_results: bool = False
) -> list[dict[str, Any]]:
    """The conversation, oldest first.

    Args:
        messages: The messages.
        signs_calls: Whether the model signs its function calls. Such a model refuses unsigned ones, and takes
            media inside function responses.
        has_text_beside_results: Whether text and media may share a content with function responses.

    Raises:
        UnsupportedContentError: The protocol cannot carry an item of a user message.
    """
    encoder = _Encoder(signs_calls=signs_calls, has_text_beside_results=has_text_beside_results)
    for message in messages:
        encoder.add(message)
    return encoder.contents


class _Encoder:
    def __init__(self, *, signs_calls: bool, has_text_beside_results: bool) -> None:
        self._signs_calls = signs_calls
        self._has_text_beside_results = has_text_beside_results
        self._sent_ids: dict[str, str | None] = {}
        self.contents: list[dict[str, Any]] = []

    def add(self, message: Message) -> None:
        match message:
            case UserMessage():
                self._add_user_parts([encode_item(item) for item in message.content if item != ""])
            case AssistantMessage():
                self._add_parts("model", self._assistant_parts(message))
            case ToolResultsMessage():
                for parts in self._result_parts(message.results):
                    self._add_user_parts(parts)

    def _add_user_parts(self, parts: list[_Part]) -> None:
        is_continued = bool(self.contents) and self.contents[-1]["role"] == "user"
        self._add_parts("user", parts if parts or is_continued else [{"text": NO_TEXT}])

    def _add_parts(self, role: str, parts: list[_Part]) -> None:
        if not parts:  # the endpoint refuses a content without parts
            return
        last = self.contents[-1] if self.contents else None
        if last is not None and last["role"] == role and self._may_share(last["parts"], parts):
            last["parts"] += parts
        else:
            self.contents.append({"role": role, "parts": parts})

    def _may_share(self, earlier: list[_Part], later: list[_Part]) -> bool:
        if self._has_text_beside_results:
            return True
        return ("functionResponse" in earlier[-1]) == ("functionResponse" in later[0])

    def _assistant_parts(self, message: AssistantMessage) -> list[_Part]:
        own = message.provider_content
        if own is not None and own.protocol == PROTOCOL:
            sent = [call.get("id") for part in own.items if (call := part.get("functionCall")) is not None]
            self._sent_ids.update(zip([call.id for call in message.tool_calls], sent, strict=False))
            items = list(own.items)
            return held_media.with_media(items, message.media) if message.media else items
        parts: list[_Part] = [{"text": message.text}] if message.text else []
        parts += [self._medium_part(each) for each in message.media]
        for position, call in enumerate(message.tool_calls):
            signature = {"thoughtSignature": _NO_SIGNATURE} if self._signs_calls and position == 0 else {}
            parts.append({"functionCall": _encode_call(call), **signature})
        return parts

    def _medium_part(self, item: BinaryContent | FileUrl) -> _Part:
        """A medium that another model made, as one of its own."""
        part = encode_media(item)
        return (
            {"text": f"[{describe_media(item)}; it cannot be shown to this model]"} if part is None else part
        )

    def _result_parts(self, results: tuple[ToolResult, ...]) -> Iterator[list[_Part]]:
        """All responses, and then the media that a response cannot hold."""
        parts: list[_Part] = []
        attachments: list[_Part] = []
        for number, result in enumerate(results, start=1):
            place = f"result of call {number}, {result.name}"
            parts.append({"functionResponse": self._encode_result(result, place, attachments)})
        yield parts
        if attachments:
            yield attachments

    def _encode_result(self, result: ToolResult, place: str, attachments: list[_Part]) -> _Part:
        media: list[_Part] = []
        texts = [self._project(item, place, media, attachments) for item in result.content]
        # Always one text: in the tool's own object, the endpoint would treat `$ref` as a medium's name.
        response = {"error" if result.is_error else "output": "\n".join(texts)}
        encoded: dict[str, Any] = {"name": result.name, "response": response}
        if (sent_id := self._sent_ids.get(result.call_id, result.call_id)) is not None:
            encoded = {"id": sent_id, **encoded}
        return encoded | {"parts": media} if media else encoded

    def _project(self, item: UserContent, place: str, media: list[_Part], attachments: list[_Part]) -> str:
        """The text that represents an item of a result; media go into the response or after it."""
        if isinstance(item, str):
            return item
        title = describe_media(item)
        if self._signs_calls and (part := encode_response_media(item)) is not None:
            media.append(part)
            return f"[{title}; shown with this response]"
        if (part := encode_media(item)) is None:
            return f"[{title}; it cannot be shown to this model]"
        attachments += [{"text": f"[{title}; {place}]"}, part]
        return f"[{title}; shown after the responses]"


def _encode_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "args": arguments_object(call.arguments)}

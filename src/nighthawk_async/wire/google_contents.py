"""A conversation as the contents of a Gemini request.

Contents are of the user or of the model and take turns, so what one side says in several messages becomes one
content. Results of function calls are the user's. The endpoint refuses empty texts, so they are left out; a
turn of the user that says nothing has a placeholder.

A function response carries the id that its function call carries in the same request. A response that goes
back as it came may hold calls without ids; their results go without as well, in the order of the calls.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ..types.content import UserContent
from ..types.messages import AssistantMessage, Message, ToolCall, ToolResult, ToolResultsMessage, UserMessage
from .google_media import encode_item, encode_media, encode_response_media
from .media import describe_media
from .placeholders import NO_TEXT
from .request_json import arguments_object

__all__ = ["PROTOCOL", "encode_contents"]

PROTOCOL = "google"
"""The protocol's name, in the catalog and on provider content."""

# Models that sign their calls refuse calls without a signature, and take this in place of one for calls of
# another model. Only the first call of a response is signed. Source: "Thought signatures", FAQ, of the
# provider's documentation.
_NO_SIGNATURE = "skip_thought_signature_validator"

_Part = Mapping[str, Any]


def encode_contents(messages: Iterable[Message], *, signs_calls: bool) -> list[dict[str, Any]]:
    """The conversation, oldest first.

    Args:
        messages: The messages.
        signs_calls: Whether the model signs its function calls. Such a model refuses unsigned ones, and takes
            media inside function responses.

    Raises:
        UnsupportedContentError: The protocol cannot carry an item of a user message.
    """
    encoder = _Encoder(signs_calls=signs_calls)
    for message in messages:
        encoder.add(message)
    return encoder.contents


class _Encoder:
    def __init__(self, *, signs_calls: bool) -> None:
        self._signs_calls = signs_calls
        self._sent_ids: dict[str, str | None] = {}
        self.contents: list[dict[str, Any]] = []

    def add(self, message: Message) -> None:
        match message:
            case UserMessage():
                self._add_user_parts([encode_item(item) for item in message.content if item != ""])
            case AssistantMessage():
                self._add_parts("model", self._assistant_parts(message))
            case ToolResultsMessage():
                self._add_user_parts(self._result_parts(message.results))

    def _add_user_parts(self, parts: list[_Part]) -> None:
        is_continued = bool(self.contents) and self.contents[-1]["role"] == "user"
        self._add_parts("user", parts if parts or is_continued else [{"text": NO_TEXT}])

    def _add_parts(self, role: str, parts: list[_Part]) -> None:
        if not parts:  # the endpoint refuses a content without parts
            return
        if self.contents and self.contents[-1]["role"] == role:
            self.contents[-1]["parts"] += parts
        else:
            self.contents.append({"role": role, "parts": parts})

    def _assistant_parts(self, message: AssistantMessage) -> list[_Part]:
        own = message.provider_content
        if own is not None and own.protocol == PROTOCOL:
            sent = [call.get("id") for part in own.items if (call := part.get("functionCall")) is not None]
            self._sent_ids.update(zip([call.id for call in message.tool_calls], sent, strict=False))
            return list(own.items)
        parts: list[_Part] = [{"text": message.text}] if message.text else []
        for position, call in enumerate(message.tool_calls):
            signature = {"thoughtSignature": _NO_SIGNATURE} if self._signs_calls and position == 0 else {}
            parts.append({"functionCall": _encode_call(call), **signature})
        return parts

    def _result_parts(self, results: tuple[ToolResult, ...]) -> list[_Part]:
        """All responses, and behind them the media that a response cannot hold."""
        parts: list[_Part] = []
        attachments: list[_Part] = []
        for number, result in enumerate(results, start=1):
            place = f"result of call {number}, {result.name}"
            parts.append({"functionResponse": self._encode_result(result, place, attachments)})
        return parts + attachments

    def _encode_result(self, result: ToolResult, place: str, attachments: list[_Part]) -> _Part:
        media: list[_Part] = []
        texts = [self._project(item, place, media, attachments) for item in result.content]
        # Always one text: in an object of the tool's own, the endpoint would take `$ref` for a medium's name.
        response = {"error" if result.is_error else "output": "\n".join(texts)}
        encoded: dict[str, Any] = {"name": result.name, "response": response}
        if (sent_id := self._sent_ids.get(result.call_id, result.call_id)) is not None:
            encoded = {"id": sent_id, **encoded}
        return encoded | {"parts": media} if media else encoded

    def _project(self, item: UserContent, place: str, media: list[_Part], attachments: list[_Part]) -> str:
        """The text that stands for an item of a result; media go into the response or behind it."""
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

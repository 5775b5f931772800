"""Model requests in the canonical form that a cassette writes and compares.

It holds only the data that reaches the model: no keys or time limits. Tool calls are numbered in order of
appearance, because their ids may change from run to run; bytes, and content that only the provider can read,
are represented by digests.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..types.json import is_json_list, is_json_object
from ..types.messages import (
    AssistantMessage,
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    FileUrl,
    ImageUrl,
    Message,
    ProviderContent,
    ToolResultsMessage,
    UploadedFile,
    UserContent,
    UserMessage,
    VideoUrl,
)
from ..types.model import ModelRequest, NamedToolChoice
from ..wire.transport_settings import TRANSPORT_SETTINGS
from .redaction import encoded, hide_secrets, plain, short_hash

_NOT_COMPARED = TRANSPORT_SETTINGS - {"extra_body"} | {"stream"}
_URL_NAMES: Mapping[type[FileUrl], str] = {
    ImageUrl: "image_url",
    AudioUrl: "audio_url",
    VideoUrl: "video_url",
    DocumentUrl: "document_url",
}


def canonical_request(
    request: ModelRequest, *, redact: Callable[[Any], Any] = lambda value: value
) -> dict[str, Any]:
    """Return a request as texts, numbers, lists and dictionaries, without empty parts.

    Args:
        request: The request.
        redact: Returns JSON data without secrets.
    """
    form = {
        "system_prompt": request.system_prompt,
        "messages": canonical_messages(request.messages, redact=redact),
        "tools": [
            {
                "name": tool.name,
                "description": tool.description,
                "parameters": plain(tool.parameters),
                **({"is_deferred": True} if tool.is_deferred else {}),
            }
            for tool in request.tools
        ],
        "tool_choice": _tool_choice(request) if request.tools else None,
        "response_format": plain(request.response_format),
        "settings": hide_secrets(
            {
                name: plain(value)
                for name, value in request.settings.items()
                if name not in _NOT_COMPARED and value is not None
            }
        ),
    }
    shown = {name: value for name, value in form.items() if value not in (None, "", [], {})}
    return {name: value if name == "messages" else redact(value) for name, value in shown.items()}


def canonical_messages(
    messages: Iterable[Message], *, redact: Callable[[Any], Any] = lambda value: value
) -> list[dict[str, Any]]:
    """Return a conversation in its canonical form, without secrets.

    Args:
        messages: The messages.
        redact: Returns JSON data without secrets.
    """
    numbering = _Messages(redact)
    return [redact(numbering.canonical(message)) for message in messages]


def digest_of(model_name: str, request: Mapping[str, Any]) -> str:
    """Return the digest of a model id and a canonical request.

    Args:
        model_name: The model id.
        request: The canonical request.
    """
    return short_hash(encoded([model_name, request]))


class _Messages:
    """Numbers the tool calls of one conversation; `redact` is that of `canonical_request`."""

    def __init__(self, redact: Callable[[Any], Any]) -> None:
        self._redact = redact
        self._calls = 0
        self._names: dict[str, str] = {}

    def canonical(self, message: Message) -> dict[str, Any]:
        """Return one message, by its role."""
        match message:
            case UserMessage():
                return {"user": _content(message.content)}
            case AssistantMessage():
                return {"assistant": self._assistant(message)}
            case ToolResultsMessage():
                return {"tool_results": self._results(message)}

    def _assistant(self, message: AssistantMessage) -> dict[str, Any]:
        calls = [
            {"id": self._name(call.id), "name": call.name, "arguments": call.arguments}
            for call in message.tool_calls
        ]
        form: dict[str, Any] = {"text": message.text, "reasoning": message.reasoning, "tool_calls": calls}
        if message.media:
            form["media"] = _content(message.media)
        if message.provider_content is not None:
            form["provider_content"] = self._provider_content(message.provider_content)
        return {name: value for name, value in form.items() if value}

    def _results(self, message: ToolResultsMessage) -> list[dict[str, Any]]:
        return [
            {
                "id": self._names.get(result.call_id, result.call_id),
                "name": result.name,
                **({"is_error": True} if result.is_error else {}),
                "content": _content(result.content),
            }
            for result in message.results
        ]

    def _provider_content(self, content: ProviderContent) -> dict[str, Any]:
        # Redacted before it is hashed, because a replay returns redacted items: tests/unit/testing/
        # test_cassette_provider_content.py.
        items = self._redact(self._renamed(plain(content.items)))
        digest = short_hash(encoded(items))
        return {"protocol": content.protocol, "items": len(content.items), "sha256": digest}

    def _name(self, call_id: str) -> str:
        self._calls += 1
        self._names[call_id] = f"call {self._calls}"
        return self._names[call_id]

    def _renamed(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._names.get(value, value)
        if is_json_object(value):
            return {name: self._renamed(each) for name, each in value.items()}
        if is_json_list(value):
            return [self._renamed(each) for each in value]
        return value


def _content(content: tuple[UserContent, ...]) -> Any:
    """Return the items of a message as a list; a single item without the list."""
    items = [_item(item) for item in content]
    return items[0] if len(items) == 1 else items


def _item(item: UserContent) -> Any:
    match item:
        case str():
            return item
        case BinaryContent():
            form = {"media_type": item.media_type, **plain(item.data), "identifier": item.identifier}
        case UploadedFile():
            form = plain(item)
        case FileUrl():
            url = item.url
            if url.startswith("data:"):
                url = f"data:… sha256 {short_hash(url.encode())}"
            form = {_URL_NAMES.get(type(item), "url"): url, "media_type": item.media_type}
    return {name: value for name, value in form.items() if value is not None}


def _tool_choice(request: ModelRequest) -> Any:
    choice = request.tool_choice
    return {"name": choice.name} if isinstance(choice, NamedToolChoice) else choice

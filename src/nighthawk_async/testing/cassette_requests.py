"""Model requests as a cassette shows and compares them. Floor 5.

The canonical form holds what reaches the model and nothing else: no key, no time limit. Tool calls are
numbered in the order in which they appear, because their identifiers may be others at every run; bytes and
what only the provider can read are represented by their digests.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, cast

from pydantic import BaseModel

from ..types.content import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    FileUrl,
    ImageUrl,
    UploadedFile,
    UserContent,
    VideoUrl,
)
from ..types.messages import AssistantMessage, Message, ProviderContent, ToolResultsMessage, UserMessage
from ..types.model import ModelRequest, NamedToolChoice
from ..wire.transport_settings import TRANSPORT_SETTINGS
from .cassette_redaction import REDACTED, is_secret_setting

__all__ = ["canonical_request", "digest_of", "encoded", "plain"]

_NOT_COMPARED = TRANSPORT_SETTINGS - {"extra_body"} | {"stream"}
_URL_NAMES: Mapping[type[FileUrl], str] = {
    ImageUrl: "image_url",
    AudioUrl: "audio_url",
    VideoUrl: "video_url",
    DocumentUrl: "document_url",
}


def canonical_request(request: ModelRequest) -> dict[str, Any]:
    """The request as text, numbers, lists and dictionaries; what is empty is left out.

    Args:
        request: The request.
    """
    messages = _Messages()
    form = {
        "system_prompt": request.system_prompt,
        "messages": [messages.canonical(message) for message in request.messages],
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": plain(tool.parameters)}
            for tool in request.tools
        ],
        "tool_choice": _tool_choice(request) if request.tools else None,
        "response_format": plain(request.response_format),
        "settings": {
            name: REDACTED if is_secret_setting(name) else _without_secrets(plain(value))
            for name, value in request.settings.items()
            if name not in _NOT_COMPARED and value is not None
        },
    }
    return {name: value for name, value in form.items() if value not in (None, "", [], {})}


def digest_of(model_name: str, request: Mapping[str, Any]) -> str:
    """What identifies a model and a canonical request.

    Args:
        model_name: The model id.
        request: The canonical request.
    """
    return _hash(encoded([model_name, request]))


def encoded(value: object) -> bytes:
    """The one JSON text of what JSON can hold.

    Args:
        value: Texts, numbers, lists and dictionaries.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def plain(value: object) -> Any:
    """The value as text, numbers, lists and dictionaries.

    Args:
        value: Anything that a request or a response may hold.
    """
    if isinstance(value, Enum):
        return plain(value.value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, bytes):
        return {"bytes": len(value), "sha256": _hash(value)}
    if isinstance(value, BaseModel):
        return plain(value.model_dump(exclude_unset=True))
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in cast("Mapping[object, object]", value).items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Iterable):
        return [plain(each) for each in cast("Iterable[object]", value)]
    return str(value)


class _Messages:
    """Numbers the tool calls of one conversation."""

    def __init__(self) -> None:
        self._calls = 0
        self._names: dict[str, str] = {}

    def canonical(self, message: Message) -> dict[str, Any]:
        """One message under its role."""
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
        items = self._renamed(plain(content.items))
        return {"protocol": content.protocol, "items": len(content.items), "sha256": _hash(encoded(items))}

    def _name(self, call_id: str) -> str:
        self._calls += 1
        self._names[call_id] = f"call {self._calls}"
        return self._names[call_id]

    def _renamed(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._names.get(value, value)
        if isinstance(value, dict):
            return {name: self._renamed(each) for name, each in cast("dict[str, Any]", value).items()}
        if isinstance(value, list):
            return [self._renamed(each) for each in cast("list[Any]", value)]
        return value


def _content(content: tuple[UserContent, ...]) -> Any:
    """The items of a message; a single text stands by itself."""
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
                url = f"data:… sha256 {_hash(url.encode())}"
            form = {_URL_NAMES.get(type(item), "url"): url, "media_type": item.media_type}
    return {name: value for name, value in form.items() if value is not None}


def _tool_choice(request: ModelRequest) -> Any:
    choice = request.tool_choice
    return {"name": choice.name} if isinstance(choice, NamedToolChoice) else choice


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {name: REDACTED if is_secret_setting(name) else _without_secrets(each) for name, each in items}
    if isinstance(value, list):
        return [_without_secrets(each) for each in cast("list[Any]", value)]
    return value


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]

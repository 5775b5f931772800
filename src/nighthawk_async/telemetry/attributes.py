"""Attributes of spans and metrics: for a model, a request, its usage, and its content. Pure.

Spans hold content as JSON texts, events as the values that those texts encode.

Source: the JSON Schemas beside the conventions' pages. Media are represented by their kind, type and address;
bytes are left out.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeAlias, runtime_checkable
from urllib.parse import SplitResult

import msgspec

from ..catalog.telemetry_names import PROVIDERS, Names
from ..errors import ConfigurationError
from ..ports import HasSettings, Model
from ..types.json import is_json_mapping, is_list_or_tuple
from ..types.messages import (
    AssistantMessage,
    AudioUrl,
    BinaryContent,
    FileUrl,
    ImageUrl,
    Message,
    ToolCall,
    ToolDefinition,
    ToolResult,
    UploadedFile,
    UserContent,
    UserMessage,
    VideoUrl,
)
from ..types.model import ModelRequest
from ..types.usage import Usage
from ..values.request_bound import find_output_limit
from ..wire.json_text import NOT_JSON, decode_json
from ..wire.redaction import redact

_Part = dict[str, Any]


def redacted_json(text: str, secrets: Sequence[str]) -> str:
    """Redact secrets in JSON: in its texts, and in texts that are JSON again, such as results of tools.

    Args:
        text: The JSON.
        secrets: The secrets that are known.
    """
    once = [_escaped(secret) for secret in secrets]
    text = text.encode(errors="backslashreplace").decode()  # exporters reject lone surrogates
    return redact(text, [*secrets, *once, *map(_escaped, once)])


def request_content(names: Names, request: ModelRequest, secrets: Sequence[str]) -> dict[str, str]:
    """Return the content of a request, by attribute.

    Args:
        names: The names to use.
        request: The request.
        secrets: The secrets that are known.
    """
    messages = [_message(message) for message in request.messages]
    content = {names.input_messages: _json(messages, secrets)}
    if request.system_prompt:
        parts = [_text(request.system_prompt)]
        content[names.system_instructions] = _json(parts, secrets)
    if request.tools:
        tools = [_definition(tool) for tool in request.tools]
        content[names.tool_definitions] = _json(tools, secrets)
    return content


def output_content(
    names: Names, message: AssistantMessage, reason: str | None, secrets: Sequence[str]
) -> dict[str, str]:
    """Return the answer of a model, by attribute.

    Args:
        names: The names to use.
        message: The answer, as far as it arrived.
        reason: Why it ended, as its span says; None when it was interrupted.
        secrets: The secrets that are known.
    """
    output = _message(message)
    if names.messages_hold_finish_reason:
        output["finish_reason"] = "error" if reason is None else reason
    return {names.output_messages: _json([output], secrets)}


def result_content(result: ToolResult, secrets: Sequence[str]) -> str:
    """Return the result of a tool call: what a text encodes, if that is an object or a list.

    Args:
        result: The result.
        secrets: The secrets that are known.
    """
    response = _response(result)
    if isinstance(response, str) and response.startswith(("{", "[")):
        with suppress(*NOT_JSON):
            response = decode_json(response)
    return _json(response, secrets)


def structured(content: Mapping[str, str]) -> dict[str, Any]:
    """Decode content for events.

    Args:
        content: JSON texts, by attribute.
    """
    return {name: _decoded(text) for name, text in content.items()}


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except NOT_JSON:  # where redaction removed more than a text in it
        return text


def _json(value: object, secrets: Sequence[str]) -> str:
    try:
        text = msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # a lone surrogate: models write them sometimes, JSON cannot hold them
        text = json.dumps(value, ensure_ascii=False).encode(errors="replace").decode()
    return redacted_json(text, secrets)


def _escaped(secret: str) -> str:
    return json.dumps(secret, ensure_ascii=False)[1:-1]


def _message(message: Message) -> _Part:
    match message:
        case UserMessage():
            return {"role": "user", "parts": list(_parts(message.content))}
        case AssistantMessage():
            return {"role": "assistant", "parts": list(_answer(message))}
        case _:
            parts = [
                {"type": "tool_call_response", "id": result.call_id, "response": _response(result)}
                for result in message.results
            ]
            return {"role": "tool", "parts": parts}


def _answer(message: AssistantMessage) -> Iterator[_Part]:
    if message.reasoning:
        yield {"type": "reasoning", "content": message.reasoning}
    if message.text:
        yield _text(message.text)
    for call in message.tool_calls:
        yield {"type": "tool_call", "id": call.id, "name": call.name, "arguments": _arguments(call)}
    yield from _parts(message.media)
    for citation in message.citations:
        known = {"url": citation.url, "title": citation.title, "file_id": citation.file_id}
        yield {"type": "citation", **{name: value for name, value in known.items() if value}}


def _arguments(call: ToolCall) -> object:
    """Return the arguments as an object, or as the model's text when that is not JSON."""
    try:
        return decode_json(call.arguments)
    except NOT_JSON:
        return call.arguments


def _response(result: ToolResult) -> object:
    if all(isinstance(item, str) for item in result.content):
        return "".join(map(str, result.content))
    return list(_parts(result.content))


def _parts(content: Iterable[UserContent]) -> Iterator[_Part]:
    for item in content:
        match item:
            case str():
                yield _text(item)
            case BinaryContent():
                yield _media("blob", _kind(item.media_type), item.media_type, content="")
            case UploadedFile():
                yield _media("file", _kind(item.media_type), item.media_type, file_id=item.file_id)
            case FileUrl():
                yield _media("uri", _kind_of_url(item), item.media_type, uri=item.url)


def _media(type: str, modality: str, media_type: str | None, **where: str) -> _Part:
    known = {} if media_type is None else {"mime_type": media_type}
    return {"type": type, "modality": modality, **known, **where}


def _kind(media_type: str | None) -> str:
    kind = (media_type or "").partition("/")[0]
    return kind if kind in ("image", "audio", "video") else "document"


def _kind_of_url(url: FileUrl) -> str:
    match url:
        case ImageUrl():
            return "image"
        case AudioUrl():
            return "audio"
        case VideoUrl():
            return "video"
        case _:
            return _kind(url.media_type)


def _text(text: str) -> _Part:
    return {"type": "text", "content": text}


def _definition(tool: ToolDefinition) -> Mapping[str, Any]:
    parameters: object = dict(tool.parameters)
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": parameters,
    }


AttributeItem: TypeAlias = str | bool | int | float | Sequence[str]
Attributes: TypeAlias = dict[str, AttributeItem]

_PORTS = {"http": 80, "https": 443}


class SomeEndpoint(Protocol):
    """The endpoint of a request."""

    @property
    def base_url(self) -> SplitResult:
        """The URL below which the protocol's paths lie."""
        ...

    def secrets(self) -> tuple[str, ...]:
        """The texts that must not appear anywhere."""
        ...


@runtime_checkable
class HasEndpoint(Protocol):
    """A model with an endpoint, beside `ports.Model`."""

    def endpoint_of(self, settings: Mapping[str, Any]) -> SomeEndpoint:
        """Return the endpoint of a request with these settings.

        Raises:
            ConfigurationError: A setting is bad.
        """
        ...


def find_settings(model: Model | None, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings that a request is sent with, as far as its model reports them; see `HasSettings`.

    `extra_body` overrides the other settings, as it does in the request itself.

    Args:
        model: The model; None for an agent of the user's own.
        settings: The settings of the request.
    """
    with suppress(ConfigurationError):  # sending the request raises it as well
        settings = model.settings_of(settings) if isinstance(model, HasSettings) else settings
    extra: object = settings.get("extra_body")
    return {**settings, **extra} if is_json_mapping(extra) else settings


def find_endpoint(model: Model | None, settings: Mapping[str, Any]) -> SomeEndpoint | None:
    """Return the endpoint of a request; None when it is unknown, or when a bad setting prevents sending.

    Args:
        model: The model; None for an agent of the user's own.
        settings: The settings of the request.
    """
    try:
        return model.endpoint_of(settings) if isinstance(model, HasEndpoint) else None
    except ConfigurationError:  # sending the request raises it as well
        return None


def model_attributes(names: Names, model_id: str, endpoint: SomeEndpoint | None) -> Attributes:
    """Return the attributes of a model that are known before its request, by which samplers may decide.

    Args:
        names: The names to use.
        model_id: The model's id, `provider:name`.
        endpoint: The endpoint of the request, if it is known.
    """
    prefix, separator, name = model_id.partition(":")
    attributes: Attributes = {
        names.provider: PROVIDERS.get(prefix, prefix),
        names.request_model: name if separator else model_id,
    }
    if endpoint is not None and endpoint.base_url.hostname:
        url = endpoint.base_url
        attributes[names.server_address] = str(url.hostname)
        attributes[names.server_port] = url.port or _PORTS[url.scheme]
    return attributes


def settings_attributes(names: Names, settings: Mapping[str, Any]) -> Attributes:
    """Return the attributes of a request's settings. A setting of a wrong type is left out.

    Args:
        names: The names to use.
        settings: The settings that `find_settings` gave.
    """
    attributes: Attributes = {}
    for setting, name in names.request_numbers:
        if (number := _number(settings.get(setting))) is not None:
            attributes[name] = float(number)
    for setting, name in names.request_integers:
        if (number := _number(settings.get(setting))) is not None:
            attributes[name] = int(number)
    if limit := find_output_limit(settings):
        attributes[names.request_max_tokens] = limit
    stop: object = settings.get("stop")
    texts = [stop] if isinstance(stop, str) else stop
    if is_list_or_tuple(texts) and texts:
        attributes[names.request_stop] = [str(text) for text in texts]
    effort = settings.get("reasoning_effort")
    if names.request_reasoning is not None and isinstance(effort, str):
        attributes[names.request_reasoning] = effort
    return attributes


def error_attributes(names: Names, error_type: str | None) -> Attributes:
    """Return the attributes of the end of a span.

    Args:
        names: The names to use.
        error_type: The class of the error that ended it; None when it succeeded.
    """
    return {} if error_type is None else {names.error_type: error_type}


def usage_attributes(names: Names, usage: Usage | None) -> dict[str, int]:
    """Return the attributes of usage; none when it is unknown. Unused kinds, such as caches, are left out.

    Args:
        names: The names to use.
        usage: The usage, if any was reported.
    """
    if usage is None or not (usage.is_complete or usage.input_tokens or usage.output_tokens):
        return {}
    attributes = {names.input_tokens: usage.input_tokens, names.output_tokens: usage.output_tokens}
    parts = (
        (names.cache_read_tokens, usage.cache_read_tokens),
        (names.cache_write_tokens, usage.cache_write_tokens),
        (names.reasoning_tokens, usage.reasoning_tokens),
    )
    attributes.update((name, tokens) for name, tokens in parts if tokens)
    return attributes


def _number(value: object) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None

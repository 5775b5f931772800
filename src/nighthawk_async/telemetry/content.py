"""Messages, instructions and tools in the shapes that the conventions define. Pure.

Spans hold them as JSON texts, events as what those texts say.

Source: the JSON Schemas beside the conventions' pages. Media stand by their kind, type and address; bytes are
left out.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ..catalog.telemetry_names import Names
from ..types.content import AudioUrl, BinaryContent, FileUrl, ImageUrl, UploadedFile, UserContent, VideoUrl
from ..types.messages import AssistantMessage, Message, ToolCall, ToolResult, UserMessage
from ..types.model import ModelRequest
from ..types.tools import ToolDefinition
from ..wire.redaction import redact
from ..wire.response_json import NOT_JSON, decode_json

__all__ = ["output_content", "redacted_json", "request_content", "result_content", "structured"]

_Part = dict[str, Any]


def redacted_json(text: str, secrets: Sequence[str]) -> str:
    """JSON, free of secrets: in its texts, and in texts that are JSON again, such as results of tools.

    Args:
        text: The JSON.
        secrets: The secrets that are known.
    """
    once = [_escaped(secret) for secret in secrets]
    text = text.encode(errors="backslashreplace").decode()  # no exporter takes half a character
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
        reason: Why it ended, as its span says; None when it broke off.
        secrets: The secrets that are known.
    """
    output = _message(message)
    if names.messages_tell_finish_reason:
        output["finish_reason"] = "error" if reason is None else reason
    return {names.output_messages: _json([output], secrets)}


def result_content(result: ToolResult, secrets: Sequence[str]) -> str:
    """Return the result of a tool call.

    Args:
        result: The result.
        secrets: The secrets that are known.
    """
    return _json(_response(result), secrets)


def structured(content: Mapping[str, str]) -> dict[str, Any]:
    """Content as events hold it.

    Args:
        content: JSON texts, by attribute.
    """
    return {name: _decoded(text) for name, text in content.items()}


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except NOT_JSON:  # where what was redacted was more than a text in it
        return text


def _json(value: object, secrets: Sequence[str]) -> str:
    try:
        text = msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # half a character, which models write now and then, and no JSON holds
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


def _arguments(call: ToolCall) -> object:
    """The arguments as an object; as the text that the model wrote where that is no JSON."""
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

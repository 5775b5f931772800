"""A model request as the body of a Chat Completions request. Floor 1.

What stays the same during a conversation comes first in the body and always in the same order, so that the
bodies of successive requests share a prefix byte for byte.
"""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from ..errors import ConfigurationError
from ..types.content import UserContent
from ..types.messages import AssistantMessage, Message, ToolCall, ToolResult, ToolResultsMessage, UserMessage
from ..types.model import ModelRequest, ResponseFormat
from ..types.settings import OpenAIChatSettings
from ..types.tools import ToolDefinition
from .media import describe_media
from .openai_chat_content import encode_media, encode_user_content
from .setting_checks import checked_settings, refuse_reserved_settings
from .strict_schema import is_strict_schema
from .transport_settings import merge_extra_body

__all__ = ["encode_body"]

_RESERVED = frozenset({"messages", "model", "n", "response_format", "tool_choice", "tools"})


def encode_body(request: ModelRequest, *, model_name: str) -> bytes:
    """The body of a Chat Completions request.

    Args:
        request: The request.
        model_name: The model's name at the endpoint.

    Raises:
        ConfigurationError: A setting is not JSON or has a name that only the library writes, the request
            demands a tool call without offering a tool, or it holds content that the protocol cannot carry.
    """
    body: dict[str, Any] = {"model": model_name, "stream": True, "stream_options": {"include_usage": True}}
    refuse_reserved_settings(request.settings, _RESERVED)
    body |= checked_settings(request.settings, OpenAIChatSettings)
    if body["stream"] is False:
        del body["stream_options"]
    body |= _encode_tools(request)
    if request.response_format is not None:
        body["response_format"] = _encode_response_format(request.response_format)
    body["messages"] = _encode_messages(request)
    return _to_json(merge_extra_body(body, request.settings))


def _encode_tools(request: ModelRequest) -> dict[str, Any]:
    if not request.tools:
        if request.tool_choice == "required":
            raise ConfigurationError("The request demands a tool call but offers no tool.")
        return {}
    tools: dict[str, Any] = {"tools": [_encode_tool(tool) for tool in request.tools]}
    # "auto" is every server's default, and some refuse to be told so.
    return tools if request.tool_choice == "auto" else tools | {"tool_choice": request.tool_choice}


def _encode_tool(tool: ToolDefinition) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _encode_response_format(response_format: ResponseFormat) -> dict[str, Any]:
    schema = response_format.schema
    return {
        "type": "json_schema",
        "json_schema": {"name": response_format.name, "schema": schema, "strict": is_strict_schema(schema)},
    }


def _encode_messages(request: ModelRequest) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if request.system_prompt:
        messages.append({"role": "system", "content": request.system_prompt})
    for message in request.messages:
        messages.extend(_encode_message(message))
    return messages


def _encode_message(message: Message) -> list[dict[str, Any]]:
    match message:
        case UserMessage():
            return [{"role": "user", "content": encode_user_content(message.content)}]
        case AssistantMessage():
            return [_encode_assistant_message(message)]
        case ToolResultsMessage():
            return _encode_tool_results(message)


def _encode_assistant_message(message: AssistantMessage) -> dict[str, Any]:
    if not message.tool_calls:
        return {"role": "assistant", "content": message.text}
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": _valid_arguments(call)},
        }
        for call in message.tool_calls
    ]
    return {"role": "assistant", "content": message.text or None, "tool_calls": calls}


def _valid_arguments(call: ToolCall) -> str:
    """The arguments as the model wrote them, or wrapped where they are no JSON object.

    Servers that put past calls into a chat template parse them, and answer with an error where they cannot.
    """
    try:
        arguments: object = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        arguments = None
    if isinstance(arguments, dict):
        return call.arguments
    return _to_json({"malformed_arguments": call.arguments}).decode()


def _encode_tool_results(message: ToolResultsMessage) -> list[dict[str, Any]]:
    """One message per result and, where results hold media, a user message with these in the same order.

    Tool messages carry text alone in this protocol, and nothing may stand between them.
    """
    encoded: list[dict[str, Any]] = []
    attachments: list[dict[str, Any]] = []
    for result in message.results:
        encoded.append(_encode_tool_result(result, attachments))
    if attachments:
        encoded.append({"role": "user", "content": attachments})
    return encoded


def _encode_tool_result(result: ToolResult, attachments: list[dict[str, Any]]) -> dict[str, Any]:
    texts = [_project_item(item, result, attachments) for item in result.content]
    return {"role": "tool", "tool_call_id": result.call_id, "content": "\n".join(texts)}


def _project_item(item: UserContent, result: ToolResult, attachments: list[dict[str, Any]]) -> str:
    if isinstance(item, str):
        return item
    part = encode_media(item)
    if part is None:
        return f"[{describe_media(item)}; it cannot be shown to this model]"
    title = f"[{describe_media(item)}; result of {result.name}, call {result.call_id}]"
    attachments += [{"type": "text", "text": title}, part]
    return f"[{describe_media(item)}; shown in the next message]"


def _to_json(body: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return msgspec.json.encode(_without_lone_surrogates(body))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"The model settings or tool schemas hold a value that is not JSON: {error}"
        ) from error


def _without_lone_surrogates(value: object) -> object:
    """The same value with every lone surrogate, which no UTF-8 text may hold, replaced by U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value).items()
        return {_without_lone_surrogates(key): _without_lone_surrogates(each) for key, each in entries}
    if isinstance(value, list | tuple):
        return [_without_lone_surrogates(each) for each in cast("list[object]", value)]
    return value

"""Requests as JSON bytes, for any content of the conversation.

A conversation holds texts from any source, and arguments as models wrote them. Neither may break a request.
"""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from ..errors import ConfigurationError
from ..types.model import ModelRequest, NamedToolChoice
from .response_json import NOT_JSON, decode_json

NO_TEXT = "[no text]"
"""The placeholder for an empty text, if the endpoint refuses an empty one."""


def check_tool_choice(request: ModelRequest) -> None:
    """Refuse a request that demands a call which its tools do not allow.

    Args:
        request: The request.

    Raises:
        ConfigurationError: It demands a call and offers no tool, or not the one that it demands.
    """
    choice = request.tool_choice
    if not request.tools and choice not in ("auto", "none"):
        raise ConfigurationError("The request demands a tool call but offers no tool.")
    if isinstance(choice, NamedToolChoice) and all(tool.name != choice.name for tool in request.tools):
        raise ConfigurationError(f"The request demands the tool {choice.name!r} but does not offer it.")


def request_json(body: Mapping[str, Any]) -> bytes:
    """The body of a request as JSON, its entries in their order.

    Args:
        body: The body.

    Raises:
        ConfigurationError: It holds a value that is not JSON.
    """
    try:
        return msgspec.json.encode(body, enc_hook=_plain)
    except UnicodeEncodeError:
        return msgspec.json.encode(_without_lone_surrogates(body), enc_hook=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"The model settings or tool schemas hold a value that is not JSON: {error}"
        ) from error


def arguments_object(arguments: str) -> msgspec.Raw | dict[str, Any]:
    """The arguments of a past tool call, for protocols that carry them as an object.

    The model's text is sent back unchanged, byte for byte, if it is a JSON object. Anything else is wrapped,
    so that the model sees what it wrote and the endpoint does not refuse the conversation.

    Args:
        arguments: The text of `ToolCall.arguments`.
    """
    try:
        decoded: object = decode_json(arguments)
    except NOT_JSON:
        decoded = None
    return msgspec.Raw(arguments) if isinstance(decoded, dict) else {"malformed_arguments": arguments}


def valid_arguments(arguments: str) -> str:
    """The arguments of a past tool call, for protocols that carry them as a text.

    As `arguments_object`: servers that put past calls into a chat template parse them, and answer with an
    error if they cannot.

    Args:
        arguments: The text of `ToolCall.arguments`.
    """
    sent = arguments_object(arguments)
    return request_json(sent).decode() if isinstance(sent, dict) else arguments


def _plain(value: object) -> object:
    """A mapping of any kind, such as a read-only view, as a dictionary."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))
    raise TypeError(f"{type(value).__name__} is not JSON")


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

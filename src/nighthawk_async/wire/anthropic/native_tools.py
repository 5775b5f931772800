"""Native tools in Anthropic Messages: their form in requests, and their calls in answers.

A call is a `server_tool_use` block, and its result another block, which may come in the next response only:
after a pause, or when the same response calls a tool of the library, whose result the provider awaits first.
Blocks go back unchanged. A conversation stays in the container in which its code has run.

Source: `web_search_tool_20250305_param.py`, `code_execution_tool_20250825_param.py`,
`server_tool_use_block.py` and the `…_tool_result_block.py` of the official SDK.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...errors import ConfigurationError
from ...types.messages import AssistantMessage, Message, ToolDefinition, UserMessage
from ...types.model import ModelEvent
from ...types.native_tools import CodeExecution, NativeCallFinished, NativeCallStarted, NativeTool, WebSearch
from ..json_text import as_object
from ..native_tools import location_fields, refuse_options, refuse_tool, shown_json

_PROTOCOL = "Anthropic Messages"

OWN_CALL = "server_tool_use"
"""The type of a call that the provider carries out itself."""
CONTAINER = "container"
"""The type of an item that is no block: the container of the response, which a request names elsewhere."""

_MCP_CALL = "mcp_tool_use"
OWN_CALLS = (OWN_CALL, _MCP_CALL)
"""The types of the calls that the provider carries out itself, those of a remote MCP server included."""

_RESULT_ENDING = "_tool_result"
_SEARCHES_FOR_TOOLS = "tool_search_"


def encode_native_tools(tools: Sequence[NativeTool], own: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
    """The native tools as entries of `tools`.

    Args:
        tools: The native tools.
        own: The other tools of the request.

    Raises:
        ConfigurationError: The protocol lacks a tool or one of its options, or another tool has its name.
    """
    names = {tool.name for tool in own}
    for tool in tools:
        if tool.name in names:
            raise ConfigurationError(
                f"The request offers a tool named {tool.name!r} beside the native one of the "
                f"{_PROTOCOL} protocol, which has the same name; rename the tool."
            )
    return [_encode(tool) for tool in tools]


def _encode(tool: NativeTool) -> dict[str, Any]:
    match tool:
        case WebSearch():
            refuse_options(tool, "context_size", protocol=_PROTOCOL)
            return {"type": "web_search_20250305", "name": tool.name, **_web_search_fields(tool)}
        case CodeExecution():
            return {"type": "code_execution_20250825", "name": tool.name}
        case _:
            raise refuse_tool(
                tool, protocol=_PROTOCOL, instead="OpenAI Responses and the Gemini API have it."
            )


def _web_search_fields(tool: WebSearch) -> dict[str, Any]:
    encoded: dict[str, Any] = {}
    if tool.max_uses is not None:
        encoded["max_uses"] = tool.max_uses
    for name in ("allowed_domains", "blocked_domains"):
        if domains := getattr(tool, name):
            encoded[name] = list(domains)
    if tool.user_location is not None:
        encoded["user_location"] = {"type": "approximate", **location_fields(tool.user_location)}
    return encoded


def encode_container(tools: Sequence[NativeTool], messages: Sequence[Message]) -> dict[str, str]:
    """The container of a request: that of the setting, else that of the responses since the last question.

    Args:
        tools: The native tools.
        messages: The conversation, oldest first.
    """
    runs_code = next((tool for tool in tools if isinstance(tool, CodeExecution)), None)
    if runs_code is None:
        return {}
    found = runs_code.container or _last_container(messages)
    return {} if found is None else {"container": found}


def _last_container(messages: Sequence[Message]) -> str | None:
    for message in reversed(messages):
        if isinstance(message, UserMessage):  # an older one may have expired
            return None
        content = message.provider_content if isinstance(message, AssistantMessage) else None
        for item in content.items if content is not None else ():
            if item.get("type") == CONTAINER:
                return str(item.get("id"))
    return None


def is_own_result(block: Mapping[str, Any]) -> bool:
    """Whether a block is the result of a call that the provider has carried out itself.

    Args:
        block: The block.
    """
    return str(block.get("type")).endswith(_RESULT_ENDING) and "tool_use_id" in block


class NativeCalls:
    """The native calls of one response."""

    def __init__(self) -> None:
        self._arguments: dict[str, tuple[str, str]] = {}
        self.code_executions = 0
        """The number of calls that run code or edit files in the container."""

    def take(self, block: Mapping[str, Any]) -> list[ModelEvent]:
        """Take the whole form of a block; others than native calls and their results are ignored.

        Args:
            block: The block.
        """
        if block.get("type") in OWN_CALLS:
            return self._start(block)
        return [self._finished(block)] if self._is_shown(block) else []

    def _start(self, block: Mapping[str, Any]) -> list[ModelEvent]:
        name, id = block.get("name"), block.get("id")
        if not isinstance(name, str) or not isinstance(id, str):
            return []
        if block["type"] == _MCP_CALL:
            shown = shown_json(as_object(block.get("input")) or None)
            self._arguments[id] = (name, shown)
            return [NativeCallStarted(id=id, name=name, arguments=shown)]
        if name.startswith(_SEARCHES_FOR_TOOLS):
            return []
        self.code_executions += name.endswith("code_execution")
        arguments = as_object(block.get("input"))
        if name != _shown_name(name):
            arguments = {"tool": name, **arguments}
        shown = shown_json(arguments or None)
        self._arguments[id] = (_shown_name(name), shown)
        return [NativeCallStarted(id=id, name=_shown_name(name), arguments=shown)]

    def _is_shown(self, block: Mapping[str, Any]) -> bool:
        return is_own_result(block) and not str(block["type"]).startswith(_SEARCHES_FOR_TOOLS)

    def _finished(self, block: Mapping[str, Any]) -> NativeCallFinished:
        id, content = str(block["tool_use_id"]), block.get("content")
        known = _shown_name(str(block["type"]).removesuffix(_RESULT_ENDING))
        name, arguments = self._arguments.get(id, (known, ""))
        is_error = block.get("is_error") is True or str(as_object(content).get("type")).endswith("_error")
        return NativeCallFinished(
            id=id, name=name, arguments=arguments, result=shown_json(content), is_error=is_error
        )


def _shown_name(name: str) -> str:
    """The name of the tool: the provider runs code by several of them."""
    return "code_execution" if name.endswith("_code_execution") else name


def calls_in(items: Iterable[Mapping[str, Any]]) -> list[ModelEvent]:
    """The native calls in the blocks of a whole response, and their results.

    Args:
        items: The blocks.
    """
    calls = NativeCalls()
    return [event for block in items for event in calls.take(block)]

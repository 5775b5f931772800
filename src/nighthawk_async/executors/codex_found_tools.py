"""Tools that a step finds while it runs: the tools of a thread of Codex are fixed, so one calls them all."""

from typing import Any

import msgspec
from msgspec import Struct

from ..types.messages import ToolCall, ToolDefinition
from .codex_messages import ToolCallRequest
from .tool_search import FIND_TOOL_NAME

FOUND_TOOL_CALLER = ToolDefinition(
    name="nh_call_found_tool",
    description=f"Call a tool that {FIND_TOOL_NAME} has found, in a later response.",
    parameters={
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The name of the tool."},
            "arguments": {"type": "object", "description": "Its arguments."},
        },
        "required": ["name", "arguments"],
        "additionalProperties": False,
    },
)
"""The tool that calls those that were found."""


class _Arguments(Struct, frozen=True):
    name: str
    arguments: dict[str, Any] = {}


def called_tool(request: ToolCallRequest) -> ToolCall:
    """The call that a request of Codex means.

    Args:
        request: The request.
    """
    if request.tool == FOUND_TOOL_CALLER.name:
        try:
            found = msgspec.json.decode(request.arguments, type=_Arguments)
        except msgspec.MsgspecError:
            pass  # the call is refused, as that of any unknown tool
        else:
            arguments = msgspec.json.encode(found.arguments).decode()
            return ToolCall(id=request.call_id, name=found.name, arguments=arguments)
    return ToolCall(id=request.call_id, name=request.tool, arguments=request.arguments)

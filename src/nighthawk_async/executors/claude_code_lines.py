"""The lines that Claude Code reads. No I/O."""

import base64
from collections.abc import Sequence
from typing import Any

import msgspec

from ..types.messages import (
    BinaryContent,
    ImageUrl,
    MultimodalContent,
    ToolDefinition,
    ToolResult,
    UserContent,
)
from ..wire.media import WEB_SCHEMES, describe_media, has_scheme

SERVER = "nighthawk"
"""The name of the server of tools that Claude Code sees in its input and output."""

TOOL_NAMES_NOTE = (
    f"In this session the names of the tools above have the prefix `mcp__{SERVER}__`: the block ends when "
    f"you call `mcp__{SERVER}__nh_outcome`."
)
"""The end of the system prompt."""

_HOOK_SECONDS = 1_000_000
"""The time that a hook may take: people are asked in hooks, and may answer days later."""

_HOOKS = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch")
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_PDF = "application/pdf"

encode = msgspec.json.encode


def initialize_line(system_prompt: str, *, replaces: bool) -> bytes:
    """The first line: the system prompt, and the hooks that Claude Code calls.

    Args:
        system_prompt: The system prompt.
        replaces: Whether it replaces the one of Claude Code; otherwise it is appended to it.
    """
    hooks = {
        name: [{"matcher": None, "hookCallbackIds": [name], "timeout": _HOOK_SECONDS}] for name in _HOOKS
    }
    prompt = {"systemPrompt" if replaces else "appendSystemPrompt": system_prompt}
    return _request("initialize", {"subtype": "initialize", "hooks": hooks, **prompt})


def interrupt_line() -> bytes:
    """The line that ends what Claude Code does."""
    return _request("interrupt", {"subtype": "interrupt"})


def tools_changed_line(number: int) -> bytes:
    """The line that makes Claude Code ask for the tools again.

    It ignores the notification of MCP for this, but asks all servers when there is a new one, which has none.
    It goes on meanwhile: see `tools_known_line`.

    Args:
        number: The number of times that this was asked for; names the new server.
    """
    servers = {name: {"type": "sdk", "name": name} for name in (SERVER, f"{SERVER}_{number}")}
    return _request(f"tools_{number}", {"subtype": "mcp_set_servers", "servers": servers})


def tools_known_line() -> bytes:
    """The line that asks for the tools that Claude Code knows by now."""
    return _request("tools_known", {"subtype": "mcp_status"})


def user_line(content: Sequence[UserContent]) -> bytes:
    """The line with a message of the user.

    Args:
        content: The message.
    """
    message = {"role": "user", "content": content_blocks(content)}
    return encode({"type": "user", "message": message, "parent_tool_use_id": None, "session_id": "default"})


def hook_line(request_id: str, output: dict[str, Any] | None = None) -> bytes:
    """The answer to a hook; without output, Claude Code goes on.

    Args:
        request_id: The id of the request.
        output: The output of the hook.
    """
    return _response(request_id, output or {})


def mcp_line(request_id: str, message_id: object, result: dict[str, Any]) -> bytes:
    """The answer to a message of MCP.

    Args:
        request_id: The id of the request.
        message_id: The id of the message.
        result: The result.
    """
    return _response(
        request_id, {"mcp_response": {"jsonrpc": "2.0", "id": message_id or 0, "result": result}}
    )


def tool_result_line(request_id: str, message_id: object, result: ToolResult) -> bytes:
    """The answer to the call of a tool of the step.

    Args:
        request_id: The id of the request.
        message_id: The id of the message.
        result: The result.
    """
    content = [_tool_block(item) for item in result.content]
    return mcp_line(request_id, message_id, {"content": content, "isError": result.is_error})


def admitted_hook_line(request_id: str, arguments: object | None) -> bytes:
    """The answer to `PreToolUse` for a call that is allowed; the permission mode still applies.

    Args:
        request_id: The id of the request.
        arguments: Its arguments, where they were changed; None otherwise.
    """
    if arguments is None:
        return hook_line(request_id)
    output = {"hookEventName": "PreToolUse", "updatedInput": arguments}
    return hook_line(request_id, {"hookSpecificOutput": output})


def refused_hook_line(request_id: str, reason: str) -> bytes:
    """The answer to `PreToolUse` for a call that is refused.

    Args:
        request_id: The id of the request.
        reason: The reason, for the model.
    """
    output = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": reason,
    }
    return hook_line(request_id, {"hookSpecificOutput": output})


def rewritten_hook_line(request_id: str, output: object) -> bytes:
    """The answer to `PostToolUse` that replaces the result of the call.

    Args:
        request_id: The id of the request.
        output: The result, in the form that the tool has.
    """
    specific = {"hookEventName": "PostToolUse", "updatedToolOutput": output}
    return hook_line(request_id, {"hookSpecificOutput": specific})


def permission_line(request_id: str, *, arguments: object, refusal: str | None) -> bytes:
    """The answer to a call that Claude Code asks about.

    Args:
        request_id: The id of the request.
        arguments: Its arguments.
        refusal: The reason why it is refused; None if it is allowed.
    """
    if refusal is not None:
        return _response(request_id, {"behavior": "deny", "message": refusal})
    return _response(request_id, {"behavior": "allow", "updatedInput": arguments})


def unknown_request_line(request_id: str) -> bytes:
    """The answer to a request that is not understood."""
    response = {"subtype": "error", "request_id": request_id, "error": "unsupported request"}
    return encode({"type": "control_response", "response": response})


def tool_description(tool: ToolDefinition) -> dict[str, Any]:
    """A tool as a server of MCP lists it.

    Claude Code makes the calls of one response one after the other, each when the one before has ended, but
    for read-only tools. The step keeps the order of calls by itself.

    Args:
        tool: The tool.
    """
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": {**tool.parameters},
        "annotations": {"readOnlyHint": True},
    }


def content_blocks(content: Sequence[UserContent]) -> list[dict[str, Any]]:
    """A message as blocks. Images and PDFs are sent as they are, other media by their descriptions.

    Args:
        content: The message.
    """
    return [_block(item) for item in content]


def is_sent_in_prompt(item: MultimodalContent) -> bool:
    """Whether a message can hold a medium as it is.

    Args:
        item: The medium.
    """
    if isinstance(item, BinaryContent):
        return item.media_type in _IMAGES or item.media_type == _PDF
    return isinstance(item, ImageUrl) and has_scheme(item, WEB_SCHEMES)


def is_sent_in_result(item: MultimodalContent) -> bool:
    """Whether the result of a tool can hold a medium as it is.

    Args:
        item: The medium.
    """
    return isinstance(item, BinaryContent) and item.media_type in _IMAGES


def _block(item: UserContent) -> dict[str, Any]:
    if isinstance(item, str):
        return {"type": "text", "text": item}
    if not is_sent_in_prompt(item):
        return {"type": "text", "text": f"[{describe_media(item)}]"}
    if isinstance(item, BinaryContent):
        kind = "image" if item.media_type in _IMAGES else "document"
        data = base64.b64encode(item.data).decode()
        return {"type": kind, "source": {"type": "base64", "media_type": item.media_type, "data": data}}
    assert isinstance(item, ImageUrl)
    return {"type": "image", "source": {"type": "url", "url": item.url}}


def _tool_block(item: UserContent) -> dict[str, Any]:
    if isinstance(item, BinaryContent) and item.media_type in _IMAGES:
        data = base64.b64encode(item.data).decode()
        return {"type": "image", "data": data, "mimeType": item.media_type}
    return {"type": "text", "text": item if isinstance(item, str) else f"[{describe_media(item)}]"}


def _request(request_id: str, request: dict[str, Any]) -> bytes:
    return encode({"type": "control_request", "request_id": request_id, "request": request})


def _response(request_id: str, response: dict[str, Any]) -> bytes:
    wrapped = {"subtype": "success", "request_id": request_id, "response": response}
    return encode({"type": "control_response", "response": wrapped})

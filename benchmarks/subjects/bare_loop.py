"""A step as little code as can do it: a loop over Chat Completions written by hand. It knows no HTTP client.

The floor for whatever does more. Nothing is checked, retried, limited in time or recorded.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

from .harness import EXPECTED, TOOL_RESULT

__all__ = ["SCRIPTS", "Ask", "converse", "message_of_stream", "request_body"]

Ask: TypeAlias = Callable[[list[dict[str, Any]]], Awaitable[dict[str, Any]]]
"""Sends the messages so far, and gives the assistant's message."""

SCRIPTS = {
    "assign": {
        "turns": [
            {"calls": [{"name": "set_result", "arguments": {"value": EXPECTED}}]},
            {"text": TOOL_RESULT},
        ]
    }
}

_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "set_result",
            "description": "Set the result.",
            "parameters": {
                "type": "object",
                "properties": {"value": {"type": "integer"}},
                "required": ["value"],
                "additionalProperties": False,
            },
        },
    }
]


async def converse(ask: Ask) -> None:
    """One step of kind "assign": set the result as the model says, and let it end.

    Args:
        ask: Sends the messages.
    """
    result: object = None
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Set the result with the tool, then say that you are done."},
        {"role": "user", "content": "Set the result to the answer."},
    ]
    while True:
        message = await ask(messages)
        messages.append(message)
        if not message.get("tool_calls"):
            break
        for call in message["tool_calls"]:
            result = json.loads(call["function"]["arguments"])["value"]
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": "ok"})
    if result != EXPECTED:
        raise AssertionError("the variable got another value")


def request_body(messages: list[dict[str, Any]], *, is_streamed: bool) -> bytes:
    """The body of a request."""
    body = {"model": "gpt-5.4-nano", "messages": messages, "tools": _TOOLS, "stream": is_streamed}
    return json.dumps(body).encode()


async def message_of_stream(lines: AsyncIterator[str]) -> dict[str, Any]:
    """The assistant's message, put together from the lines of a stream."""
    content = ""
    calls: dict[int, dict[str, Any]] = {}
    async for line in lines:
        if not line.startswith("data: {"):
            continue
        for choice in json.loads(line[6:])["choices"]:
            delta = choice["delta"]
            content += delta.get("content") or ""
            for part in delta.get("tool_calls") or ():
                call = calls.setdefault(part["index"], part)
                if call is not part:
                    call["function"]["arguments"] += part["function"]["arguments"]
    message: dict[str, Any] = {"role": "assistant", "content": content or None}
    return {**message, "tool_calls": list(calls.values())} if calls else message

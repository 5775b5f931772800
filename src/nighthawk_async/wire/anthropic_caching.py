"""Breakpoints that tell the provider which prefixes of a request to cache.

The prompt runs from the tools over the system prompt to the messages. A breakpoint is a mark on a block; the
prefix up to it is cached, and read by a later request whose prefix has the same content. The mark itself is
no part of the content: it is added as the last entry of a block that stays otherwise as it is, so moving the
mark on to a later block changes nothing that was cached.

There may be four. The tools and the system prompt stay the same for a whole run. The end of the conversation
is what the next request will read. The end of what came before the last response is what the last request
wrote, so that it is found even when a response and its results have more blocks than the provider looks back
over.

Source: "Prompt caching" of the provider's documentation, and `cache_control_ephemeral_param.py` of the
official SDK.
"""

from typing import Any

from ..types.model import ModelCapabilities
from ..types.settings import CacheLifetime
from .anthropic_messages import Block

__all__ = ["mark_breakpoints"]

# The endpoint refuses a mark on these.
_UNMARKED = frozenset({"redacted_thinking", "thinking"})


def mark_breakpoints(
    body: dict[str, Any], wanted: bool | CacheLifetime | None, capabilities: ModelCapabilities
) -> None:
    """Mark the body's breakpoints, where caching is on.

    Args:
        body: The body with its `tools`, `system` and `messages`, whose lists change.
        wanted: The setting `prompt_caching`.
        capabilities: What the model can do, which decides when nothing is set.
    """
    if not (capabilities.prompt_caching if wanted is None else wanted):
        return
    # Five minutes is what the mark alone means.
    mark = {"type": "ephemeral", "ttl": "1h"} if wanted == "1h" else {"type": "ephemeral"}
    _mark_last(body.get("tools", []), mark)
    _mark_last(body.get("system", []), mark)
    messages: list[dict[str, Any]] = body["messages"]
    for position in {len(messages) - 1, _position_before_last_response(messages)}:
        if position >= 0:
            _mark_last(messages[position]["content"], mark)


def _position_before_last_response(messages: list[dict[str, Any]]) -> int:
    """The position of the message before the last response; -1 when there is none."""
    for position in range(len(messages) - 1, 0, -1):
        if messages[position]["role"] == "assistant":
            return position - 1
    return -1


def _mark_last(blocks: list[Block], mark: dict[str, str]) -> None:
    for position in range(len(blocks) - 1, -1, -1):
        if blocks[position].get("type") not in _UNMARKED:
            blocks[position] = {**blocks[position], "cache_control": mark}
            return

"""Conversations that Anthropic Messages refuses.

Source: the error messages of the real endpoint; only what a client can get wrong in sending a conversation
back is checked.
"""

from collections.abc import Set
from typing import Any, TypeAlias

from .model_server_protocol import as_objects, seal

__all__ = ["find_fault"]

_Turn: TypeAlias = tuple[str, list[dict[str, Any]]]

_NO_TURN: _Turn = ("", [])


def find_fault(body: dict[str, Any], calls_after_thinking: Set[str]) -> str | None:
    """Return the reason why a real endpoint would refuse a request; None for a good one.

    Args:
        body: The request's body.
        calls_after_thinking: The ids of the tool calls that the server sent after a thinking block.
    """
    if "max_tokens" not in body:
        return "max_tokens: Field required"
    turns = _merged_turns(body)
    for number, turn in enumerate(turns):
        before, after = (
            turns[place] if 0 <= place < len(turns) else _NO_TURN for place in (number - 1, number + 1)
        )
        is_current = not any(map(_is_question, turns[number + 1 :]))
        fault = (
            _find_fault_in_blocks(turn)
            or _find_wrong_pairing(before, turn, after)
            or (_find_missing_thinking(turn, calls_after_thinking) if is_current else None)
        )
        if fault is not None:
            return f"messages.{number}: {fault}"
    return None


def _merged_turns(body: dict[str, Any]) -> list[_Turn]:
    """The messages; successive ones of the same role are one, as at the real endpoint."""
    turns: list[_Turn] = []
    for message in as_objects(body.get("messages")):
        role, content = str(message.get("role")), message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else as_objects(content)
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        else:
            turns.append((role, list(blocks)))
    return turns


def _is_question(turn: _Turn) -> bool:
    """Whether a turn asks something new: thinking before it need not come back."""
    role, blocks = turn
    return role == "user" and not any(block.get("type") == "tool_result" for block in blocks)


def _find_fault_in_blocks(turn: _Turn) -> str | None:
    if not turn[1]:
        return "all messages must have non-empty content except for the optional final assistant message"
    for block in turn[1]:
        if block.get("type") == "text" and not block.get("text"):
            return "text content blocks must be non-empty"
        if block.get("type") == "thinking" and block.get("signature") != seal(str(block.get("thinking"))):
            return "Invalid `signature` in `thinking` block"
    return None


def _find_wrong_pairing(before: _Turn, turn: _Turn, after: _Turn) -> str | None:
    asked = _ids(before, "tool_use", "id")
    for answered in _ids(turn, "tool_result", "tool_use_id"):
        if answered not in asked:
            return (
                f"unexpected `tool_use_id` found in `tool_result` blocks: {answered}. Each `tool_result` "
                "block must have a corresponding `tool_use` block in the previous message."
            )
    answers = _ids(after, "tool_result", "tool_use_id")
    missing = [each for each in _ids(turn, "tool_use", "id") if each not in answers]
    if missing:
        return (
            "`tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in "
            "the next message."
        )
    return None


def _find_missing_thinking(turn: _Turn, calls_after_thinking: Set[str]) -> str | None:
    has_thinking = False
    for block in turn[1]:
        has_thinking |= block.get("type") in ("thinking", "redacted_thinking")
        if block.get("type") == "tool_use" and block.get("id") in calls_after_thinking and not has_thinking:
            return (
                "content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When "
                "`thinking` is enabled, a final `assistant` message must start with a thinking block."
            )
    return None


def _ids(turn: _Turn, kind: str, field: str) -> list[str]:
    return [str(block.get(field)) for block in turn[1] if block.get("type") == kind]

"""A conversation as Anthropic messages.

Roles alternate: messages of the same role that follow each other become one. The results of all calls of a
response stand in one user message, before anything else that it says. Where the user's turn says nothing, a
placeholder does: without it, the conversation would end with the assistant, whose words the model would take
for its own and continue. Content is always a list of blocks, and the same message always gives the same
blocks, so that a longer conversation begins as the shorter one did.
"""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from ..errors import ConfigurationError
from ..types.messages import AssistantMessage, Message, ToolResult, ToolResultsMessage, UserMessage
from .anthropic_content import encode_result_content, encode_user_content, text_block
from .placeholders import NO_TEXT
from .request_json import arguments_object

__all__ = ["PROTOCOL_NAME", "Block", "encode_messages"]

PROTOCOL_NAME = "anthropic"

Block = dict[str, Any]

_GOOD_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NOT_IN_ID = re.compile(r"[^a-zA-Z0-9_-]")


def encode_messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The messages of a request.

    Args:
        messages: The conversation, oldest first.

    Raises:
        ConfigurationError: There is no message.
        UnsupportedContentError: The protocol cannot carry an item of a user message.
    """
    encoded: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        is_continued = bool(encoded) and encoded[-1]["role"] == role
        blocks = _encode_message(message)
        if role == "user" and not is_continued:
            blocks = blocks or text_block(NO_TEXT)
        if not blocks:  # the endpoint refuses empty messages
            continue
        if is_continued:
            encoded[-1]["content"] = _results_first([*encoded[-1]["content"], *blocks])
        else:
            encoded.append({"role": role, "content": blocks})
    if not encoded:
        raise ConfigurationError("The Anthropic Messages protocol needs a message.")
    return encoded


def _encode_message(message: Message) -> list[Block]:
    match message:
        case UserMessage():
            return encode_user_content(message.content)
        case AssistantMessage():
            return _encode_assistant_message(message)
        case ToolResultsMessage():
            return [_encode_result(result) for result in message.results]


def _encode_assistant_message(message: AssistantMessage) -> list[Block]:
    content = message.provider_content
    if content is not None and content.protocol == PROTOCOL_NAME:
        return [_with_valid_id(item) for item in content.items]
    calls = [
        {
            "type": "tool_use",
            "id": _valid_id(call.id),
            "name": call.name,
            "input": arguments_object(call.arguments),
        }
        for call in message.tool_calls
    ]
    return [*text_block(message.text), *calls]


def _encode_result(result: ToolResult) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": _valid_id(result.call_id)}
    if content := encode_result_content(result):
        block["content"] = content
    return block | {"is_error": True} if result.is_error else block


def _results_first(blocks: list[Block]) -> list[Block]:
    """The same blocks; the endpoint wants tool results right after the calls, before any text."""
    return sorted(blocks, key=lambda block: block["type"] != "tool_result")


def _with_valid_id(item: Mapping[str, Any]) -> Block:
    block = dict(item)
    if block.get("type") == "tool_use":
        block["id"] = _valid_id(str(block.get("id", "")))
    return block


def _valid_id(call_id: str) -> str:
    """The id as the endpoint takes it; ids of other protocols hold characters that it refuses.

    The same id always becomes the same, so calls and results still fit, and different ids stay different.
    """
    if _GOOD_ID.fullmatch(call_id):
        return call_id
    digest = sha256(call_id.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{_NOT_IN_ID.sub('_', call_id)[:40]}_{digest}"

"""A response of the model as an assistant message of Chat Completions.

Such a message goes back to the endpoint with every later request. The shape is made here alone, both for the
vocabulary's own messages and for what a decoder keeps in the provider's form (`wire.openai_chat_replay`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..types.messages import AssistantMessage, ToolCall
from .request_json import valid_arguments

__all__ = [
    "OTHER_REASONING_FIELD",
    "PROTOCOL",
    "assistant_message",
    "encode_assistant_message",
    "thinking_content",
]

PROTOCOL = "openai-chat"
"""The name of the protocol, in model ids and in `ProviderContent`."""

USUAL_REASONING_FIELD = "reasoning_content"
OTHER_REASONING_FIELD = "reasoning"
"""Where servers send reasoning text: vLLM renamed the field, and others followed either."""


def assistant_message(text: str, calls: Sequence[ToolCall]) -> dict[str, Any]:
    """The message in the form that every server knows.

    Args:
        text: The visible text.
        calls: The tool calls, in order.
    """
    if not calls:
        return {"role": "assistant", "content": text}
    tool_calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": valid_arguments(call.arguments)},
        }
        for call in calls
    ]
    return {"role": "assistant", "content": text or None, "tool_calls": tool_calls}


def thinking_content(reasoning: str, text: str) -> list[dict[str, Any]]:
    """The content of a message in which the reasoning stands as a part before the text, as with Mistral.

    Args:
        reasoning: The reasoning text.
        text: The visible text.
    """
    texts = [{"type": "text", "text": text}] if text else []
    return [{"type": "thinking", "thinking": [{"type": "text", "text": reasoning}]}, *texts]


def encode_assistant_message(message: AssistantMessage, *, replays_reasoning: bool) -> dict[str, Any]:
    """The message as a request carries it.

    It depends on nothing but this message, so that it stays the same in every request.

    Args:
        message: The message.
        replays_reasoning: Whether the model gets its reasoning text back, where the server sent it.
    """
    plain = assistant_message(message.text, message.tool_calls)
    encoded = {**(_own_content(message) or plain)}
    is_in_parts = isinstance(encoded.get("content"), list)
    if not replays_reasoning:
        encoded.pop(OTHER_REASONING_FIELD, None)
        return encoded | {"content": plain["content"]} if is_in_parts else encoded
    if not is_in_parts and OTHER_REASONING_FIELD not in encoded:
        # Even an empty text: DeepSeek refuses a conversation in which a call stands without its reasoning.
        encoded[USUAL_REASONING_FIELD] = message.reasoning
    return encoded


def _own_content(message: AssistantMessage) -> Mapping[str, Any] | None:
    """The message as a server of this protocol sent it, when it was kept."""
    content = message.provider_content
    return content.items[0] if content is not None and content.protocol == PROTOCOL else None

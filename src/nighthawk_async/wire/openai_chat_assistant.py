"""A response of the model as an assistant message of Chat Completions. Floor 1.

Such a message goes back to the endpoint with every later request. The shape is made here alone, both for the
vocabulary's own messages and for what a decoder keeps in the provider's form (`wire.openai_chat_replay`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..types.messages import AssistantMessage, Message, ToolCall
from .request_json import arguments_object, request_json

__all__ = [
    "OTHER_REASONING_FIELD",
    "PROTOCOL",
    "assistant_message",
    "encode_assistant_message",
    "reasoning_field",
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
            "function": {"name": call.name, "arguments": _valid_arguments(call)},
        }
        for call in calls
    ]
    return {"role": "assistant", "content": text or None, "tool_calls": tool_calls}


def encode_assistant_message(message: AssistantMessage, replayed_field: str | None) -> dict[str, Any]:
    """The message as a request carries it.

    Args:
        message: The message.
        replayed_field: The field in which the model gets its reasoning text back; None for not at all.
    """
    known = _own_content(message)
    if known is None:
        encoded = assistant_message(message.text, message.tool_calls)
    else:
        encoded = {name: value for name, value in known.items() if name != OTHER_REASONING_FIELD}
    if replayed_field is not None:
        # Even an empty text: DeepSeek refuses a conversation in which a call stands without its reasoning.
        encoded[replayed_field] = message.reasoning
    return encoded


def reasoning_field(messages: Iterable[Message]) -> str:
    """The field in which the server sends reasoning text, as far as the conversation shows it.

    Args:
        messages: The conversation.
    """
    known = (_own_content(each) for each in messages if isinstance(each, AssistantMessage))
    is_other = any(content is not None and OTHER_REASONING_FIELD in content for content in known)
    return OTHER_REASONING_FIELD if is_other else USUAL_REASONING_FIELD


def _own_content(message: AssistantMessage) -> Mapping[str, Any] | None:
    """The message as a server of this protocol sent it, when it was kept."""
    content = message.provider_content
    return content.items[0] if content is not None and content.protocol == PROTOCOL else None


def _valid_arguments(call: ToolCall) -> str:
    """The arguments as the model wrote them, or wrapped where they are no JSON object.

    Servers that put past calls into a chat template parse them, and answer with an error where they cannot.
    """
    arguments = arguments_object(call.arguments)
    return request_json(arguments).decode() if isinstance(arguments, dict) else call.arguments

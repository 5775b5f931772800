"""A conversation as the input items of a Responses request.

The model's own past responses go back in one of two forms: as the items in which the provider gave them,
where they hold more than text and calls, or as items made from text and calls.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..types.messages import AssistantMessage, Message, ProviderContent, ToolResultsMessage, UserMessage
from .openai_responses_content import encode_result_content, encode_user_content
from .request_json import valid_arguments

__all__ = ["PROTOCOL", "encode_input"]

PROTOCOL = "openai-responses"
"""The protocol's name in `ProviderContent.protocol`."""

_OUTPUT_ONLY = frozenset({"status"})
_REFERENCES = _OUTPUT_ONLY | {"id"}


def encode_input(messages: Iterable[Message], *, is_stored: bool) -> list[dict[str, Any]]:
    """The conversation as input items.

    Args:
        messages: The messages, oldest first.
        is_stored: Whether the provider keeps responses, and so finds past items by their ids.

    Raises:
        UnsupportedContentError: A user message holds content that the protocol cannot carry.
    """
    items: list[dict[str, Any]] = []
    for message in messages:
        match message:
            case UserMessage():
                content = encode_user_content(message.content)
                items.append({"type": "message", "role": "user", "content": content})
            case AssistantMessage():
                items += _encode_response(message, is_stored=is_stored)
            case ToolResultsMessage():
                items += _encode_results(message)
    return items


def _encode_results(message: ToolResultsMessage) -> Iterator[dict[str, Any]]:
    for result in message.results:
        output = encode_result_content(result.content)
        yield {"type": "function_call_output", "call_id": result.call_id, "output": output}


def _encode_response(message: AssistantMessage, *, is_stored: bool) -> Iterator[dict[str, Any]]:
    content = message.provider_content
    if content is not None and content.protocol == PROTOCOL:
        yield from _replay(content, is_stored=is_stored)
        return
    if message.text:
        part: dict[str, Any] = {"type": "output_text", "text": message.text, "annotations": []}
        yield {"type": "message", "role": "assistant", "content": [part]}
    for call in message.tool_calls:
        arguments = valid_arguments(call.arguments)
        yield {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments}


def _replay(content: ProviderContent, *, is_stored: bool) -> Iterator[dict[str, Any]]:
    """The items as the provider gave them, without what it does not take back.

    It refuses `status` in a reasoning item. And an id makes it look the item up, which fails where nothing
    was stored; where both a reasoning item and the item after it have ids, it also checks that they belong
    together. So messages and calls, which need no id, go back without one. A reasoning item must have an id,
    and is read from its own content rather than looked up where it has any; where it has none, there is
    nothing to send back. (OpenAI's own Codex, which stores nothing either, likewise sends no such ids.)
    """
    for item in content.items:
        match item.get("type"):
            case "reasoning":
                if is_stored or item.get("encrypted_content") or item.get("content"):
                    yield _without(item, _OUTPUT_ONLY)
            case "message":
                yield _without(item, _OUTPUT_ONLY if is_stored else _REFERENCES)
            case "function_call":
                call = _without(item, _OUTPUT_ONLY if is_stored else _REFERENCES)
                yield call | {"arguments": valid_arguments(str(item.get("arguments", "")))}
            case _:
                yield dict(item)


def _without(item: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """The item without these fields, and without null ones, which the provider does not always take back."""
    return {name: value for name, value in item.items() if name not in names and value is not None}

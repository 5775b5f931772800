"""Calls of a provider's own tools in a response of a conversation, which has them in the provider's form."""

from collections.abc import Iterable

import msgspec

from ..types.messages import AssistantMessage
from ..types.model import ModelEvent
from ..types.native_tools import NativeCallFinished, NativeCallStarted
from ..wire.anthropic.messages import PROTOCOL_NAME as ANTHROPIC
from ..wire.anthropic.native_tools import NativeCalls as AnthropicCalls
from ..wire.google.contents import PROTOCOL as GOOGLE
from ..wire.google.native_tools import NativeCalls as GoogleCalls
from ..wire.json_text import NOT_JSON
from ..wire.openai_responses.input import PROTOCOL as RESPONSES
from ..wire.openai_responses.native_tools import NATIVE_ITEMS, finished


def native_calls_in(message: AssistantMessage) -> list[NativeCallFinished]:
    """The native calls of a response and the results that it holds; one of them alone after a pause.

    Args:
        message: The response.
    """
    content = message.provider_content
    if content is None:
        return []
    events: list[ModelEvent] = []
    if content.protocol == RESPONSES:
        events += [finished(item) for item in content.items if item.get("type") in NATIVE_ITEMS]
    elif content.protocol == ANTHROPIC:
        blocks = AnthropicCalls()
        events += [event for item in content.items for event in blocks.take(item)]
    elif content.protocol == GOOGLE:
        parts = GoogleCalls()
        try:
            events += [
                event
                for item in content.items
                for event in parts.take(msgspec.Raw(msgspec.json.encode(item)))
            ]
        except NOT_JSON:  # a transcript that was edited
            return []
    return _joined(events)


def _joined(events: Iterable[ModelEvent]) -> list[NativeCallFinished]:
    """The calls, each with its result, in the order of their beginnings."""
    calls: dict[str, NativeCallFinished] = {}
    for event in events:
        if isinstance(event, NativeCallStarted):
            calls[event.id] = NativeCallFinished(id=event.id, name=event.name, arguments=event.arguments)
        elif isinstance(event, NativeCallFinished):
            calls[event.id] = event
    return list(calls.values())

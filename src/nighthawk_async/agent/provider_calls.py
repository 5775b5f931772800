"""Calls of a provider's own tools in a response of a conversation, which has them in the provider's form."""

from collections.abc import Iterable
from importlib import import_module

from ..catalog.protocols import PROTOCOLS, folder_of
from ..types.messages import AssistantMessage
from ..types.model import ModelEvent
from ..types.native_tools import NativeCallFinished, NativeCallStarted


def native_calls_in(message: AssistantMessage) -> list[NativeCallFinished]:
    """The native calls of a response and the results that it holds; one of them alone after a pause.

    Args:
        message: The response.
    """
    content = message.provider_content
    facts = None if content is None else PROTOCOLS.get(content.protocol)
    if content is None or facts is None:
        return []
    module = import_module(f"..wire.{folder_of(content.protocol)}.{facts.native_calls}", __package__)
    return _joined(module.calls_in(content.items))


def _joined(events: Iterable[ModelEvent]) -> list[NativeCallFinished]:
    """The calls, each with its result, in the order of their beginnings."""
    calls: dict[str, NativeCallFinished] = {}
    for event in events:
        if isinstance(event, NativeCallStarted):
            calls[event.id] = NativeCallFinished(id=event.id, name=event.name, arguments=event.arguments)
        elif isinstance(event, NativeCallFinished):
            calls[event.id] = event
    return list(calls.values())

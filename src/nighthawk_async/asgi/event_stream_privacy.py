"""What of an event is nobody's business but the service's own. Floor 5. Pure.

A stream goes to the clients of a service. What steps work with and what comes of it is what they asked for;
the words of errors, the programs of steps and notes about retries quote prompts, providers and files.
"""

from ..types.json import JsonableValue
from .event_stream_encoding import StreamEvent

__all__ = ["without_internals"]

_SHOWN_ATTRIBUTES = frozenset(
    {
        "gen_ai.request.model",
        "gen_ai.response.finish_reasons",
        "gen_ai.response.model",
        "gen_ai.tool.call.id",
        "gen_ai.tool.name",
        "nighthawk.step.attempt",
        "nighthawk.step.outcome_kind",
    }
)
_HIDDEN_TEXTS = ("message", "note")


def without_internals(event: StreamEvent) -> StreamEvent:
    """The event as clients get it.

    Errors keep their types alone, few attributes stay, controls and sources do not. Parts of a transcript
    that steer or note something are empty, so that the others keep their numbers.

    Args:
        event: The event.
    """
    data = event.data
    if event.name in _HIDDEN_TEXTS:
        return StreamEvent(name=event.name, data={**data, "text": ""})
    if event.name != "step":
        return event
    hidden: dict[str, JsonableValue] = {
        "source": None,
        "error": _type_alone(data["error"]),
        "attributes": _shown_attributes(data["attributes"]),
        "controls": [],
    }
    return StreamEvent(name=event.name, data={**data, **hidden})


def _type_alone(error: JsonableValue) -> JsonableValue:
    return {**error, "message": ""} if isinstance(error, dict) else error


def _shown_attributes(attributes: JsonableValue) -> JsonableValue:
    if not isinstance(attributes, dict):
        return {}
    return {name: value for name, value in attributes.items() if name in _SHOWN_ATTRIBUTES}

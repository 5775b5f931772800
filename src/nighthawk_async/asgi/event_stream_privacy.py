"""Private parts of events, which stay in the service. Pure.

A stream goes to the clients of a service. What steps work with and what comes of it is what they asked for;
the words of errors, the programs of steps and notes about retries quote prompts, providers and files.
"""

from collections.abc import Mapping

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
_SHOWN_INPUTS = frozenset({"group", "step", "tool_call"})
_SHOWN_OUTPUTS = frozenset({"model_request", "step", "tool_call"})
"""By kinds of nodes: what steps read and write, and what models and tools say."""

_HIDDEN_TEXTS = ("message", "note")

_FAILED_CALL = '{"value": null, "error": {'
"""How the result of a tool call that has failed begins; see `runtime.tool_outcome`."""


def without_internals(event: StreamEvent) -> StreamEvent:
    """The event as clients get it.

    Errors keep their types alone, few attributes stay, controls and sources do not. Model requests do not
    show what is asked, and functions and tasks not what they are called with and return, which may be
    anything of the service's own. Parts of a transcript that steer or note something are empty, so that the
    others keep their numbers; results of tools are empty when they have failed, or when the beginning that
    says so is left out.

    Args:
        event: The event.
    """
    data = event.data
    if event.name in _HIDDEN_TEXTS or (event.name == "tool_result" and _may_be_failure(data)):
        return StreamEvent(name=event.name, data={**data, "text": ""})
    if event.name != "step":
        return event
    hidden: dict[str, JsonableValue] = {
        "source": None,
        "error": _type_alone(data["error"]),
        "attributes": _shown_attributes(data["attributes"]),
        "controls": [],
    }
    if data["kind"] not in _SHOWN_INPUTS:
        hidden["inputs"] = {}
    if data["kind"] not in _SHOWN_OUTPUTS:
        hidden["outputs"] = {}
    return StreamEvent(name=event.name, data={**data, **hidden})


def _may_be_failure(data: Mapping[str, JsonableValue]) -> bool:
    return bool(data["is_cut"]) or str(data["text"]).startswith(_FAILED_CALL)


def _type_alone(error: JsonableValue) -> JsonableValue:
    return {**error, "message": ""} if isinstance(error, dict) else error


def _shown_attributes(attributes: JsonableValue) -> JsonableValue:
    if not isinstance(attributes, dict):
        return {}
    return {name: value for name, value in attributes.items() if name in _SHOWN_ATTRIBUTES}

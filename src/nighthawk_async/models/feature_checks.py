"""Refuses what a request asks for and its model lacks, before anything is sent.

Looks at tools, schemas and settings; content is the business of `models.fitting`. Each error names the model
setting that corrects what the catalog says, since the catalog cannot know every model.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_args

from ..errors import ConfigurationError
from ..types.model import ModelCapabilities, ModelRequest, NamedToolChoice
from ..types.settings import ReasoningEffort
from .remedies import remedy

__all__ = ["check_features"]


class _Fault(NamedTuple):
    """A fault of a request, and the field of `ModelCapabilities` that it contradicts."""

    complaint: str
    capability: str
    needed: object = True


class _Feature(NamedTuple):
    """A field of `ModelCapabilities`, the settings that ask for it, and what is wrong without it."""

    capability: str
    settings: tuple[str, ...]
    complaint: str


_REASONING_SETTINGS = (
    "include_thoughts",
    "reasoning_effort",
    "reasoning_summary",
    "thinking",
    "thinking_budget_tokens",
)
_FEATURES = (
    _Feature("reasoning", _REASONING_SETTINGS, "the model cannot be told how to reason"),
    _Feature("prompt_caching", ("prompt_caching",), "the model cannot be told what to cache"),
    _Feature("parallel_tool_calls", ("parallel_tool_calls",), "the model calls one tool at a time"),
    _Feature(
        "sampling", ("temperature", "top_p", "top_k"), "the model cannot be told how to choose its words"
    ),
)
_OFF: tuple[object, ...] = ("none", 0, {"type": "disabled"})
"""What settings of reasoning say to turn it off."""

_EFFORTS: tuple[str, ...] = get_args(ReasoningEffort)
"""Other words are refused by the codecs."""

_NAMES_OF_MAX_TOKENS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""What endpoints call the setting `max_tokens`; it may have been renamed already."""


def check_features(request: ModelRequest, capabilities: ModelCapabilities, *, model_id: str) -> None:
    """Make sure that the model has what the request asks for.

    Args:
        request: The request, with all settings that are in force.
        capabilities: What the model can do.
        model_id: The model's id, for errors.

    Raises:
        ConfigurationError: It asks for what the model lacks.
    """
    fault = next(_faults(request, capabilities), None)
    if fault is not None:
        way_out = remedy(model_id, fault.capability, fault.needed)
        raise ConfigurationError(f"{model_id}: {fault.complaint}.{way_out}")


def _faults(request: ModelRequest, capabilities: ModelCapabilities) -> Iterator[_Fault]:
    if request.tools:
        yield from _faults_of_tools(request, capabilities)
    if request.response_format is not None and not capabilities.structured_output:
        yield _Fault("the model does not hold its answers to a JSON Schema", "structured_output")
    for feature in _FEATURES:
        if not getattr(capabilities, feature.capability):
            yield from _faults_of_settings(feature, request.settings)
    yield from _faults_of_effort(request.settings, capabilities)
    yield from _faults_of_max_tokens(request.settings, capabilities)


def _faults_of_tools(request: ModelRequest, capabilities: ModelCapabilities) -> Iterator[_Fault]:
    if not capabilities.tools:
        yield _Fault("the model does not call tools", "tools")
    # "required" is no fault: `models.fitting` leaves the choice to such a model.
    if isinstance(request.tool_choice, NamedToolChoice) and not capabilities.forced_tool_choice:
        name = request.tool_choice.name
        yield _Fault(f"the model cannot be made to call a tool, here {name!r}", "forced_tool_choice")
    if request.response_format is not None and not capabilities.structured_output_with_tools:
        yield _Fault(
            "the model does not hold its answers to a JSON Schema in a request that offers tools",
            "structured_output_with_tools",
        )
    if not capabilities.reasoning_with_tools:
        complaint = "the model cannot be told how to reason in a request that offers tools"
        feature = _Feature("reasoning_with_tools", _REASONING_SETTINGS, complaint)
        settings = {name: value for name, value in request.settings.items() if value not in _OFF}
        yield from _faults_of_settings(feature, settings)


def _faults_of_settings(feature: _Feature, settings: Mapping[str, Any]) -> Iterator[_Fault]:
    for name in feature.settings:
        value: object = settings.get(name)
        if value is not None and value is not False:
            complaint = f"{feature.complaint}, so leave out the model setting {name!r}"
            yield _Fault(complaint, feature.capability)


def _faults_of_effort(settings: Mapping[str, Any], capabilities: ModelCapabilities) -> Iterator[_Fault]:
    known, effort = capabilities.reasoning_efforts, settings.get("reasoning_effort")
    if known is None:
        return
    if effort in _EFFORTS and effort not in known:
        complaint = (
            f"the model setting 'reasoning_effort' is {effort!r}, but the model knows only {_listed(known)}"
        )
        yield _Fault(complaint, "reasoning_efforts", [*known, effort])
    for name in ("thinking", "thinking_budget_tokens"):
        value: object = settings.get(name)
        if "none" not in known and value in _OFF and value is not False:
            complaint = f"the model setting {name!r} is {value!r}, but the model always thinks"
            yield _Fault(complaint, "reasoning_efforts", ["none", *known])


def _faults_of_max_tokens(settings: Mapping[str, Any], capabilities: ModelCapabilities) -> Iterator[_Fault]:
    most = capabilities.max_output_tokens
    for name in _NAMES_OF_MAX_TOKENS:
        wanted = settings.get(name)
        if most is not None and isinstance(wanted, int) and wanted > most:
            complaint = (
                f"the model setting {name!r} is {wanted:,}, but a response of the model holds at most "
                f"{most:,} tokens"
            )
            yield _Fault(complaint, "max_output_tokens", wanted)


def _listed(words: tuple[str, ...]) -> str:
    *others, last = [repr(word) for word in words]
    return f"{', '.join(others)} and {last}" if others else last

"""Refuses what a request asks for and its model lacks, before anything is sent. Floor 4.

Looks at tools, schemas and settings; content is the business of `models.fitting`. Each error names the model
setting that corrects what the catalog says, since the catalog cannot know every model.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import ConfigurationError
from ..types.model import ModelCapabilities, ModelRequest, NamedToolChoice

__all__ = ["check_features", "remedy"]


class _Feature(NamedTuple):
    """A field of `ModelCapabilities`, the settings that ask for it, and what is wrong without it."""

    capability: str
    settings: tuple[str, ...]
    complaint: str


_FEATURES = (
    _Feature(
        "reasoning",
        ("include_thoughts", "reasoning_effort", "reasoning_summary", "thinking", "thinking_budget_tokens"),
        "the model cannot be told how to reason",
    ),
    _Feature(
        "prompt_caching",
        ("prompt_caching",),
        "the model cannot be told what to cache",
    ),
    _Feature(
        "parallel_tool_calls",
        ("parallel_tool_calls",),
        "the model calls one tool at a time",
    ),
)

_NAMES_OF_MAX_TOKENS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""What endpoints call the setting `max_tokens`; it may have been renamed already."""


def check_features(request: ModelRequest, capabilities: ModelCapabilities, *, model_id: str) -> None:
    """Make sure that the model has what the request asks for.

    Args:
        request: The request, with all settings that are in force.
        capabilities: What the model can do.
        model_id: The model's id, for errors.

    Raises:
        ConfigurationError: It asks for what the model lacks, or for a call of a tool that is not on offer.
    """
    if request.tools and not capabilities.tools:
        raise ConfigurationError(f"{model_id}: the model does not call tools.{remedy('tools')}")
    if request.response_format is not None and not capabilities.structured_output:
        raise ConfigurationError(
            f"{model_id}: the model does not hold its answers to a JSON Schema.{remedy('structured_output')}"
        )
    _check_tool_choice(request, model_id)
    for feature in _FEATURES:
        if not getattr(capabilities, feature.capability):
            _check_feature(feature, request.settings, model_id)
    _check_max_tokens(request.settings, capabilities, model_id)


def remedy(capability: str) -> str:
    """The end of an error's message: how to say that the model has a capability all the same.

    Args:
        capability: A field of `ModelCapabilities`.
    """
    return f" If it does, say so with the model setting capabilities={{{capability!r}: True}}."


def _check_tool_choice(request: ModelRequest, model_id: str) -> None:
    choice = request.tool_choice
    if isinstance(choice, NamedToolChoice) and all(tool.name != choice.name for tool in request.tools):
        raise ConfigurationError(
            f"{model_id}: the request demands a call of the tool {choice.name!r} but does not offer it."
        )


def _check_feature(feature: _Feature, settings: Mapping[str, Any], model_id: str) -> None:
    for name in feature.settings:
        value: object = settings.get(name)
        if value is not None and value is not False:
            raise ConfigurationError(
                f"{model_id}: {feature.complaint}, so leave out the model setting {name!r}."
                f"{remedy(feature.capability)}"
            )


def _check_max_tokens(settings: Mapping[str, Any], capabilities: ModelCapabilities, model_id: str) -> None:
    most = capabilities.max_output_tokens
    for name in _NAMES_OF_MAX_TOKENS:
        wanted = settings.get(name)
        if most is not None and isinstance(wanted, int) and wanted > most:
            raise ConfigurationError(
                f"{model_id}: the model setting {name!r} is {wanted:,}, but a response of the model holds at "
                f"most {most:,} tokens. If it holds more, say so with the model setting "
                "capabilities={'max_output_tokens': …}."
            )

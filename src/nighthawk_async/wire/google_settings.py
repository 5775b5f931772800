"""Model settings as the fields of a Gemini request."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from ..errors import ConfigurationError
from ..types.model import ModelCapabilities
from ..types.settings import GoogleSettings
from .setting_checks import checked_settings, refuse_reserved_settings

__all__ = ["GenerationSettings", "encode_settings"]

GenerationSettings: TypeAlias = tuple[dict[str, Any], dict[str, Any]]
"""The fields of `generationConfig`, and those of the body itself."""

_RESERVED = frozenset(
    {
        "contents",
        "generationConfig",
        "generation_config",
        "model",
        "systemInstruction",
        "system_instruction",
        "toolConfig",
        "tool_config",
        "tools",
    }
)

_GENERATION_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "temperature": "temperature",
        "top_p": "topP",
        "top_k": "topK",
        "max_tokens": "maxOutputTokens",
        "stop": "stopSequences",
        "seed": "seed",
        "presence_penalty": "presencePenalty",
        "frequency_penalty": "frequencyPenalty",
    }
)
_BODY_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "safety_settings": "safetySettings",
        "cached_content": "cachedContent",
        "labels": "labels",
        "service_tier": "serviceTier",
    }
)
_ELSEWHERE = frozenset(
    {"include_thoughts", "parallel_tool_calls", "reasoning_effort", "stream", "thinking_budget_tokens"}
)

_LEVELS = frozenset({"minimal", "low", "medium", "high", "xhigh"})
_BUDGETS: Mapping[str, int] = MappingProxyType(
    {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576}
)


def encode_settings(settings: Mapping[str, Any], capabilities: ModelCapabilities) -> GenerationSettings:
    """The settings as fields of `generationConfig` and of the body; unknown names are fields of the body.

    Args:
        settings: All settings of a request.
        capabilities: Tells whether the model is told how much to reason by a word or by a number.

    Raises:
        ConfigurationError: A setting has a bad value, is one that only the library writes, or is one that the
            protocol has no word for.
    """
    refuse_reserved_settings(settings, _RESERVED)
    checked = checked_settings(settings, GoogleSettings)
    if checked.get("parallel_tool_calls") is False:
        raise ConfigurationError(
            "The Gemini protocol cannot forbid parallel tool calls; leave out the model setting "
            "'parallel_tool_calls'."
        )
    generation = {theirs: checked[ours] for ours, theirs in _GENERATION_NAMES.items() if ours in checked}
    if isinstance(stop := generation.get("stopSequences"), str):
        generation["stopSequences"] = [stop]
    if thinking := _encode_thinking(checked, capabilities):
        generation["thinkingConfig"] = thinking
    known = _ELSEWHERE | _GENERATION_NAMES.keys()
    body = {_BODY_NAMES.get(name, name): value for name, value in checked.items() if name not in known}
    if "cachedContent" in body:
        body["cachedContent"] = _resource_name(body["cachedContent"])
    return generation, body


def _encode_thinking(settings: Mapping[str, Any], capabilities: ModelCapabilities) -> dict[str, Any]:
    effort, budget = settings.get("reasoning_effort"), settings.get("thinking_budget_tokens")
    if effort is not None and budget is not None:
        raise ConfigurationError(
            "The model settings 'reasoning_effort' and 'thinking_budget_tokens' exclude each other."
        )
    thinking: dict[str, Any] = {}
    if budget is not None:
        thinking["thinkingBudget"] = budget
    elif effort is not None and capabilities.reasoning_control == "budget":
        thinking["thinkingBudget"] = _budget(effort)
    elif effort is not None:
        thinking["thinkingLevel"] = _level(effort)
    if "include_thoughts" in settings:
        thinking["includeThoughts"] = settings["include_thoughts"]
    return thinking


def _budget(effort: str) -> int:
    if effort not in _BUDGETS:
        raise ConfigurationError(
            f"No number of tokens stands for the reasoning effort {effort!r}; known are "
            f"{', '.join(_BUDGETS)}. Give a number in the model setting 'thinking_budget_tokens'."
        )
    return _BUDGETS[effort]


def _level(effort: str) -> str:
    if effort not in _LEVELS:
        raise ConfigurationError(
            f"The Gemini protocol has no thinking level {effort!r}: the lowest is 'minimal', the highest "
            "'xhigh'."
        )
    return effort.upper()


def _resource_name(name: str) -> str:
    return name if "/" in name else f"cachedContents/{name}"

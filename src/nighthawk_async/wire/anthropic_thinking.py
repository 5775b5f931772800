"""Limits for thinking and writing, in the terms of Anthropic Messages.

Thinking counts towards `max_tokens`, which the protocol demands. Models are told how much to think by a word
(`output_config.effort` beside adaptive thinking) or, older ones, by a number of tokens that must stay below
`max_tokens`, except where thinking goes on between calls and all of it counts.

Source: `thinking_config_param.py` and `output_config_param.py` of the official SDK, and "Extended thinking",
"Interleaved thinking", of the provider's documentation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigurationError
from ..types.model import ModelCapabilities

__all__ = ["ThinkingPlan", "plan_thinking"]

_MAX_DEFAULT_TOKENS = 16_384
_UNKNOWN_MAX_TOKENS = 4_096
_MIN_BUDGET_TOKENS = 1_024
_MIN_ANSWER_TOKENS = 4_096
_INTERLEAVED_BETA = "interleaved-thinking-"

_EFFORTS = {"minimal": "low"}
_TOKENS_OF_EFFORTS = {
    "minimal": _MIN_BUDGET_TOKENS,
    "low": 2_048,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 32_768,
    "max": 32_768,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingPlan:
    """The thinking fields of a request's body.

    Args:
        max_tokens: Tokens that the response may hold, thinking included.
        config: The body's object `thinking`; None to leave it to the model.
        effort: The word for `output_config.effort`; None to leave it to the model.
    """

    max_tokens: int
    config: Mapping[str, Any] | None
    effort: str | None

    @property
    def is_asked_to_think(self) -> bool:
        """Whether the request itself turns thinking on."""
        return self.config is not None and self.config.get("type") != "disabled"


def plan_thinking(settings: Mapping[str, Any], capabilities: ModelCapabilities) -> ThinkingPlan:
    """Decide what the body says about thinking.

    Args:
        settings: The checked settings.
        capabilities: What the model can do.

    Raises:
        ConfigurationError: The budget and `max_tokens` do not fit together, or the model is told a word.
    """
    max_tokens: int | None = settings.get("max_tokens")
    if max_tokens is None:
        max_tokens = _default_max_tokens(_wanted_tokens(settings), capabilities)
    return ThinkingPlan(
        max_tokens=max_tokens,
        config=_thinking_config(settings, capabilities, max_tokens),
        effort=_effort_word(settings, capabilities),
    )


def _effort_word(settings: Mapping[str, Any], capabilities: ModelCapabilities) -> str | None:
    effort: str | None = settings.get("reasoning_effort")
    if effort is None or effort == "none" or capabilities.reasoning_control != "effort":
        return None
    return _EFFORTS.get(effort, effort)


def _wanted_tokens(settings: Mapping[str, Any]) -> int:
    """The tokens of thinking that the settings ask for, as far as they can be told."""
    thinking: Mapping[str, Any] = settings.get("thinking", {})
    if isinstance(own := thinking.get("budget_tokens"), int):
        return own
    budget: int | None = settings.get("thinking_budget_tokens")
    if budget is not None:
        return budget
    return _TOKENS_OF_EFFORTS.get(settings.get("reasoning_effort", ""), 0)


def _default_max_tokens(wanted: int, capabilities: ModelCapabilities) -> int:
    limit = capabilities.max_output_tokens
    answer = min(limit or _UNKNOWN_MAX_TOKENS, _MAX_DEFAULT_TOKENS)
    return answer + wanted if limit is None else min(answer + wanted, limit)


def _thinking_config(
    settings: Mapping[str, Any], capabilities: ModelCapabilities, max_tokens: int
) -> Mapping[str, Any] | None:
    own: Mapping[str, Any] | None = settings.get("thinking")
    if own is not None:
        _check_room("thinking.budget_tokens", own.get("budget_tokens"), max_tokens, settings)
        return own
    if (budget := settings.get("thinking_budget_tokens")) is not None:
        return _explicit_budget(budget, max_tokens, settings, capabilities)
    effort: str | None = settings.get("reasoning_effort")
    if effort is None:
        return None
    if effort == "none":
        return {"type": "disabled"}
    if capabilities.reasoning_control == "effort":
        return {"type": "adaptive"}
    return _budget_of_effort(effort, max_tokens)


def _explicit_budget(
    budget: int, max_tokens: int, settings: Mapping[str, Any], capabilities: ModelCapabilities
) -> Mapping[str, Any]:
    if budget == 0:
        return {"type": "disabled"}
    if capabilities.reasoning and capabilities.reasoning_control == "effort":
        raise ConfigurationError(
            "The model is told by a word how much to think, so it takes no 'thinking_budget_tokens'; set "
            "'reasoning_effort', or give the protocol's own object in the model setting 'thinking'."
        )
    if budget < _MIN_BUDGET_TOKENS:
        raise ConfigurationError(
            f"Model setting 'thinking_budget_tokens' is {budget}; it must be at least {_MIN_BUDGET_TOKENS}, "
            "or 0 to turn thinking off."
        )
    _check_room("thinking_budget_tokens", budget, max_tokens, settings)
    return {"type": "enabled", "budget_tokens": budget}


def _check_room(name: str, budget: object, max_tokens: int, settings: Mapping[str, Any]) -> None:
    """Refuse a budget that leaves no room, unless it is that of several responses with calls in between."""
    is_shared = any(str(beta).startswith(_INTERLEAVED_BETA) for beta in settings.get("betas", ()))
    if isinstance(budget, int) and budget >= max_tokens and not is_shared:
        raise ConfigurationError(
            f"Model setting {name!r} is {budget}; it must be less than 'max_tokens', which is {max_tokens}."
        )


def _budget_of_effort(effort: str, max_tokens: int) -> Mapping[str, Any]:
    """The budget for a word; since that promises no number, room is left for the answer."""
    if max_tokens <= _MIN_BUDGET_TOKENS:
        raise ConfigurationError(
            f"Model setting 'max_tokens' is {max_tokens}; thinking takes at least {_MIN_BUDGET_TOKENS} of "
            "them, so it must be larger, or 'reasoning_effort' must be 'none'."
        )
    room = max_tokens - min(_MIN_ANSWER_TOKENS, max_tokens // 2)
    budget = max(_MIN_BUDGET_TOKENS, min(_TOKENS_OF_EFFORTS[effort], room))
    return {"type": "enabled", "budget_tokens": budget}

"""How much the model may think and write, in the words of Anthropic Messages. Floor 1.

Thinking counts towards `max_tokens`, which the protocol demands. Models are told how much to think by a word
(`output_config.effort` beside adaptive thinking) or, older ones, by a number of tokens that must stay below
`max_tokens`.

Source: `thinking_config_param.py` and `output_config_param.py` of the official SDK.
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
    """What the body says about thinking.

    Args:
        max_tokens: Tokens that the response may hold, thinking included.
        config: The body's object `thinking`; None to leave it to the model.
        effort: The word for `output_config.effort`; None to leave it to the model.
        may_think: Whether the model may think before it answers.
    """

    max_tokens: int
    config: Mapping[str, Any] | None
    effort: str | None
    may_think: bool

    @property
    def is_asked_to_think(self) -> bool:
        """Whether the request itself turns thinking on."""
        return self.config is not None and self.may_think


def plan_thinking(settings: Mapping[str, Any], capabilities: ModelCapabilities) -> ThinkingPlan:
    """Decide what the body says about thinking.

    Args:
        settings: The checked settings.
        capabilities: What the model can do.

    Raises:
        ConfigurationError: The budget and `max_tokens` do not fit together.
    """
    max_tokens: int | None = settings.get("max_tokens")
    if max_tokens is None:
        max_tokens = _default_max_tokens(_wanted_tokens(settings), capabilities)
    config = _thinking_config(settings, capabilities, max_tokens)
    if config is None:
        # Models that are told a word think unless they are told not to.
        may_think = capabilities.reasoning and capabilities.reasoning_control == "effort"
    else:
        may_think = config.get("type") != "disabled"
    return ThinkingPlan(
        max_tokens=max_tokens,
        config=config,
        effort=_effort_word(settings, capabilities),
        may_think=may_think,
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
    if (own := settings.get("thinking")) is not None:
        return own
    if (budget := settings.get("thinking_budget_tokens")) is not None:
        return _explicit_budget(budget, max_tokens)
    effort: str | None = settings.get("reasoning_effort")
    if effort is None:
        return None
    if effort == "none":
        return {"type": "disabled"}
    if capabilities.reasoning_control == "effort":
        return {"type": "adaptive"}
    return _budget_of_effort(effort, max_tokens)


def _explicit_budget(budget: int, max_tokens: int) -> Mapping[str, Any]:
    if budget == 0:
        return {"type": "disabled"}
    if not _MIN_BUDGET_TOKENS <= budget < max_tokens:
        raise ConfigurationError(
            f"Model setting 'thinking_budget_tokens' is {budget}; it must be at least {_MIN_BUDGET_TOKENS} "
            f"and less than 'max_tokens', which is {max_tokens}. 0 turns thinking off."
        )
    return {"type": "enabled", "budget_tokens": budget}


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

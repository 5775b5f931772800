"""Models of Anthropic: what they can do, how large they are, what they cost. Floor 1. Data only.

Prices are Anthropic's own, for standard requests; writing to the cache is priced for a lifetime of five
minutes.
"""

from dataclasses import replace

from ..types.model import ModelCapabilities, ModelPrice
from .model_facts import ModelFacts, price

__all__ = ["ANTHROPIC_MODELS"]

_SOURCE = (
    "platform.claude.com/docs/en/models and /about-claude/pricing, the model types of anthropic 2.12.0, and "
    "the tables of litellm 1.109.1 and genai-prices 0.2.3; read on 2026-11-21"
)

# Told by a number of tokens how much to think.
_WITH_BUDGET = ModelCapabilities(
    structured_output=True,
    images=True,
    documents=True,
    prompt_caching=True,
    reasoning=True,
    reasoning_control="budget",
    context_window=200_000,
    max_output_tokens=64_000,
)
# Told by a word.
_WITH_EFFORT = replace(
    _WITH_BUDGET, reasoning_control="effort", context_window=1_000_000, max_output_tokens=128_000
)

_UNFORCED = "It cannot be made to call a tool, and takes no temperature, top_p or top_k."
_NO_SAMPLING = "It takes no temperature, top_p or top_k."
_ALWAYS_THINKS = "It always thinks: the reasoning effort 'none' is refused."
_BEYOND_100K = "A request of more than 100,000 tokens costs five times the price."


def _claude(name: str, capabilities: ModelCapabilities, prices: ModelPrice, *notes: str) -> ModelFacts:
    return ModelFacts(
        pattern=f"anthropic:{name}",
        capabilities=replace(capabilities, price=prices),
        note=" ".join(notes),
        source=_SOURCE,
    )


_FABLE_5 = price("10", "50", read="1", write="12.5")
_FABLE_5_1 = price("10", "50", read="0.25", write="12.5")
_FABLE_5_2 = price("8", "40", read="0.2", write="10")
_OPUS = price("5", "25", read="0.5", write="6.25")
_SONNET_4 = price("3", "15", read="0.3", write="3.75")

ANTHROPIC_MODELS: tuple[ModelFacts, ...] = (
    _claude("claude-fable-5-2", _WITH_EFFORT, _FABLE_5_2, _UNFORCED, _ALWAYS_THINKS),
    _claude("claude-mythos-5-2", _WITH_EFFORT, _FABLE_5_2, _UNFORCED, _ALWAYS_THINKS),
    _claude("claude-fable-5-1", _WITH_EFFORT, _FABLE_5_1, _UNFORCED, _ALWAYS_THINKS),
    _claude("claude-mythos-5-1", _WITH_EFFORT, _FABLE_5_1, _UNFORCED, _ALWAYS_THINKS),
    _claude("claude-fable-5", _WITH_EFFORT, _FABLE_5, _NO_SAMPLING, _ALWAYS_THINKS),
    _claude("claude-mythos-5", _WITH_EFFORT, _FABLE_5, _NO_SAMPLING, _ALWAYS_THINKS),
    _claude(
        "claude-opus-5-5",
        _WITH_EFFORT,
        price("4", "20", read="0.2", write="5"),
        _UNFORCED,
        _ALWAYS_THINKS,
    ),
    _claude(
        "claude-sonnet-5-5",
        _WITH_EFFORT,
        price("2", "10", read="0.1", write="2.5"),
        _UNFORCED,
        "The reasoning effort 'none' is refused; its least thinking is the setting "
        "thinking={'type': 'between_tools'}.",
    ),
    _claude(
        "claude-haiku-5-5",
        _WITH_EFFORT,
        price("0.1", "0.5", read="0.01", write="0.125"),
        _NO_SAMPLING,
        _BEYOND_100K,
    ),
    _claude("claude-opus-5", _WITH_EFFORT, _OPUS, _NO_SAMPLING),
    _claude("claude-sonnet-5", _WITH_EFFORT, price("2", "10", read="0.2", write="2.5"), _NO_SAMPLING),
    _claude("claude-opus-4-8*", _WITH_EFFORT, _OPUS, _NO_SAMPLING),
    _claude("claude-opus-4-7*", _WITH_EFFORT, _OPUS, _NO_SAMPLING),
    _claude("claude-opus-4-6*", _WITH_EFFORT, _OPUS),
    _claude("claude-sonnet-4-6*", _WITH_EFFORT, _SONNET_4),
    _claude("claude-opus-4-5*", _WITH_BUDGET, _OPUS),
    _claude("claude-haiku-4-5*", _WITH_BUDGET, price("1", "5", read="0.1", write="1.25")),
    _claude("claude-sonnet-4-5*", _WITH_BUDGET, _SONNET_4, "Anthropic has announced its end for 2026-11-30."),
)
"""The families, first match first."""

"""Models of Anthropic: what they can do, how large they are, what they cost. Data only.

Prices are Anthropic's own, for standard requests; writing to the cache is priced for a lifetime of five
minutes. `minimal` stands among the words for reasoning, since the codec writes `low` for it.
"""

from dataclasses import replace

from ..types.model import ModelCapabilities, ModelPrice
from .model_facts import ModelFacts, price, with_long_requests

__all__ = ["ANTHROPIC_MODELS"]

_SOURCE = (
    "platform.claude.com/docs/en/models, /about-claude/pricing and /build-with-claude/effort, the model "
    "types of anthropic 2.12.0, and the tables of litellm 1.109.1 and genai-prices 0.2.3; read on 2026-11-21"
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
# Told by a word. Thinking can be turned off.
_CLAUDE_4_6 = replace(
    _WITH_BUDGET,
    reasoning_control="effort",
    reasoning_efforts=("none", "minimal", "low", "medium", "high", "max"),
    context_window=1_000_000,
    max_output_tokens=128_000,
)
_CLAUDE_5 = replace(
    _CLAUDE_4_6,
    reasoning_efforts=("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    sampling=False,
)
_THINKING = replace(_CLAUDE_5, reasoning_efforts=("minimal", "low", "medium", "high", "xhigh", "max"))
_UNFORCED = replace(_THINKING, forced_tool_choice=False)

_LEAST_THINKING = "Its least thinking is the setting thinking={'type': 'between_tools'}."
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
_HAIKU_5_5 = with_long_requests(
    price("0.1", "0.5", read="0.01", write="0.125"), above=100_000, sent="5", received="5"
)
_SONNET_4 = price("3", "15", read="0.3", write="3.75")

ANTHROPIC_MODELS: tuple[ModelFacts, ...] = (
    _claude("claude-fable-5-2", _UNFORCED, _FABLE_5_2),
    _claude("claude-mythos-5-2", _UNFORCED, _FABLE_5_2),
    _claude("claude-fable-5-1", _UNFORCED, _FABLE_5_1),
    _claude("claude-mythos-5-1", _UNFORCED, _FABLE_5_1),
    _claude("claude-fable-5", _THINKING, _FABLE_5),
    _claude("claude-mythos-5", _THINKING, _FABLE_5),
    _claude("claude-opus-5-5", _UNFORCED, price("4", "20", read="0.2", write="5")),
    _claude("claude-sonnet-5-5", _UNFORCED, price("2", "10", read="0.1", write="2.5"), _LEAST_THINKING),
    _claude("claude-haiku-5-5", _CLAUDE_5, _HAIKU_5_5, _BEYOND_100K),
    _claude("claude-opus-5", _CLAUDE_5, _OPUS),
    _claude("claude-sonnet-5", _CLAUDE_5, price("2", "10", read="0.2", write="2.5")),
    _claude("claude-opus-4-8*", _CLAUDE_5, _OPUS),
    _claude("claude-opus-4-7*", _CLAUDE_5, _OPUS),
    _claude("claude-opus-4-6*", _CLAUDE_4_6, _OPUS),
    _claude("claude-sonnet-4-6*", _CLAUDE_4_6, _SONNET_4),
    _claude("claude-opus-4-5*", _WITH_BUDGET, _OPUS),
    _claude("claude-haiku-4-5*", _WITH_BUDGET, price("1", "5", read="0.1", write="1.25")),
    _claude("claude-sonnet-4-5*", _WITH_BUDGET, _SONNET_4, "Anthropic has announced its end for 2026-11-30."),
)
"""The families, first match first."""

"""Models of Google's Gemini API: what they can do, how large they are, what they cost. Floor 1. Data only.

Prices are those of the paid tier of the Gemini API, for standard requests and text. Some models charge more
for sound. Google caches prefixes of itself; a request cannot say which.
"""

from dataclasses import replace

from ..types.model import ModelCapabilities, ModelPrice
from .model_facts import ModelFacts, price

__all__ = ["GOOGLE_MODELS"]

_SOURCE = (
    "ai.google.dev/gemini-api/docs/models and /pricing, google-genai 3.4.0, and the tables of litellm "
    "1.109.1 and genai-prices 0.2.3; read on 2026-11-21"
)

# Told by a word how much to think.
_GEMINI = ModelCapabilities(
    structured_output=True,
    images=True,
    audio=True,
    video=True,
    documents=True,
    reasoning=True,
    context_window=1_048_576,
    max_output_tokens=65_536,
)
# Told by a number of tokens.
_GEMINI_2_5 = replace(_GEMINI, reasoning_control="budget")

_DOUBLES = "The price is introductory: from {day} on it is twice that."
_UNTIL_DECEMBER = _DOUBLES.format(day="2026-12-01")
_UNTIL_JANUARY = _DOUBLES.format(day="2027-01-01")
_BEYOND_200K = (
    "In a request of more than 200,000 tokens, those sent cost twice and those received 1.5 times the price."
)
_SOUND_COSTS_MORE = "Sound costs more than the price of text that is given here."
_EITHER_OR = "A request may offer tools or demand a schema, not both."


def _gemini(name: str, capabilities: ModelCapabilities, prices: ModelPrice | None, *notes: str) -> ModelFacts:
    return ModelFacts(
        pattern=f"google:{name}",
        capabilities=replace(capabilities, price=prices),
        note=" ".join(notes),
        source=_SOURCE,
    )


_GEMINI_4 = price("2", "10", read="0.1")
_FLASH = price("0.75", "3.75", read="0.075")
_PRO = price("2", "12", read="0.2")

GOOGLE_MODELS: tuple[ModelFacts, ...] = (
    # The length of their longest response is told in two ways, so it is not told here.
    _gemini("gemini-4-carbon", replace(_GEMINI, max_output_tokens=None), _GEMINI_4, _UNTIL_DECEMBER),
    _gemini("gemini-4-argon", replace(_GEMINI, max_output_tokens=None), _GEMINI_4, _UNTIL_DECEMBER),
    # Of its input, only these are described.
    _gemini(
        "gemini-4-hydrogen", replace(_GEMINI, audio=False, video=False), price("1.5", "7.5", read="0.075")
    ),
    _gemini("gemini-3.[678]-flash", _GEMINI, _FLASH, _UNTIL_JANUARY),
    _gemini("gemini-3.5-flash", _GEMINI, price("1.5", "9", read="0.15")),
    _gemini("gemini-3.5-flash-lite", _GEMINI, price("0.3", "2.5", read="0.03")),
    _gemini("gemini-3.1-pro-preview*", _GEMINI, _PRO, _BEYOND_200K),
    _gemini("gemini-3.1-flash-lite", _GEMINI, price("0.25", "1.5", read="0.025"), _SOUND_COSTS_MORE),
    _gemini("gemini-3-flash-preview", _GEMINI, price("0.5", "3", read="0.05"), _SOUND_COSTS_MORE),
    _gemini("gemini-2.5-pro", _GEMINI_2_5, price("1.25", "10", read="0.125"), _BEYOND_200K, _EITHER_OR),
    _gemini(
        "gemini-2.5-flash",
        _GEMINI_2_5,
        price("0.3", "2.5", read="0.03"),
        _SOUND_COSTS_MORE,
        _EITHER_OR,
    ),
    _gemini(
        "gemini-2.5-flash-lite",
        _GEMINI_2_5,
        price("0.1", "0.4", read="0.01"),
        _SOUND_COSTS_MORE,
        _EITHER_OR,
    ),
    # What these names stand for changes, and the price with it.
    _gemini("gemini-pro-latest", _GEMINI, None),
    _gemini("gemini-flash-latest", _GEMINI, None),
    _gemini("gemini-flash-lite-latest", _GEMINI, None),
    _gemini(
        "gemma-4-*",
        ModelCapabilities(
            structured_output=True, images=True, context_window=262_144, max_output_tokens=32_768
        ),
        price("0", "0"),
        "Free of charge, within the limits of the free tier.",
    ),
)
"""The families, first match first."""

"""Models of Google's Gemini API: what they can do, how large they are, what they cost. Data only.

Prices are those of the paid tier of the Gemini API, for standard requests and text. Some models charge more
for sound. Google caches prefixes of itself; a request cannot say which.

The newest models ignore `temperature`, `top_p` and `top_k`, and Google asks to leave them out: a setting that
does nothing is one that the model lacks.
"""

from dataclasses import replace

from ..types.model import ModelCapabilities, ModelPrice
from .model_facts import ModelFacts, price, with_long_requests

__all__ = ["GOOGLE_MODELS"]

_SOURCE = (
    "ai.google.dev/gemini-api/docs/models, /pricing and /whats-new-gemini-3.6, the table of thinking levels "
    "of docs.cloud.google.com, google-genai 3.4.0, and the tables of litellm 1.109.1 and genai-prices 0.2.3; "
    "read on 2026-11-21"
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
_GEMINI_3 = replace(_GEMINI, reasoning_efforts=("minimal", "low", "medium", "high"))
_GEMINI_3_6 = replace(_GEMINI_3, sampling=False)
_GEMINI_3_7 = replace(_GEMINI_3_6, reasoning_efforts=("low", "medium", "high"))
# Told by a number of tokens; these are the words that the codec has numbers for.
_GEMINI_2_5 = replace(
    _GEMINI,
    structured_output_with_tools=False,
    reasoning_control="budget",
    reasoning_efforts=("none", "minimal", "low", "medium", "high"),
)

_DOUBLES = "The price is introductory: from {day} on it is twice that."
_UNTIL_DECEMBER = _DOUBLES.format(day="2026-12-01")
_UNTIL_JANUARY = _DOUBLES.format(day="2027-01-01")
_BEYOND_200K = (
    "In a request of more than 200,000 tokens, those sent cost twice and those received 1.5 times the price."
)
_SOUND_COSTS_MORE = "Sound costs more than the price of text that is given here."


def _gemini(name: str, capabilities: ModelCapabilities, prices: ModelPrice | None, *notes: str) -> ModelFacts:
    return ModelFacts(
        pattern=f"google:{name}",
        capabilities=replace(capabilities, price=prices),
        note=" ".join(notes),
        source=_SOURCE,
    )


def _rising(usual: ModelPrice) -> ModelPrice:
    """Return the prices described by `_BEYOND_200K`."""
    return with_long_requests(usual, above=200_000, sent="2", received="1.5")


_GEMINI_4 = price("2", "10", read="0.1")
_FLASH = price("0.75", "3.75", read="0.075")
_PRO = _rising(price("2", "12", read="0.2"))

GOOGLE_MODELS: tuple[ModelFacts, ...] = (
    # The length of their longest response is told in two ways, so it is not told here.
    _gemini("gemini-4-carbon", replace(_GEMINI, max_output_tokens=None), _GEMINI_4, _UNTIL_DECEMBER),
    _gemini("gemini-4-argon", replace(_GEMINI, max_output_tokens=None), _GEMINI_4, _UNTIL_DECEMBER),
    # Of its input, only these are described.
    _gemini(
        "gemini-4-hydrogen", replace(_GEMINI, audio=False, video=False), price("1.5", "7.5", read="0.075")
    ),
    _gemini("gemini-3.[78]-flash", _GEMINI_3_7, _FLASH, _UNTIL_JANUARY),
    _gemini("gemini-3.6-flash", _GEMINI_3_6, _FLASH, _UNTIL_JANUARY),
    _gemini("gemini-3.5-flash", _GEMINI_3, price("1.5", "9", read="0.15")),
    _gemini("gemini-3.5-flash-lite", _GEMINI_3_6, price("0.3", "2.5", read="0.03")),
    _gemini(
        "gemini-3.1-pro-preview*",
        replace(_GEMINI_3, reasoning_efforts=("low", "medium", "high")),
        _PRO,
        _BEYOND_200K,
    ),
    _gemini("gemini-3.1-flash-lite", _GEMINI_3, price("0.25", "1.5", read="0.025"), _SOUND_COSTS_MORE),
    _gemini("gemini-3-flash-preview", _GEMINI_3, price("0.5", "3", read="0.05"), _SOUND_COSTS_MORE),
    _gemini(
        "gemini-2.5-pro",
        replace(_GEMINI_2_5, reasoning_efforts=("minimal", "low", "medium", "high")),
        _rising(price("1.25", "10", read="0.125")),
        _BEYOND_200K,
    ),
    _gemini("gemini-2.5-flash", _GEMINI_2_5, price("0.3", "2.5", read="0.03"), _SOUND_COSTS_MORE),
    _gemini("gemini-2.5-flash-lite", _GEMINI_2_5, price("0.1", "0.4", read="0.01"), _SOUND_COSTS_MORE),
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

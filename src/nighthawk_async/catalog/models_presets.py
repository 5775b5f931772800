"""Models of the presets: DeepSeek, Grok, Mistral. Data only.

Their prices are those of genai-prices, which is asked for each request; none stands here. What these rows do
not say, is not known. Endpoints serve their models through several protocols; a family has a row for each.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..types.model import ModelCapabilities
from .model_facts import ModelFacts

_DEEPSEEK = ("deepseek-responses", "deepseek", "deepseek-anthropic")
_MISTRAL = ("mistral", "mistral-responses")
_XAI = ("xai", "xai-chat")

_READ = "read on 2026-11-30"
_DEEPSEEK_SOURCE = (
    f"api-docs.deepseek.com/guides/thinking_mode, and the tables of genai-prices 0.2.3; {_READ}"
)
_MISTRAL_SOURCE = (
    f"docs.mistral.ai (models, vision, reasoning), and the tables of genai-prices 0.2.3; {_READ}"
)
_XAI_SOURCE = (
    "docs.x.ai/developers/tools/overview, /models and /pricing, and the tables of genai-prices 0.2.3; "
    f"{_READ}"
)

_V4 = ModelCapabilities(reasoning=True, context_window=1_000_000)
_SEES = ModelCapabilities(images=True)
_GROK = ModelCapabilities(native_tools=("web_search", "code_execution", "file_search"))
_GROK_4 = replace(_GROK, images=True, structured_output=True)
_GROK_NOTE = "A thousand native calls cost 5 dollars, a thousand searches of files 2.5."
_THINKS = "It thinks unless told otherwise, and cannot be made to call a tool meanwhile."
_RECOMMENDED = f"{_THINKS} The preset deepseek-responses is the recommended way to it."


def _deepseek() -> Iterator[ModelFacts]:
    for provider in _DEEPSEEK:
        note = _THINKS if provider == "deepseek-responses" else _RECOMMENDED
        yield ModelFacts(
            pattern=f"{provider}:deepseek-v4-*", capabilities=_V4, note=note, source=_DEEPSEEK_SOURCE
        )


_MISTRAL_FAMILIES: tuple[tuple[str, ModelCapabilities], ...] = (
    ("mistral-large-4*", replace(_SEES, context_window=1_048_576)),
    ("mistral-large-2512", replace(_SEES, context_window=262_144)),
    ("mistral-medium-3[-.]5*", replace(_SEES, context_window=262_144)),
    ("mistral-small-2603", replace(_SEES, context_window=262_144)),
    ("mistral-[lms]*-latest", _SEES),
    ("magistral-*", ModelCapabilities(images=True, reasoning=True)),
    ("pixtral-*", _SEES),
    ("ministral-*-2512", _SEES),
    ("devstral-*", ModelCapabilities()),
    ("codestral-*", ModelCapabilities()),
)


def _mistral() -> Iterator[ModelFacts]:
    for provider in _MISTRAL:
        for name, capabilities in _MISTRAL_FAMILIES:
            yield ModelFacts(pattern=f"{provider}:{name}", capabilities=capabilities, source=_MISTRAL_SOURCE)


_GROK_FAMILIES: tuple[tuple[str, ModelCapabilities], ...] = (
    ("grok-4.[567]*", replace(_GROK_4, reasoning=True, context_window=500_000)),
    ("grok-4.3*", replace(_GROK_4, reasoning=True, context_window=1_000_000)),
    ("grok-4.20*", replace(_GROK_4, context_window=1_000_000)),
    ("grok-4*-fast*", replace(_GROK_4, context_window=2_000_000)),
    ("grok-4*", replace(_GROK_4, context_window=256_000)),
    ("grok-build-*", replace(_GROK, context_window=256_000)),
    ("grok-*", _GROK),
)


def _grok() -> Iterator[ModelFacts]:
    for provider in _XAI:
        for name, capabilities in _GROK_FAMILIES:
            has_tools = provider == "xai"
            yield ModelFacts(
                pattern=f"{provider}:{name}",
                capabilities=capabilities if has_tools else replace(capabilities, native_tools=()),
                note=_GROK_NOTE if has_tools else "",
                source=_XAI_SOURCE,
            )


PRESET_MODELS: tuple[ModelFacts, ...] = (*_deepseek(), *_mistral(), *_grok())
"""The families, first match first."""

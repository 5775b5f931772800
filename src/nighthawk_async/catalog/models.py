"""Facts about the models of all providers: their capabilities and their endpoints' names for settings.

Models that run on this machine have their own table, `catalog.local`. Users correct a row by the model
setting `capabilities`.

Prices of Google's models are those of the paid tier of the Gemini API, for standard requests and text. Some
models charge more for sound. Google caches prefixes automatically; a request cannot choose them.

The newest models ignore `temperature`, `top_p` and `top_k`, and Google asks to leave them out: a setting
without effect counts as missing.
"""

import re
from dataclasses import replace
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import structs

from ..suggestions import did_you_mean
from ..types.endpoint_rules import EndpointRules
from ..types.model import ModelCapabilities, ModelPrice
from ..types.native_tools import NativeToolName
from .endpoint_rules import ENDPOINT_RULES
from .model_facts import ModelFacts, SchemaRuleFacts, price, with_long_requests
from .models_openai import OPENAI_MODELS
from .models_presets import PRESET_MODELS
from .providers import PROVIDERS

_GEMINI_SOURCE = (
    "ai.google.dev/gemini-api/docs/models, /pricing and /whats-new-gemini-3.6, the table of thinking levels "
    "of docs.cloud.google.com, /gemini-api/docs/tool-combination, google-genai 3.6.1, and the tables of "
    "litellm 1.109.1 and genai-prices 0.2.3; read on 2026-11-26"
)

# With functions, only models from Gemini 3 on take them, through the Gemini API. Each query is a search.
_GEMINI_TOOLS: tuple[NativeToolName, ...] = ("web_search", "code_execution", "file_search")
_QUERIES = Decimal("14")
# Older ones bill a request with searches, however many.
_SEARCHES_2_5 = Decimal("35")

# The amount of thinking is set by a word.
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
_GEMINI_3 = replace(
    _GEMINI, native_tools=_GEMINI_TOOLS, reasoning_efforts=("minimal", "low", "medium", "high")
)
_GEMINI_4 = replace(_GEMINI, native_tools=_GEMINI_TOOLS)
_GEMINI_3_6 = replace(_GEMINI_3, sampling=False)
_GEMINI_3_7 = replace(_GEMINI_3_6, reasoning_efforts=("low", "medium", "high"))
# It is set by a number of tokens; these are the words that the codec has numbers for.
_GEMINI_2_5 = replace(
    _GEMINI,
    structured_output_with_tools=False,
    reasoning_control="budget",
    reasoning_efforts=("none", "minimal", "low", "medium", "high"),
)

_DRAWS = ModelCapabilities(tools=False, parallel_tool_calls=False, images=True, default_transport="direct")

_DOUBLES = "The price is introductory: from {day} on it is twice that."
_UNTIL_DECEMBER = _DOUBLES.format(day="2026-12-01")
_UNTIL_JANUARY = _DOUBLES.format(day="2027-01-01")
_BEYOND_200K = (
    "In a request of more than 200,000 tokens, those sent cost twice and those received 1.5 times the price."
)
_SOUND_COSTS_MORE = "Sound costs more than the price of text that is given here."


def _gemini(name: str, capabilities: ModelCapabilities, prices: ModelPrice | None, *notes: str) -> ModelFacts:
    if prices is not None and not name.startswith("gemma"):
        prices = replace(prices, web_search=_SEARCHES_2_5 if name.startswith("gemini-2.5") else _QUERIES)
    return ModelFacts(
        pattern=f"google:{name}",
        capabilities=replace(capabilities, price=prices),
        note=" ".join(notes),
        source=_GEMINI_SOURCE,
    )


def _rising(usual: ModelPrice) -> ModelPrice:
    """Return the prices described by `_BEYOND_200K`."""
    return with_long_requests(usual, above=200_000, sent="2", received="1.5")


_GEMINI_4_PRICE = price("2", "10", read="0.1")
_FLASH = price("0.75", "3.75", read="0.075")
_PRO = _rising(price("2", "12", read="0.2"))

GOOGLE_MODELS: tuple[ModelFacts, ...] = (
    # Sources disagree on the length of their longest response, so it is not given here.
    _gemini(
        "gemini-4-carbon",
        replace(_GEMINI_4, max_output_tokens=None),
        _GEMINI_4_PRICE,
        _UNTIL_DECEMBER,
    ),
    _gemini(
        "gemini-4-argon",
        replace(_GEMINI_4, max_output_tokens=None),
        _GEMINI_4_PRICE,
        _UNTIL_DECEMBER,
    ),
    # Only these kinds of its input are documented.
    _gemini(
        "gemini-4-hydrogen",
        replace(_GEMINI_4, audio=False, video=False),
        price("1.5", "7.5", read="0.075"),
    ),
    # What it takes beside text, and its price, are not documented where the SDK names it.
    _gemini("gemini-4-neon", replace(_GEMINI_4, audio=False, video=False, max_output_tokens=None), None),
    # Images come back with the text. They call no functions, and take no schema for their answers.
    *(
        _gemini(name, _DRAWS, None, "It draws: a variable of the type BinaryContent takes the image.")
        for name in ("gemini-[23]*-image*", "gemini-nano-banana-*")
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
    # The models behind these names change, and the price with them.
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


_SOURCE = (
    "platform.claude.com/docs/en/models, /about-claude/pricing, /build-with-claude/effort and "
    "/agents-and-tools/tool-use (tool-search-tool, web-search-tool, code-execution-tool), the model "
    "types of anthropic 2.12.0, and the tables of litellm 1.109.1 and genai-prices 0.2.3; read on 2026-11-21"
)

# The amount of thinking is set by a number of tokens.
_WITH_BUDGET = ModelCapabilities(
    structured_output=True,
    images=True,
    documents=True,
    prompt_caching=True,
    reasoning=True,
    reasoning_control="budget",
    tool_search=True,
    context_management=True,
    native_tools=("web_search", "code_execution"),
    context_window=200_000,
    max_output_tokens=64_000,
)
# It is set by a word. Thinking can be turned off.
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


def _claude_price(sent: str, received: str, *, read: str, write: str) -> ModelPrice:
    """A price of Anthropic: tokens that its cache keeps for an hour cost twice as much as others sent."""
    return price(sent, received, read=read, write=write, write_1h=str(2 * Decimal(sent)))


def _claude(name: str, capabilities: ModelCapabilities, prices: ModelPrice, *notes: str) -> ModelFacts:
    return ModelFacts(
        pattern=f"anthropic:{name}",
        capabilities=replace(capabilities, price=replace(prices, web_search=Decimal(10))),
        note=" ".join(notes),
        source=_SOURCE,
    )


_FABLE_5 = _claude_price("10", "50", read="1", write="12.5")
_FABLE_5_1 = _claude_price("10", "50", read="0.25", write="12.5")
_FABLE_5_2 = _claude_price("8", "40", read="0.2", write="10")
_OPUS = _claude_price("5", "25", read="0.5", write="6.25")
_HAIKU_5_5 = with_long_requests(
    _claude_price("0.1", "0.5", read="0.01", write="0.125"), above=100_000, sent="5", received="5"
)
_SONNET_4 = _claude_price("3", "15", read="0.3", write="3.75")

ANTHROPIC_MODELS: tuple[ModelFacts, ...] = (
    _claude("claude-fable-5-2", _UNFORCED, _FABLE_5_2),
    _claude("claude-mythos-5-2", _UNFORCED, _FABLE_5_2),
    _claude("claude-fable-5-1", _UNFORCED, _FABLE_5_1),
    _claude("claude-mythos-5-1", _UNFORCED, _FABLE_5_1),
    _claude("claude-fable-5", _THINKING, _FABLE_5),
    _claude("claude-mythos-5", _THINKING, _FABLE_5),
    ModelFacts(
        pattern="anthropic:claude-mythos-preview",
        capabilities=replace(_THINKING, native_tools=()),
        source=_SOURCE,
    ),
    _claude("claude-opus-5-5", _UNFORCED, _claude_price("4", "20", read="0.2", write="5")),
    _claude(
        "claude-sonnet-5-5", _UNFORCED, _claude_price("2", "10", read="0.1", write="2.5"), _LEAST_THINKING
    ),
    _claude("claude-haiku-5-5", _CLAUDE_5, _HAIKU_5_5, _BEYOND_100K),
    _claude("claude-opus-5", _CLAUDE_5, _OPUS),
    _claude("claude-sonnet-5", _CLAUDE_5, _claude_price("2", "10", read="0.2", write="2.5")),
    _claude("claude-opus-4-8*", _CLAUDE_5, _OPUS),
    _claude("claude-opus-4-7*", _CLAUDE_5, _OPUS),
    _claude("claude-opus-4-6*", _CLAUDE_4_6, _OPUS),
    _claude("claude-sonnet-4-6*", _CLAUDE_4_6, _SONNET_4),
    _claude("claude-opus-4-5*", _WITH_BUDGET, _OPUS),
    _claude("claude-haiku-4-5*", _WITH_BUDGET, _claude_price("1", "5", read="0.1", write="1.25")),
    _claude("claude-sonnet-4-5*", _WITH_BUDGET, _SONNET_4, "Anthropic has announced its end for 2026-11-30."),
)
"""The families, first match first."""


_SEES = ModelCapabilities(images=True)


def _open(name: str, capabilities: ModelCapabilities, source: str) -> ModelFacts:
    return ModelFacts(
        pattern=f"openai-chat:{name}", capabilities=capabilities, source=f"{source}; read on 2026-11-21"
    )


OPEN_MODELS: tuple[ModelFacts, ...] = (
    ModelFacts(
        pattern="ollama:*",
        capabilities=ModelCapabilities(),
        note="It ignores tool_choice, and takes images as bytes only.",
        source="the code of its compatible endpoints; read on 2026-11-21",
    ),
    _open(
        "*gpt-oss*",
        ModelCapabilities(reasoning=True, context_window=131_072),
        "the model card of gpt-oss (three reasoning efforts, 131,072 tokens)",
    ),
    _open("*[Qq]wen*[Vv][Ll]*", _SEES, "the model cards of Qwen2-VL, Qwen2.5-VL and Qwen3-VL"),
    _open("*[Ll]lama-3.2-*[Vv]ision*", _SEES, "the model card of Llama 3.2 Vision"),
    _open("*[Pp]ixtral*", _SEES, "the model card of Pixtral"),
    _open("*[Ll]lava*", _SEES, "the model card of LLaVA"),
)
"""The families, first match first."""


MODELS: tuple[ModelFacts, ...] = (
    *OPENAI_MODELS,
    *ANTHROPIC_MODELS,
    *GOOGLE_MODELS,
    *PRESET_MODELS,
    *OPEN_MODELS,
)
"""The families, first match first."""

UNKNOWN_MODEL = ModelFacts(pattern="*", capabilities=ModelCapabilities())
"""The assumptions about a model that no row covers."""

_WILDCARD = re.compile(r"[*?[]")


def find_model_facts(model_id: str, rules: EndpointRules | None = None) -> ModelFacts:
    """The row that covers a model, as far as its endpoint allows; `UNKNOWN_MODEL` when none does.

    A provider that serves the models of another has its row without the price and the native tools, which may
    differ.

    Args:
        model_id: The model, `provider:name`.
        rules: The rules of its endpoint; None for those of the provider.
    """
    found = _find_row(model_id)
    if rules is None:
        rules = ENDPOINT_RULES.get(model_id.partition(":")[0])
    if rules is None or rules.forces_tools or not found.capabilities.forced_tool_choice:
        return found
    return structs.replace(found, capabilities=replace(found.capabilities, forced_tool_choice=False))


def _find_row(model_id: str) -> ModelFacts:
    provider, _, name = model_id.partition(":")
    facts = PROVIDERS.get(provider)
    if facts is not None and facts.models_of:
        found = find_model_facts(f"{facts.models_of}:{name}")
        without = replace(found.capabilities, price=None, native_tools=())
        return structs.replace(found, capabilities=without)
    return next((facts for facts in MODELS if _covers(facts.pattern, model_id)), UNKNOWN_MODEL)


@lru_cache(maxsize=256)
def find_schema_rules(model_id: str) -> SchemaRuleFacts:
    """The rules of a model's endpoint for JSON Schemas.

    Most names without a row belong to other servers of OpenAI's protocols, which have no known rules.

    Args:
        model_id: The model, `provider:name`.
    """
    provider = PROVIDERS.get(model_id.partition(":")[0])
    if provider is None:
        return SchemaRuleFacts()
    facts = find_model_facts(model_id)
    module = facts.schema_rules or provider.schema_rules
    places = provider.strict_places if facts.enforces_tools else provider.strict_places - {"tool"}
    return SchemaRuleFacts(module=module, strict_places=places if module else frozenset())


def suggest_model(model_id: str) -> str:
    """Return ` Did you mean …?` for a model id that resembles that of a row, or nothing.

    Args:
        model_id: The model, `provider:name`, which its provider does not know.
    """
    provider = model_id.partition(":")[0]
    names = [facts.pattern.removesuffix("*") for facts in MODELS if facts.pattern.startswith(f"{provider}:")]
    return did_you_mean(model_id, [name for name in names if not _WILDCARD.search(name) and name != model_id])


def _covers(pattern: str, model_id: str) -> bool:
    """Whether a pattern covers a model. Compiling the patterns of all models would take 8 ms."""
    return model_id.startswith(_WILDCARD.split(pattern, maxsplit=1)[0]) and fnmatchcase(model_id, pattern)


def remedy(model_id: str, capability: str, value: object = True) -> str:
    """Return the remedy for a missing capability, as the end of an error's message.

    Args:
        model_id: The model, `provider:name`.
        capability: A field of `ModelCapabilities`.
        value: The value that the field would need.
    """
    other = _other_way(model_id, capability)
    way = "" if other is None else f" Through another protocol it is otherwise: use {other}."
    setting = f"capabilities={{{capability!r}: {value!r}}}"
    return f"{way} If that is wrong, correct it with the model setting {setting}."


def _other_way(model_id: str, capability: str) -> str | None:
    """The id by which another provider serves the model with that capability, when one does."""
    provider = find_model_facts(model_id).more_through
    if not provider:
        return None
    other = f"{provider}:{model_id.partition(':')[2]}"
    return other if getattr(find_model_facts(other).capabilities, capability) else None

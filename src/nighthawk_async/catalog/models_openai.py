"""Models of OpenAI: capabilities, sizes and prices. Data only.

A family is written once and becomes a row for each of the two protocols. They differ: Chat Completions calls
the limit of a reasoning model's response `max_completion_tokens`; it does not serve every model; for some it
refuses requests that offer tools, for others only those that also set the reasoning effort; it has no search
for deferred tools, and no native tools but a web search in models of its own.

The words for reasoning are those that the endpoint lists when it refuses another. Models that cannot do
without reasoning refuse `temperature` and `top_p`.

Prices are OpenAI's own, for standard requests. The price of writing to the cache is that of its shorter
lifetime. OpenAI caches prefixes automatically; its newest models let a request control that, but the codecs
do not use it, so no row claims it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Literal, TypeAlias

from msgspec import Struct

from ..types.model import ModelCapabilities, ModelPrice, ReasoningEffort
from ..types.native_tools import NativeToolName
from .model_facts import ModelFacts, price as price_of, with_long_requests

price = partial(price_of, web_search="10", file_search="2.5")
"""The price of a model; searches cost the same with all of them."""

_RULES = "openai_schemas"
_SOURCE = (
    "developers.openai.com/api/docs/models, /pricing, /guides/reasoning, /guides/tools-tool-search, "
    "/guides/tools-web-search and /changelog, answers of the endpoint that others recorded, the model types "
    "of openai 3.57.0, and the tables of litellm 1.109.1 and genai-prices 0.2.3; read on 2026-11-26"
)

_Efforts: TypeAlias = tuple[ReasoningEffort, ...]

_CHAT, _RESPONSES = "openai-chat", "openai-responses"

# Reasoning models refuse `max_tokens`, which does not count their reasoning.
_CHAT_NAMES: Mapping[str, str] = MappingProxyType({"max_tokens": "max_completion_tokens"})
_SAME_NAMES: Mapping[str, str] = MappingProxyType({})

_BEYOND_272K = (
    "In a request of more than 272,000 tokens, those sent cost twice and those received 1.5 times the price."
)
_SAMPLES_UNREASONED = "It takes temperature and top_p only with reasoning_effort='none'."
_CALLS_UNREASONED = (
    "Through this protocol it calls tools only with reasoning_effort='none' and capabilities={'tools': True}."
)


class _Family(Struct, frozen=True, kw_only=True):
    """Models that both protocols name alike.

    Args:
        name: Their names, as a pattern.
        capabilities: Their capabilities through Responses.
        chat: Their capabilities through Chat Completions: all of those, all but tools and a word for
            reasoning in one request, all but tools, or none.
        note: Advice for people.
        chat_note: Advice for people who use Chat Completions.
    """

    name: str
    capabilities: ModelCapabilities
    chat: Literal["all", "tools or effort", "no tools", "nothing"] = "all"
    note: str = ""
    chat_note: str = ""


# Containers for code are billed by time, which usage does not tell.
_NATIVE: tuple[NativeToolName, ...] = ("web_search", "code_execution", "file_search")
_SEARCHES: tuple[NativeToolName, ...] = ("web_search", "file_search")

_TEXT = ModelCapabilities(structured_output=True, native_tools=_NATIVE, prompt_cache_key=True)
_MEDIA = replace(_TEXT, images=True, documents=True)
_REASONING = replace(_MEDIA, reasoning=True)

_GPT_4_1 = replace(_MEDIA, context_window=1_047_576, max_output_tokens=32_768)
_GPT_4O = replace(_MEDIA, context_window=128_000, max_output_tokens=16_384)
_THREE: _Efforts = ("low", "medium", "high")
# Not all words of the codex models are known.
_CODEX = replace(
    _REASONING,
    native_tools=("web_search",),
    context_management=True,
    context_window=400_000,
    max_output_tokens=128_000,
)
_GPT_5 = replace(
    _CODEX,
    native_tools=_NATIVE,
    reasoning_efforts=("minimal", "low", "medium", "high"),
    sampling=False,
)
_GPT_5_1 = replace(_CODEX, native_tools=_NATIVE, reasoning_efforts=("none", "low", "medium", "high"))
_GPT_5_2 = replace(_CODEX, native_tools=_NATIVE, reasoning_efforts=("none", "low", "medium", "high", "xhigh"))
_GPT_5_LONG = replace(_GPT_5_2, tool_search=True, context_window=1_050_000)
_GPT_6 = replace(_GPT_5_LONG, reasoning_efforts=("none", "low", "medium", "high", "xhigh", "max"))
_GPT_6_REASONING = replace(
    _GPT_6, reasoning_efforts=("low", "medium", "high", "xhigh", "max"), sampling=False
)
_PRO = replace(_CODEX, native_tools=_SEARCHES, reasoning_efforts=("medium", "high", "xhigh"), sampling=False)
_PRO_LONG = replace(_PRO, structured_output=False, tool_search=True, context_window=1_050_000)
# They take no `parallel_tool_calls`.
_O_SERIES = replace(
    _REASONING,
    parallel_tool_calls=False,
    reasoning_efforts=_THREE,
    sampling=False,
    context_window=200_000,
    max_output_tokens=100_000,
)
_PLAIN_O = replace(_O_SERIES, native_tools=())
_RESEARCH = replace(_O_SERIES, tools=False, structured_output=False)

_UNNAMED = ModelCapabilities()


def _rising(usual: ModelPrice) -> ModelPrice:
    """Return the prices described by `_BEYOND_272K`."""
    return with_long_requests(usual, above=272_000, sent="2", received="1.5")


def _gpt_6(
    name: str, input_price: str, output_price: str, *, read: str, write: str, reasons_always: bool = False
) -> _Family:
    prices = _rising(price(input_price, output_price, read=read, write=write))
    return _Family(
        name=name,
        capabilities=replace(_GPT_6_REASONING if reasons_always else _GPT_6, price=prices),
        chat="no tools",
        note=_BEYOND_272K if reasons_always else f"{_SAMPLES_UNREASONED} {_BEYOND_272K}",
        chat_note="" if reasons_always else _CALLS_UNREASONED,
    )


_FAMILIES = (
    _gpt_6("gpt-6.2-astra", "8", "40", read="0.4", write="10", reasons_always=True),
    _gpt_6("gpt-6.2-sol", "2", "10", read="0.1", write="2.5", reasons_always=True),
    _gpt_6("gpt-6.1-sol", "2", "10", read="0.1", write="2.5", reasons_always=True),
    _gpt_6("gpt-6.1-terra", "1", "5", read="0.05", write="1.25"),
    _gpt_6("gpt-6-astra", "10", "50", read="1", write="12.5", reasons_always=True),
    _gpt_6("gpt-6-sol", "2", "10", read="0.2", write="2.5"),
    _gpt_6("gpt-6-luna", "0.1", "0.5", read="0.01", write="0.125"),
    _gpt_6("gpt-5.6", "4", "20", read="0.4", write="5"),
    _gpt_6("gpt-5.6-sol", "4", "20", read="0.4", write="5"),
    _gpt_6("gpt-5.6-terra", "2", "12", read="0.2", write="2.5"),
    _gpt_6("gpt-5.6-luna", "0.2", "1.2", read="0.02", write="0.25"),
    _Family(
        name="gpt-5.5-pro*",
        capabilities=replace(_PRO_LONG, price=_rising(price("30", "180"))),
        chat="nothing",
        note=_BEYOND_272K,
    ),
    _Family(
        name="gpt-5.4-pro*",
        capabilities=replace(_PRO_LONG, price=_rising(price("30", "180"))),
        chat="nothing",
        note=_BEYOND_272K,
    ),
    _Family(
        name="gpt-5.4-mini*",
        capabilities=replace(_GPT_5_2, tool_search=True, price=price("0.75", "4.5", read="0.075")),
        chat="tools or effort",
    ),
    _Family(
        name="gpt-5.4-nano*",
        capabilities=replace(_GPT_5_2, price=price("0.2", "1.25", read="0.02")),
        note="OpenAI has announced its end for 2027-04-01.",
        chat="tools or effort",
    ),
    _Family(
        name="gpt-5.3-codex*",
        capabilities=replace(_GPT_5_2, native_tools=("web_search",), price=price("1.75", "14", read="0.175")),
        chat="nothing",
    ),
    _Family(name="gpt-5.2-pro*", capabilities=replace(_PRO, price=price("21", "168")), chat="nothing"),
    _Family(
        name="gpt-5.2-codex*",
        capabilities=replace(_CODEX, price=price("1.75", "14", read="0.175")),
        chat="nothing",
    ),
    _Family(
        name="gpt-5.1-codex-mini*",
        capabilities=replace(_CODEX, reasoning_efforts=_THREE, price=price("0.25", "2", read="0.025")),
        chat="nothing",
    ),
    _Family(
        name="gpt-5.1-codex*",
        capabilities=replace(_CODEX, price=price("1.25", "10", read="0.125")),
        chat="nothing",
    ),
    _Family(
        name="gpt-5-pro*",
        capabilities=replace(
            _GPT_5,
            native_tools=_SEARCHES,
            reasoning_efforts=("high",),
            max_output_tokens=272_000,
            price=price("15", "120"),
        ),
        chat="nothing",
    ),
    _Family(
        name="gpt-5-codex*",
        capabilities=replace(_CODEX, reasoning_efforts=_THREE, price=price("1.25", "10", read="0.125")),
        chat="nothing",
    ),
    _Family(name="gpt-5-mini*", capabilities=replace(_GPT_5, price=price("0.25", "2", read="0.025"))),
    _Family(name="gpt-5-nano*", capabilities=replace(_GPT_5, price=price("0.05", "0.4", read="0.005"))),
    # They chat: no reasoning. Prices of these and of the next are left to genai-prices.
    _Family(
        name="gpt-5*-chat-latest",
        capabilities=replace(
            _MEDIA,
            native_tools=(),
            context_window=128_000,
            max_output_tokens=16_384,
            parallel_tool_calls=True,
        ),
    ),
    _Family(name="gpt-5.1-mini*", capabilities=_GPT_5_1),
    _Family(
        name="gpt-6.2-astra-law*", capabilities=replace(_GPT_6_REASONING, native_tools=()), chat="nothing"
    ),
    _Family(name="gpt-6-rosalind*", capabilities=replace(_GPT_6_REASONING, native_tools=()), chat="nothing"),
    _Family(name="gpt-[56]*-cyber*", capabilities=replace(_GPT_6_REASONING, native_tools=()), chat="nothing"),
    # Other names with a word behind the version belong to no family: nothing is known of them. Names with a
    # date are snapshots of the families below.
    _Family(name="gpt-[5-9]*-[a-z]*", capabilities=_UNNAMED),
    _Family(
        name="gpt-5.5*",
        capabilities=replace(_GPT_5_LONG, price=_rising(price("5", "30", read="0.5"))),
        note=f"{_SAMPLES_UNREASONED} {_BEYOND_272K}",
        chat="tools or effort",
    ),
    _Family(
        name="gpt-5.4*",
        capabilities=replace(_GPT_5_LONG, price=_rising(price("2.5", "15", read="0.25"))),
        note=_BEYOND_272K,
        chat="tools or effort",
    ),
    _Family(
        name="gpt-5.2*",
        capabilities=replace(_GPT_5_2, price=price("1.75", "14", read="0.175")),
        chat="tools or effort",
    ),
    _Family(name="gpt-5.1*", capabilities=replace(_GPT_5_1, price=price("1.25", "10", read="0.125"))),
    _Family(name="gpt-5", capabilities=replace(_GPT_5, price=price("1.25", "10", read="0.125"))),
    _Family(name="gpt-5-2*", capabilities=replace(_GPT_5, price=price("1.25", "10", read="0.125"))),
    _Family(
        name="chat-latest",
        capabilities=replace(
            _MEDIA, context_window=400_000, max_output_tokens=128_000, price=price("5", "30", read="0.5")
        ),
    ),
    _Family(name="gpt-4.1-mini*", capabilities=replace(_GPT_4_1, price=price("0.4", "1.6", read="0.1"))),
    _Family(
        name="gpt-4.1-nano*",
        capabilities=replace(
            _GPT_4_1,
            native_tools=("code_execution", "file_search"),
            price=price("0.1", "0.4", read="0.025"),
        ),
    ),
    _Family(name="gpt-4.1*", capabilities=replace(_GPT_4_1, price=price("2", "8", read="0.5"))),
    _Family(name="gpt-4o-mini-2*", capabilities=replace(_GPT_4O, price=price("0.15", "0.6", read="0.075"))),
    _Family(name="gpt-4o-mini", capabilities=replace(_GPT_4O, price=price("0.15", "0.6", read="0.075"))),
    _Family(name="gpt-4o-2*", capabilities=replace(_GPT_4O, price=price("2.5", "10", read="1.25"))),
    _Family(name="gpt-4o", capabilities=replace(_GPT_4O, price=price("2.5", "10", read="1.25"))),
    _Family(
        name="o[34]*-deep-research*",
        capabilities=_RESEARCH,
        chat="nothing",
        note="It answers after minutes of research, for which it has tools of its own.",
    ),
    _Family(name="o3-pro*", capabilities=replace(_O_SERIES, price=price("20", "80")), chat="nothing"),
    _Family(
        name="o1-pro*",
        capabilities=replace(_PLAIN_O, price=price("150", "600")),
        chat="nothing",
    ),
    _Family(
        name="o3-mini*",
        capabilities=replace(_PLAIN_O, images=False, documents=False, price=price("1.1", "4.4", read="0.55")),
    ),
    _Family(name="o4-mini*", capabilities=replace(_O_SERIES, price=price("1.1", "4.4", read="0.275"))),
    _Family(name="o3*", capabilities=replace(_O_SERIES, price=price("2", "8", read="0.5"))),
    _Family(name="o1", capabilities=replace(_PLAIN_O, price=price("15", "60", read="7.5"))),
    _Family(name="o1-2*", capabilities=replace(_PLAIN_O, price=price("15", "60", read="7.5"))),
)


def _through_responses(family: _Family) -> ModelFacts:
    return ModelFacts(
        pattern=f"{_RESPONSES}:{family.name}",
        schema_rules=_RULES,
        capabilities=family.capabilities,
        note=family.note,
        source=_SOURCE,
    )


def _through_chat(family: _Family) -> ModelFacts:
    is_reached = family.chat != "nothing"
    capabilities = _chat_capabilities(family)
    calls_limit_otherwise = capabilities.reasoning or family.capabilities is _UNNAMED
    return ModelFacts(
        pattern=f"{_CHAT}:{family.name}",
        schema_rules=_RULES,
        capabilities=capabilities,
        setting_names=_CHAT_NAMES if calls_limit_otherwise else _SAME_NAMES,
        only_through="" if is_reached else _RESPONSES,
        more_through=_RESPONSES if is_reached and family.chat != "all" else "",
        note=f"{family.chat_note} {family.note}".strip() if is_reached else "",
        source=_SOURCE,
    )


def _chat_capabilities(family: _Family) -> ModelCapabilities:
    capabilities = replace(family.capabilities, tool_search=False, context_management=False, native_tools=())
    match family.chat:
        case "all":
            return capabilities
        case "tools or effort":
            return replace(capabilities, reasoning_with_tools=False)
        case "no tools":
            return replace(capabilities, tools=False, parallel_tool_calls=False)
        case "nothing":
            return replace(_UNNAMED, tools=False, parallel_tool_calls=False)


def _audio(name: str) -> ModelFacts:
    """Models that take sound. The Responses protocol carries no sound.

    They have no price here, since sound costs more than text and usage does not tell the two apart.
    """
    return ModelFacts(
        pattern=f"{_CHAT}:{name}",
        schema_rules=_RULES,
        enforces_tools=False,  # they have no structured output
        capabilities=ModelCapabilities(audio=True, context_window=128_000, max_output_tokens=16_384),
        note="It wants sound in the request.",
        source=_SOURCE,
    )


def _search(name: str, prices: ModelPrice, context_window: int, max_output_tokens: int) -> ModelFacts:
    """Models that search the web before each answer; they call no functions."""
    return ModelFacts(
        pattern=f"{_CHAT}:{name}",
        schema_rules=_RULES,
        capabilities=ModelCapabilities(
            tools=False,
            parallel_tool_calls=False,
            structured_output=True,
            sampling=False,
            native_tools=("web_search",),
            default_transport="native",
            context_window=context_window,
            max_output_tokens=max_output_tokens,
            price=prices,
        ),
        note="It searches the web before each answer, and calls no tools: set provided_tools=().",
        source=_SOURCE,
    )


def _rows() -> Iterator[ModelFacts]:
    yield _search("gpt-5-search-api*", price("1.25", "10", read="0.125", web_search="10"), 272_000, 128_000)
    yield _search("gpt-4o-search-preview*", price("2.5", "10", web_search="25"), 128_000, 16_384)
    yield _search("gpt-4o-mini-search-preview*", price("0.15", "0.6", web_search="25"), 128_000, 16_384)
    yield _audio("gpt-audio*")
    yield _audio("gpt-4o*-audio*")
    for family in _FAMILIES:
        yield _through_responses(family)
    for family in _FAMILIES:
        yield _through_chat(family)


OPENAI_MODELS: tuple[ModelFacts, ...] = tuple(_rows())
"""The families, first match first."""

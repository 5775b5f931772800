"""Models of OpenAI: what they can do, how large they are, what they cost. Floor 1. Data only.

A family is written once and becomes a row for each of the two protocols. They differ: Chat Completions calls
the limit of a reasoning model's response `max_completion_tokens`; it does not reach every model; and with
some models it refuses requests that offer tools.

Prices are OpenAI's own, for standard requests. The price of writing to the cache is that of its shorter
lifetime. OpenAI caches prefixes of itself; what its newest models let a request say about that, the codecs do
not write, so no row claims it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from ..types.model import ModelCapabilities
from .model_facts import ModelFacts, price

__all__ = ["OPENAI_MODELS"]

_SOURCE = (
    "developers.openai.com/api/docs/models and /pricing, the model types of openai 3.54.0, and the tables of "
    "litellm 1.109.1 and genai-prices 0.2.3; read on 2026-11-21"
)

_CHAT, _RESPONSES = "openai-chat", "openai-responses"

# Reasoning models refuse `max_tokens`, which does not count their reasoning.
_CHAT_NAMES: Mapping[str, str] = MappingProxyType({"max_tokens": "max_completion_tokens"})
_SAME_NAMES: Mapping[str, str] = MappingProxyType({})

_BEYOND_272K = (
    "In a request of more than 272,000 tokens, those sent cost twice and those received 1.5 times the price."
)
_TOOLS_ELSEWHERE = f"It calls tools through {_RESPONSES} only."
_EITHER_OR = f"It takes tools together with reasoning_effort through {_RESPONSES} only."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """Models that both protocols name alike.

    Args:
        name: Their names, as a pattern.
        capabilities: What they can do through Responses.
        chat: What Chat Completions can do with them: all of that, all but call tools, or nothing.
        note: What else people should know.
        chat_note: What else they should know who use Chat Completions.
    """

    name: str
    capabilities: ModelCapabilities
    chat: Literal["all", "no tools", "nothing"] = "all"
    note: str = ""
    chat_note: str = ""


_TEXT = ModelCapabilities(structured_output=True)
_MEDIA = replace(_TEXT, images=True, documents=True)
_REASONING = replace(_MEDIA, reasoning=True)

_GPT_4_1 = replace(_MEDIA, context_window=1_047_576, max_output_tokens=32_768)
_GPT_4O = replace(_MEDIA, context_window=128_000, max_output_tokens=16_384)
_GPT_5 = replace(_REASONING, context_window=400_000, max_output_tokens=128_000)
_GPT_5_LONG = replace(_GPT_5, context_window=1_050_000)
_PRO = replace(_GPT_5_LONG, structured_output=False)
# They take no `parallel_tool_calls`.
_O_SERIES = replace(_REASONING, parallel_tool_calls=False, context_window=200_000, max_output_tokens=100_000)
_RESEARCH = replace(_O_SERIES, tools=False, structured_output=False)

_UNNAMED = ModelCapabilities()


def _gpt_6(
    name: str, input_price: str, output_price: str, *, read: str, write: str, note: str = ""
) -> _Family:
    prices = price(input_price, output_price, read=read, write=write)
    return _Family(
        name=name,
        capabilities=replace(_GPT_5_LONG, price=prices),
        chat="no tools",
        note=f"{_BEYOND_272K} {note}".strip(),
        chat_note=_TOOLS_ELSEWHERE,
    )


_NEVER_NONE = "It refuses the reasoning effort 'none'."

_FAMILIES = (
    _gpt_6("gpt-6.2-astra", "8", "40", read="0.4", write="10", note=_NEVER_NONE),
    _gpt_6("gpt-6.2-sol", "2", "10", read="0.1", write="2.5", note=_NEVER_NONE),
    _gpt_6("gpt-6.1-sol", "2", "10", read="0.1", write="2.5", note=_NEVER_NONE),
    _gpt_6("gpt-6.1-terra", "1", "5", read="0.05", write="1.25"),
    _gpt_6("gpt-6-astra", "10", "50", read="1", write="12.5", note=_NEVER_NONE),
    _gpt_6("gpt-6-sol", "2", "10", read="0.2", write="2.5"),
    _gpt_6("gpt-6-luna", "0.1", "0.5", read="0.01", write="0.125"),
    _gpt_6("gpt-5.6", "4", "20", read="0.4", write="5"),
    _gpt_6("gpt-5.6-sol", "4", "20", read="0.4", write="5"),
    _gpt_6("gpt-5.6-terra", "2", "12", read="0.2", write="2.5"),
    _gpt_6("gpt-5.6-luna", "0.2", "1.2", read="0.02", write="0.25"),
    _Family(
        name="gpt-5.5-pro*",
        capabilities=replace(_PRO, price=price("30", "180")),
        chat="nothing",
        note=_BEYOND_272K,
    ),
    _Family(
        name="gpt-5.4-pro*",
        capabilities=replace(_PRO, price=price("30", "180")),
        chat="nothing",
        note=_BEYOND_272K,
    ),
    _Family(
        name="gpt-5.4-mini*",
        capabilities=replace(_GPT_5, price=price("0.75", "4.5", read="0.075")),
        chat_note=_EITHER_OR,
    ),
    _Family(
        name="gpt-5.4-nano*",
        capabilities=replace(_GPT_5, price=price("0.2", "1.25", read="0.02")),
        note="OpenAI has announced its end for 2027-04-01.",
        chat_note=_EITHER_OR,
    ),
    _Family(
        name="gpt-5.3-codex*",
        capabilities=replace(_GPT_5, price=price("1.75", "14", read="0.175")),
        chat="nothing",
    ),
    _Family(name="gpt-5.2-pro*", capabilities=replace(_GPT_5, price=price("21", "168")), chat="nothing"),
    _Family(
        name="gpt-5.2-codex*",
        capabilities=replace(_GPT_5, price=price("1.75", "14", read="0.175")),
        chat="nothing",
    ),
    _Family(
        name="gpt-5.1-codex-mini*",
        capabilities=replace(_GPT_5, price=price("0.25", "2", read="0.025")),
        chat="nothing",
    ),
    _Family(
        name="gpt-5.1-codex*",
        capabilities=replace(_GPT_5, price=price("1.25", "10", read="0.125")),
        chat="nothing",
    ),
    _Family(
        name="gpt-5-pro*",
        capabilities=replace(_GPT_5, max_output_tokens=272_000, price=price("15", "120")),
        chat="nothing",
    ),
    _Family(
        name="gpt-5-codex*",
        capabilities=replace(_GPT_5, price=price("1.25", "10", read="0.125")),
        chat="nothing",
    ),
    _Family(name="gpt-5-mini*", capabilities=replace(_GPT_5, price=price("0.25", "2", read="0.025"))),
    _Family(name="gpt-5-nano*", capabilities=replace(_GPT_5, price=price("0.05", "0.4", read="0.005"))),
    # Other names with a word behind the version belong to no family: nothing is known of them. Names with a
    # date are snapshots of the families below.
    _Family(name="gpt-[5-9]*-[a-z]*", capabilities=_UNNAMED),
    _Family(
        name="gpt-5.5*",
        capabilities=replace(_GPT_5_LONG, price=price("5", "30", read="0.5")),
        note=_BEYOND_272K,
        chat_note=_EITHER_OR,
    ),
    _Family(
        name="gpt-5.4*",
        capabilities=replace(_GPT_5_LONG, price=price("2.5", "15", read="0.25")),
        note=_BEYOND_272K,
        chat_note=_EITHER_OR,
    ),
    _Family(
        name="gpt-5.2*",
        capabilities=replace(_GPT_5, price=price("1.75", "14", read="0.175")),
        chat_note=_EITHER_OR,
    ),
    _Family(name="gpt-5.1*", capabilities=replace(_GPT_5, price=price("1.25", "10", read="0.125"))),
    _Family(name="gpt-5", capabilities=replace(_GPT_5, price=price("1.25", "10", read="0.125"))),
    _Family(name="gpt-5-2*", capabilities=replace(_GPT_5, price=price("1.25", "10", read="0.125"))),
    _Family(
        name="chat-latest",
        capabilities=replace(
            _MEDIA, context_window=400_000, max_output_tokens=128_000, price=price("5", "30", read="0.5")
        ),
    ),
    _Family(name="gpt-4.1-mini*", capabilities=replace(_GPT_4_1, price=price("0.4", "1.6", read="0.1"))),
    _Family(name="gpt-4.1-nano*", capabilities=replace(_GPT_4_1, price=price("0.1", "0.4", read="0.025"))),
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
    _Family(name="o1-pro*", capabilities=replace(_O_SERIES, price=price("150", "600")), chat="nothing"),
    _Family(
        name="o3-mini*",
        capabilities=replace(
            _O_SERIES, images=False, documents=False, price=price("1.1", "4.4", read="0.55")
        ),
    ),
    _Family(name="o4-mini*", capabilities=replace(_O_SERIES, price=price("1.1", "4.4", read="0.275"))),
    _Family(name="o3*", capabilities=replace(_O_SERIES, price=price("2", "8", read="0.5"))),
    _Family(name="o1", capabilities=replace(_O_SERIES, price=price("15", "60", read="7.5"))),
    _Family(name="o1-2*", capabilities=replace(_O_SERIES, price=price("15", "60", read="7.5"))),
)


def _through_responses(family: _Family) -> ModelFacts:
    return ModelFacts(
        pattern=f"{_RESPONSES}:{family.name}",
        capabilities=family.capabilities,
        note=family.note,
        source=_SOURCE,
    )


def _through_chat(family: _Family) -> ModelFacts:
    is_reached = family.chat != "nothing"
    capabilities = family.capabilities if is_reached else _UNNAMED
    note = f"{family.chat_note} {family.note}".strip() if is_reached else ""
    if family.chat != "all":
        capabilities = replace(capabilities, tools=False, parallel_tool_calls=False)
    calls_limit_otherwise = capabilities.reasoning or family.capabilities is _UNNAMED
    return ModelFacts(
        pattern=f"{_CHAT}:{family.name}",
        capabilities=capabilities,
        setting_names=_CHAT_NAMES if calls_limit_otherwise else _SAME_NAMES,
        only_through="" if is_reached else _RESPONSES,
        note=note,
        source=_SOURCE,
    )


def _audio(name: str) -> ModelFacts:
    """Models that hear. The Responses protocol carries no sound.

    They have no price here, since sound costs more than text and usage does not tell the two apart.
    """
    return ModelFacts(
        pattern=f"{_CHAT}:{name}",
        capabilities=ModelCapabilities(audio=True, context_window=128_000, max_output_tokens=16_384),
        note="It wants sound in the request.",
        source=_SOURCE,
    )


def _rows() -> Iterator[ModelFacts]:
    yield _audio("gpt-audio*")
    yield _audio("gpt-4o*-audio*")
    for family in _FAMILIES:
        yield _through_responses(family)
    for family in _FAMILIES:
        yield _through_chat(family)


OPENAI_MODELS: tuple[ModelFacts, ...] = tuple(_rows())
"""The families, first match first."""

"""The table of models: every row can be reached, is coherent, and says where it comes from."""

import re
from collections.abc import Iterator
from decimal import Decimal
from fnmatch import fnmatchcase
from itertools import product
from typing import get_args

import pytest

from nighthawk_async.catalog.local import GGUF_FILE, LOCAL_MODELS
from nighthawk_async.catalog.models import MODELS, UNKNOWN_MODEL, ModelFacts, find_model_facts
from nighthawk_async.catalog.providers import PROVIDERS
from nighthawk_async.catalog.request_cost import cost_of
from nighthawk_async.configuration import DEFAULT_MODEL
from nighthawk_async.types.model import ModelCapabilities, ReasoningEffort
from nighthawk_async.types.usage import Usage
from tests.cases import every

ALL_CAPABILITIES = {
    **{facts.pattern: facts.capabilities for facts in MODELS},
    **{f"local:{name}": facts.capabilities for name, facts in LOCAL_MODELS.items()},
    "local:*.gguf": GGUF_FILE.capabilities,
}


def names_of(pattern: str) -> Iterator[str]:
    """Some names that a pattern covers: each `*` as nothing, a date or a word, each set as its first one."""
    pieces = re.split(r"(\*|\[[^]]+\])", pattern)
    choices = [
        ("", "2026-01-01", "-2026-01-01", "0", "zz")
        if piece == "*"
        else (piece[1],)
        if piece.startswith("[")
        else (piece,)
        for piece in pieces
    ]
    yield from ("".join(chosen) for chosen in product(*choices))


@every("facts", MODELS)
def test_no_row_is_hidden_by_an_earlier_one(facts: ModelFacts) -> None:
    names = list(names_of(facts.pattern))
    assert all(fnmatchcase(name, facts.pattern) for name in names)
    assert any(find_model_facts(name).pattern == facts.pattern for name in names)


def test_no_pattern_stands_in_the_table_twice() -> None:
    patterns = [facts.pattern for facts in MODELS]
    assert len(patterns) == len(set(patterns))


@every("facts", MODELS)
def test_a_row_names_a_provider_and_its_source_with_the_day(facts: ModelFacts) -> None:
    assert facts.pattern.partition(":")[0] in PROVIDERS
    assert re.search(r"read on 20\d\d-\d\d-\d\d$", facts.source)
    assert {facts.only_through, facts.more_through} <= {"", *PROVIDERS}


@every("pattern", ALL_CAPABILITIES)
def test_what_a_row_says_is_coherent(pattern: str) -> None:
    capabilities = ALL_CAPABILITIES[pattern]
    assert capabilities.tools or not capabilities.parallel_tool_calls
    assert capabilities.tools or (capabilities.forced_tool_choice and capabilities.reasoning_with_tools)
    assert capabilities.structured_output or capabilities.structured_output_with_tools
    assert capabilities.reasoning or capabilities.reasoning_control == "effort"
    assert capabilities.reasoning or capabilities.reasoning_with_tools
    efforts = capabilities.reasoning_efforts
    assert efforts is None or (capabilities.reasoning and len(efforts) > 0)
    assert efforts is None or list(efforts) == [word for word in get_args(ReasoningEffort) if word in efforts]
    window, longest = capabilities.context_window, capabilities.max_output_tokens
    assert window is None or longest is None or 0 < longest <= window
    assert window is not None or longest is None


@every("pattern", ALL_CAPABILITIES)
def test_a_price_is_coherent(pattern: str) -> None:
    price = ALL_CAPABILITIES[pattern].price
    if price is None:
        return
    assert Decimal(0) <= price.input <= price.output
    assert price.cache_read is None or Decimal(0) < price.cache_read < price.input
    assert price.cache_write is None or price.input < price.cache_write <= 2 * price.input


def test_a_model_that_costs_to_be_cached_has_a_price_for_reading_the_cache() -> None:
    writers = [
        each.price for each in ALL_CAPABILITIES.values() if each.price and each.price.cache_write is not None
    ]
    assert writers
    assert all(price.cache_read is not None for price in writers)


def test_an_hour_in_the_cache_of_anthropic_costs_twice_what_is_sent() -> None:
    """Their page on prompt caching; read on 2026-11-29."""
    found = [each.price for name, each in ALL_CAPABILITIES.items() if name.startswith("anthropic:")]
    prices = [price for price in found if price is not None]
    assert len(prices) > 10
    usage = Usage(input_tokens=1_000, cache_write_tokens=1_000, cache_write_1h_tokens=1_000)
    assert all(cost_of(usage, price) == price.input / 500 for price in prices)


def test_models_of_this_machine_cost_nothing() -> None:
    local = [ALL_CAPABILITIES[pattern] for pattern in ALL_CAPABILITIES if pattern.startswith("local:")]
    assert [each.price and (each.price.input, each.price.output) for each in local] == [(0, 0)] * len(local)


def test_the_default_model_has_a_row_with_everything_known() -> None:
    capabilities = find_model_facts(DEFAULT_MODEL).capabilities
    assert capabilities.tools
    assert capabilities.structured_output
    assert capabilities.context_window == 400_000
    assert capabilities.price is not None


@pytest.mark.parametrize(
    "model_id",
    [
        "openai-chat:my-model",
        "google:imagen-9",
        "anthropic:claude-9",
        "openai-responses:text-only",
        "nobody:x",
    ],
)
def test_a_model_without_a_row_calls_tools_and_nothing_else(model_id: str) -> None:
    assert find_model_facts(model_id) is UNKNOWN_MODEL
    assert UNKNOWN_MODEL.capabilities == ModelCapabilities()
    assert not UNKNOWN_MODEL.capabilities.structured_output
    assert UNKNOWN_MODEL.capabilities.price is None


@pytest.mark.parametrize(
    ("model_id", "input_price"),
    [
        ("openai-responses:gpt-6.2-astra", "8"),
        ("openai-responses:gpt-6-luna", "0.1"),
        ("openai-responses:gpt-5.5", "5"),
        ("openai-responses:gpt-5.5-2026-04-23", "5"),
        ("openai-responses:gpt-5.4-mini-2026-03-17", "0.75"),
        ("openai-responses:gpt-5-2025-08-07", "1.25"),
        ("openai-responses:gpt-5-codex", "1.25"),
        ("openai-chat:gpt-5-mini", "0.25"),
        ("openai-chat:gpt-4.1", "2"),
        ("openai-chat:gpt-4.1-mini-2025-04-14", "0.4"),
        ("openai-chat:gpt-4o-mini-2024-07-18", "0.15"),
        ("openai-chat:o3-2025-04-16", "2"),
        ("openai-responses:o3-pro-2025-06-10", "20"),
        ("anthropic:claude-opus-5-5", "4"),
        ("anthropic:claude-opus-5", "5"),
        ("anthropic:claude-haiku-4-5-20251001", "1"),
        ("anthropic:claude-fable-5-2", "8"),
        ("google:gemini-4-argon", "2"),
        ("google:gemini-3.8-flash", "0.75"),
        ("google:gemini-2.5-flash-lite", "0.1"),
    ],
)
def test_known_names_and_their_snapshots_get_the_price_of_their_family(
    model_id: str, input_price: str
) -> None:
    price = find_model_facts(model_id).capabilities.price
    assert price is not None
    assert price.input == Decimal(input_price)


@pytest.mark.parametrize(
    "model_id",
    [
        "openai-responses:gpt-5.5-cyber",
        "openai-responses:gpt-6-rosalind",
        "openai-responses:gpt-7-sol",
        "openai-chat:gpt-4o-transcribe",
        "openai-chat:gpt-oss-120b",
        "google:gemini-2.5-flash-image",
        "google:gemini-3.8-flash-tts",
        "google:gemini-pro-latest",
    ],
)
def test_variants_of_another_kind_do_not_get_the_price_of_a_family(model_id: str) -> None:
    assert find_model_facts(model_id).capabilities.price is None


@pytest.mark.parametrize("name", ["gpt-5.5-pro", "gpt-5-codex", "o3-pro", "o4-mini-deep-research"])
def test_models_that_one_protocol_alone_reaches_say_so(name: str) -> None:
    assert find_model_facts(f"openai-responses:{name}").only_through == ""
    facts = find_model_facts(f"openai-chat:{name}")
    assert facts.only_through == "openai-responses"
    assert not facts.capabilities.tools
    assert facts.capabilities.price is None


@pytest.mark.parametrize("name", ["gpt-6.1-sol", "gpt-6-luna", "gpt-5.6-terra"])
def test_models_that_call_tools_through_one_protocol_alone_say_so(name: str) -> None:
    assert find_model_facts(f"openai-responses:{name}").capabilities.tools
    facts = find_model_facts(f"openai-chat:{name}")
    assert not facts.capabilities.tools
    assert facts.capabilities.images
    assert facts.more_through == "openai-responses"


@pytest.mark.parametrize("name", ["gpt-5.4-nano", "gpt-5.4", "gpt-5.5-2026-04-23", "gpt-5.2"])
def test_models_that_take_tools_or_an_effort_through_chat_completions_say_so(name: str) -> None:
    facts = find_model_facts(f"openai-chat:{name}")
    assert facts.capabilities.tools
    assert not facts.capabilities.reasoning_with_tools
    assert facts.more_through == "openai-responses"
    elsewhere = find_model_facts(f"openai-responses:{name}")
    assert elsewhere.capabilities.reasoning_with_tools
    assert elsewhere.more_through == ""


@every("facts", MODELS)
def test_another_protocol_is_named_only_where_it_does_more(facts: ModelFacts) -> None:
    if not facts.more_through:
        return
    assert not facts.only_through
    name = facts.pattern.partition(":")[2]
    elsewhere = next(each for each in MODELS if each.pattern == f"{facts.more_through}:{name}")
    assert elsewhere.capabilities != facts.capabilities


@pytest.mark.parametrize(
    ("model_id", "words"),
    [
        ("openai-responses:gpt-6.1-sol", "low medium high xhigh max"),
        ("openai-responses:gpt-6-luna", "none low medium high xhigh max"),
        ("openai-chat:gpt-5.4-nano", "none low medium high xhigh"),
        ("openai-responses:gpt-5.5-pro-2026-04-23", "medium high xhigh"),
        ("openai-responses:gpt-5.1", "none low medium high"),
        ("openai-chat:gpt-5-mini", "minimal low medium high"),
        ("openai-responses:gpt-5-pro", "high"),
        ("openai-chat:o4-mini", "low medium high"),
        ("anthropic:claude-opus-5-5", "minimal low medium high xhigh max"),
        ("anthropic:claude-haiku-5-5", "none minimal low medium high xhigh max"),
        ("anthropic:claude-sonnet-4-6", "none minimal low medium high max"),
        ("google:gemini-3.8-flash", "low medium high"),
        ("google:gemini-3.6-flash", "minimal low medium high"),
        ("google:gemini-2.5-pro", "minimal low medium high"),
        ("google:gemini-2.5-flash-lite", "none minimal low medium high"),
    ],
)
def test_a_model_knows_the_words_of_its_family_for_how_much_to_reason(model_id: str, words: str) -> None:
    assert find_model_facts(model_id).capabilities.reasoning_efforts == tuple(words.split())


@pytest.mark.parametrize(
    ("model_id", "samples", "is_forced"),
    [
        ("anthropic:claude-opus-5-5", False, False),
        ("anthropic:claude-fable-5", False, True),
        ("anthropic:claude-haiku-5-5", False, True),
        ("anthropic:claude-opus-4-6", True, True),
        ("anthropic:claude-haiku-4-5", True, True),
        ("openai-responses:o3", False, True),
        ("openai-chat:gpt-5-mini", False, True),
        ("openai-responses:gpt-5.4-nano", True, True),
        ("openai-responses:gpt-6.1-sol", False, True),
        ("google:gemini-3.8-flash", False, True),
        ("google:gemini-3.5-flash", True, True),
    ],
)
def test_a_model_takes_sampling_and_demands_for_calls_as_its_family_does(
    model_id: str, samples: bool, is_forced: bool
) -> None:
    capabilities = find_model_facts(model_id).capabilities
    assert (capabilities.sampling, capabilities.forced_tool_choice) == (samples, is_forced)


def test_only_one_family_takes_no_schema_beside_tools() -> None:
    either_or = {facts.pattern for facts in MODELS if not facts.capabilities.structured_output_with_tools}
    assert either_or == {"google:gemini-2.5-pro", "google:gemini-2.5-flash", "google:gemini-2.5-flash-lite"}


def test_every_model_that_can_serve_steps_can_do_so_by_default() -> None:
    """Models that cannot are those for which another protocol is named, and those that only do research."""
    stuck = [
        facts
        for facts in MODELS
        if not facts.only_through
        and facts.capabilities.default_transport == "tool"
        and not facts.capabilities.tools
    ]
    assert {facts.more_through for facts in stuck} == {"openai-responses", ""}
    unhelped = [facts.pattern for facts in stuck if not facts.more_through]
    assert unhelped == ["openai-responses:o[34]*-deep-research*"]


@pytest.mark.parametrize("name", ["gpt-5.4-nano", "gpt-6-sol", "o3", "gpt-9-nova"])
def test_chat_completions_alone_renames_the_limit_of_reasoning_models(name: str) -> None:
    renamed = {"max_tokens": "max_completion_tokens"}
    assert find_model_facts(f"openai-chat:{name}").setting_names == renamed
    assert find_model_facts(f"openai-responses:{name}").setting_names == {}


@pytest.mark.parametrize("model_id", ["openai-chat:gpt-4.1", "openai-chat:qwen3-8b", "openai-chat:gpt-audio"])
def test_other_models_keep_the_name_of_the_limit(model_id: str) -> None:
    assert find_model_facts(model_id).setting_names == {}


def test_models_that_hear_are_reached_through_chat_completions_alone() -> None:
    hearing = {facts.pattern.partition(":")[0] for facts in MODELS if facts.capabilities.audio}
    assert hearing == {"openai-chat", "google"}


@pytest.mark.parametrize(
    ("model_id", "control"),
    [
        ("anthropic:claude-haiku-4-5", "budget"),
        ("anthropic:claude-opus-4-5-20251101", "budget"),
        ("anthropic:claude-sonnet-4-6", "effort"),
        ("google:gemini-2.5-pro", "budget"),
        ("google:gemini-3.8-flash", "effort"),
        ("openai-responses:gpt-5.4-nano", "effort"),
    ],
)
def test_a_model_is_told_how_much_to_reason_in_the_way_of_its_generation(model_id: str, control: str) -> None:
    capabilities = find_model_facts(model_id).capabilities
    assert capabilities.reasoning
    assert capabilities.reasoning_control == control


@pytest.mark.parametrize(
    "name", ["Qwen/Qwen3-VL-8B-Instruct", "qwen2.5vl:7b", "llama-3.2-11b-vision-preview", "llava:13b"]
)
def test_open_models_with_sight_in_their_name_take_images_and_have_no_price(name: str) -> None:
    capabilities = find_model_facts(f"openai-chat:{name}").capabilities
    assert capabilities.images
    assert capabilities.price is None
    assert not capabilities.structured_output


def test_prompts_are_marked_for_the_cache_where_the_codec_does_so_alone() -> None:
    marking = {facts.pattern.partition(":")[0] for facts in MODELS if facts.capabilities.prompt_caching}
    assert marking == {"anthropic"}


@pytest.mark.parametrize(
    "model_id",
    [
        *("openai-responses:gpt-5.4", "openai-responses:gpt-5.4-mini", "openai-responses:gpt-6.2-sol"),
        *("anthropic:claude-haiku-4-5-20251001", "anthropic:claude-opus-5"),
    ],
)
def test_providers_search_tools_for_these_models(model_id: str) -> None:
    assert find_model_facts(model_id).capabilities.tool_search


@pytest.mark.parametrize(
    "model_id",
    [
        *("openai-responses:gpt-5.4-nano", "openai-responses:gpt-5.2", "openai-chat:gpt-5.4"),
        *("google:gemini-3.6-flash", "anthropic:claude-3-5-haiku-latest"),
    ],
)
def test_providers_do_not_search_tools_for_these_models(model_id: str) -> None:
    assert not find_model_facts(model_id).capabilities.tool_search

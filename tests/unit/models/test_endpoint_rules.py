"""Rules of endpoints: the server that refuses as a provider does takes what the library sends, by each rule.

The table and the server are written from the same sources, apart from each other. A rule that is removed from
the table, or that a codec no longer reads, lets a request through that the server refuses.
"""

import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from msgspec import json, structs

from nighthawk_async.catalog.endpoint_rules import ENDPOINT_RULES, find_endpoint_rules
from nighthawk_async.catalog.models import find_model_facts
from nighthawk_async.catalog.providers import PROVIDERS
from nighthawk_async.errors import ConfigurationError, UnknownModelError
from nighthawk_async.models.http_model import HttpModel
from nighthawk_async.models.http_pool import open_http_pool
from nighthawk_async.models.pacing import pacer_of_request
from nighthawk_async.models.providers import create_model
from nighthawk_async.testing import ModelServer
from nighthawk_async.testing.model_reply import ModelReply, RecordedRequest
from nighthawk_async.testing.model_server_rules import checks_of, find_refusal
from nighthawk_async.types.endpoint_rules import NO_RULES, EndpointRules
from nighthawk_async.types.messages import (
    AssistantMessage,
    BinaryContent,
    ProviderContent,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResultsMessage,
    UserMessage,
)
from nighthawk_async.types.model import ModelRequest

MODELS = {
    "openai-chat": ("model-of-tomorrow", "o4-mini"),
    "openai-responses": ("model-of-tomorrow", "gpt-4o"),
    "anthropic": ("claude-of-tomorrow", "claude-haiku-4-5"),
    "google": ("model-of-tomorrow", "gemini-3.5-flash"),
}
IDS = ("call_1", "abc123def", "toolu_" + "a" * 45, "functions.look up:0", "fc_" + "b" * 70, "ü" * 90)
ASK = UserMessage(content=("hi",))
NOTE = UserMessage(content=("This is the last turn.",))
IMAGE = BinaryContent(data=b"\x89PNG", media_type="image/png")
UNREFUSED = {("ollama", "forces_tools")}
"""Rules without a refusal: Ollama ignores a demand. See the test of its request below."""


def tools(count: int) -> tuple[ToolDefinition, ...]:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    return tuple(ToolDefinition(name=f"f{n}", description="d", parameters=schema) for n in range(count))


def called(call_id: str, *, reasoning: str = "", foreign: bool = False) -> tuple[Any, ...]:
    """A turn with a call, and its result with a medium; a foreign one as another server of Chat sent it."""
    message: dict[str, Any] = {"role": "assistant", "content": None, "reasoning": "hm", "extra_content": {}}
    function = {"name": "f0", "arguments": "{}"}
    sent = {"id": call_id, "type": "function", "function": function, "extra_content": {"google": {}}}
    message |= {"reasoning_details": [{"type": "reasoning.text", "text": "hm"}], "tool_calls": [sent]}
    content = ProviderContent(protocol="openai-chat", items=(message,)) if foreign else None
    call = ToolCall(id=call_id, name="f0", arguments="{}")
    result = ToolResult(call_id=call_id, name="f0", content=("ok", IMAGE))
    turn = AssistantMessage(reasoning=reasoning, tool_calls=(call,), provider_content=content)
    return turn, ToolResultsMessage(results=(result,))


def samples() -> Iterator[ModelRequest]:
    """Requests with everything that an endpoint may refuse, one thing each."""
    yield ModelRequest(messages=(ASK,), tools=tools(1), tool_choice="required")
    for call_id in IDS:
        yield ModelRequest(messages=(ASK, *called(call_id), NOTE), tools=tools(1))
    for reasoning, foreign in (("", False), ("hm", False), ("hm", True)):
        turns = called("call_1", reasoning=reasoning, foreign=foreign)
        for settings in ({}, {"replay_reasoning": True}):
            yield ModelRequest(messages=(ASK, *turns), tools=tools(1), settings=settings)
            ended = AssistantMessage(text="so", reasoning=reasoning)
            yield ModelRequest(messages=(ASK, ended, ASK), settings=settings)
    yield ModelRequest(messages=(ASK,), tools=tools(129))
    every: tuple[dict[str, Any], ...] = (
        {"seed": 3},
        {"max_tokens": 8},
        {"max_tokens": 2_048},
        {"stop": "END"},
        {"stop": ["a"] * 5},
        {"stop": ["a"] * 6},
        {"stop": ["a"] * 17},
        {"temperature": 0.5, "top_p": 0.99},
        *({"temperature": value} for value in (0.5, 1.2, 1.8, 2.5)),
        *(
            {"reasoning_effort": "low", **each}
            for each in ({"temperature": 0.5}, {"top_k": 3}, {"top_p": 0.5})
        ),
        {"cached_content": "c"},
    )
    for settings in every:
        yield ModelRequest(messages=(ASK,), settings=settings)
    yield ModelRequest(messages=(ASK,), tools=tools(1), settings={"cached_content": "c"})
    yield ModelRequest(messages=(ASK,), system_prompt="s", settings={"cached_content": "c"})


SAMPLES = tuple(samples())
OF_PROTOCOLS = {
    "top_k": ("anthropic", "google"),
    "cached_content": ("google",),
    "replay_reasoning": ("openai-chat",),
}
CAPABLE = {"reasoning": True, "sampling": True, "images": True, "reasoning_efforts": None}


def model_at(provider: str, name: str, rules: EndpointRules | None, **settings: Any) -> HttpModel:
    own = {"base_url": "http://127.0.0.1:9/v1", "api_key": "k", "capabilities": CAPABLE, **settings}
    model = create_model(
        f"{provider}:{name}",
        settings=own,
        environment={},
        pool_source=open_http_pool,
        pacer_source=pacer_of_request,
        rules=rules,
    )
    assert isinstance(model, HttpModel)
    return model


def body_of(model: HttpModel, request: ModelRequest) -> dict[str, Any]:
    encoded = model.plan(request, model.prepare(request.settings)).encoded
    return json.decode(encoded.body)


def refusal_of(provider: str, body: Mapping[str, Any], name: str = "m") -> ModelReply | None:
    path = f"/{name}:streamRawPredict" if provider == "vertex-anthropic" else "/"
    request = RecordedRequest(method="POST", path=path, headers={}, content=b"", body=body)
    return find_refusal(request, checks_of(provider))


def sent(provider: str, rules: EndpointRules | None) -> Iterator[tuple[str, ModelRequest, dict[str, Any]]]:
    """The bodies of the samples that the library does not refuse itself, with the names of their models."""
    protocol = PROVIDERS[provider].protocol
    for name in MODELS[protocol]:
        model = model_at(provider, name, rules)
        for request in SAMPLES:
            if any(protocol not in OF_PROTOCOLS.get(each, (protocol,)) for each in request.settings):
                continue
            try:
                yield name, request, body_of(model, request)
            except ConfigurationError:
                continue


def without(rules: EndpointRules) -> Iterator[tuple[str, EndpointRules]]:
    """The rules without one of them, with its name."""
    for name in rules.__struct_fields__:
        value = getattr(rules, name)
        if name in ("hosts", "sources", "websocket") or value == getattr(NO_RULES, name):
            continue
        if name != "refused_settings":
            yield name, structs.replace(rules, **{name: getattr(NO_RULES, name)})
            continue
        for place, rule in enumerate(value):
            rest = value[:place] + value[place + 1 :]
            yield f"{name} {rule.setting}", structs.replace(rules, refused_settings=rest)


@pytest.mark.parametrize("protocol", sorted({facts.protocol for facts in PROVIDERS.values()}))
def test_what_is_sent_is_taken_and_without_any_of_its_rules_refused(protocol: str) -> None:
    """Of several rows with the same rules, the first one is tried."""
    seen: list[tuple[Any, ...]] = []
    for provider, rules in ENDPOINT_RULES.items():
        if PROVIDERS[provider].protocol != protocol:
            continue
        known = (structs.astuple(rules), checks_of(provider))
        if known in seen:
            continue
        seen.append(known)
        refusals = ((each, refusal_of(provider, each[-1], each[0])) for each in sent(provider, rules))
        assert [found for found in refusals if found[1] is not None] == [], provider
        for removed, rest in without(rules):
            if (provider, removed) in UNREFUSED:
                continue
            tried = (refusal_of(provider, body, name) for name, _, body in sent(provider, rest))
            is_refused = any(each is not None for each in tried)
            assert is_refused, f"{provider}: no request needs the rule {removed}"


def test_rules_go_to_other_processes() -> None:
    for rules in (NO_RULES, *ENDPOINT_RULES.values()):
        assert pickle.loads(pickle.dumps(rules)) == rules


def test_every_rule_has_its_source_and_every_row_is_that_of_a_provider() -> None:
    assert ENDPOINT_RULES.keys() <= PROVIDERS.keys()
    for provider, rules in ENDPOINT_RULES.items():
        names = {name.partition(" ")[0] for name, _ in without(rules)}
        names |= {"websocket"} if rules.websocket is not None else set[str]()  # no refusal, so never left out
        assert names == set(rules.sources), provider
        assert all(rules.sources.values()), provider


def test_a_demand_that_ollama_ignores_is_not_sent() -> None:
    request = ModelRequest(messages=(ASK,), tools=tools(1), tool_choice="required")
    assert "tool_choice" not in body_of(model_at("ollama", "m", None), request)
    assert not find_model_facts("ollama:m").capabilities.forced_tool_choice
    assert "tool_choice" in body_of(model_at("vllm", "m", None), request)


@pytest.mark.parametrize(
    ("model_id", "settings", "row"),
    [
        ("deepseek:of-tomorrow", {}, "deepseek"),
        ("deepseek:of-tomorrow", {"base_url": "http://localhost:8080"}, "deepseek"),
        ("openai-chat:of-tomorrow", {}, "openai-chat"),
        ("openai-chat:deepseek-v4-flash", {"base_url": "https://api.deepseek.com/v1"}, "deepseek"),
        ("openai-chat:m", {"base_url": "https://eu.api.mistral.ai/v1"}, "mistral"),
        ("openai-chat:m", {"base_url": "https://api.mistral.ai.example/v1"}, None),
        ("openai-chat:m", {"base_url": "https://me.openai.azure.com/openai/v1"}, "azure-chat"),
        ("openai-responses:m", {"base_url": "https://api.deepseek.com"}, "deepseek-responses"),
        ("openai-responses:m", {"base_url": "https://api.groq.com/openai/v1"}, None),
        ("openai-chat:m", {"base_url": "http://localhost:4000/v1"}, None),
        ("openai-chat:m", {"base_url": "http://localhost:4000/v1", "endpoint_rules": "groq"}, "groq"),
        ("mistral:m", {"endpoint_rules": "together"}, None),
        ("anthropic:m", {"base_url": "http://localhost:4000"}, "anthropic"),
    ],
)
def test_an_endpoint_is_known_by_its_provider_its_host_or_the_setting(
    model_id: str, settings: dict[str, Any], row: str | None
) -> None:
    model = create_model(model_id, settings={"api_key": "k", **settings}, environment={})
    assert isinstance(model, HttpModel)
    assert model.codec.rules == (ENDPOINT_RULES[row] if row else NO_RULES)


def test_the_setting_names_a_provider_of_the_same_protocol() -> None:
    for named in ("mistrl", "anthropic"):
        with pytest.raises(ConfigurationError, match="endpoint_rules"):
            create_model("openai-chat:m", settings={"api_key": "k", "endpoint_rules": named}, environment={})


def test_what_is_refused_before_it_is_sent_names_the_setting_and_the_way_out() -> None:
    model = model_at("openai-responses", "gpt-4o", ENDPOINT_RULES["openai-responses"])
    with pytest.raises(ConfigurationError, match=r"'max_tokens' is below 16, .* extra_body is sent as it is"):
        body_of(model, ModelRequest(messages=(ASK,), settings={"max_tokens": 8}))
    passed = ModelRequest(messages=(ASK,), settings={"extra_body": {"max_output_tokens": 8}})
    assert body_of(model, passed)["max_output_tokens"] == 8
    with pytest.raises(ConfigurationError, match="offers 129 tools, and the endpoint takes at most 128"):
        body_of(model, ModelRequest(messages=(ASK,), tools=tools(129)))


def test_ids_fit_consistently_and_stay_different() -> None:
    turns = [each for call_id in (*IDS, "abc123xyz") for each in called(call_id)]
    for provider in ("openai-chat", "mistral", "deepseek"):
        model = model_at(provider, "m", ENDPOINT_RULES[provider])
        bodies = [
            body_of(model, ModelRequest(messages=(ASK, *turns[:end]), tools=tools(1))) for end in (4, 14)
        ]
        messages = bodies[1]["messages"]
        calls = [call["id"] for message in messages for call in message.get("tool_calls", ())]
        assert len(set(calls)) == len(calls) == 7
        assert calls == [message["tool_call_id"] for message in messages if message["role"] == "tool"]
        assert messages[: len(bodies[0]["messages"])] == bodies[0]["messages"]
        assert "abc123def" in calls


def test_reasoning_goes_back_where_the_endpoint_takes_it() -> None:
    turns = called("abc123def", reasoning="hm"), called("abc123def", reasoning="hm", foreign=True)
    found: dict[str, list[Any]] = {}
    for provider in ("deepseek", "mistral", "groq", "openai-chat", "openrouter"):
        model = model_at(provider, "m", ENDPOINT_RULES.get(provider))
        for turn in turns:
            request = ModelRequest(messages=(ASK, *turn), tools=tools(1), settings={"replay_reasoning": True})
            message = body_of(model, request)["messages"][1]
            found.setdefault(provider, []).append(
                {
                    name: each
                    for name, each in message.items()
                    if name in ("content", "reasoning", "reasoning_content")
                }
            )
    thinking = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]
    assert found == {
        "deepseek": [{"content": None, "reasoning_content": "hm"}] * 2,
        "mistral": [{"content": thinking}] * 2,
        "groq": [{"content": None, "reasoning": "hm"}] * 2,
        "openai-chat": [{"content": None}] * 2,
        "openrouter": [{"content": None, "reasoning_content": "hm"}, {"content": None, "reasoning": "hm"}],
    }


def test_a_server_names_its_rules() -> None:
    with pytest.raises(ValueError, match=r"none is called 'deepsek'\. Did you mean 'deepseek'"):
        ModelServer([], rules="deepsek")
    with pytest.raises(UnknownModelError):
        create_model("deepsek:m", environment={})


def test_every_endpoint_with_rules_is_found_by_its_name() -> None:
    for provider, rules in ENDPOINT_RULES.items():
        protocol = PROVIDERS[provider].protocol
        assert find_endpoint_rules(provider, protocol=protocol, host=None, is_own=True) is rules

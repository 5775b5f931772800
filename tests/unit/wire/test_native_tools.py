"""Native tools in requests of every protocol, and refusals of what a protocol lacks."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ConfigurationError
from nighthawk_async.models import (
    AssistantMessage,
    Message as AnyMessage,
    ModelCapabilities,
    ModelRequest,
    NativeTool,
    ProviderContent,
    ToolDefinition,
    ToolResult,
    ToolResultsMessage,
    UserMessage,
)
from nighthawk_async.wire.anthropic.codec import AnthropicCodec
from nighthawk_async.wire.codec import Codec
from nighthawk_async.wire.google.codec import GoogleCodec
from nighthawk_async.wire.openai_chat.codec import OpenAIChatCodec
from nighthawk_async.wire.openai_responses.codec import OpenAIResponsesCodec

LOOK = ToolDefinition(name="look", description="Looks.", parameters={"type": "object", "properties": {}})
QUESTION = UserMessage(content=("Who won?",))
BERLIN = nh.models.UserLocation(city="Berlin", country="DE", timezone="Europe/Berlin")

CHAT, RESPONSES, MESSAGES, GEMINI = (
    OpenAIChatCodec(),
    OpenAIResponsesCodec(),
    AnthropicCodec(),
    GoogleCodec(),
)
ALL = pytest.mark.parametrize(
    "codec", [CHAT, RESPONSES, MESSAGES, GEMINI], ids=["chat", "responses", "messages", "gemini"]
)


def encode(
    codec: Codec,
    native: object = None,
    *,
    tools: Sequence[ToolDefinition] = (LOOK,),
    messages: Sequence[AnyMessage] = (QUESTION,),
    tool_choice: Any = "auto",
    capabilities: ModelCapabilities | None = None,
    site: str = "",
    **settings: Any,
) -> dict[str, Any]:
    """The decoded body of a request."""
    given = settings if native is None else {**settings, "native_tools": native}
    request = ModelRequest(
        messages=tuple(messages), tools=tuple(tools), settings=given, tool_choice=tool_choice, site=site
    )
    encoded = codec.encode(request, model_name="m", capabilities=capabilities or ModelCapabilities())
    return json.loads(encoded.body)


def test_responses_offers_all_of_them_before_the_other_tools() -> None:
    native = [
        nh.models.WebSearch(allowed_domains=["example.com"], user_location=BERLIN, context_size="low"),
        nh.models.CodeExecution(),
        nh.models.FileSearch(vector_store_ids=["vs_1", "vs_2"], max_results=5),
    ]
    body = encode(RESPONSES, native)
    assert body["tools"][:3] == [
        {
            "type": "web_search",
            "filters": {"allowed_domains": ["example.com"]},
            "user_location": {
                "type": "approximate",
                "city": "Berlin",
                "country": "DE",
                "timezone": "Europe/Berlin",
            },
            "search_context_size": "low",
        },
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "file_search", "vector_store_ids": ["vs_1", "vs_2"], "max_num_results": 5},
    ]
    assert [tool["type"] for tool in body["tools"][3:]] == ["function"]
    assert body["include"] == [
        "web_search_call.action.sources",
        "code_interpreter_call.outputs",
        "file_search_call.results",
    ]
    assert "max_tool_calls" not in body


def test_responses_includes_what_the_user_wants_as_well() -> None:
    body = encode(
        RESPONSES, [nh.models.CodeExecution(container="c_1")], include=["message.output_text.logprobs"]
    )
    assert body["include"] == ["message.output_text.logprobs", "code_interpreter_call.outputs"]
    assert body["tools"][0]["container"] == "c_1"
    capabilities = ModelCapabilities(reasoning=True)
    body = encode(RESPONSES, capabilities=capabilities, extra_body={"include": ["file_search_call.results"]})
    assert body["include"] == ["reasoning.encrypted_content", "file_search_call.results"]


@pytest.mark.parametrize(
    ("native", "setting", "limit"),
    [
        ([nh.models.WebSearch(max_uses=3)], None, 3),
        ([nh.models.WebSearch(max_uses=3), nh.models.CodeExecution()], None, 3),
        (
            [nh.models.WebSearch(max_uses=3), nh.models.FileSearch(vector_store_ids=["v"], max_uses=2)],
            None,
            2,
        ),
        ([nh.models.WebSearch(max_uses=3)], 5, 3),
        ([nh.models.WebSearch(max_uses=3)], 1, 1),
        ([nh.models.WebSearch()], 4, 4),
    ],
)
def test_no_tool_of_responses_is_used_more_often_than_it_may_be(
    native: list[NativeTool], setting: int | None, limit: int
) -> None:
    settings = {} if setting is None else {"max_tool_calls": setting}
    assert encode(RESPONSES, native, **settings)["max_tool_calls"] == limit


def test_messages_has_web_search_and_code_execution() -> None:
    native = [
        nh.models.WebSearch(max_uses=2, blocked_domains=("a.example",), user_location=BERLIN),
        nh.models.CodeExecution(),
    ]
    body = encode(MESSAGES, native)
    assert body["tools"][:2] == [
        {
            "type": "web_search_20250305",
            "name": "web_search",
            "max_uses": 2,
            "blocked_domains": ["a.example"],
            "user_location": {
                "type": "approximate",
                "city": "Berlin",
                "country": "DE",
                "timezone": "Europe/Berlin",
            },
        },
        {"type": "code_execution_20250825", "name": "code_execution"},
    ]
    assert body["tools"][2]["name"] == "look"
    assert "container" not in body


def test_native_tools_need_no_others() -> None:
    assert [tool["name"] for tool in encode(MESSAGES, [nh.models.WebSearch()], tools=())["tools"]] == [
        "web_search"
    ]
    assert encode(RESPONSES, [nh.models.WebSearch()], tools=())["tools"] == [{"type": "web_search"}]
    body = encode(GEMINI, [nh.models.WebSearch()], tools=())
    assert body["tools"] == [{"googleSearch": {}}]
    assert "toolConfig" not in body


def test_gemini_shows_its_own_calls_beside_functions_and_is_not_forced_to_call_one() -> None:
    native = [
        nh.models.WebSearch(),
        nh.models.CodeExecution(),
        nh.models.FileSearch(vector_store_ids=["fileSearchStores/a"], max_results=3),
    ]
    body = encode(GEMINI, native, tool_choice="required")
    assert body["tools"] == [
        {"googleSearch": {}},
        {"codeExecution": {}},
        {"fileSearch": {"fileSearchStoreNames": ["fileSearchStores/a"], "topK": 3}},
        {"functionDeclarations": [{"name": "look", "description": "Looks."}]},
    ]
    assert body["toolConfig"] == {
        "functionCallingConfig": {"mode": "VALIDATED"},
        "includeServerSideToolInvocations": True,
    }
    assert encode(GEMINI, tool_choice="required")["toolConfig"] == {"functionCallingConfig": {"mode": "ANY"}}


def test_chat_has_the_web_search_of_models_that_always_search() -> None:
    body = encode(
        CHAT, [nh.models.WebSearch(user_location=nh.models.UserLocation(country="DE"), context_size="high")]
    )
    assert body["web_search_options"] == {
        "search_context_size": "high",
        "user_location": {"type": "approximate", "approximate": {"country": "DE"}},
    }
    assert encode(CHAT, [nh.models.WebSearch()])["web_search_options"] == {}


@pytest.mark.parametrize(
    ("codec", "tool", "words"),
    [
        (
            CHAT,
            nh.models.CodeExecution(),
            "Chat Completions protocol has no CodeExecution.*OpenAI Responses has it",
        ),
        (CHAT, nh.models.FileSearch(vector_store_ids=["v"]), "Chat Completions protocol has no FileSearch"),
        (CHAT, nh.models.WebSearch(max_uses=1), "no 'max_uses' of WebSearch"),
        (CHAT, nh.models.WebSearch(allowed_domains=["a.example"]), "no 'allowed_domains' of WebSearch"),
        (
            MESSAGES,
            nh.models.FileSearch(vector_store_ids=["v"]),
            "Anthropic Messages protocol has no FileSearch",
        ),
        (MESSAGES, nh.models.WebSearch(context_size="low"), "no 'context_size' of WebSearch"),
        (RESPONSES, nh.models.WebSearch(blocked_domains=["a.example"]), "no 'blocked_domains' of WebSearch"),
        (GEMINI, nh.models.WebSearch(max_uses=1), "Gemini protocol has no 'max_uses' of WebSearch"),
        (GEMINI, nh.models.WebSearch(user_location=BERLIN), "no 'user_location' of WebSearch"),
        (GEMINI, nh.models.CodeExecution(container="c"), "no 'container' of CodeExecution"),
        (GEMINI, nh.models.FileSearch(vector_store_ids=["v"], max_uses=1), "no 'max_uses' of FileSearch"),
    ],
)
def test_a_tool_or_option_that_a_protocol_lacks_is_refused(
    codec: Codec, tool: NativeTool, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        encode(codec, [tool])


def test_a_tool_of_the_same_name_is_refused_where_names_are_shared() -> None:
    own = ToolDefinition(name="web_search", description="Ours.", parameters={"type": "object"})
    with pytest.raises(ConfigurationError, match="a tool named 'web_search' beside the native one"):
        encode(MESSAGES, [nh.models.WebSearch()], tools=(own,))
    assert len(encode(RESPONSES, [nh.models.WebSearch()], tools=(own,))["tools"]) == 2


@ALL
@pytest.mark.parametrize(
    ("native", "words"),
    [
        (nh.models.WebSearch(), "'native_tools' is a list.*not WebSearch"),
        ("web_search", "'native_tools' is a list.*not str 'web_search'"),
        (["web_search"], "holds WebSearch, CodeExecution and FileSearch objects.*not str 'web_search'"),
        ([{"type": "web_search"}], "objects, such as nighthawk_async.models.WebSearch.*not dict"),
        ([nh.models.WebSearch], "not the class WebSearch itself"),
        ([object()], "not object"),
        ([None], "not NoneType"),
        ([nh.models.WebSearch(), nh.models.WebSearch(max_uses=1)], "holds WebSearch twice"),
    ],
)
def test_anything_else_in_the_setting_is_refused(codec: Codec, native: object, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        encode(codec, native)


@ALL
@pytest.mark.parametrize("native", [None, [], ()])
def test_none_of_them_changes_nothing(codec: Codec, native: object) -> None:
    assert encode(codec, native) == encode(codec)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: nh.models.WebSearch(max_uses=0),
            "WebSearch: max_uses is a whole number of at least 1.*not 0",
        ),
        (lambda: nh.models.WebSearch(max_uses=-1), "max_uses"),
        (lambda: nh.models.WebSearch(max_uses=True), "max_uses"),
        (lambda: nh.models.WebSearch(max_uses=1.5), "max_uses"),  # pyright: ignore[reportArgumentType]
        (lambda: nh.models.WebSearch(max_uses="3"), "max_uses"),  # pyright: ignore[reportArgumentType]
        (lambda: nh.models.WebSearch(allowed_domains="a.example"), r"list of texts.*not 'a.example'"),  # pyright: ignore
        (lambda: nh.models.WebSearch(allowed_domains=[""]), "allowed_domains is a list of texts"),
        (lambda: nh.models.WebSearch(allowed_domains=[1]), "allowed_domains is a list of texts"),  # pyright: ignore
        (lambda: nh.models.WebSearch(allowed_domains=["https://a.example"]), "write a domain alone"),
        (
            lambda: nh.models.WebSearch(allowed_domains=["a.example"], blocked_domains=["b.example"]),
            "not both",
        ),
        (lambda: nh.models.WebSearch(user_location="Berlin"), "user_location is a UserLocation"),  # pyright: ignore
        (lambda: nh.models.WebSearch(context_size="huge"), "'low', 'medium' or 'high'"),  # pyright: ignore
        (lambda: nh.models.UserLocation(), "give one of city, region, country and timezone"),
        (lambda: nh.models.UserLocation(city=""), "city is a text"),
        (
            lambda: nh.models.UserLocation(country="Germany"),
            "a code of two letters, such as 'DE', not 'Germany'",
        ),
        (lambda: nh.models.CodeExecution(container=" "), "container is a text"),
        (lambda: nh.models.FileSearch(vector_store_ids=()), "names no store"),
        (lambda: nh.models.FileSearch(vector_store_ids="vs_1"), "list of texts, such as"),  # pyright: ignore
        (lambda: nh.models.FileSearch(vector_store_ids=["vs_1"], max_results=0), "max_results"),
    ],
)
def test_bad_values_are_refused_when_the_tool_is_made(make: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        make()


def test_lists_become_tuples_so_that_tools_can_be_compared() -> None:
    assert nh.models.WebSearch(allowed_domains=[" a.example"]) == nh.models.WebSearch(
        allowed_domains=("a.example",)
    )
    assert hash(nh.models.FileSearch(vector_store_ids=["a"])) == hash(
        nh.models.FileSearch(vector_store_ids=("a",))
    )
    assert nh.models.WebSearch().name == "web_search"


def test_messages_stays_in_the_container_of_the_responses_since_the_last_question() -> None:
    ran = ProviderContent(
        protocol="anthropic",
        items=(
            {"type": "server_tool_use", "id": "s", "name": "bash_code_execution", "input": {}},
            {"type": "bash_code_execution_tool_result", "tool_use_id": "s", "content": {}},
            {"type": "tool_use", "id": "t", "name": "look", "input": {}},
            {"type": "container", "id": "container_1"},
        ),
    )
    answered = AssistantMessage(provider_content=ran)
    results = ToolResultsMessage(results=(ToolResult(call_id="t", name="look", content=("seen",)),))
    body = encode(MESSAGES, [nh.models.CodeExecution()], messages=[QUESTION, answered, results])
    assert body["container"] == "container_1"
    assert [block["type"] for block in body["messages"][1]["content"]] == [
        "server_tool_use",
        "bash_code_execution_tool_result",
        "tool_use",
    ]
    later = [QUESTION, answered, results, AssistantMessage(text="Done."), QUESTION]
    assert "container" not in encode(MESSAGES, [nh.models.CodeExecution()], messages=later)
    given = encode(
        MESSAGES, [nh.models.CodeExecution(container="mine")], messages=[QUESTION, answered, results]
    )
    assert given["container"] == "mine"
    assert "container" not in encode(MESSAGES, messages=[QUESTION, answered, results])


def test_a_half_turn_is_sent_back_without_a_mark_for_the_cache() -> None:
    item = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}}
    half = AssistantMessage(provider_content=ProviderContent(protocol="anthropic", items=(item,)))
    body = encode(
        MESSAGES,
        [nh.models.WebSearch()],
        messages=[QUESTION, half],
        capabilities=ModelCapabilities(prompt_caching=True),
    )
    assert body["messages"][1] == {"role": "assistant", "content": [item]}
    assert "cache_control" in body["messages"][0]["content"][-1]


# What `extra_body` adds.

ADDED: dict[str, Any] = {
    "chat": {"type": "function", "function": {"name": "theirs", "parameters": {}}},
    "responses": {"type": "mcp", "server_label": "docs", "server_url": "https://mcp.example"},
    "messages": {"type": "web_fetch_20250910", "name": "web_fetch"},
}


@pytest.mark.parametrize(
    ("codec", "name"), [(CHAT, "chat"), (RESPONSES, "responses"), (MESSAGES, "messages")]
)
def test_tools_of_extra_body_are_added(codec: Codec, name: str) -> None:
    plain = encode(codec)["tools"]
    body = encode(codec, extra_body={"tools": [ADDED[name]]})
    assert body["tools"] == [*plain, ADDED[name]]
    assert encode(codec, tools=(), extra_body={"tools": [ADDED[name]]})["tools"] == [ADDED[name]]
    assert encode(codec, extra_body={"tools": []}) == encode(codec)


@pytest.mark.parametrize("field", ["functionDeclarations", "function_declarations"])
def test_functions_that_extra_body_adds_for_gemini_join_the_others(field: str) -> None:
    theirs = {"name": "theirs", "description": "Theirs."}
    body = encode(
        GEMINI, [nh.models.WebSearch()], extra_body={"tools": [{field: [theirs]}, {"urlContext": {}}]}
    )
    assert body["tools"] == [
        {"googleSearch": {}},
        {"functionDeclarations": [{"name": "look", "description": "Looks."}, theirs]},
        {"urlContext": {}},
    ]
    body = encode(GEMINI, tools=(), extra_body={"tools": [{"urlContext": {}, field: [theirs]}]})
    assert body["tools"] == [{"urlContext": {}, "functionDeclarations": [theirs]}]


@ALL
@pytest.mark.parametrize("tools", [None, {}, "x", [None], ["web_search"], [{}], [[]], {"name": "x"}, 3])
def test_malformed_tools_of_extra_body_are_refused(codec: Codec, tools: object) -> None:
    with pytest.raises(ConfigurationError, match="'extra_body': 'tools' is a list of objects"):
        encode(codec, extra_body={"tools": tools})


@pytest.mark.parametrize(
    ("codec", "native", "tool", "name"),
    [
        (CHAT, None, {"type": "function", "function": {"name": "look"}}, "look"),
        (RESPONSES, None, {"type": "function", "name": "look"}, "look"),
        (RESPONSES, [nh.models.WebSearch()], {"type": "web_search"}, "web_search"),
        (MESSAGES, None, {"name": "look", "input_schema": {}}, "look"),
        (
            MESSAGES,
            [nh.models.WebSearch()],
            {"type": "web_search_20260209", "name": "web_search"},
            "web_search",
        ),
        (GEMINI, None, {"functionDeclarations": [{"name": "look"}]}, "look"),
    ],
)
def test_a_tool_that_the_request_offers_already_is_refused(
    codec: Codec, native: object, tool: dict[str, Any], name: str
) -> None:
    with pytest.raises(
        ConfigurationError, match=f"holds the tool '{name}', which the request offers already"
    ):
        encode(codec, native, extra_body={"tools": [tool]})


def test_several_servers_of_extra_body_are_different_tools() -> None:
    servers = [{"type": "mcp", "server_label": label} for label in ("a", "b")]
    assert encode(RESPONSES, extra_body={"tools": servers})["tools"][1:] == servers


# The default key of the cache.

SITE = "shop.orders:triage:1"
KEYED = ModelCapabilities(prompt_cache_key=True)


@pytest.mark.parametrize("codec", [CHAT, RESPONSES], ids=["chat", "responses"])
def test_the_key_of_the_cache_is_the_same_for_a_block_and_a_model(codec: Codec) -> None:
    key = encode(codec, site=SITE, capabilities=KEYED)["prompt_cache_key"]
    assert key == encode(codec, site=SITE, capabilities=KEYED, messages=[QUESTION] * 3)["prompt_cache_key"]
    assert key != encode(codec, site="shop.orders:triage:2", capabilities=KEYED)["prompt_cache_key"]
    other = ModelRequest(messages=(QUESTION,), site=SITE)
    assert key != json.loads(codec.encode(other, model_name="n", capabilities=KEYED).body)["prompt_cache_key"]
    assert len(key) <= 64
    assert key.isascii()
    assert "triage" not in key


@pytest.mark.parametrize("codec", [CHAT, RESPONSES], ids=["chat", "responses"])
def test_the_key_does_not_change_from_process_to_process(codec: Codec) -> None:
    body = encode(codec, site=SITE, capabilities=KEYED)
    assert body["prompt_cache_key"] == "nighthawk-3e2b3cc24b4249ceb07ccac39de7c893"


@pytest.mark.parametrize("codec", [CHAT, RESPONSES], ids=["chat", "responses"])
def test_the_users_key_counts_and_none_means_none(codec: Codec) -> None:
    body = encode(codec, site=SITE, capabilities=KEYED, prompt_cache_key="mine")
    assert body["prompt_cache_key"] == "mine"
    assert "prompt_cache_key" not in encode(codec, site=SITE, capabilities=KEYED, prompt_cache_key=None)
    body = encode(codec, site=SITE, capabilities=KEYED, extra_body={"prompt_cache_key": "other"})
    assert body["prompt_cache_key"] == "other"


@ALL
def test_other_endpoints_get_no_key(codec: Codec) -> None:
    assert "prompt_cache_key" not in encode(codec, site=SITE)
    assert "prompt_cache_key" not in encode(codec, capabilities=KEYED)
    if codec in (MESSAGES, GEMINI):
        assert "prompt_cache_key" not in encode(codec, site=SITE, capabilities=KEYED)

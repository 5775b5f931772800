"""Steps whose model uses tools of its provider: what goes back, what is shown, counted and charged."""

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.models import NativeTool, ToolCall
from nighthawk_async.observe import NodeView, TaskTree
from nighthawk_async.testing import ModelReply, ModelServer, cassette

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("specification_profile")]

CLAUDE, GPT, GEMINI = "anthropic:claude-haiku-5-5", "openai-responses:gpt-5.4-nano", "google:gemini-3.5-flash"

SEARCHED = (
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "who won"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [
            {
                "type": "web_search_result",
                "title": 'Café ☃ \U0001f600 "quoted" \\ /',
                "url": "https://a.example/?q=1&b=<2>",
                "encrypted_content": "EqgfCioIARgBIiQ3YTAwMjY1Mi1m+/==",
                "page_age": None,
            }
        ],
    },
    {
        "type": "text",
        "text": "They won.",
        "citations": [
            {
                "type": "web_search_result_location",
                "url": "https://a.example",
                "title": "A",
                "encrypted_index": "Eo8BCioIAhgBIiQyYjQ0OWJmZi1l",
                "cited_text": "They won…",
            }
        ],
    },
)
ITEMS = (
    {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "who won", "sources": [{"type": "url", "url": "https://é"}]},
    },
    {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "status": "completed",
        "code": "print(1)",
        "container_id": "cntr_1",
        "outputs": [{"type": "logs", "logs": "1\n"}],
    },
    {
        "type": "file_search_call",
        "id": "fs_1",
        "status": "completed",
        "queries": ["winner"],
        "results": [{"file_id": "f_1", "score": 0.9123, "text": "They.", "attributes": {}}],
    },
)
PARTS = (
    {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "t_1", "args": {"queries": ["who won"]}}},
    {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "id": "t_1", "response": {"html": "<b>é</b>"}}},
    {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
)
FILES = nh.models.FileSearch(vector_store_ids=["vs_1"])
CASES: dict[str, tuple[str, tuple[Mapping[str, Any], ...], list[NativeTool]]] = {
    "messages": (CLAUDE, SEARCHED, [nh.models.WebSearch(max_uses=3), nh.models.CodeExecution()]),
    "responses": (GPT, ITEMS, [nh.models.WebSearch(max_uses=3), nh.models.CodeExecution(), FILES]),
    "gemini": (GEMINI, PARTS, [nh.models.WebSearch(), nh.models.CodeExecution()]),
}
EACH = pytest.mark.parametrize("case", CASES)
LOOK = ToolCall(id="", name="nh_eval", arguments='{"expression": "question"}')
ANSWER = (
    ToolCall(
        id="", name="nh_assign", arguments=json.dumps({"target_path": "answer", "expression": "'they'"})
    ),
    ToolCall(id="", name="nh_outcome", arguments='{"kind": "pass"}'),
)
USAGE = nh.Usage(requests=1, input_tokens=1_000, output_tokens=100, web_searches=2)
ENDED = ModelReply(tool_calls=ANSWER)


@nh.natural_function
async def find(question: str) -> str:
    answer: str = nh.unset
    """natural
    Set <:answer> to the answer of <question>.
    """
    return answer


def executor_of(
    server: ModelServer, model: str, native: list[NativeTool], *, transport: Any = "auto", **settings: Any
) -> nh.AgentStepExecutor:
    settings = {"base_url": server.base_url, "api_key": "k" * 20, "native_tools": native, **settings}
    configuration = nh.StepExecutorConfiguration(
        model=model, model_settings=settings, outcome_transport=transport
    )
    return nh.AgentStepExecutor.from_configuration(configuration)


def as_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def nodes_of(view: NodeView, kind: str) -> list[NodeView]:
    below = [each for child in view.children for each in nodes_of(child, kind)]
    return [view, *below] if view.kind == kind else below


@EACH
@pytest.mark.parametrize("stream", [True, False])
async def test_native_calls_go_back_byte_for_byte_beside_calls_of_the_library(
    case: str, stream: bool
) -> None:
    model, blocks, native = CASES[case]
    first = ModelReply(
        reasoning="hm" if case != "gemini" else "", blocks=blocks, tool_calls=(LOOK,), usage=USAGE
    )
    async with (
        ModelServer([first, ENDED]) as server,
        nh.run(executor_of(server, model, native, stream=stream)),
    ):
        assert await find("who won?") == "they"
        usage = nh.get_usage_meter().usage
    sent = server.requests[1].content
    places = [sent.find(as_json(block)) for block in blocks]
    assert -1 not in places
    assert places == sorted(places)
    assert usage.web_searches == 2
    assert usage.cost > Decimal("0.02")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_model_of_chat_that_searches_by_itself_needs_no_tools(stream: bool) -> None:
    answer = json.dumps({"result": {"kind": "pass", "bindings": {"answer": "they"}}})
    cited = {"annotations": [{"type": "url_citation", "url_citation": {"url": "https://a.example"}}]}
    async with ModelServer([ModelReply(text=answer, blocks=(cited,), usage=USAGE)]) as server:
        tools: list[NativeTool] = [nh.models.WebSearch(context_size="low")]
        settings = {"base_url": server.base_url, "api_key": "k" * 20, "native_tools": tools, "stream": stream}
        configuration = nh.StepExecutorConfiguration(
            model="openai-chat:gpt-5-search-api", model_settings=settings, provided_tools=()
        )
        async with nh.run(configuration):
            assert await find("who won?") == "they"
            assert nh.get_usage_meter().usage.web_searches == 1
    assert server.requests[0].body["web_search_options"] == {"search_context_size": "low"}


async def test_a_model_that_calls_no_tools_is_refused_with_the_way_out() -> None:
    async with ModelServer([ENDED]) as server:
        executor = executor_of(server, "openai-chat:gpt-5-search-api", [nh.models.WebSearch()])
        async with nh.run(executor):
            with pytest.raises(nh.ConfigurationError, match=r"does not call tools.*provided_tools=\(\)"):
                await find("who won?")


@EACH
async def test_the_tools_of_every_request_of_a_step_are_the_same(case: str) -> None:
    model, blocks, native = CASES[case]
    replies = [ModelReply(blocks=blocks, tool_calls=(LOOK,)), ENDED]
    async with ModelServer(replies) as server, nh.run(executor_of(server, model, native)):
        await find("who won?")
    one, other = [json.dumps(request.body["tools"]) for request in server.requests]
    assert one == other


async def test_a_server_refuses_blocks_that_come_back_changed() -> None:
    changed = json.loads(json.dumps(SEARCHED))
    changed[1]["content"][0]["encrypted_content"] = "other"

    def reply(request: Any) -> ModelReply:
        return ModelReply(blocks=SEARCHED, tool_calls=(LOOK,)) if len(server.requests) == 1 else ENDED

    async with ModelServer(reply) as server:
        async with nh.run(executor_of(server, CLAUDE, [nh.models.WebSearch()])):
            await find("?")
        body = json.loads(server.requests[1].content)
        body["messages"][1]["content"][1] = changed[1]
        async with await anyio.connect_tcp(
            "127.0.0.1", int(server.base_url.split(":")[2].split("/")[0])
        ) as client:
            data = json.dumps(body).encode()
            head = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: {len(data)}\r\n"
            await client.send(f"{head}anthropic-version: 2023-06-01\r\n\r\n".encode() + data)
            received = await client.receive()
        assert b"400" in received.partition(b"\r\n")[0]


async def test_a_paused_response_goes_on_with_its_first_half() -> None:
    half = ModelReply(text="I look.", blocks=SEARCHED[:1], finish_reason="pause_turn", usage=USAGE)
    rest = ModelReply(blocks=SEARCHED[1:], tool_calls=ANSWER)
    async with (
        ModelServer([half, rest]) as server,
        nh.run(executor_of(server, CLAUDE, [nh.models.WebSearch()])),
    ):
        assert await find("who won?") == "they"
        usage = nh.get_usage_meter().usage
        corrections = nh.get_usage_meter().corrections
    last = server.requests[1].body["messages"][-1]
    assert last["role"] == "assistant"
    assert last["content"] == [SEARCHED[0], {"type": "text", "text": "I look."}]
    assert usage.requests == 2
    assert not corrections


async def test_a_response_may_pause_again_and_again() -> None:
    call = {**SEARCHED[0], "id": "srvtoolu_2"}
    result = {**SEARCHED[1], "tool_use_id": "srvtoolu_2"}
    replies = [
        ModelReply(blocks=SEARCHED[:1], finish_reason="pause_turn"),
        ModelReply(blocks=(SEARCHED[1], call), finish_reason="pause_turn"),
        ModelReply(blocks=(result,), tool_calls=ANSWER),
    ]
    async with ModelServer(replies) as server, nh.run(executor_of(server, CLAUDE, [nh.models.WebSearch()])):
        assert await find("who won?") == "they"
    (half,) = [each for each in server.requests[2].body["messages"] if each["role"] == "assistant"]
    assert half["content"] == [SEARCHED[0], SEARCHED[1], call]


@pytest.mark.parametrize("reason", ["tool_use", "pause_turn"])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_native_call_beside_a_call_of_the_library_goes_back_without_its_result(
    reason: str, stream: bool
) -> None:
    noted = ToolCall(id="", name="nh_eval", arguments="")
    first = ModelReply(blocks=SEARCHED[:1], tool_calls=(LOOK, noted), finish_reason=reason)
    second = ModelReply(blocks=SEARCHED[1:], tool_calls=(LOOK,))
    async with (
        ModelServer([first, second, ENDED]) as server,
        nh.run(executor_of(server, CLAUDE, [nh.models.WebSearch()], stream=stream)),
    ):
        assert await find("who won?") == "they"
    _, half, results, rest, *_ = server.requests[2].body["messages"]
    assert [each["type"] for each in half["content"]] == ["server_tool_use", "tool_use", "tool_use"]
    assert half["content"][0] == SEARCHED[0]
    assert [each["type"] for each in results["content"]] == ["tool_result", "tool_result"]
    assert rest["content"][0] == SEARCHED[1]


@EACH
async def test_native_calls_are_nodes_below_their_request(case: str) -> None:
    model, blocks, native = CASES[case]
    async with ModelServer([ModelReply(blocks=blocks, tool_calls=(LOOK,), usage=USAGE), ENDED]) as server:
        tree = TaskTree()
        with tree.recording():
            async with nh.run(executor_of(server, model, native)):
                await find("who won?")
            view = tree.snapshot()
    request = nodes_of(view, "model_request")[0]
    calls = nodes_of(request, "tool_call")
    names = {"messages": ["web_search"], "responses": ["web_search", "code_execution", "file_search"]}
    assert [call.name for call in calls] == names.get(case, ["web_search", "code_execution"])
    search = calls[0]
    assert search.state == "completed"
    assert search.attributes["nighthawk.tool.native"] is True
    assert "who won" in str({**search.inputs, **search.outputs})
    assert "encrypted" not in str(search.outputs)
    assert request.usage.web_searches == 2
    assert all(
        "nighthawk.tool.native" not in node.attributes for node in nodes_of(view, "tool_call")[len(calls) :]
    )


async def test_a_call_whose_result_comes_after_a_pause_is_a_node_of_both_requests() -> None:
    replies = [
        ModelReply(blocks=SEARCHED[:1], finish_reason="pause_turn"),
        ModelReply(blocks=SEARCHED[1:], tool_calls=ANSWER),
    ]
    async with ModelServer(replies) as server:
        tree = TaskTree()
        with tree.recording():
            async with nh.run(executor_of(server, CLAUDE, [nh.models.WebSearch()])):
                await find("who won?")
            requests = nodes_of(tree.snapshot(), "model_request")
    calls = [nodes_of(request, "tool_call") for request in requests]
    assert [[(call.name, call.state) for call in each] for each in calls] == [
        [("web_search", "completed")]
    ] * 2
    assert "a.example" in calls[1][0].outputs["result"]


@EACH
async def test_two_calls_under_one_id_are_two_nodes_that_end(case: str) -> None:
    model, blocks, native = CASES[case]
    twice = (blocks[0], {**blocks[0]}, *blocks)
    async with ModelServer([ModelReply(blocks=twice, tool_calls=(LOOK,)), ENDED]) as server:
        tree = TaskTree()
        with tree.recording():
            async with nh.run(executor_of(server, model, native)):
                await find("who won?")
            request = nodes_of(tree.snapshot(), "model_request")[0]
    assert {call.state for call in nodes_of(request, "tool_call")} == {"completed"}


@EACH
async def test_a_recording_answers_like_the_provider(case: str, tmp_path: Path) -> None:
    model, blocks, native = CASES[case]
    path = tmp_path / "cassette.yaml"
    async with ModelServer([ModelReply(blocks=blocks, tool_calls=(LOOK,), usage=USAGE), ENDED]) as server:
        executor = executor_of(server, model, native)
        with cassette(path):
            async with nh.run(executor):
                await find("who won?")
                recorded = nh.get_usage_meter().usage
    tree = TaskTree()
    with cassette(path, mode="none"), tree.recording():
        async with nh.run(executor):
            assert await find("who won?") == "they"
            assert nh.get_usage_meter().usage == recorded
        calls = nodes_of(nodes_of(tree.snapshot(), "model_request")[0], "tool_call")
    assert "web_search" in [call.name for call in calls]


@EACH
async def test_a_durable_run_answers_from_its_journal(case: str, tmp_path: Path) -> None:
    model, blocks, native = CASES[case]
    journal = nh.journal.open(f"sqlite:///{tmp_path / 'runs.db'}")
    async with ModelServer([ModelReply(blocks=blocks, tool_calls=(LOOK,), usage=USAGE), ENDED]) as server:
        executor = executor_of(server, model, native)
        for _ in range(2):
            async with nh.run(executor, journal=journal, run_id="one"):
                assert await find("who won?") == "they"
        assert len(server.requests) == 2
    journal.close()


async def test_a_request_is_not_sent_again_after_a_native_call() -> None:
    broken = ModelReply(blocks=SEARCHED, tool_calls=(LOOK,), ending="close", ending_after=7)
    async with (
        ModelServer([broken, ENDED]) as server,
        nh.run(executor_of(server, CLAUDE, [nh.models.WebSearch()], max_retries=3)),
    ):
        with pytest.raises(nh.ModelError):
            await find("who won?")
    assert len(server.requests) == 1


@EACH
async def test_a_transcript_shows_native_calls(case: str) -> None:
    model, blocks, native = CASES[case]
    replies = [ModelReply(blocks=blocks, tool_calls=(LOOK,), usage=USAGE), ENDED]
    async with ModelServer(replies) as server, nh.run(executor_of(server, model, native)):
        await find("who won?")
        transcript = nh.transcript()
    shown = str(transcript)
    assert "→ web_search (by the provider)" in shown
    assert "who won" in shown.partition("→ web_search (by the provider)")[2].splitlines()[0]
    assert "← web_search (by the provider)" in shown
    assert "EqgfCioIARgBIiQ3YTAwMjY1Mi1m" not in shown


# Refusals, before anything is sent.


@pytest.mark.parametrize(
    ("model", "native", "words"),
    [
        (CLAUDE, [FILES], "claude-haiku-5-5.*FileSearch.*has only 'web_search' and 'code_execution'"),
        (
            "openai-chat:gpt-5",
            [nh.models.WebSearch()],
            "WebSearch.*has none.*'native_tools': \\['web_search'\\]",
        ),
        ("openai-responses:gpt-4.1-nano", [nh.models.WebSearch()], "WebSearch"),
        ("google:gemini-2.5-flash", [nh.models.WebSearch()], "WebSearch.*has none"),
        ("openai-responses:unheard-of", [nh.models.CodeExecution()], "CodeExecution.*has none"),
        (GEMINI, [nh.models.WebSearch(max_uses=3)], "no 'max_uses' of WebSearch"),
    ],
)
async def test_a_model_without_the_tool_is_refused(model: str, native: list[NativeTool], words: str) -> None:
    async with ModelServer([ENDED]) as server, nh.run(executor_of(server, model, native)):
        with pytest.raises(nh.ConfigurationError, match=words):
            await find("who won?")
    assert server.requests == []


async def test_capabilities_correct_the_catalog() -> None:
    capabilities = {"native_tools": ["web_search"]}
    async with ModelServer([ENDED]) as server:
        executor = executor_of(
            server, "openai-responses:unheard-of", [nh.models.WebSearch()], capabilities=capabilities
        )
        async with nh.run(executor):
            await find("who won?")
    assert server.requests[0].body["tools"][0] == {"type": "web_search"}


async def test_bad_tools_are_refused_when_the_executor_is_made() -> None:
    async with ModelServer([]) as server:
        with pytest.raises(nh.ConfigurationError, match="not dict"):
            executor_of(server, CLAUDE, [{"type": "web_search"}])  # pyright: ignore
        with pytest.raises(nh.ConfigurationError, match="outcome_transport='direct' has no tools"):
            executor_of(server, GPT, [nh.models.WebSearch()], transport="direct")


async def test_the_native_transport_has_them_too() -> None:
    answer = json.dumps({"result": {"kind": "pass", "bindings": {"answer": "they"}}})
    async with (
        ModelServer([ModelReply(blocks=ITEMS[:1], text=answer)]) as server,
        nh.run(executor_of(server, GPT, [nh.models.WebSearch()], transport="native")),
    ):
        assert await find("who won?") == "they"
    assert server.requests[0].body["tools"][0] == {"type": "web_search"}


# Budgets.


async def test_a_budget_sets_aside_what_the_searches_may_cost_and_charges_what_they_did() -> None:
    reply = ModelReply(blocks=SEARCHED, tool_calls=ANSWER, usage=USAGE)
    async with ModelServer([reply]) as server:
        executor = executor_of(server, CLAUDE, [nh.models.WebSearch(max_uses=3)], max_tokens=500)
        async with nh.run(executor):
            with nh.budget(cost=0.03) as small, pytest.raises(nh.BudgetExceededError):
                await find("who won?")
            assert small.spent.turns == 0
            with nh.budget(cost=0.05) as enough:
                await find("who won?")
    assert Decimal("0.02") < enough.cost < Decimal("0.021")
    assert enough.usage.web_searches == 2
    assert enough.reserved.cost == 0


async def test_searches_without_a_limit_are_refused_under_a_budget_of_cost() -> None:
    async with ModelServer([ENDED, ENDED]) as server:
        executor = executor_of(
            server, CLAUDE, [nh.models.WebSearch(), nh.models.CodeExecution()], max_tokens=500
        )
        async with nh.run(executor):
            with nh.budget(cost=5), pytest.raises(nh.ConfigurationError, match="Set max_uses"):
                await find("who won?")
            with nh.budget(tokens=300_000):
                await find("who won?")
    assert len(server.requests) == 1


async def test_a_budget_of_tokens_allows_for_what_a_search_may_find() -> None:
    async with ModelServer([ENDED]) as server:
        executor = executor_of(server, CLAUDE, [nh.models.WebSearch(max_uses=3)], max_tokens=500)
        async with nh.run(executor):
            with nh.budget(tokens=30_000), pytest.raises(nh.BudgetExceededError):
                await find("who won?")
            with nh.budget(tokens=35_000):
                await find("who won?")


ADDED = {"type": "web_search_20250305", "name": "web_search"}


async def test_a_budget_allows_for_native_tools_that_are_added_to_the_body() -> None:
    reply = ModelReply(blocks=SEARCHED, tool_calls=ANSWER, usage=USAGE)
    async with ModelServer([reply]) as server:
        added = {"tools": [{**ADDED, "max_uses": 3}]}
        async with nh.run(executor_of(server, CLAUDE, [], max_tokens=500, extra_body=added)):
            with nh.budget(cost=0.03), pytest.raises(nh.BudgetExceededError):
                await find("who won?")
            with nh.budget(cost=0.05) as enough:
                await find("who won?")
    assert enough.usage.web_searches == 2


@pytest.mark.parametrize(
    ("model", "native", "body"),
    [
        (CLAUDE, [], {"tools": [ADDED]}),
        (GEMINI, [], {"tools": [{"googleSearch": {}}]}),
        (GPT, [nh.models.WebSearch(max_uses=2)], {"max_tool_calls": None}),
        (CLAUDE, [], {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]}),
        (GPT, [], {"tools": [{"type": "mcp", "server_label": "s", "server_url": "https://a.example"}]}),
    ],
)
async def test_what_is_added_to_the_body_without_a_limit_is_refused_under_a_budget_of_cost(
    model: str, native: list[NativeTool], body: dict[str, Any]
) -> None:
    async with (
        ModelServer([ENDED]) as server,
        nh.run(executor_of(server, model, native, max_tokens=500, extra_body=body)),
    ):
        with nh.budget(cost=5), pytest.raises(nh.ConfigurationError, match="budget"):
            await find("who won?")
    assert server.requests == []


@pytest.mark.parametrize("kind", ["function", "custom", "bash_20250124"])
async def test_tools_of_clients_that_are_added_to_the_body_cost_nothing_by_themselves(kind: str) -> None:
    added = {"tools": [{"type": kind, "name": "other", "input_schema": {"type": "object"}}]}
    async with (
        ModelServer([ENDED]) as server,
        nh.run(executor_of(server, CLAUDE, [], max_tokens=500, extra_body=added)),
    ):
        with nh.budget(cost=0.02):
            await find("who won?")


# The key of the cache.


async def test_each_block_has_its_key_for_the_cache_of_models_that_take_one() -> None:
    async with ModelServer([ENDED, ENDED, ENDED]) as server:
        async with nh.run(executor_of(server, GPT, [])):
            await find("one")
            await find("two")
        async with nh.run(executor_of(server, "openai-chat:a-model-of-another-server", [])):
            await find("three")
    one, two, three = [request.body.get("prompt_cache_key") for request in server.requests]
    assert one == two
    assert one.startswith("nighthawk-")
    assert three is None

"""Long steps in every protocol: compacted requests are valid, with the reasoning that providers want back."""

import json
import re
from itertools import pairwise
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, tool_call
from tests.long_steps import Book, read_all

pytestmark = pytest.mark.anyio

PROVIDERS = ("openai-chat", "openai-responses", "anthropic", "google")
PAGES = 90
WINDOW = 20_000


class Reader:
    """Answers with the next page to read, and with reasoning that has to be sent back."""

    def __init__(self, pages: int = PAGES) -> None:
        self.pages = pages
        self.sizes: list[int] = []
        self.summaries: list[str] = []

    def __call__(self, request: RecordedRequest) -> ModelReply:
        text = request.content.decode()
        usage = nh.Usage(requests=1, input_tokens=len(text) // 3, output_tokens=30)
        self.sizes.append(usage.input_tokens)
        if "tools" not in json.loads(text):
            self.summaries.append(text)
            return ModelReply(text="Nothing of note.", usage=usage)
        numbers = re.findall(r"page\((\d+)\)", text)
        page = int(numbers[-1]) + 1 if numbers else 0
        call = tool_call("nh_eval", expression=f"page({page})")
        if page >= self.pages:
            call = tool_call("nh_outcome", kind="pass", bindings={"result": page - 1})
        return ModelReply(reasoning=f"Now page {page}.", tool_calls=(call,), usage=usage)


def executor_at(server: ModelServer, provider: str, **settings: Any) -> nh.AgentStepExecutor:
    capabilities = {"context_window": WINDOW, "reasoning": True, "prompt_caching": True}
    configuration = nh.StepExecutorConfiguration(
        model=f"{provider}:tested",
        model_settings={"base_url": server.base_url, "capabilities": capabilities, "max_tokens": 1_000},
        max_turns=500,
        max_tool_calls=500,
        **settings,
    )
    return nh.AgentStepExecutor.from_configuration(configuration)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_compacted_requests_are_valid_and_stay_within_the_context(provider: str) -> None:
    reader, book = Reader(), Book()
    async with ModelServer(reader) as server, nh.run(executor_at(server, provider)):
        assert await read_all(book.page) == PAGES - 1
    assert book.reads == list(range(PAGES))
    assert max(reader.sizes) < WINDOW
    assert len(reader.summaries) >= 1
    assert len(server.requests) == PAGES + 1 + len(reader.summaries)
    assert "[Shortened: nh_eval(" in server.requests[-1].content.decode()
    assert "NH:SUMMARY" in server.requests[-1].content.decode()


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_between_compactions_the_bytes_of_a_request_begin_with_those_of_the_one_before(
    provider: str,
) -> None:
    reader = Reader()
    async with ModelServer(reader) as server, nh.run(executor_at(server, provider)):
        await read_all(Book().page)
    bodies = [request.content.decode() for request in server.requests]
    prefixes = [prefix_of(body) for body in bodies if body not in reader.summaries]
    broken = [not after.startswith(before) for before, after in pairwise(prefixes)]
    shorter = [len(after) < len(before) for before, after in pairwise(prefixes)]
    assert broken == shorter
    assert 5 <= sum(broken) <= 20


def prefix_of(body: str) -> str:
    """What a provider caches of a request, in its order, without the end of the messages and marks."""
    content = json.loads(body, object_hook=without_marks)
    *fixed, messages = sorted(content, key=lambda name: name in ("messages", "input", "contents"))
    return f"{[content[name] for name in fixed]}{json.dumps(content[messages])[:-1]}"


def without_marks(value: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in value.items() if name != "cache_control"}


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_cheaper_model_of_the_provider_summarises_with_the_settings_of_the_step(
    provider: str,
) -> None:
    reader = Reader()
    async with ModelServer(reader) as server:
        compaction = nh.executors.Compaction(model=f"{provider}:cheap")
        async with nh.run(executor_at(server, provider, compaction=compaction)):
            await read_all(Book().page)
            meter = nh.get_usage_meter().usage_by_model
    summaries = [request for request in server.requests if request.content.decode() in reader.summaries]
    assert summaries
    assert all("cheap" in request.path + request.content.decode()[:200] for request in summaries)
    assert meter[f"{provider}:cheap"].requests == len(summaries)

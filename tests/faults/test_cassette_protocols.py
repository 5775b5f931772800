"""Cassettes in every protocol: conversations with reasoning are replayed without a server, and carried on.

The server refuses reasoning that is missing or changed as the real endpoints do, so a conversation that it
goes on with is one that a replay began faithfully.
"""

from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.recording.file import dump_exchanges, load_exchanges
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, cassette, tool_call

pytestmark = pytest.mark.anyio

PROVIDERS = ("openai-chat", "openai-responses", "anthropic", "google")
SENDS_REASONING_BACK = PROVIDERS[1:]
KEY = "sk-a-secret-that-nobody-may-see"
USAGE = nh.Usage(requests=1, input_tokens=20, output_tokens=9, cache_read_tokens=3, reasoning_tokens=4)


def weigh(word: str) -> int:
    """The weight of a word."""
    return len(word)


@nh.natural_function
async def total_weight(words: list[str]) -> int:
    """natural
    Set <:analysis> to the sum of <weigh> over <words>.
    """
    analysis: int
    return analysis


TURNS = (
    ModelReply(
        reasoning="Weigh both words first.",
        text="I weigh the words.",
        tool_calls=(
            tool_call("nh_eval", expression="weigh(words[0])"),
            tool_call("nh_eval", expression="weigh(words[1])"),
        ),
        usage=USAGE,
    ),
    ModelReply(
        reasoning="Four and six are ten.",
        tool_calls=(tool_call("nh_assign", target_path="analysis", expression="4 + 6"),),
        usage=USAGE,
    ),
    ModelReply(reasoning="That is all.", tool_calls=(tool_call("nh_outcome", kind="pass"),), usage=USAGE),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tape.yaml"


def executor_at(base_url: str, provider: str, **settings: Any) -> nh.AgentStepExecutor:
    configuration = nh.StepExecutorConfiguration(
        model=f"{provider}:tested",
        model_settings={
            "base_url": base_url,
            "api_key": KEY,
            "capabilities": {"reasoning": True},
            **settings,
        },
        outcome_transport="tool",
    )
    return nh.AgentStepExecutor.from_configuration(configuration=configuration)


async def weighed(path: Path, base_url: str, provider: str, **settings: Any) -> nh.Usage:
    """Run the function over a cassette; gives the usage."""
    async with cassette(path, mode="new"), nh.run(executor_at(base_url, provider, **settings)) as run:
        assert await total_weight(["four", "sixsix"]) == 10
    return run.usage_meter.usage


async def contents(path: Path) -> str:
    return await anyio.Path(path).read_text(encoding="utf-8")


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_conversation_with_reasoning_is_replayed(path: Path, provider: str, stream: bool) -> None:
    async with ModelServer(TURNS) as server:
        recorded = await weighed(path, server.base_url, provider, stream=stream)
        assert len(server.requests) == 3
        written = await contents(path)
        replayed = await weighed(path, server.base_url, provider, stream=stream)
        assert len(server.requests) == 3
    assert recorded == replayed
    assert recorded.reasoning_tokens == 12
    assert await contents(path) == written
    assert KEY not in written


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_stream_is_replayed_for_whole_responses_and_the_other_way_round(
    path: Path, provider: str
) -> None:
    async with ModelServer(TURNS) as server:
        await weighed(path, server.base_url, provider, stream=True)
        await weighed(path, server.base_url, provider, stream=False)
        assert len(server.requests) == 3


@pytest.mark.parametrize("kept", [1, 2])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_the_endpoint_goes_on_with_a_conversation_that_a_replay_began(
    path: Path, provider: str, kept: int
) -> None:
    async with ModelServer(TURNS) as server:
        recorded = await weighed(path, server.base_url, provider)
    await cut(path, kept)
    async with ModelServer(TURNS[kept:]) as server:
        assert await weighed(path, server.base_url, provider) == recorded
        assert len(server.requests) == 3 - kept
        assert [count_reasoning(request) for request in server.requests] == [
            number if provider in SENDS_REASONING_BACK else 0 for number in range(kept, 3)
        ]
    async with cassette(path, mode="none") as tape, nh.run(executor_at(server.base_url, provider)):
        assert await total_weight(["four", "sixsix"]) == 10
    assert tape.unused == ()


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_headers_that_name_the_program_do_not_change_what_is_replayed(
    path: Path, provider: str
) -> None:
    headers = {"X-Title": "Word analysis", "HTTP-Referer": "https://weigh.example"}
    async with ModelServer(TURNS) as server:
        await weighed(path, server.base_url, provider, extra_headers=headers)
        await weighed(path, server.base_url, provider, extra_headers=headers)
        assert len(server.requests) == 3


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_parallel_conversations_go_on_each_with_its_own_reasoning(path: Path, provider: str) -> None:
    numbers = count()

    def reply(request: RecordedRequest) -> ModelReply:
        turns_so_far = (b"weigh(words[0])" in request.content) + (b"4 + 6" in request.content)
        return replace(TURNS[turns_so_far], reasoning=f"Thought {next(numbers)}.")

    async def program(base_url: str) -> None:
        run = nh.run(executor_at(base_url, provider))
        async with cassette(path) as tape, run, anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(total_weight, ["four", "sixsix"])
        assert tape.unused == ()

    async with ModelServer(reply) as server:
        await program(server.base_url)
        await program(server.base_url)
        assert len(server.requests) == 15


async def cut(path: Path, kept: int) -> None:
    """Leave the first exchanges in the file."""
    exchanges = load_exchanges(await contents(path), path=path)
    await anyio.Path(path).write_text(dump_exchanges(exchanges[:kept]), encoding="utf-8")


def count_reasoning(request: RecordedRequest) -> int:
    """How many turns of a conversation hold reasoning that the server sealed."""
    names = (b'"encrypted_content":"', b'"signature":"', b'"thoughtSignature":"')
    return sum(request.content.count(name) for name in names)

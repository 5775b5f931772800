"""Cassettes over real HTTP: recorded against a server, replayed when there is none, with equal results."""

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, cassette, tool_call
from nighthawk_async.types.messages import ToolCall

pytestmark = pytest.mark.anyio

KEY = "sk-a-secret-that-nobody-may-see"
END = tool_call("nh_outcome", kind="pass")
Answers: TypeAlias = Sequence[ModelReply] | Callable[[RecordedRequest], ModelReply]


@nh.natural_function
async def stars(review: str) -> int:
    count: int
    """natural
    Set <:count> to the number of stars that <review> gives.
    """
    return count


@nh.natural_function
async def best(reviews: Sequence[str]) -> int:
    count: int
    """natural
    Set <:count> to the most <stars> that one of <reviews> gives.
    """
    return count


@nh.natural_function
def stars_in_thread(review: str) -> int:
    count: int
    """natural
    Set <:count> to the number of stars that <review> gives.
    """
    return count


def reply(*calls: ToolCall) -> ModelReply:
    return ModelReply(tool_calls=calls)


def assign(count: object) -> ModelReply:
    return reply(tool_call("nh_assign", target_path="count", expression=str(count)), END)


def prompt_of(request: RecordedRequest) -> str:
    return str(request.body["messages"][1]["content"])


def count_stars(request: RecordedRequest) -> ModelReply:
    found = re.search(r"(\d+) stars", prompt_of(request))
    assert found is not None
    return assign(found.group(1))


def executor_at(base_url: str, **fields: Any) -> nh.AgentStepExecutor:
    capabilities = {"structured_output": True}
    settings = {"base_url": base_url, "api_key": KEY, "max_retries": 2, "capabilities": capabilities}
    configuration = nh.StepExecutorConfiguration(
        model="openai-chat:any", model_settings=settings, **{"outcome_transport": "tool", **fields}
    )
    return nh.AgentStepExecutor.from_configuration(configuration=configuration)


async def recorded_and_replayed(
    path: Path, answers: Answers, program: Callable[[], Awaitable[object]], **fields: Any
) -> tuple[object, nh.Usage]:
    """Run a program against a server, then without one; both must give the same. Gives that."""
    results: list[tuple[object, nh.Usage]] = []
    async with ModelServer(answers) as server:
        base_url = server.base_url
        async with cassette(path, mode="once") as tape, nh.run(executor_at(base_url, **fields)) as run:
            results.append((await program(), nh.Usage()))
        results[0] = (results[0][0], run.usage_meter.usage)
        assert tape.recorded > 0
        asked = len(server.requests)
    assert asked >= tape.recorded
    async with cassette(path, mode="none") as tape, nh.run(executor_at(base_url, **fields)) as run:
        results.append((await program(), run.usage_meter.usage))
    assert tape.unused == ()
    assert results[0] == results[1]
    return results[0]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tape.yaml"


async def test_twenty_parallel_steps_in_another_order(path: Path) -> None:
    numbers = list(range(20))

    async def program() -> dict[int, int]:
        found: dict[int, int] = {}

        async def read(number: int) -> None:
            found[number] = await stars(f"{number} stars")

        numbers.reverse()
        async with anyio.create_task_group() as tasks:
            for number in numbers:
                tasks.start_soon(read, number)
        return found

    result, usage = await recorded_and_replayed(path, count_stars, program)
    assert result == {number: number for number in range(20)}
    assert usage.requests == 20


async def test_retries_are_recorded_as_the_exchange_they_ended_in(path: Path) -> None:
    busy = ModelReply(status=503, headers={"retry-after-ms": "1"})

    async def program() -> int:
        return await stars("3 stars")

    result, usage = await recorded_and_replayed(path, [busy, busy, assign(3)], program)
    assert (result, usage.requests, usage.retries) == (3, 1, 2)


async def test_a_request_that_fails_for_good_fails_again(path: Path) -> None:
    busy = ModelReply(status=503, headers={"retry-after-ms": "1"}, text=f"busy, and I saw {KEY}")

    async def program() -> tuple[str, int, bool]:
        with pytest.raises(nh.errors.ModelStatusError) as caught:
            await stars("3 stars")
        return (str(caught.value), caught.value.status, caught.value.is_transient)

    result, usage = await recorded_and_replayed(path, [busy] * 3, program)
    assert (usage.requests, usage.retries, usage.is_complete) == (1, 2, False)
    assert "503" in str(result)


async def test_a_stream_that_breaks_off_breaks_off_again(path: Path) -> None:
    broken = ModelReply(text="Well, let me see what I can do about this", ending="close", ending_after=3)

    async def program() -> str:
        with pytest.raises(nh.ModelError) as caught:
            await stars("3 stars")
        return f"{type(caught.value).__name__}: {caught.value}"

    await recorded_and_replayed(path, [broken], program)


async def test_conversations_with_tools_and_corrections(path: Path) -> None:
    answers = [
        reply(tool_call("nh_eval", expression="len(review)"), tool_call("nh_eval", expression="1 / 0")),
        ModelReply(text="Hm."),
        assign("'four'"),
        assign(4),
    ]

    async def program() -> int:
        return await stars("4 stars")

    result, usage = await recorded_and_replayed(path, answers, program)
    assert (result, usage.requests) == (4, 4)


async def test_nested_steps_in_parallel_tool_calls(path: Path) -> None:
    def answer(request: RecordedRequest) -> ModelReply:
        if "one of" not in prompt_of(request):
            return count_stars(request)
        if len(request.body["messages"]) > 2:
            values = [json.loads(each["content"])["value"] for each in request.body["messages"][3:]]
            return assign(max(values))
        calls = [tool_call("nh_eval", expression=f"await stars(reviews[{index}])") for index in range(5)]
        return reply(*calls)

    async def program() -> int:
        return await best([f"{number} stars" for number in (3, 1, 4, 1, 5)])

    result, usage = await recorded_and_replayed(path, answer, program)
    assert (result, usage.requests) == (5, 7)


async def test_equal_parallel_steps_share_out_their_recordings(path: Path) -> None:
    numbers = iter(range(100))

    async def program() -> list[int]:
        found: list[int] = []

        async def read() -> None:
            found.append(await stars("Many stars"))

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(read)
        return sorted(found)

    result, _ = await recorded_and_replayed(path, lambda _: assign(next(numbers)), program)
    assert result == [0, 1, 2, 3, 4]


async def test_the_direct_transport(path: Path) -> None:
    answers = [
        ModelReply(text="no JSON"),
        ModelReply(text='{"result": {"kind": "pass", "bindings": {"count": 3}}}'),
    ]

    async def program() -> int:
        return await stars("3 stars")

    result, usage = await recorded_and_replayed(path, answers, program, outcome_transport="direct")
    assert (result, usage.requests) == (3, 2)


async def test_synchronous_functions_in_threads(path: Path) -> None:
    async def program() -> list[int]:
        found: list[int] = []

        async def read(number: int) -> None:
            found.append(await anyio.to_thread.run_sync(stars_in_thread, f"{number} stars"))

        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(read, number)
        return sorted(found)

    result, _ = await recorded_and_replayed(path, count_stars, program)
    assert result == [0, 1, 2, 3]


async def test_the_key_is_nowhere_in_the_file(path: Path) -> None:
    async def program() -> int:
        return await stars(f"3 stars from {KEY}")

    answers = [reply(tool_call("nh_eval", expression=repr(KEY))), assign(3)]
    await recorded_and_replayed(path, answers, program)
    text = await anyio.Path(path).read_text(encoding="utf-8")
    assert KEY not in text
    assert KEY[3:] not in text
    assert "127.0.0.1" not in text


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_synchronous_program_replays_what_it_recorded(path: Path, backend: Any) -> None:
    with ModelServer.in_thread([assign(2)]) as server:
        base_url = server.base_url
        with cassette(path), nh.run(executor_at(base_url), sync_backend=backend):
            assert stars_in_thread("2 stars") == 2
    with cassette(path), nh.run(executor_at(base_url), sync_backend=backend):
        assert stars_in_thread("2 stars") == 2

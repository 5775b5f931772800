"""A model server whose answers are files."""

import json
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.testing import AnswerServer
from nighthawk_async.testing.answer_forms import AnswerFormError, read_answer

pytestmark = pytest.mark.anyio

MODELS = ["openai-chat:any", "openai-responses:any", "anthropic:any", "google:any"]
CALLS = [
    {"name": "nh_assign", "arguments": {"target_path": "count", "expression": "len(word)"}},
    {"name": "nh_outcome", "arguments": {"kind": "pass"}},
]


@nh.natural_function
async def measure(word: str) -> int:
    """Measure a word."""
    count = 0
    """natural
    Set <:count> to the length of <word>.
    """
    return count


def configured(server: AnswerServer, model: str) -> nh.StepExecutorConfiguration:
    settings = {"base_url": server.base_url, "api_key": "none", "timeout": 240}
    return nh.StepExecutorConfiguration(model=model, model_settings=settings)


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(240):
        while not condition():  # noqa: ASYNC110  (of files)
            await anyio.sleep(0.01)


async def waiting(server: AnswerServer, count: int = 1) -> list[int]:
    """Wait until some requests wait for an answer."""
    await until(lambda: len(server.waiting) >= count)
    return server.waiting


def write(server: AnswerServer, number: int, answer: object) -> None:
    """Write an answer at once, as the page says."""
    part = server.folder / "part"
    part.write_text(json.dumps(answer))
    part.rename(server.folder / f"{number:04}.answer.json")


@pytest.mark.parametrize("model", MODELS)
async def test_an_answer_is_read_from_a_file(tmp_path: Path, model: str) -> None:
    measured: list[int] = []

    async def program(server: AnswerServer) -> None:
        async with nh.run(configured(server, model)):
            measured.append(await measure("four"))

    async with AnswerServer(tmp_path / "new" / "folder") as server, anyio.create_task_group() as tasks:
        tasks.start_soon(program, server)
        assert await waiting(server) == [1]
        readable = (server.folder / "0001.request.txt").read_text()
        assert "## system" in readable
        assert "length of <word>" in readable
        assert "## tool nh_outcome" in readable
        assert "0001.answer.json" in readable
        assert json.loads((server.folder / "0001.request.json").read_text())
        (server.folder / "0001.answer.json").write_text('{"tool_calls": [')  # it is not whole yet
        await anyio.sleep(0.3)
        write(server, 1, {"tool_calls": CALLS[:1]})
        assert await waiting(server) == [2]
        readable = (server.folder / "0002.request.txt").read_text()
        assert "## call nh_assign" in readable
        assert "## result" in readable
        write(server, 2, CALLS[1])
    assert measured == [4]


async def test_requests_side_by_side_wait_for_their_own_answers(tmp_path: Path) -> None:
    lengths: dict[str, int] = {}

    async def one(word: str) -> None:
        lengths[word] = await measure(word)

    async with (
        AnswerServer(tmp_path) as server,
        nh.run(configured(server, MODELS[0])),
        anyio.create_task_group() as tasks,
    ):
        for word in ("a", "bb", "ccc"):
            tasks.start_soon(one, word)
        for number in reversed(await waiting(server, 3)):
            write(server, number, CALLS)
    assert lengths == {"a": 1, "bb": 2, "ccc": 3}


async def test_a_request_whose_client_has_left_waits_no_longer(tmp_path: Path) -> None:
    async with AnswerServer(tmp_path) as server, nh.run(configured(server, MODELS[0])):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(measure, "word")
            await waiting(server)
            tasks.cancel_scope.cancel()
        await until(lambda: not server.waiting)
        assert (tmp_path / "0001.left.txt").exists()


async def test_numbers_go_on_and_an_answer_in_no_form_is_refused(tmp_path: Path) -> None:
    (tmp_path / "0041.request.txt").write_text("from before")
    async with (
        AnswerServer(tmp_path) as server,
        nh.run(configured(server, MODELS[0])),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(measure, "word")
        assert await waiting(server) == [42]
        write(server, 42, [{"arguments": {}}])
        await until((tmp_path / "0042.refused.txt").exists)
        assert "a call has a name" in (tmp_path / "0042.refused.txt").read_text()
        write(server, 42, CALLS)


NAMED = {"name": "look", "arguments": {"at": 1}}
WRITTEN = {"name": "look", "arguments": '{"at": 1}'}
USE = {"type": "tool_use", "id": "1", "name": "look", "input": {"at": 1}}
SAID = {"type": "text", "text": "so"}
OUTPUT = {"type": "message", "content": [{"type": "output_text", "text": "so"}]}
PARTS = [{"text": "so"}, {"functionCall": {"name": "look", "args": {"at": 1}}}]


@pytest.mark.parametrize(
    "answer",
    [
        NAMED,
        [NAMED],
        {"text": "so", "tool_calls": [NAMED]},
        {"role": "assistant", "content": "so", "tool_calls": [{"id": "1", "function": WRITTEN}]},
        {"choices": [{"message": {"content": None, "tool_calls": [{"function": NAMED}]}}]},
        {"content": [{"type": "thinking", "thinking": "…"}, SAID, USE]},
        {"output": [{"type": "reasoning"}, OUTPUT, {"type": "function_call", **NAMED}]},
        {"candidates": [{"content": {"parts": PARTS}}]},
    ],
)
def test_answers_may_have_the_form_of_each_protocol(answer: object) -> None:
    reply = read_answer(json.dumps(answer))
    ((name, arguments),) = [(call.name, json.loads(call.arguments)) for call in reply.tool_calls]
    assert (name, arguments) == ("look", {"at": 1})
    assert reply.text in ("so", "")


@pytest.mark.parametrize("text", ["plain", '"quoted"', "3", '{"kind": "pass"}'])
def test_anything_else_is_a_text(text: str) -> None:
    assert read_answer(text).text == text


@pytest.mark.parametrize("answer", [[1], [{"name": "look"}, "x"], {"tool_calls": [{"arguments": {}}]}])
def test_a_call_without_a_name_is_refused(answer: object) -> None:
    with pytest.raises(AnswerFormError):
        read_answer(json.dumps(answer))


def test_it_serves_from_a_thread(tmp_path: Path) -> None:
    with AnswerServer.in_thread(tmp_path) as server:
        assert server.base_url.startswith("http://127.0.0.1:")
        assert server.waiting == []

"""Deferred and foreign tools in runs that continue."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async.runtime import ForeignTool
from nighthawk_async.testing import ModelResponse, model_response, tool_call

from .durable_runs import AnsweringModel, live, opened, places

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

TURNS = (
    model_response(tool_call("nh_find_tools", query="close issue")),
    model_response(tool_call("close_issue", number=7)),
    model_response(tool_call("close_issue", number=8), tool_call("nh_find_tools", query="mail")),
    model_response(tool_call("send_mail", text="done"), tool_call("nh_outcome", kind="pass")),
)


class CrashError(BaseException):
    """The end of a life."""


class Tracker:
    """A tracker whose calls are counted.

    Args:
        crashes_at: The number of the call that ends the life; 0 for none.
    """

    def __init__(self, crashes_at: int = 0) -> None:
        self.calls: list[object] = []
        self.crashes_at = crashes_at

    async def call(self, arguments: Mapping[str, object]) -> dict[str, object]:
        self.calls.append(arguments)
        return {"closed": arguments["number"]}

    async def send(self, arguments: Mapping[str, object]) -> None:
        self.calls.append(arguments)

    def tools(self) -> list[nh.runtime.ToolSet]:
        close = tool_of("close-issue", "Close an issue.", self.call)
        send = tool_of("send-mail", "Send a mail.", self.send)
        return [nh.tool_set([close, send], deferred=True)]


def tool_of(name: str, description: str, function: Callable[..., object]) -> ForeignTool:
    return ForeignTool(name=name, description=description, parameters={"type": "object"}, function=function)


@nh.natural_function
async def tidy() -> None:
    """Tidy up."""
    """natural
    Close the issues, then send a mail.
    """


def model_that_ends_at(turn: int) -> AnsweringModel:
    """A model whose process ends when it is asked for a turn."""

    def answer(prompt: str, asked: int) -> ModelResponse:
        if asked == turn:
            raise CrashError
        return TURNS[asked]

    return AnsweringModel(answer)


@pytest.mark.parametrize("turn", [1, 2, 3])
async def test_a_run_with_deferred_tools_continues(tmp_path: Path, turn: int) -> None:
    tracker = Tracker()

    async def program() -> None:
        with nh.scope(tools=tracker.tools()):
            await tidy()

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, model_that_ends_at(turn), program)
        assert len(tracker.calls) == turn - 1
        later = model_that_ends_at(-1)
        await live(store, later, program)
        assert len(later.prompts) == len(TURNS) - turn
        assert tracker.calls == [{"number": 7}, {"number": 8}, {"text": "done"}]
        assert len(places(store, "intent")) == 3
        await live(store, later, program)
    assert len(tracker.calls) == 3
    assert len(later.prompts) == len(TURNS) - turn


async def test_a_call_of_a_foreign_tool_in_doubt_is_not_repeated(tmp_path: Path) -> None:
    calls: list[object] = []

    async def fail(arguments: Mapping[str, object]) -> None:
        calls.append(arguments)
        raise CrashError

    async def program() -> None:
        tool = tool_of("close_issue", "Close an issue.", fail)
        with nh.scope(tools=[tool]):
            await tidy()

    model = AnsweringModel(lambda prompt, turn: TURNS[1])
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, model, program)
        with pytest.raises(nh.journal.CallInDoubtError):
            await live(store, model, program)
    assert len(calls) == 1


async def test_a_repeatable_foreign_tool_is_called_again(tmp_path: Path) -> None:
    calls: list[object] = []

    @nh.repeatable
    async def read(arguments: Mapping[str, object]) -> None:
        calls.append(arguments)
        if len(calls) == 1:
            raise CrashError

    async def program() -> None:
        with nh.scope(tools=[tool_of("read", "Read a file.", read)]):
            await tidy()

    end = tool_call("nh_outcome", kind="pass")
    turns = (model_response(tool_call("read", path="/")), model_response(end))
    model = AnsweringModel(lambda prompt, turn: turns[turn])
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, model, program)
        await live(store, model, program)
    assert calls == [{"path": "/"}, {"path": "/"}]

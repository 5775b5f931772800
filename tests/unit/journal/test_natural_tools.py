"""Natural functions that are tools: later lives continue inside of them."""

import re
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.journal import CallInDoubtError
from nighthawk_async.testing import model_response, tool_call

from .durable_runs import AnsweringModel, opened, places

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]


class CrashError(BaseException):
    """The end of a process."""


@nh.natural_function
async def translate(word: str) -> str:
    """Translate a word."""
    result: str
    """natural
    Translate <word>, and set <:result>.
    """
    """natural
    Check <result>, and set <:result>.
    """
    return result


@nh.natural_function
def translate_synchronously(word: str) -> str:
    """Translate a word."""
    result: str
    """natural
    Translate <word>, and set <:result>.
    """
    """natural
    Check <result>, and set <:result>.
    """
    return result


class Dictionary:
    """An object whose method is a natural function."""

    @nh.natural_function
    async def translate(self, word: str) -> str:
        """Translate a word."""
        result: str
        """natural
        Translate <word>, and set <:result>.
        """
        """natural
        Check <result>, and set <:result>.
        """
        return result


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of the program's own."""

    @wraps(function)
    async def call(*args: Any, **keywords: Any) -> Any:
        return await function(*args, **keywords)

    return call


@nh.natural_function
async def work() -> str:
    """Do the work."""
    result: str
    """natural
    Call the tool, and set <:result>.
    """
    return result


class CrashingModel(AnsweringModel):
    """A model during whose third response the process ends: it checks the translation, inside of the tool.

    Attributes:
        crashes: Whether the process ends.
    """

    def __init__(self) -> None:
        super().__init__(self._respond)
        self.crashes = True

    def _respond(self, prompt: str, turn: int) -> nh.testing.ModelResponse:
        if "Call the tool" in prompt:
            if turn == 0:
                return model_response(tool_call("translate", word="dog"))
            return model_response(tool_call("nh_outcome", kind="pass", bindings={"result": "done"}))
        if "Check" in prompt and self.crashes:
            raise CrashError
        return model_response(tool_call("nh_outcome", kind="pass", bindings={"result": "Hund"}))


async def two_lives(folder: Path, function: Callable[..., Any], *, is_in_doubt: bool = False) -> list[str]:
    """A life that ends inside of a tool, and the next one; return the kinds of the records of the tool."""
    model = CrashingModel()

    async def live(store: nh.journal.JournalStore) -> None:
        async with nh.run(nh.AgentStepExecutor.from_model(model), journal=store, run_id="run-1"):
            nh.tool(name="translate")(function)
            assert await work() == "done"

    with opened(folder) as store:
        with pytest.raises(CrashError):
            await live(store)
        model.crashes = False
        if is_in_doubt:
            with pytest.raises(CallInDoubtError):
                await live(store)
            return []
        await live(store)
        asked = [re.findall("(Call|Translate|Check) (?:the tool|<)", each)[-1] for each in model.prompts]
        assert asked == ["Call", "Translate", "Check", "Check", "Call"]  # one response was lost
        return places(store, "intent", "result")


@pytest.mark.parametrize(
    "function",
    [
        translate,
        nh.blocking(translate_synchronously),
        Dictionary().translate,
        partial(translate),
        logged(translate),
        nh.scope()(translate),
    ],
    ids=["async", "blocking", "method", "partial", "decorated", "scope"],
)
async def test_a_later_life_continues_inside_of_a_tool(tmp_path: Path, function: Callable[..., Any]) -> None:
    assert await two_lives(tmp_path, function) == []


async def test_a_natural_function_that_says_so_is_an_effect(tmp_path: Path) -> None:
    await two_lives(tmp_path, nh.once(translate), is_in_doubt=True)


async def test_a_natural_function_that_is_repeatable_continues_and_its_result_is_recorded(
    tmp_path: Path,
) -> None:
    kinds = await two_lives(tmp_path, nh.repeatable(translate))
    assert [place.rpartition("/")[2] for place in kinds] == ["translate()[0]"] * 2

"""Functions whose requests, steps and tool calls are counted, which workers import."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import nighthawk_async as nh
from nighthawk_async.testing import ModelResponse, model_response, tool_call
from tests.durable_worker_functions import effects_in, note
from tests.unit.journal.durable_runs import ResponseEvents

USED = nh.Usage(requests=1, input_tokens=30, output_tokens=6)
TOKENS = USED.input_tokens + USED.output_tokens


@dataclass(frozen=True)
class CountedModel:
    """A model that writes down its requests: it calls a tool, is corrected once, and ends the block.

    Args:
        folder: The folder of the file.
    """

    folder: str

    name: ClassVar[str] = "counted:model"
    capabilities: ClassVar[nh.models.ModelCapabilities] = nh.models.ModelCapabilities(max_output_tokens=100)

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        """Stream the response."""
        note(self.folder, "asked")
        if "Fail." in str(request.messages[0]):
            raise nh.errors.ModelStatusError("refused", status=400)
        yield ResponseEvents(_response(sum(1 for each in request.messages if _is_answer(each))))


def asked_in(folder: Path) -> int:
    """The number of requests so far."""
    return effects_in(folder).count("asked")


def _is_answer(message: nh.models.Message) -> bool:
    return isinstance(message, nh.models.AssistantMessage)


def _response(turn: int) -> ModelResponse:
    if turn == 0:
        return model_response(tool_call("look"), tool_call("nh_eval", expression="missing"), usage=USED)
    return model_response(tool_call("nh_outcome", kind="pass"), usage=USED)


@nh.repeatable
async def look() -> str:
    """Look."""
    return "seen"


@nh.natural_function(tools=[look])
async def act() -> None:
    """natural
    Look, and end.
    """


async def act_in_two_turns(folder: str) -> None:
    """A step with two turns, a tool and a correction."""
    await act()


@nh.journal.stage("acting")
async def acting() -> None:
    """A stage."""
    await act()


async def act_in_stage(folder: str) -> None:
    """A stage with such a step, and another step after it."""
    await acting()
    await act()


@nh.natural_function
async def fail() -> None:
    """natural
    Fail.
    """


async def act_after_error(folder: str) -> None:
    """Go on after the error of a request."""
    try:
        await fail()
    except nh.errors.ModelStatusError:
        await act()


async def act_in_own_budget(folder: str) -> str:
    """Two such steps in a budget of the function's own, which has room for one."""
    try:
        with nh.budget(turns=3, name="own"):
            await act()
            await act()
    except nh.BudgetExceededError as error:
        return f"{error.budget}: {error.spent} turns"
    return "done"

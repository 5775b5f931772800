"""Functions that workers of this process import, which ask a model that a test has put here."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import anyio

import nighthawk_async as nh
from nighthawk_async import resilience
from nighthawk_async.errors import ModelError
from nighthawk_async.ports import Model
from nighthawk_async.testing import model_response, tool_call
from nighthawk_async.types.messages import UserMessage
from nighthawk_async.types.model import ModelRequest
from tests.budget_functions import act

MODELS: list[Model] = []


class Answering:
    """A model that ends every step at once, and can cross to workers.

    Args:
        used: What each request uses.
    """

    name = "answering:model"
    capabilities = nh.models.ModelCapabilities(max_output_tokens=50)

    def __init__(self, used: nh.Usage) -> None:
        self._used = used

    @asynccontextmanager
    async def stream(
        self, request: ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        yield self._events()

    async def _events(self) -> AsyncGenerator[nh.models.ModelEvent, None]:
        for event in model_response(tool_call("nh_outcome", kind="pass"), usage=self._used).events:
            yield event


async def ask(number: int) -> str:
    """Ask the model; gives the error if it does not answer."""
    try:
        async with MODELS[-1].stream(ModelRequest(messages=(UserMessage(content=(str(number),)),))) as events:
            async for _ in events:
                pass
    except ModelError as error:
        return str(error)
    return "answered"


@resilience.rate_limit(per_minute=3)
async def calm(number: int) -> float:
    await anyio.lowlevel.checkpoint()
    return anyio.current_time()


@resilience.rate_limit(per_minute=3)
async def calm_too(number: int) -> float:
    await anyio.lowlevel.checkpoint()
    return anyio.current_time()


@resilience.rate_limit(per_minute=3, key="the search service")
def search(number: int) -> int:
    return number


async def search_or_fail(number: int) -> int:
    return await anyio.to_thread.run_sync(search, number)


@resilience.rate_limit(tokens_per_minute=1_000, tokens=400)
async def act_within(number: int) -> float:
    time = anyio.current_time()
    await act(number)
    return time


class OwnAgent:
    """An agent of the program's own, which takes turns and reports what they took.

    Args:
        turns: The number of turns.
    """

    def __init__(self, turns: int) -> None:
        self._turns = turns

    async def run(self, task: nh.executors.AgentTask) -> nh.executors.StepOutcome:
        for _ in range(self._turns):
            await task.turn_boundary()
            task.report_usage("own:model", nh.Usage(requests=1, input_tokens=100, output_tokens=20))
        return nh.executors.PassStepOutcome()

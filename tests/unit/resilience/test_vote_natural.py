"""`vote` around natural functions: their steps, their usage, and what is decided by another block."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.resilience import VoteError, vote
from nighthawk_async.testing import (
    CallbackExecutor,
    ScriptedExecutor,
    ScriptedModel,
    StepCall,
    StepResponse,
    model_response,
    pass_response,
    tool_call,
)
from nighthawk_async.types.model import ModelCapabilities, ModelEvent, ModelRequest, UsageReported
from nighthawk_async.types.usage import Usage
from tests.unit.resilience.resilience_support import Script

anyio_test = pytest.mark.anyio


@nh.natural_function
async def stars(review: str) -> int:
    count: int
    """natural
    Set <:count> to the number of stars that <review> gives.
    """
    return count


@anyio_test
async def test_natural_functions_vote() -> None:
    executor = ScriptedExecutor([pass_response(count=count) for count in (4, 5, 4)])
    async with nh.run(executor):
        assert await vote(stars)("Good") == 4


@anyio_test
async def test_steps_that_fail_count_as_failed_calls() -> None:
    wrong, right = pass_response(count="many"), pass_response(count=4)
    async with nh.run(ScriptedExecutor([wrong, right, right])):
        assert await vote(stars)("Good") == 4
    async with nh.run(ScriptedExecutor(default_response=wrong)):
        with pytest.raises(VoteError) as caught:
            await vote(stars)("Good")
    assert {type(error) for error in caught.value.errors} == {nh.ExecutionError}


def outcome_of(count: int) -> Any:
    call = tool_call("nh_assign", target_path="count", value=count)
    return model_response(call, tool_call("nh_outcome", kind="pass"))


@anyio_test
async def test_the_usage_of_all_calls_is_counted() -> None:
    model = ScriptedModel([outcome_of(count) for count in (4, 5, 4)])
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)) as run:
        assert await vote(stars, decide=max)("Good") == 5
        assert run.usage_meter.usage.requests == 3
        assert run.usage_meter.usage.input_tokens == 30


class OneHangs:
    """A model whose third response hangs after it has told its usage; the others wait until it does."""

    name = "test:one-hangs"
    capabilities = ModelCapabilities()

    def __init__(self) -> None:
        self._requests = 0
        self._hangs = anyio.Event()

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
        self._requests += 1
        async with aclosing(self._events(is_third=self._requests == 3)) as events:
            yield events

    async def _events(self, *, is_third: bool) -> AsyncGenerator[ModelEvent, None]:
        if is_third:
            yield UsageReported(usage=Usage(requests=1, input_tokens=10, output_tokens=5))
            self._hangs.set()
            await anyio.sleep_forever()
        await self._hangs.wait()
        for event in outcome_of(4).events:
            yield event


@anyio_test
async def test_the_usage_of_cancelled_calls_is_counted_too() -> None:
    async with nh.run(nh.AgentStepExecutor.from_model(model=OneHangs())) as run:
        assert await vote(stars)("Good") == 4
        assert run.usage_meter.usage.requests == 3
        assert run.usage_meter.usage.output_tokens == 15


@anyio_test
async def test_a_natural_function_may_decide() -> None:
    @nh.natural_function
    async def longest(texts: list[str]) -> str:
        text: str
        """natural
        Set <:text> to the longest of <texts>.
        """
        return text

    @nh.natural_function
    def longest_here(texts: list[str]) -> str:
        text: str
        """natural
        Set <:text> to the longest of <texts>.
        """
        return text

    def answer(call: StepCall) -> StepResponse:
        texts = call.step_locals["texts"]
        assert isinstance(texts, list)
        return pass_response(text=max(texts, key=len))

    for decide in (longest, longest_here):
        async with nh.run(CallbackExecutor(answer)):
            assert await vote(Script("a", "bbb", "cc").call_async, decide=decide)() == "bbb"

"""What the library itself takes for one step: a model that answers at once, and nothing on the wire.

The same step as `async def` and as `def`, the latter called in a script and in a worker thread.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import cycle
from typing import Literal

import anyio
import anyio.to_thread

import nighthawk_async as nh
from nighthawk_async.testing import ModelResponse, model_response, tool_call

from ..measure import Benchmark
from ..stopwatch import Stopwatch

__all__ = ["BENCHMARKS", "EXPECTED", "CannedModel", "assign", "canned_model", "executor_of"]

EXPECTED = 42

Backend = Literal["asyncio", "trio"]


class CannedModel:
    """Gives the same responses again and again. It keeps nothing, unlike the scripted model for tests.

    Args:
        responses: The responses of one step, in order.
    """

    name = "canned:model"
    capabilities = nh.models.ModelCapabilities()

    def __init__(self, *responses: ModelResponse) -> None:
        self._responses = cycle(responses)
        self.requests = 0

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        """Stream the next response; see `nighthawk_async.models.Model.stream`."""
        self.requests += 1
        yield CannedEvents(next(self._responses))


class CannedEvents(AsyncIterator[nh.models.ModelEvent]):
    """The events of a response."""

    def __init__(self, response: ModelResponse) -> None:
        self._events = iter(response.events)

    async def __anext__(self) -> nh.models.ModelEvent:
        event = next(self._events, None)
        if event is None:
            raise StopAsyncIteration
        return event


@nh.natural_function
async def assign(question: str) -> int:
    """Assign one variable."""
    result: int = 0
    """natural
    Compute <:result>, the answer to <question>.
    """
    return result


@nh.natural_function
def assign_synchronously(question: str) -> int:
    """Assign one variable, as synchronous code does."""
    result: int = 0
    """natural
    Compute <:result>, the answer to <question>.
    """
    return result


def canned_model(trips: int) -> CannedModel:
    """A model that needs that many responses to assign the variable and end the step."""
    assignment = tool_call("nh_assign", target_path="result", expression=str(EXPECTED))
    outcome = tool_call("nh_outcome", kind="pass")
    responses = (
        [model_response(assignment, outcome)]
        if trips == 1
        else [model_response(assignment), model_response(outcome)]
    )
    return CannedModel(*responses)


def executor_of(model: CannedModel) -> nh.AgentStepExecutor:
    """What carries out steps with a model."""
    return nh.AgentStepExecutor.from_model(model=model)


async def carry_out(trips: int, steps: int) -> Mapping[str, float]:
    """Steps one after the other on one event loop; each must bring the value."""
    model = canned_model(trips)
    async with nh.run(executor_of(model)):
        stopwatch = Stopwatch()
        for _ in range(steps):
            assert await assign("What is six times seven?") == EXPECTED
        figures = stopwatch.figures(steps)
    assert model.requests == trips * steps
    return figures


def carry_out_in_script(backend: Backend, trips: int, steps: int) -> Mapping[str, float]:
    """Synchronous steps in a program without an event loop, the portal thread being there already."""
    with nh.run(executor_of(canned_model(trips)), sync_backend=backend):
        assert assign_synchronously("What is six times seven?") == EXPECTED
        return assign_in_this_thread(steps)


async def carry_out_in_worker_thread(trips: int, steps: int) -> Mapping[str, float]:
    """Synchronous steps in a worker thread of an event loop."""
    async with nh.run(executor_of(canned_model(trips))):
        return await anyio.to_thread.run_sync(assign_in_this_thread, steps)


def assign_in_this_thread(steps: int) -> Mapping[str, float]:
    """Synchronous steps one after the other; each must bring the value."""
    stopwatch = Stopwatch()
    for _ in range(steps):
        assert assign_synchronously("What is six times seven?") == EXPECTED
    return stopwatch.figures(steps)


def benchmarks_of(backend: Backend, trips: int) -> tuple[Benchmark, ...]:
    """The benchmarks of one event loop and one number of responses."""
    ways: tuple[tuple[str, str, Callable[[int], Mapping[str, float]]], ...] = (
        ("async", "an `async def` step", partial(anyio.run, partial(carry_out, trips), backend=backend)),
        ("script", "a `def` step in a script", partial(carry_out_in_script, backend, trips)),
        (
            "worker-thread",
            "a `def` step in a worker thread",
            partial(anyio.run, partial(carry_out_in_worker_thread, trips), backend=backend),
        ),
    )
    words = "one response" if trips == 1 else "two responses"
    return tuple(
        Benchmark(
            name=f"step-{name}-{'one' if trips == 1 else 'two'}-{backend}",
            what=f"{what} with {words} of a canned model, on {backend}",
            run=run,
            operations=500,
            quick_operations=20,
            smallest_suite="quick" if trips == 1 else "default",
        )
        for name, what, run in ways
        if trips == 1 or name == "async"
    )


BENCHMARKS = tuple(
    benchmark
    for backend in ("trio", "asyncio")
    for trips in (1, 2)
    for benchmark in benchmarks_of(backend, trips)
)

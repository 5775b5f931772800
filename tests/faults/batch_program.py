"""A program whose steps take part in batches, with a journal; see `test_batch_kills`."""

from collections.abc import Callable
from typing import Any

import anyio

import nighthawk_async as nh
from nighthawk_async.models import batch as batch_module
from nighthawk_async.models.batch_anthropic import AnthropicBatches
from nighthawk_async.models.batch_google import GoogleBatches
from nighthawk_async.models.batch_openai import OpenAIBatches
from nighthawk_async.testing.killing import mark


@nh.natural_function
async def double(number: int) -> int:
    """natural
    Set <:result> to twice <number>.
    """
    result: int
    return result


def _marked(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    async def call(*arguments: Any) -> Any:
        result = await function(*arguments)
        mark(name)
        return result

    return call


for _protocol in (AnthropicBatches, OpenAIBatches, GoogleBatches):
    for _name in ("submit", "status", "results"):
        setattr(_protocol, _name, _marked(getattr(_protocol, _name), _name))
batch_module._FIRST_POLL_SECONDS = 0.01


async def handle() -> list[int]:
    """Ask in two batches, one after the other."""
    first = await nh.parallel.map(double, [1, 2, 3])
    return [*first, *await nh.parallel.map(double, first[:2])]


def main(folder: str, base_url: str, model: str, backend: str) -> list[int]:
    """One life of the run."""

    async def one_life() -> list[int]:
        batched = nh.batched(
            nh.StepExecutorConfiguration(
                model=model,
                model_settings={
                    "base_url": base_url,
                    "api_key": "none",
                    "capabilities": {"structured_output": True},
                },
            ),
            window_seconds=0.05,
        )
        executor = nh.AgentStepExecutor.from_model(
            batched, configuration=nh.StepExecutorConfiguration(outcome_transport="direct")
        )
        with nh.journal.open(f"sqlite:///{folder}/runs.db") as store:
            async with nh.run(executor, journal=store, run_id="run-1"):
                return await handle()

    return anyio.run(one_life, backend=backend)

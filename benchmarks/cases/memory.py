"""Whether a long run stays as small as it was: resident memory over many steps, one after the other."""

from collections.abc import Mapping

import anyio

import nighthawk_async as nh

from .. import resident_memory
from ..measure import Benchmark
from .steps import EXPECTED, assign, canned_model, executor_of

__all__ = ["BENCHMARKS"]


async def carry_out(steps: int) -> Mapping[str, float]:
    """Carry out steps in one run; caches may fill during the first tenth, and nothing may grow after it."""
    async with nh.run(executor_of(canned_model(2))):
        await repeat(steps // 10)
        before = resident_memory.now()
        await repeat(steps - steps // 10)
        return {"memory_growth": resident_memory.now() - before}


async def repeat(steps: int) -> None:
    """Steps one after the other, each with a text of its own."""
    for number in range(steps):
        assert await assign(f"What is six times seven? ({number})") == EXPECTED


BENCHMARKS = (
    Benchmark(
        name="memory-many-steps",
        what="all steps of a round, two responses of a canned model each, in one run on trio",
        run=lambda steps: anyio.run(carry_out, steps, backend="trio"),
        operations=100_000,
        quick_operations=1_000,
        rounds=1,
        smallest_suite="full",
        collects_garbage=True,
        timeout=900.0,
    ),
    Benchmark(
        name="memory-some-steps",
        what="all steps of a round, two responses of a canned model each, in one run on trio",
        run=lambda steps: anyio.run(carry_out, steps, backend="trio"),
        operations=10_000,
        quick_operations=500,
        rounds=1,
        collects_garbage=True,
    ),
)

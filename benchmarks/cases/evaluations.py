"""What a trial of an evaluation costs beside the function that is evaluated."""

import tempfile
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel

from nighthawk_async.evals import Case, equals, evaluate

from ..measure import Benchmark

__all__ = ["BENCHMARKS"]

TRIALS = 5


async def double(number: int) -> int:
    """Return twice a number, after a switch of tasks."""
    await anyio.lowlevel.checkpoint()
    return 2 * number


async def evaluate_double(is_written: bool, trials: int) -> None:
    """Trials of a function that does next to nothing; every one must pass."""
    cases = [Case(f"{each}", inputs={"number": each}, expected=2 * each) for each in range(trials // TRIALS)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.jsonl" if is_written else None
        report = await evaluate(double, cases, scorers=[equals()], trials=TRIALS, path=path)
    assert report.counts["passed"] == trials


BENCHMARKS = tuple(
    Benchmark(
        name=f"evaluate-trial{'-written' if is_written else ''}-{backend}",
        what=f"one trial beside the function{', appended to a file' if is_written else ''}, on {backend}",
        run=lambda trials, backend=backend, is_written=is_written: anyio.run(
            partial(evaluate_double, is_written, trials), backend=backend
        ),
        operations=10_000,
        quick_operations=500,
    )
    for backend in ("trio", "asyncio")
    for is_written in (False, True)
)

"""What a benchmark is, and how one is measured."""

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

__all__ = ["Benchmark", "Measurement", "measure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One thing to measure.

    Args:
        name: Its name, a few words joined by hyphens.
        what: What one operation is.
        run: Carries out a number of operations. What it does besides must not grow with that number; it may
            return the seconds that count, when preparing should not.
        operations: How many operations one round has.
        quick_operations: The same, for a short run.
        rounds: How many rounds are measured, after one that is not.
    """

    name: str
    what: str
    run: Callable[[int], float | None]
    operations: int
    quick_operations: int
    rounds: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What a benchmark took.

    Args:
        name: The benchmark's name.
        what: What one operation is.
        operations: Operations in one round.
        rounds: Rounds measured.
        best_seconds: Seconds per operation in the fastest round.
        median_seconds: Seconds per operation in the median round.
        worst_seconds: Seconds per operation in the slowest round.
    """

    name: str
    what: str
    operations: int
    rounds: int
    best_seconds: float
    median_seconds: float
    worst_seconds: float

    @property
    def operations_per_second(self) -> float:
        """Operations per second in the median round."""
        return 1 / self.median_seconds

    def as_json(self) -> dict[str, object]:
        """The measurement as plain data."""
        return asdict(self)


def measure(benchmark: Benchmark, *, is_quick: bool = False) -> Measurement:
    """Measure a benchmark.

    One round to warm up, then the rounds that count, with the garbage collector at rest.

    Args:
        benchmark: The benchmark.
        is_quick: Whether to do fewer operations and rounds, to see that it works rather than how fast.
    """
    operations = benchmark.quick_operations if is_quick else benchmark.operations
    rounds = min(benchmark.rounds, 2) if is_quick else benchmark.rounds
    _seconds_of(benchmark, min(operations, benchmark.quick_operations))
    seconds = sorted(_seconds_of(benchmark, operations) / operations for _ in range(rounds))
    return Measurement(
        name=benchmark.name,
        what=benchmark.what,
        operations=operations,
        rounds=rounds,
        best_seconds=seconds[0],
        median_seconds=statistics.median(seconds),
        worst_seconds=seconds[-1],
    )


def _seconds_of(benchmark: Benchmark, operations: int) -> float:
    gc.collect()
    gc.disable()
    try:
        began = time.perf_counter()
        counted = benchmark.run(operations)
        elapsed = time.perf_counter() - began
    finally:
        gc.enable()
    return elapsed if counted is None else counted

"""What a benchmark is, and how one is measured in this process. It starts no process and shows nothing."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .metrics import Metric, metric_called

__all__ = ["Benchmark", "CannotMeasureHereError", "Figures", "Result", "Suite", "measure"]

Figures: TypeAlias = Mapping[str, float]
"""The figures of one round: the names of metrics, and their values for one operation."""

Suite: TypeAlias = Literal["quick", "default", "full"]
"""How much is measured. Each suite holds the benchmarks of those before it."""


STEADY_SHARE = 0.03
"""Rounds whose spread is more than this share of their median disagree."""

LONG_SECONDS = 30.0
"""After this time, rounds that disagree are left at that."""


class CannotMeasureHereError(Exception):
    """A benchmark cannot be measured on this machine, say because a peer is not to be had; it says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One thing to measure.

    Args:
        name: Its name, a few words joined by hyphens.
        what: What one operation is.
        run: Carries out a number of operations. What it does besides must not grow with that number. It
            returns None when all of its time counts; the seconds that count for all operations, when
            preparing should not; or figures, each already for one operation, of the metrics in
            `benchmarks.metrics`.
        operations: How many operations one round has.
        quick_operations: The same, for the quick suite, and for the round that warms up.
        rounds: How many rounds are measured.
        smallest_suite: The smallest suite that holds it. The quick suite takes about a minute for all
            benchmarks together, and looks for crashes and failed operations only.
        is_peer: Whether it measures something else than this project: then it is measured on request only.
        most_rounds: Rounds are added, up to this many, while they disagree and the benchmark has not taken
            long; None for none. The quick suite adds none.
        is_warmed_up: Whether a round that does not count comes first.
        collects_garbage: Whether the garbage collector of the measuring process is at work; it is at rest for
            others, so that it does not strike one round by chance.
        workload: What the steps of a workload do, the same word for each subject; None for other benchmarks.
        subject: What carries out the workload: this project in one of its forms, a floor or a peer.
        concurrency: How many steps of the workload are in flight at once.
        timeout: When a whole measurement is given up as hanging.
    """

    name: str
    what: str
    run: Callable[[int], Figures | float | None]
    operations: int
    quick_operations: int
    rounds: int = 5
    smallest_suite: Suite = "quick"
    is_peer: bool = False
    most_rounds: int | None = None
    is_warmed_up: bool = True
    collects_garbage: bool = False
    workload: str | None = None
    subject: str | None = None
    concurrency: int | None = None
    timeout: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What was measured of one metric of one benchmark.

    Args:
        benchmark: The benchmark's name.
        what: What one operation is.
        metric: The metric's name.
        operations: Operations in one round.
        rounds: The value of each round, in the order of measuring.
        workload: The benchmark's workload, if it has one.
        subject: The benchmark's subject, if it has one.
        concurrency: Steps that were in flight at once, if the benchmark says so.
    """

    benchmark: str
    what: str
    metric: str
    operations: int
    rounds: tuple[float, ...]
    workload: str | None = None
    subject: str | None = None
    concurrency: int | None = None

    @property
    def kind(self) -> Metric:
        """What the metric is."""
        return metric_called(self.metric)

    @property
    def median(self) -> float:
        """The value of the median round."""
        return statistics.median(self.rounds)

    @property
    def best(self) -> float:
        """The best value; the smallest one for a metric that has none."""
        return max(self.rounds) if self.kind.better == "higher" else min(self.rounds)

    @property
    def worst(self) -> float:
        """The worst value; the largest one for a metric that has none."""
        return min(self.rounds) if self.kind.better == "higher" else max(self.rounds)

    @property
    def spread(self) -> float:
        """The median distance of the rounds from their median (the median absolute deviation)."""
        return _spread_of(self.rounds)


def measure(benchmark: Benchmark, *, is_quick: bool = False) -> list[Result]:
    """Measure a benchmark: the rounds that count, after one to warm up.

    Args:
        benchmark: The benchmark.
        is_quick: Whether to do fewer operations and rounds, to see that it works rather than how fast.

    Returns:
        One result for each metric.

    Raises:
        CannotMeasureHereError: The benchmark says that this machine lacks what it needs.
        LookupError: A figure belongs to no metric.
        ValueError: The rounds have figures of different metrics, or none.
    """
    operations = benchmark.quick_operations if is_quick else benchmark.operations
    rounds = min(benchmark.rounds, 2) if is_quick else benchmark.rounds
    began = time.monotonic()
    if benchmark.is_warmed_up:
        _figures_of(benchmark, min(operations, benchmark.quick_operations))
    figures = [_figures_of(benchmark, operations) for _ in range(rounds)]
    while (
        not is_quick
        and len(figures) < (benchmark.most_rounds or 0)
        and time.monotonic() - began < LONG_SECONDS
        and not _is_steady(figures)
    ):
        figures.append(_figures_of(benchmark, operations))
    # A short run does not bring as many steps into flight as the benchmark's name says.
    at_once = None if benchmark.concurrency is None else min(benchmark.concurrency, operations)
    names = list(figures[0])
    if not names or any(set(each) != set(names) for each in figures):
        raise ValueError(f"the rounds of {benchmark.name} must have figures of the same metrics")
    return [
        Result(
            benchmark=benchmark.name,
            what=benchmark.what,
            metric=metric_called(name).name,
            operations=operations,
            rounds=tuple(float(each[name]) for each in figures),
            workload=benchmark.workload,
            subject=benchmark.subject,
            concurrency=at_once,
        )
        for name in names
    ]


def _spread_of(values: Sequence[float]) -> float:
    """The median distance of values from their median."""
    middle = statistics.median(values)
    return statistics.median(abs(value - middle) for value in values)


def _is_steady(rounds: Sequence[Figures]) -> bool:
    """Whether the rounds agree in each of their figures."""
    columns = [[each[name] for each in rounds if name in each] for name in rounds[0]]
    return all(_spread_of(column) <= STEADY_SHARE * statistics.median(column) for column in columns)


def _figures_of(benchmark: Benchmark, operations: int) -> Figures:
    """The figures of one round."""
    gc.collect()
    if not benchmark.collects_garbage:
        gc.disable()
    try:
        began = time.perf_counter()
        counted = benchmark.run(operations)
        elapsed = time.perf_counter() - began
    finally:
        gc.enable()
    if isinstance(counted, Mapping):
        return counted
    return {"wall": (elapsed if counted is None else counted) / operations}

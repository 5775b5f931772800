"""The benchmarks of placements carry out what they count; most assert that nothing went wrong."""

import pytest

from benchmarks.cases.placements import BENCHMARKS
from benchmarks.measure import Benchmark
from benchmarks.metrics import METRICS

NAMES = (
    "placed-loop-trio",
    "placed-burst-here-asyncio",
    "placed-burst-processes-trio",
    "placed-recovery",
)


@pytest.mark.parametrize(
    "benchmark_", [each for each in BENCHMARKS if each.name in NAMES], ids=lambda benchmark: benchmark.name
)
def test_a_case_gives_figures_of_known_metrics(benchmark_: Benchmark) -> None:
    figures = benchmark_.run(1)
    assert isinstance(figures, dict)
    assert figures
    assert figures.keys() <= METRICS.keys()
    assert all(value >= 0 for name, value in figures.items() if name != "memory_growth")

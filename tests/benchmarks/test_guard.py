"""The benchmarks of the guard carry out every step, and nothing is reported to have been changed."""

import pytest

from benchmarks.cases.guard import BENCHMARKS
from benchmarks.measure import Benchmark


@pytest.mark.parametrize("benchmark_", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_every_step_is_carried_out(benchmark_: Benchmark) -> None:
    benchmark_.run(3)

"""The benchmarks of concurrency carry out what they count, and miss nothing.

Each benchmark asserts by itself that every item, job, message and permit is accounted for.
"""

import pytest

from benchmarks.cases import actors, combinators, locks, pools
from benchmarks.measure import Benchmark

BENCHMARKS = [benchmark for module in (actors, combinators, locks, pools) for benchmark in module.BENCHMARKS]


@pytest.mark.parametrize("benchmark_", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_everything_is_accounted_for(benchmark_: Benchmark) -> None:
    seconds = benchmark_.run(300)
    assert seconds is None or seconds > 0


def test_the_full_size_is_the_one_that_is_promised() -> None:
    operations = {benchmark.name: benchmark.operations for benchmark in BENCHMARKS}
    assert operations["pool-trio"] == operations["parallel-map-100-at-once-trio"] == 10_000
    assert operations["actors-trio"] == 100_000
    assert (pools.WORKERS, actors.ACTORS) == (100, 1_000)

"""The benchmarks of services carry out what they count; by themselves they assert that nothing is left."""

import pytest

from benchmarks.cases.services import MIDDLEWARE_BENCHMARKS, SERVICE_BENCHMARKS
from benchmarks.measure import Benchmark


@pytest.mark.parametrize("benchmark_", MIDDLEWARE_BENCHMARKS, ids=lambda each: each.name)
def test_requests_through_the_middleware_are_counted_one_by_one(benchmark_: Benchmark) -> None:
    figures = benchmark_.run(10)
    assert isinstance(figures, dict)
    assert figures["rate"] == pytest.approx(1 / figures["wall"])


@pytest.mark.parametrize("benchmark_", SERVICE_BENCHMARKS, ids=lambda each: each.name)
def test_a_service_answers_every_client_that_stays(benchmark_: Benchmark) -> None:
    figures = benchmark_.run(30)
    assert isinstance(figures, dict)
    assert figures["errors"] == 0
    assert figures["rate"] > 0

"""A benchmark is measured in rounds, and gives figures of the metrics in the table."""

import gc

import pytest

from benchmarks.discovery import FoundBenchmark, choose, find_benchmarks
from benchmarks.measure import measure
from benchmarks.metrics import METRICS
from tests.benchmarks.made_up import benchmark_of, result_of


def test_a_benchmark_is_warmed_up_and_then_measured_in_rounds() -> None:
    rounds: list[int] = []
    (result,) = measure(benchmark_of(rounds.append))
    assert rounds == [2, 10, 10, 10]
    assert (result.metric, result.operations, len(result.rounds)) == ("wall", 10, 3)
    assert 0 < result.best <= result.median <= result.worst


def test_a_benchmark_may_count_its_own_seconds() -> None:
    seconds = iter([99.0, 30.0, 10.0, 20.0])
    (result,) = measure(benchmark_of(lambda _: next(seconds)))
    assert result.rounds == (3.0, 1.0, 2.0)
    assert (result.best, result.median, result.worst, result.spread) == (1.0, 2.0, 3.0, 1.0)


def test_a_benchmark_may_give_figures_of_several_metrics() -> None:
    results = measure(benchmark_of(lambda _: {"cpu": 1.5, "errors": 0}))
    assert {result.metric: result.rounds for result in results} == {"cpu": (1.5,) * 3, "errors": (0.0,) * 3}


def test_a_quick_run_does_less() -> None:
    rounds: list[int] = []
    measure(benchmark_of(rounds.append), is_quick=True)
    assert rounds == [2, 2, 2]


def test_a_quick_run_does_not_claim_the_steps_at_once_of_a_long_one() -> None:
    benchmark = benchmark_of(lambda _: 1.0, operations=1_000, quick_operations=10, concurrency=1_000)
    (long,), (quick,) = measure(benchmark), measure(benchmark, is_quick=True)
    assert (long.concurrency, quick.concurrency) == (1_000, 10)


def test_a_benchmark_may_do_without_warming_up() -> None:
    rounds: list[int] = []
    measure(benchmark_of(rounds.append, is_warmed_up=False))
    assert rounds == [10, 10, 10]


@pytest.mark.parametrize("collects", [False, True])
def test_the_garbage_collector_rests_unless_a_benchmark_wants_it(collects: bool) -> None:
    seen: list[bool] = []
    measure(benchmark_of(lambda _: seen.append(gc.isenabled()), collects_garbage=collects))
    assert set(seen) == {collects}
    assert gc.isenabled()


def test_a_figure_that_no_metric_knows_is_refused() -> None:
    with pytest.raises(LookupError, match="'speed'"):
        measure(benchmark_of(lambda _: {"speed": 1.0}))


def test_rounds_with_different_metrics_are_refused() -> None:
    figures = iter([{"wall": 1.0}, {"wall": 1.0}, {"cpu": 1.0}, {"wall": 1.0}])
    with pytest.raises(ValueError, match="made-up"):
        measure(benchmark_of(lambda _: next(figures)))


def test_rounds_without_figures_are_refused() -> None:
    with pytest.raises(ValueError, match="made-up"):
        measure(benchmark_of(lambda _: {}))


def test_the_best_of_a_metric_whose_larger_values_are_better_is_the_largest() -> None:
    result = result_of(5.0, 9.0, 6.0, metric="throughput")
    assert (result.best, result.median, result.worst) == (9.0, 6.0, 5.0)


def test_every_metric_stands_under_its_name() -> None:
    assert [name for name, metric in METRICS.items() if metric.name != name or not metric.what] == []


def test_every_benchmark_has_a_name_of_its_own() -> None:
    names = [each.benchmark.name for each in find_benchmarks()]
    assert names
    assert len(names) == len(set(names))


def chosen(*names: str, **changes) -> list[str]:
    found = [
        FoundBenchmark(module="made_up", benchmark=benchmark_of(int, name=name, **settings))
        for name, settings in (
            ("small", {}),
            ("middle", {"smallest_suite": "default"}),
            ("large", {"smallest_suite": "full"}),
            ("peer", {"is_peer": True}),
        )
    ]
    settings = {"names": names, "suite": "default", "with_peers": False, **changes}
    return [each.benchmark.name for each in choose(found, **settings)]


def test_a_suite_holds_the_smaller_ones_and_no_peers() -> None:
    assert chosen(suite="quick") == ["small"]
    assert chosen(suite="default") == ["small", "middle"]
    assert chosen(suite="full") == ["small", "middle", "large"]


def test_peers_are_measured_on_request() -> None:
    assert chosen(with_peers=True) == ["small", "middle", "peer"]


def test_names_choose_by_what_they_contain() -> None:
    assert chosen("mall", "idd") == ["small", "middle"]
    assert chosen("large") == []

"""The benchmark runner measures what it says."""

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import as_time, find_benchmarks, main
from benchmarks.measure import Benchmark, measure


def benchmark_of(run) -> Benchmark:
    return Benchmark(name="made-up", what="nothing", run=run, operations=10, quick_operations=2, rounds=3)


def test_a_benchmark_is_warmed_up_and_then_measured_in_rounds() -> None:
    rounds: list[int] = []
    measurement = measure(benchmark_of(rounds.append))
    assert rounds == [2, 10, 10, 10]
    assert (measurement.operations, measurement.rounds) == (10, 3)
    assert 0 < measurement.best_seconds <= measurement.median_seconds <= measurement.worst_seconds


def test_a_benchmark_may_count_its_own_seconds() -> None:
    seconds = iter([99.0, 30.0, 10.0, 20.0])
    measurement = measure(benchmark_of(lambda _: next(seconds)))
    assert (measurement.best_seconds, measurement.median_seconds, measurement.worst_seconds) == (
        1.0,
        2.0,
        3.0,
    )


def test_a_quick_run_does_less() -> None:
    rounds: list[int] = []
    measure(benchmark_of(rounds.append), is_quick=True)
    assert rounds == [2, 2, 2]


def test_every_benchmark_has_a_name_of_its_own() -> None:
    names = [benchmark.name for benchmark in find_benchmarks()]
    assert names
    assert len(names) == len(set(names))


def test_figures_are_written_as_data(tmp_path: Path) -> None:
    file = tmp_path / "results" / "figures.json"
    assert main(["--quick", "--json", str(file), "mailbox"]) == 0
    report = json.loads(file.read_text())
    assert {each["name"] for each in report["measurements"]} == {"mailbox-asyncio", "mailbox-trio"}
    assert report["is_quick"] is True


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such-benchmark"]) == 2
    assert "no-such-benchmark" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.5 s"), (0.0025, "2.5 ms"), (2.5e-6, "2.5 µs"), (2.5e-8, "25 ns")]
)
def test_durations_are_shown_in_the_unit_that_suits_them(seconds: float, text: str) -> None:
    assert as_time(seconds) == text

"""A speed ratio really above its bound fails a run, but no quick one; one within its spread fails none."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import peer_environments
from benchmarks.measure import CannotMeasureHereError, Figures, measure
from benchmarks.ratios import RATIO_BENCHMARKS, burst_ratios, ready_ratio, sequential_ratios
from benchmarks.report.document import read_report
from benchmarks.report.goal_table import GOALS
from benchmarks.report.goals import Check, judge
from benchmarks.report.markdown import as_markdown
from benchmarks.rounds import RunningSubject, Subject, SubjectFailedError
from benchmarks.server.running import running_server
from benchmarks.workloads import OWN, SEQUENTIAL
from tests.benchmarks.made_up import CommandLine, benchmark_of, outcome_of, report_of, result_of

BENCHMARK, METRIC = "ratio-sequential-trio", "two_trips_cpu_ratio"

RATIOS = """
ratios = iter({ratios})
BENCHMARKS = (
    Benchmark(
        name={name!r}, what="nothing", run=lambda _: {{{metric!r}: next(ratios)}}, operations=1,
        quick_operations=1, rounds={rounds}, is_warmed_up=False,
    ),
)
"""

LOSSY = """
BENCHMARKS = (
    Benchmark(
        name="lossy", what="nothing", run=lambda _: {{"wall": 1.0, "errors": {errors}}}, operations=1,
        quick_operations=1, rounds=3, is_peer={is_peer},
    ),
)
"""


def checks_with_bounds() -> list[Check]:
    return [check for goal in GOALS for check in goal.checks if check.bound is not None]


def bound() -> float:
    """The bound of the ratio that the tests make up."""
    (found,) = (
        check.bound
        for check in checks_with_bounds()
        if (check.line.benchmark, check.line.metric) == (BENCHMARK, METRIC)
    )
    assert found is not None
    return found


def module_of(*ratios: float) -> str:
    return RATIOS.format(ratios=ratios, rounds=len(ratios), name=BENCHMARK, metric=METRIC)


def exceeds(*ratios: float) -> bool:
    report = report_of(outcome_of(result_of(*ratios, benchmark=BENCHMARK, metric=METRIC)))
    return any(each.exceeds_bound for each in judge(report, GOALS))


@pytest.mark.parametrize("suite", [(), ("--full",)])
def test_a_ratio_that_is_really_worse_fails_the_run_and_is_named(
    command_line: CommandLine, capsys: pytest.CaptureFixture[str], suite: tuple[str, ...]
) -> None:
    worse = bound() + 0.5
    assert command_line.run(module_of(worse - 0.01, worse, worse + 0.01), *suite) == 1
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "ABOVE ITS BOUND" in line)
    for told in ("two trips, trio", f"{worse:.3g} times", f"bound {bound():.3g} times", "spread 0.01 times"):
        assert told in line


def test_a_quick_run_judges_no_ratio_and_measures_none_again(
    command_line: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.run(module_of(*[bound() + 5.0] * 3), "--quick") == 0
    told = capsys.readouterr().out
    assert "BOUND" not in told
    assert "once more" not in told
    (result,) = read_report(command_line.figures("results")).results
    assert (result.metric, len(result.rounds)) == (METRIC, 2)


@pytest.mark.parametrize(("errors", "is_peer", "status"), [(0, False, 0), (3, False, 1), (3, True, 0)])
def test_a_quick_run_fails_when_operations_of_this_project_failed(
    command_line: CommandLine,
    capsys: pytest.CaptureFixture[str],
    errors: int,
    is_peer: bool,
    status: int,
) -> None:
    source = LOSSY.format(errors=errors, is_peer=is_peer)
    assert command_line.run(source, "--quick", "--peers") == status
    told = "OPERATIONS FAILED: 3 in one round of lossy" in capsys.readouterr().out
    assert told == bool(status)


def test_what_is_above_its_bound_is_measured_once_more_and_all_rounds_count(
    command_line: CommandLine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source = f"""
from pathlib import Path

def told_ratios():
    measured = Path({str(tmp_path / "measured")!r})
    worse = not measured.exists()
    measured.touch()
    yield from {[bound() + 0.5] * 3} if worse else {[bound() - 0.1] * 3}

{module_of(*[0.0] * 3)}
ratios = told_ratios()
"""
    assert command_line.run(source) == 0
    told = capsys.readouterr().out
    assert f"measured once more: {BENCHMARK}" in told
    assert "ABOVE ITS BOUND" not in told
    (result,) = read_report(command_line.figures("results")).results
    assert result.rounds == pytest.approx([*[bound() + 0.5] * 3, *[bound() - 0.1] * 3])


def test_a_ratio_above_its_bound_by_less_than_its_spread_allows_fails_nothing(
    command_line: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    middle = bound() + 0.5
    assert command_line.run(module_of(middle - 0.2, middle, middle + 0.2)) == 0
    told = capsys.readouterr().out
    assert "ABOVE ITS BOUND" not in told
    assert f"{middle:.3g} times" in told


def test_three_spreads_above_the_bound_are_noise_and_more_are_not() -> None:
    assert not exceeds(bound() + 0.19, bound() + 0.29, bound() + 0.39)
    assert exceeds(bound() + 0.21, bound() + 0.31, bound() + 0.41)


def test_rounds_that_agree_by_chance_do_not_make_the_smallest_excess_a_failure() -> None:
    assert not exceeds(*[bound() + 0.04] * 3)
    assert exceeds(*[bound() + 0.06] * 3)


def test_a_single_stray_round_fails_nothing() -> None:
    assert not exceeds(bound() - 0.1, bound() + 5, bound() - 0.1)


def test_a_ratio_below_its_bound_fails_nothing_though_it_misses_its_goal() -> None:
    report = report_of(outcome_of(result_of(bound() - 0.01, benchmark=BENCHMARK, metric=METRIC)))
    (judgement,) = (each for each in judge(report, GOALS) if each.value is not None)
    assert judgement.verdict == "missed"
    assert not judgement.exceeds_bound


def test_the_page_of_a_run_says_which_bounds_were_passed_and_that_of_a_quick_run_judges_nothing() -> None:
    results = result_of(9.0, benchmark=BENCHMARK, metric=METRIC), result_of(9.0, benchmark="import")
    page = as_markdown(report_of(*map(outcome_of, results)))
    assert f"| two trips, trio | 1.25 times | 9 times | missed | {bound():.3g} times: failed |" in page
    assert "Import above bare Python" in page
    quick = as_markdown(report_of(*map(outcome_of, results), suite="quick"))
    assert "A quick run judges no goal." in quick
    assert "two trips, trio" not in quick


def test_every_bound_leaves_its_goal_to_be_reached_and_is_of_a_ratio_that_is_measured() -> None:
    measured = {benchmark.name for benchmark in RATIO_BENCHMARKS}
    for check in checks_with_bounds():
        assert check.bound is not None
        assert check.bound >= check.limit.amount
        assert check.line.benchmark in measured
        assert check.line.kind.unit == "ratio"


@pytest.mark.parametrize(
    ("values", "expected"),
    [((1.0, 1.01, 1.0), 3), ((1.0, 2.0, 3.0, 2.0, 2.0), 5), ((1.0, 2.0, 3.0, 4.0, 5.0, 6.0), 6)],
)
def test_rounds_are_added_while_they_disagree(values: tuple[float, ...], expected: int) -> None:
    given = iter([*values, *[9.0] * 9])
    benchmark = benchmark_of(lambda _: {METRIC: next(given)}, most_rounds=6, is_warmed_up=False)
    (result,) = measure(benchmark)
    assert len(result.rounds) == expected


def test_a_quick_run_adds_no_rounds() -> None:
    given = iter(range(1, 9))
    benchmark = benchmark_of(lambda _: {METRIC: next(given)}, most_rounds=6, is_warmed_up=False)
    (result,) = measure(benchmark, is_quick=True)
    assert len(result.rounds) == 2


def test_a_program_carries_out_windows_and_counts_each_by_itself() -> None:
    with running_server() as server, RunningSubject(SEQUENTIAL, OWN[0], server) as subject:
        subject.wait_until_warm()
        for steps in (3, 1):
            figures = subject.window(steps)
            assert (figures["round_trips"], figures["errors"]) == (1, 0)


def test_steps_that_fail_give_no_ratio() -> None:
    hanging = replace(SEQUENTIAL, warm_up=0, first_byte_seconds=30.0, limit_seconds=0.5)
    with running_server() as server, RunningSubject(hanging, OWN[0], server) as subject:
        subject.wait_until_warm()
        with pytest.raises(SubjectFailedError, match="3 of 3 steps of nighthawk-async-one-trip-trio failed"):
            subject.window(3)


def test_a_program_that_crashes_gives_no_ratio() -> None:
    nobody = Subject(name="nobody", program="no_such_program")
    with (
        running_server() as server,
        RunningSubject(SEQUENTIAL, nobody, server) as subject,
        pytest.raises(SubjectFailedError, match="nobody ended with status 1"),
    ):
        subject.wait_until_warm()


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_the_ratios_beside_the_floor_are_of_figures_that_were_measured(backend: str) -> None:
    both = {"two_trips_cpu_ratio", "one_trip_cpu_ratio"}
    check_figures(sequential_ratios(backend, 1), both)
    check_figures(burst_ratios(backend, 5), both | {"two_trips_wall_ratio", "one_trip_wall_ratio"})


def check_figures(figures: Figures, names: set[str]) -> None:
    assert set(figures) == names
    assert all(value > 0 for value in figures.values())


def test_the_start_is_compared_only_with_an_sdk_that_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(peer_environments, "ENVIRONMENTS", tmp_path)
    monkeypatch.setattr(peer_environments, "OLDEST_PYTHON", (3, 11))
    with pytest.raises(CannotMeasureHereError, match="openai_sdk is not installed"):
        ready_ratio("trio", 1)
    assert list(tmp_path.iterdir()) == []

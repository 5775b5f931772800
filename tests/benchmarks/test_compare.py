"""A comparison flags what became worse by more than noise explains, and says what it could not compare."""

from dataclasses import replace

import pytest

from benchmarks.measure import Result
from benchmarks.report.compare import Comparison, compare
from tests.benchmarks.made_up import MACHINE, busy, outcome_of, report_of, result_of


def comparison_of(before: Result, after: Result) -> Comparison:
    return compare(report_of(outcome_of(before)), report_of(outcome_of(after)))


def verdict(before: Result, after: Result) -> str:
    (difference,) = comparison_of(before, after).differences
    return difference.verdict


@pytest.mark.parametrize(
    ("after", "expected"), [(1.09, "same"), (1.11, "worse"), (0.91, "same"), (0.89, "better")]
)
def test_a_still_run_differs_by_more_than_a_tenth(after: float, expected: str) -> None:
    assert verdict(result_of(1.0, 1.0, 1.0), result_of(after, after, after)) == expected


@pytest.mark.parametrize(
    ("after", "expected"), [(5.09e6, "same"), (5.11e6, "worse"), (4.91e6, "same"), (4.89e6, "better")]
)
def test_instructions_differ_by_more_than_one_in_fifty(after: float, expected: str) -> None:
    before, now = (result_of(count, metric="scripted_one_instructions") for count in (5e6, after))
    assert verdict(before, now) == expected


@pytest.mark.parametrize("noisy_first", [True, False])
@pytest.mark.parametrize(("median", "expected"), [(1.55, "same"), (1.65, "worse")])
def test_three_times_the_larger_spread_is_noise(median: float, expected: str, noisy_first: bool) -> None:
    spreads = (0.2, 0.0) if noisy_first else (0.0, 0.2)
    before, after = (
        result_of(middle - spread, middle, middle + spread)
        for middle, spread in zip((1.0, median), spreads, strict=True)
    )
    assert verdict(before, after) == expected


def test_a_single_stray_round_flags_nothing() -> None:
    assert verdict(result_of(1.0, 1.0, 1.0, 1.0, 1.0), result_of(1.0, 9.0, 1.0, 1.0, 1.0)) == "same"


def test_less_of_what_should_be_more_is_worse() -> None:
    fast, slow = result_of(100.0, metric="throughput"), result_of(50.0, metric="throughput")
    assert verdict(fast, slow) == "worse"
    assert verdict(slow, fast) == "better"


def test_memory_is_judged_like_time() -> None:
    small, large = result_of(50e3, metric="memory_per_step"), result_of(60e3, metric="memory_per_step")
    assert verdict(small, large) == "worse"


def test_growth_from_nothing_by_less_than_the_metrics_noise_is_the_same() -> None:
    assert verdict(result_of(-4e3, metric="memory_growth"), result_of(9e5, metric="memory_growth")) == "same"
    assert verdict(result_of(-4e3, metric="memory_growth"), result_of(2e6, metric="memory_growth")) == "worse"


def test_any_more_errors_are_worse_even_in_one_round() -> None:
    none, one = result_of(0, 0, 0, metric="errors"), result_of(0, 0, 1, metric="errors")
    assert verdict(none, one) == "worse"
    assert verdict(one, none) == "better"
    assert verdict(one, one) == "same"


def test_one_more_of_what_is_counted_is_worse() -> None:
    assert verdict(result_of(30, metric="distributions"), result_of(31, metric="distributions")) == "worse"


def test_a_figure_that_is_only_told_is_never_worse() -> None:
    assert verdict(result_of(0.1, metric="server_busy"), result_of(0.9, metric="server_busy")) == "same"


def test_a_regression_makes_a_comparison_bad() -> None:
    assert comparison_of(result_of(1.0), result_of(1.0)).is_good
    assert not comparison_of(result_of(1.0), result_of(2.0)).is_good


def test_a_comparison_of_nothing_is_not_good() -> None:
    assert not comparison_of(result_of(1.0), result_of(1.0, benchmark="other")).is_good


def test_every_line_that_could_not_be_compared_is_named_with_the_reason() -> None:
    names = ("gone", "broken", "lacking", "resized")
    before = report_of(*(outcome_of(result_of(1.0, benchmark=name)) for name in names))
    after = report_of(
        outcome_of(benchmark="broken", state="failed", reason="it broke"),
        outcome_of(benchmark="lacking", state="not here", reason="no anchor"),
        outcome_of(result_of(1.0, benchmark="resized", operations=1_000)),
        outcome_of(result_of(1.0, benchmark="new")),
    )
    assert compare(before, after).not_compared == (
        "gone (wall): not measured in this run",
        "broken (wall): failed in this run",
        "lacking (wall): could not be measured in this run",
        "resized (wall): 10 operations a round before, 1,000 now",
        "new (wall): not measured in the earlier run",
    )


def test_a_metric_that_a_benchmark_no_longer_gives_is_named() -> None:
    comparison = comparison_of(result_of(1.0, metric="cpu"), result_of(1.0))
    assert "made-up (cpu): without this figure in this run" in comparison.not_compared


def test_benchmarks_that_were_not_chosen_are_not_missed() -> None:
    before = report_of(outcome_of(result_of(1.0)), outcome_of(result_of(1.0, benchmark="other")))
    after = report_of(outcome_of(result_of(1.0)))
    assert compare(before, after, chosen={"made-up"}).not_compared == ()


def test_another_machine_is_a_caution() -> None:
    before = report_of(machine=replace(MACHINE, processors=64, python="3.13.1"))
    cautions = compare(before, report_of()).cautions
    assert cautions == ("Python: 3.13.1 before, 3.11.9 now", "processors: 64 before, 2 now")


def test_a_busy_machine_in_the_earlier_run_is_a_caution() -> None:
    before = report_of(outcome_of(result_of(1.0), load=busy(0.5)))
    (caution,) = compare(before, report_of()).cautions
    assert "busy" in caution


@pytest.mark.parametrize("suites", [("quick", "quick"), ("quick", "default"), ("default", "quick")])
def test_a_quick_run_is_a_caution(suites: tuple[str, str]) -> None:
    (caution,) = compare(*(report_of(suite=suite) for suite in suites)).cautions
    assert "quick" in caution

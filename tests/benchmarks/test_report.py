"""A run is told as data, as a page with the goals, and as plots that load nothing from elsewhere."""

import importlib.metadata
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from benchmarks.discovery import find_benchmarks
from benchmarks.measure import Benchmark, Result
from benchmarks.report.compare import compare
from benchmarks.report.document import BadReportError, read_report, write_report
from benchmarks.report.figures import as_figure
from benchmarks.report.files import write_results
from benchmarks.report.goal_table import GOALS
from benchmarks.report.goals import Check, Goal, Limit, Line, judge
from benchmarks.report.markdown import as_markdown, busy_warning
from benchmarks.report.plots import draw_plots
from tests.benchmarks.made_up import busy, outcome_of, report_of, result_of


def burst(subject: str, concurrency: int, seconds: float, metric: str = "burst_wall") -> Result:
    return result_of(
        seconds,
        metric=metric,
        benchmark=f"burst-{subject}-{concurrency}",
        workload="burst",
        subject=subject,
        concurrency=concurrency,
    )


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2.5, "seconds", "2.5 s"),
        (0.0025, "seconds", "2.5 ms"),
        (2.5e-6, "seconds", "2.5 µs"),
        (2.5e-8, "seconds", "25 ns"),
        (60e3, "bytes", "60 KB"),
        (-2.5e6, "bytes", "-2.5 MB"),
        (12, "bytes", "12 B"),
        (50e6, "bytes per second", "50 MB/s"),
        (1234.5, "per second", "1,234/s"),
        (1.25, "ratio", "1.25 times"),
        (1312, "count", "1,312"),
        (0.9997e-3, "seconds", "1 ms"),
        (999_700.0, "bytes", "1 MB"),
    ],
)
def test_figures_are_shown_in_the_unit_that_suits_them(value: float, unit, text: str) -> None:
    assert as_figure(value, unit) == text


def test_a_report_that_is_read_again_is_the_same(tmp_path: Path) -> None:
    report = report_of(
        outcome_of(burst("ours", 10, 0.25), load=busy(0.5)),
        outcome_of(benchmark="broken", state="failed", reason="it broke"),
    )
    write_report(report, tmp_path / "deep" / "results.json")
    assert read_report(tmp_path / "deep" / "results.json") == report


@pytest.mark.parametrize("content", ["", "[]", '{"format": 1}'])
def test_a_file_that_holds_no_report_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "results.json").write_text(content)
    with pytest.raises(BadReportError, match=r"results\.json"):
        read_report(tmp_path / "results.json")


def test_a_report_of_another_form_is_refused(tmp_path: Path) -> None:
    write_report(report_of(format=99), tmp_path / "results.json")
    with pytest.raises(BadReportError, match="form 99"):
        read_report(tmp_path / "results.json")


FLOOR = Line(metric="cpu", benchmark="floor")


def verdict(limit: Limit, *results: Result, metric: str = "cpu") -> str:
    check = Check(line=Line(metric=metric, benchmark="made-up"), limit=limit, name="made-up")
    report = report_of(*(outcome_of(result) for result in results))
    (judgement,) = judge(report, [Goal(title="small", checks=(check,))])
    return judgement.verdict


def test_a_figure_keeps_to_an_amount_or_misses_it() -> None:
    limit = Limit(amount=1.0, words="1 s")
    assert verdict(limit, result_of(1.0, metric="cpu")) == "met"
    assert verdict(limit, result_of(1.01, metric="cpu")) == "missed"
    assert verdict(limit) == "not measured"


def test_a_limit_may_follow_from_another_figure_of_the_same_run() -> None:
    limit = Limit(factor=1.3, of=FLOOR, words="1.3 times the floor")
    floor = result_of(10.0, metric="cpu", benchmark="floor")
    assert verdict(limit, result_of(12.9, metric="cpu"), floor) == "met"
    assert verdict(limit, result_of(13.1, metric="cpu"), floor) == "missed"
    assert verdict(limit, result_of(12.9, metric="cpu")) == "not measured"


def test_a_limit_may_be_an_amount_above_another_figure() -> None:
    limit = Limit(amount=1.0, of=FLOOR, words="the floor + 1 s")
    floor = result_of(10.0, metric="cpu", benchmark="floor")
    assert verdict(limit, result_of(11.0, metric="cpu"), floor) == "met"
    assert verdict(limit, result_of(11.1, metric="cpu"), floor) == "missed"


def test_an_error_in_any_round_misses_the_goal_of_none() -> None:
    limit = Limit(words="none")
    assert verdict(limit, result_of(0, 0, 0, metric="errors"), metric="errors") == "met"
    assert verdict(limit, result_of(0, 0, 1, metric="errors"), metric="errors") == "missed"


def test_a_figure_of_steps_that_failed_meets_no_goal() -> None:
    limit = Limit(amount=1.0, words="1 s")
    failed = result_of(0, 3, 0, metric="errors")
    assert verdict(limit, result_of(0.1, metric="cpu"), failed) == "missed"


def test_a_limit_does_not_follow_from_steps_that_failed() -> None:
    limit = Limit(of=FLOOR, words="the floor")
    floor = result_of(10.0, metric="cpu", benchmark="floor")
    failed = result_of(3, metric="errors", benchmark="floor")
    assert verdict(limit, result_of(1.0, metric="cpu"), floor, failed) == "not measured"


def test_the_page_tells_how_many_steps_failed_beside_a_figure() -> None:
    subject, figures = "nighthawk-async-one-trip-trio", ((0.5, "burst_wall"), (7, "errors"))
    steps = (burst(subject, 1_000, value, metric) for value, metric in figures)
    page = as_markdown(report_of(outcome_of(*steps)))
    assert "| one trip, trio | 1 s | 500 ms, 7 errors | missed |" in page


def test_a_quick_run_judges_no_goal() -> None:
    page = as_markdown(report_of(outcome_of(result_of(9.0, benchmark="import")), suite="quick"))
    assert "A quick run judges no goal." in page
    assert "missed" not in page


def test_the_page_tells_every_goal_measured_or_not() -> None:
    page = as_markdown(report_of())
    assert [goal.title for goal in GOALS if f"| {goal.title} |" not in page] == []
    assert "| not measured |" in page


def test_the_page_fills_the_goals_from_the_figures() -> None:
    page = as_markdown(report_of(outcome_of(result_of(0.1, benchmark="import"))))
    assert "| Import above bare Python | import | 150 ms | 100 ms | met |" in page


def test_the_page_shows_subjects_side_by_side() -> None:
    page = as_markdown(
        report_of(
            outcome_of(burst("ours", 1_000, 1.5), burst("ours", 1_000, 50e3, "memory_per_step")),
            outcome_of(burst("theirs", 1_000, 6.0)),
        )
    )
    assert "| subject | steps at once | burst_wall | memory_per_step |" in page
    assert "| ours | 1,000 | 1.5 s | 50 KB |" in page
    assert "| theirs | 1,000 | 6 s |  |" in page


def test_the_page_tells_what_failed_and_what_was_not_there() -> None:
    page = as_markdown(
        report_of(
            outcome_of(benchmark="broken", state="failed", reason="RuntimeError: the anchor"),
            outcome_of(benchmark="lacking", state="not here", reason="no anchor"),
        )
    )
    assert "**broken failed:**" in page
    assert "RuntimeError: the anchor" in page
    assert "lacking could not be measured here: no anchor" in page


def test_the_page_tells_what_a_comparison_found() -> None:
    before = report_of(outcome_of(result_of(1.0)), outcome_of(result_of(1.0, benchmark="gone")))
    after = report_of(outcome_of(result_of(2.0)))
    page = as_markdown(after, comparison=compare(before, after))
    assert "- made-up (wall): 1 s -> 2 s, +100% (noise: 100 ms)" in page
    assert "- gone (wall): not measured in this run" in page


def test_a_text_with_a_bar_ends_no_cell() -> None:
    assert "| a\\|b |" in as_markdown(report_of(outcome_of(result_of(1.0, benchmark="a|b"))))


def test_a_busy_machine_is_warned_of() -> None:
    warning = busy_warning(report_of(outcome_of(result_of(1.0), load=busy(0.42))))
    assert warning is not None
    assert "42%" in warning
    assert busy_warning(report_of(outcome_of(result_of(1.0), load=busy(0.05)))) is None


def test_a_load_from_before_is_warned_of() -> None:
    assert busy_warning(report_of(load_before=1.5)) is not None
    assert busy_warning(report_of(load_before=None)) is None


def test_plots_are_drawn_of_the_workloads_that_were_measured(tmp_path: Path) -> None:
    steps = [burst(subject, count, count / 100) for subject in ("ours", "theirs") for count in (1, 10, 100)]
    sequential = result_of(0.002, metric="cpu", workload="sequential", subject="ours")
    plots = draw_plots(report_of(outcome_of(*steps), outcome_of(sequential)), tmp_path)
    assert {plot.file for plot in plots} == {path.name for path in tmp_path.iterdir()}
    assert {"bursts.svg", "sequential.svg"} == {plot.file for plot in plots}
    assert "theirs" in (tmp_path / "bursts.svg").read_text(encoding="utf-8")


def test_a_plot_says_where_steps_failed(tmp_path: Path) -> None:
    steps = (
        burst("theirs", 1_000, 6.0),
        burst("theirs", 3_000, 9.0),
        burst("theirs", 3_000, 1_312, "errors"),
    )
    draw_plots(report_of(outcome_of(*steps)), tmp_path)
    assert "theirs (steps failed at 3,000)" in (tmp_path / "bursts.svg").read_text(encoding="utf-8")


def test_plots_load_nothing_from_elsewhere(tmp_path: Path) -> None:
    draw_plots(report_of(outcome_of(burst("ours", 1, 0.2), burst("ours", 10, 0.3))), tmp_path)
    text = (tmp_path / "bursts.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    assert re.findall(r"(?:href|src)\s*=\s*[\"'](?!#)|url\(|@import", text) == []


def test_drawing_leaves_imports_as_they_were(tmp_path: Path) -> None:
    draw_plots(report_of(outcome_of(burst("ours", 1, 0.2))), tmp_path)
    assert [finder for finder in sys.meta_path if not hasattr(finder, "find_spec")] == []
    assert importlib.metadata.version("pygal")


def test_a_run_without_workloads_has_no_plots(tmp_path: Path) -> None:
    write_results(report_of(outcome_of(result_of(1.0))), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"results.json", "results.md"}


def test_the_page_shows_its_plots(tmp_path: Path) -> None:
    write_results(report_of(outcome_of(burst("ours", 1, 0.2))), tmp_path)
    assert "](bursts.svg)" in (tmp_path / "results.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.title)
def test_every_goal_speaks_of_benchmarks_that_there_are(goal: Goal) -> None:
    lines = [line for check in goal.checks for line in (check.line, check.limit.of) if line is not None]
    benchmarks = [found.benchmark for found in find_benchmarks()]
    assert lines
    assert [line for line in lines if not any(speaks_of(line, each) for each in benchmarks)] == []


def speaks_of(line: Line, benchmark: Benchmark) -> bool:
    pairs = (
        (line.benchmark, benchmark.name),
        (line.workload, benchmark.workload),
        (line.subject, benchmark.subject),
        (line.concurrency, benchmark.concurrency),
    )
    return all(wanted in (None, have) for wanted, have in pairs)

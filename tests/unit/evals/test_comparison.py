"""The comparison of two reports."""

from pathlib import Path
from typing import Any

import pytest

from nighthawk_async.evals import (
    CaseResult,
    RegressionError,
    Report,
    ReportError,
    TrialResult,
    UndecidedError,
)


def report_of(subject: str = "here:it", digest: str | None = "d", **passed: int) -> Report:
    """A report with five trials of each case, of which so many passed; fewer than 0 for none decided."""

    def result(case: str, number: int) -> TrialResult:
        status: Any = "not_run" if passed[case] < 0 else "passed" if number <= passed[case] else "failed"
        return TrialResult(case=case, number=number, status=status)

    found = tuple(
        CaseResult(name=case, digest=digest, trials=tuple(result(case, number) for number in range(1, 6)))
        for case in passed
    )
    return Report(subject=subject, cases=found, scorers=("equals",), trials_per_case=5)


def many(passed: int, count: int = 8) -> dict[str, int]:
    return {f"c{number}": passed for number in range(count)}


def test_a_better_report_is_an_improvement() -> None:
    comparison = report_of(**many(5)).compare(report_of(**many(2)))
    assert comparison.verdict == "improved"
    assert comparison.difference == pytest.approx(0.6)
    assert comparison.p_value == pytest.approx(2 / 2**8)
    assert comparison.cases_needed is None
    assert len(comparison.improved) == 8
    assert comparison.require_no_regression(strict=True) is comparison


def test_a_worse_report_is_a_regression_that_names_the_cases() -> None:
    comparison = report_of(**{**many(1), "c3": 0}).compare(report_of(**many(5)))
    assert comparison.verdict == "regressed"
    with pytest.raises(RegressionError, match=r"regressed: pass rate -0\.825") as raised:
        comparison.require_no_regression()
    assert raised.value.cases[0] == "c3"
    assert len(raised.value.cases) == 8


def test_data_that_do_not_decide_are_inconclusive_and_say_how_many_cases_would() -> None:
    comparison = report_of(a=3, b=5, c=4).compare(report_of(a=4, b=5, c=5))
    assert comparison.verdict == "inconclusive"
    assert comparison.cases_needed is not None
    assert comparison.cases_needed > 3
    assert f"about {comparison.cases_needed} cases would decide" in str(comparison)
    assert comparison.require_no_regression() is comparison
    with pytest.raises(RegressionError, match="inconclusive"):
        comparison.require_no_regression(strict=True)


def test_equal_reports_are_inconclusive_and_no_number_of_cases_decides() -> None:
    comparison = report_of(**many(4)).compare(report_of(**many(4)))
    assert (comparison.verdict, comparison.p_value, comparison.difference) == ("inconclusive", 1.0, 0.0)
    assert comparison.cases_needed is None
    assert comparison.effect_size is None
    assert "the reports do not differ" in str(comparison)
    comparison.require_no_regression(strict=True)


def test_many_trials_of_few_cases_decide_nothing() -> None:
    assert report_of(a=0, b=0).compare(report_of(a=5, b=5)).verdict == "inconclusive"


def test_the_interval_is_one_of_differences() -> None:
    comparison = report_of(a=1, b=3, c=5, d=2).compare(report_of(a=2, b=2, c=5, d=5))
    low, high = comparison.interval
    assert -1 <= low < comparison.difference < high <= 1
    assert comparison.effect_size == pytest.approx(-0.15 / 0.3415650255, rel=1e-6)


def test_common_cases_are_compared_and_others_named() -> None:
    comparison = report_of(a=5, b=5, new=1, pending=-1).compare(report_of(a=4, b=4, old=0, pending=2))
    assert [each.name for each in comparison.cases] == ["a", "b"]
    assert comparison.only_current == ("new",)
    assert comparison.only_baseline == ("old",)
    assert comparison.undecided == ("pending",)
    text = str(comparison)
    assert "1 only in the current report: new" in text
    assert "1 only in the baseline: old" in text
    assert "1 not decided, not compared: pending" in text


def test_cases_with_other_inputs_are_not_compared() -> None:
    current, baseline = report_of(digest="1", a=5), report_of(digest="2", a=5)
    with pytest.raises(UndecidedError, match="nothing to compare"):
        current.compare(baseline)
    mixed = Report(
        subject="here:it",
        cases=(*report_of(digest="1", a=5).cases, *report_of(digest="2", b=5).cases),
        scorers=("equals",),
        trials_per_case=5,
    )
    comparison = mixed.compare(report_of(digest="2", a=5, b=5))
    assert comparison.changed == ("a",)
    assert "1 with other inputs or another expectation, not compared: a" in str(comparison)


def test_inputs_that_have_no_digest_are_compared_by_name() -> None:
    assert len(report_of(digest=None, a=5).compare(report_of(digest="2", a=5)).cases) == 1


def test_reports_on_another_subject_are_compared_only_if_asked_for(tmp_path: Path) -> None:
    other = report_of("there:other", **many(2))
    other.save(tmp_path / "other.jsonl")
    current = report_of(**many(5))
    with pytest.raises(ReportError, match="a report on there:other, not on here:it"):
        current.compare(tmp_path / "other.jsonl")
    assert current.compare(tmp_path / "other.jsonl", any_subject=True).verdict == "improved"


def test_long_lists_of_cases_are_cut() -> None:
    text = str(report_of(**many(5, 12)).compare(report_of(**many(4, 12))))
    assert "12 better: c0 0.80 -> 1.00, " in text
    assert " and 7 more" in text

"""Gates: verdicts on reports and cases, as JUnit XML and as Markdown."""

from collections.abc import Sequence
from xml.etree import ElementTree

import pytest
from hypothesis import given, strategies as st

from nighthawk_async.evals import (
    CaseResult,
    EvaluationError,
    GateVerdict,
    Report,
    ReportError,
    TrialResult,
    TrialStatus,
    check_gate,
    junit_xml,
    markdown_table,
)
from tests.unit.evals.junit_schema import violations


def report_of(*cases: Sequence[TrialStatus], subject: str = "shop:stars", error: str = "") -> Report:
    """A report whose cases have trials of these statuses."""
    return Report(
        subject=subject,
        scorers=("equals",),
        trials_per_case=max(map(len, cases)),
        cases=tuple(
            CaseResult(
                name=f"case {number}",
                inputs="review='****'",
                expected="4",
                trials=tuple(
                    TrialResult(
                        case=f"case {number}",
                        number=index,
                        status=status,
                        output="3",
                        error=error,
                        seconds=0.5,
                    )
                    for index, status in enumerate(statuses, start=1)
                ),
            )
            for number, statuses in enumerate(cases)
        ),
    )


GOOD: tuple[TrialStatus, ...] = ("passed", "passed", "passed", "passed")
BAD: tuple[TrialStatus, ...] = ("failed", "failed", "error", "failed")
MIXED: tuple[TrialStatus, ...] = ("passed", "failed", "passed", "passed")
NOT_RUN: tuple[TrialStatus, ...] = ("not_run", "not_run", "not_run", "transport")


@pytest.mark.parametrize(
    ("cases", "at_least", "verdict", "case_verdicts"),
    [
        pytest.param([GOOD, GOOD], None, "passed", "passed passed", id="no gate"),
        pytest.param([GOOD, MIXED], None, "passed", "passed failed", id="no gate and a failure"),
        pytest.param([GOOD, MIXED], 0.75, "passed", "passed passed", id="exactly"),
        pytest.param([GOOD, BAD], 0.5, "passed", "passed tolerated", id="tolerated"),
        pytest.param([GOOD, BAD], 0.6, "missed", "passed failed", id="missed"),
        pytest.param([MIXED, MIXED, MIXED], 0.75, "passed", "passed passed passed", id="the same everywhere"),
        pytest.param([GOOD, NOT_RUN], 1, "passed", "passed undecided", id="a part is not decided"),
        pytest.param([NOT_RUN, NOT_RUN], 0, "inconclusive", "undecided undecided", id="nothing decided"),
    ],
)
def test_the_pass_rate_has_to_reach_the_gate(
    cases: list[Sequence[TrialStatus]], at_least: float | None, verdict: GateVerdict, case_verdicts: str
) -> None:
    report = report_of(*cases)
    result = check_gate(report, at_least=at_least)
    assert result.verdict == verdict
    assert [result.case_verdict(case) for case in report.cases] == case_verdicts.split()
    assert result.has_passed is (not result.reasons)


@given(tenths=st.integers(0, 10), cases=st.integers(1, 40))
def test_a_rate_that_is_met_exactly_is_enough(tenths: int, cases: int) -> None:
    statuses: list[TrialStatus] = ["passed" if index < tenths else "failed" for index in range(10)]
    assert check_gate(report_of(*[statuses] * cases), at_least=tenths / 10).has_passed


def test_a_regression_is_found_and_its_cases_fail() -> None:
    good, bad = report_of(*[GOOD] * 10), report_of(*[BAD] * 9, GOOD)
    result = check_gate(bad, baseline=good)
    assert result.verdict == "regressed"
    assert [result.case_verdict(case) for case in bad.cases] == ["failed"] * 9 + ["passed"]
    assert check_gate(good, baseline=bad).has_passed
    assert check_gate(bad, baseline=bad, strict=True).has_passed


def test_what_the_data_do_not_decide_is_refused_when_strict() -> None:
    good, worse = report_of(GOOD, GOOD, GOOD), report_of(GOOD, GOOD, MIXED)
    assert check_gate(worse, baseline=good).has_passed
    assert check_gate(worse, baseline=good, strict=True).verdict == "inconclusive"
    part = report_of(GOOD, NOT_RUN)
    assert check_gate(part).has_passed
    assert check_gate(part, strict=True).reasons == ("4 of 8 trials were not decided",)
    assert check_gate(report_of(NOT_RUN, error="no budget")).reasons == ("no trial was decided: no budget",)


def test_a_baseline_without_common_cases_decides_nothing() -> None:
    other = Report(subject="shop:stars", scorers=(), trials_per_case=1, cases=())
    assert check_gate(report_of(GOOD), baseline=other).verdict == "inconclusive"


@pytest.mark.parametrize("at_least", [-0.1, 1.1, 80, "0.8", True, float("nan")])
def test_a_rate_is_from_0_to_1(at_least: float) -> None:
    with pytest.raises(EvaluationError, match="from 0 to 1"):
        check_gate(report_of(GOOD), at_least=at_least)


def test_the_baseline_is_one_of_the_same_subject() -> None:
    with pytest.raises(ReportError, match="shop:other"):
        check_gate(report_of(GOOD), baseline=report_of(GOOD, subject="shop:other"))


def test_junit_has_a_test_case_for_each_case() -> None:
    missed = check_gate(report_of(GOOD, BAD, NOT_RUN, error="it <said> & went"), at_least=0.8)
    root = ElementTree.fromstring(junit_xml([missed]).encode())
    assert violations(root) == []
    suite = root[0]
    assert [suite.get(each) for each in ("tests", "failures", "errors", "skipped")] == ["3", "1", "0", "1"]
    good, bad, not_run = suite.findall("testcase")
    assert (good.get("classname"), good.get("name"), good.get("time")) == ("shop.stars", "case 0", "2.000")
    assert list(good) == []
    failure = bad[0]
    assert (failure.tag, failure.get("message")) == ("failure", "0 of 4 trials passed")
    assert "expected: 4\ntrial 1, 2, 4: failed: it <said> & went\n  returned: 3" in str(failure.text)
    assert not_run[0].get("message") == "not decided: it <said> & went"
    properties = {each.get("name"): each.get("value") for each in suite.iter("property")}
    assert properties["verdict"] == "missed"
    assert (properties["pass_rate"], properties["at_least"]) == ("0.5", "0.8")


def test_junit_tells_a_verdict_that_no_case_explains() -> None:
    result = check_gate(report_of(NOT_RUN), at_least=0.8)
    root = ElementTree.fromstring(junit_xml([result, check_gate(report_of(GOOD))]).encode())
    assert violations(root) == []
    assert [suite.get("failures") for suite in root] == ["1", "0"]
    gate = root[0].findall("testcase")[-1]
    assert (gate.get("name"), gate[0].get("type")) == ("gate", "inconclusive")


@given(text=st.text(max_size=40))
def test_any_text_makes_valid_documents(text: str) -> None:
    cases = (
        CaseResult(
            name=text or "x",
            inputs=text,
            trials=(TrialResult(case=text or "x", number=1, status="failed", output=text, error=text),),
        ),
    )
    report = Report(subject=f"m:{text}", scorers=(), trials_per_case=1, cases=cases, model=text)
    result = check_gate(report, at_least=1)
    assert violations(ElementTree.fromstring(junit_xml([result]).encode("utf-8", "replace"))) == []
    table = [line for line in markdown_table([result]).split("\n") if line.startswith("|")]
    assert [line.replace("\\\\", "").replace("\\|", "").count("|") for line in table] == [7, 7, 7]


def test_markdown_shows_failures_first_and_changes() -> None:
    baseline = report_of(GOOD, GOOD, GOOD, GOOD)
    result = check_gate(report_of(GOOD, MIXED, BAD, NOT_RUN), at_least=0.8, baseline=baseline)
    text = markdown_table([result])
    assert text.startswith(
        "### shop:stars: missed\n\n**pass rate 0.583** (0.000 to 1.000), at least 0.8 asked"
    )
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert rows == [
        "| case | result | passed | baseline | time | cost | reason |",
        "| case 1 | **failed** | 3/4 | 1.00 → 0.75 | 0.50 s |  | 3 |",
        "| case 2 | **failed** | 0/4 | 1.00 → 0.00 | 0.50 s |  | 3 |",
        "| case 3 | not decided | 0/0 | not compared |  |  | 3 |",
        "| case 0 | passed | 4/4 | same | 0.50 s |  |  |",
    ]


def test_markdown_of_many_cases_leaves_out_those_that_passed() -> None:
    text = markdown_table([check_gate(report_of(*[GOOD] * 90, *[BAD] * 60))])
    assert text.count("| **failed** |") == 60
    assert "| passed | 4/4 |" not in text
    assert "90 more cases, 0 of them failed." in text


def test_markdown_of_many_failures_stays_short() -> None:
    text = markdown_table([check_gate(report_of(*[BAD] * 1_000))])
    assert len(text) < 60_000
    assert "800 more cases, 800 of them failed." in text

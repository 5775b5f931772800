"""Severity of cases, reliability over trials, tags, costs of solved cases, named splits, and history."""

import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from typer.testing import CliRunner

from nighthawk_async.cli.application import application
from nighthawk_async.evals import (
    Case,
    CaseError,
    CaseResult,
    Report,
    ReportError,
    TrialResult,
    check_gate,
    evaluate,
    history,
    junit_xml,
    load_cases,
    load_report,
    markdown_table,
    named_splits,
    report_as_page,
    save_cases,
)
from nighthawk_async.evals.evaluating import commit_of
from nighthawk_async.types.usage import Usage
from tests.cases import every

from .evals_support import executor, stars


def _case(name: str, outcomes: str, *, tags: Sequence[str] = (), **fields: Any) -> CaseResult:
    """A case whose trials passed (`p`), failed (`f`) or were not run (`n`)."""
    statuses: Mapping[str, Literal["passed", "failed", "not_run"]] = {
        "p": "passed",
        "f": "failed",
        "n": "not_run",
    }
    usage = Usage(requests=1, cost=Decimal("0.10"))
    trials = tuple(
        TrialResult(case=name, number=number, status=statuses[outcome], usage=usage)
        for number, outcome in enumerate(outcomes, 1)
    )
    return CaseResult(name=name, tags=tuple(tags), trials=trials, **fields)


def _report(*cases: CaseResult, **fields: Any) -> Report:
    return Report(
        subject="shop:stars", cases=cases, scorers=("equals",), trials_per_case=len(cases[0].trials), **fields
    )


def test_flaky_cases_are_counted_and_shown_first() -> None:
    report = _report(_case("good", "ppp"), _case("bad", "fff"), _case("unsure", "pfp"), _case("late", "nnn"))
    assert report.reliability == {"flaky": 1, "all_fail": 1, "all_pass": 1, "undecided": 1}
    assert report.flaky == ("unsure",)
    assert "1 flaky (unsure), 1 failed always, 1 passed always" in str(report)
    table = markdown_table([check_gate(report)])
    assert table.index("unsure") < table.index("| bad")
    page = report_as_page(report)
    assert page.index("<h3>unsure") < page.index("<h3>bad") < page.index("<h3>good")
    assert "Flaky / failed always / passed always" in page


def test_a_report_of_one_trial_says_nothing_of_reliability() -> None:
    assert "flaky" not in str(_report(_case("good", "p"), _case("bad", "f")))


def test_the_worst_tag_and_the_cost_of_a_solved_case() -> None:
    report = _report(
        _case("a", "pp", tags=["short"]),
        _case("b", "pf", tags=["short", "odd"]),
        _case("c", "ff", tags=["odd"]),
        _case("d", "nn", tags=["never"]),
    )
    assert list(report.pass_rate_by_tag.items()) == [("odd", 0.25), ("short", 0.75)]
    assert report.worst_tag == "odd"
    assert "worst tag: odd, 0.250" in str(report)
    assert report.cost_per_solved_case == Decimal("0.80")  # of "a": of "b" half is not most
    assert "$0.8000 for each solved case" in markdown_table([check_gate(report)]).replace("\\", "")
    assert _report(_case("c", "ff")).cost_per_solved_case is None
    assert _report(_case("c", "pp")).worst_tag is None
    free = replace(_case("c", "p"), trials=(replace(_case("c", "p").trials[0], usage=Usage(requests=1)),))
    assert _report(free).cost_per_solved_case == 0
    unpriced = Usage(requests=1, unpriced_requests=1)
    unknown = replace(free, trials=(replace(free.trials[0], usage=unpriced),))
    assert _report(unknown).cost_per_solved_case is None


def test_only_blocking_cases_count_in_a_gate() -> None:
    report = _report(
        _case("must", "pp"),
        _case("should", "ff", severity="warning"),
        _case("may", "ff", severity="informational"),
    )
    result = check_gate(report, at_least=1.0)
    assert result.verdict == "passed"
    assert result.warnings == ("warning: case 'should': 0 of 2 trials passed",)
    assert [result.case_verdict(case) for case in report.cases] == ["passed", "warned", "noted"]
    table = markdown_table([result])
    assert "failed, a warning" in table
    assert "failed, informational" in table
    assert "should" in report_as_page(report, gate=result).partition("Figures")[0]
    suite = ElementTree.fromstring(junit_xml([result]))[0]
    assert suite.get("failures") == "0"
    missed = check_gate(_report(_case("must", "pf"), _case("should", "pp", severity="warning")), at_least=0.9)
    assert missed.verdict == "missed"
    assert "0.500" in missed.reasons[0]
    alone = check_gate(_report(_case("should", "pp", severity="warning")))
    assert alone.verdict == "inconclusive"
    assert "no case of the severity blocking" in alone.reasons[0]


def test_a_warning_that_became_worse_does_not_regress_a_report() -> None:
    def made(outcomes: str) -> Report:
        cases = [_case(f"must {number}", "pp") for number in range(8)]
        cases += [_case(f"should {number}", outcomes, severity="warning") for number in range(8)]
        return _report(*cases)

    assert check_gate(made("ff"), baseline=made("pp")).verdict == "passed"


def test_severities_are_checked_and_kept_in_files(tmp_path: Path) -> None:
    cases = [
        Case("a", inputs={"review": "One stars."}, expected=1, severity="warning"),
        Case("b", inputs={"review": "Two stars."}, expected=2),
    ]
    save_cases(cases, tmp_path / "cases.jsonl")
    assert [case.severity for case in load_cases(tmp_path / "cases.jsonl")] == ["warning", "blocking"]
    with pytest.raises(CaseError, match="severity is one of blocking, warning, informational, not 'high'"):
        Case("c", severity="high")  # type: ignore[arg-type]
    path = tmp_path / "report.jsonl"

    async def main() -> None:
        await evaluate(stars, cases, model=executor({"One": 9}), path=path)

    anyio.run(main)
    loaded = load_report(path)
    assert [case.severity for case in loaded.cases] == ["warning", "blocking"]
    assert check_gate(loaded, at_least=1.0).has_passed


_CASES = [
    Case("one", inputs={"text": "1"}),
    Case("two", inputs={"text": "2"}),
    Case("again two", inputs={"text": "2"}),
    Case("three", inputs={"text": "3"}),
]


def test_named_splits() -> None:
    parts = named_splits(_CASES, {"tune": ["three", "two"], "held out": ["one"]})
    assert {part: [case.name for case in cases] for part, cases in parts.items()} == {
        "tune": ["two", "again two", "three"],
        "held out": ["one"],
    }


@every(
    "splits, message",
    [
        ({"a": ["one", "two"], "b": ["three", "two"]}, "Case 'two' is in 'a' and in 'b'"),
        ({"a": ["one", "one"], "b": ["three", "two"]}, "Case 'one' is twice in 'a'"),
        ({"a": ["one", "thre"], "b": ["two"]}, "Split 'a': there is no case 'thre'. Did you mean 'three'"),
        ({"a": ["one", "two"]}, "Case 'three' is in no part"),
        ({"a": ["one", "two"], "b": ["again two", "three"]}, "say the same"),
    ],
)
def test_splits_that_overlap_or_leave_cases_out_are_refused(
    splits: Mapping[str, Sequence[str]], message: str
) -> None:
    with pytest.raises(CaseError) as caught:
        named_splits(_CASES, splits)
    assert message in str(caught.value)


def test_variants_stay_with_their_case() -> None:
    case = Case("one", inputs={"text": "1"})
    made = [case, *(replace(case, name=f"one ~{number}", tags=("variant",)) for number in (1, 2))]
    parts = named_splits([*made, Case("two", inputs={"text": "2"})], {"a": ["one"], "b": ["two"]})
    assert [each.name for each in parts["a"]] == ["one", "one ~1", "one ~2"]


def _dated(rate: str, day: int, commit: str | None = None) -> Report:
    return _report(_case("a", rate), _case("b", "pp"), created_at=86_400.0 * day, commit=commit)


def test_history_over_commits(tmp_path: Path) -> None:
    _dated("pp", 3, "c" * 40).save(tmp_path / "3.jsonl")
    _dated("ff", 1, "a" * 40).save(tmp_path / "1.jsonl")
    shown = history([tmp_path, _dated("pf", 2), _dated("nn", 0)])
    assert [report.pass_rate for report in shown.reports] == [1.0, 0.5, 0.75, 1.0]
    lines = str(shown).splitlines()
    assert lines[0].startswith("shop:stars: 4 reports")
    assert [line.split()[0] for line in lines[2:5]] == ["aaaaaaaa", "1970-01-03", "cccccccc"]
    picture = ElementTree.fromstring(shown.svg())
    assert picture.tag.endswith("svg")
    assert len(picture.findall(".//{http://www.w3.org/2000/svg}circle")) == 4
    ran = CliRunner().invoke(application, ["eval-history", str(tmp_path), "--svg", str(tmp_path / "h.svg")])
    assert ran.exit_code == 0, ran.output
    assert "aaaaaaaa 1970-01-02" in ran.output
    assert (tmp_path / "h.svg").read_text(encoding="utf-8").startswith("<svg")


def test_a_history_is_of_one_subject(tmp_path: Path) -> None:
    other = replace(_dated("pp", 1), subject="shop:other")
    with pytest.raises(ReportError, match="shop:stars, shop:other"):
        history([_dated("pp", 0), other])
    with pytest.raises(ReportError, match="no report in which a trial was decided"):
        history([_report(_case("a", "n"))])
    with pytest.raises(ReportError, match="cannot be read"):
        history([tmp_path / "nothing.jsonl"])


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs Git")
def test_the_commit_of_a_working_tree(tmp_path: Path) -> None:
    assert commit_of(tmp_path) is None
    repository = tmp_path / "shop"
    repository.mkdir()
    _git(repository, "init", "-q", "-b", "main")
    assert commit_of(repository) is None  # nothing is committed yet
    _git(repository, "commit", "-q", "--allow-empty", "-m", "first")
    first = _git(repository, "rev-parse", "HEAD")
    (repository / "below").mkdir()
    assert commit_of(repository / "below") == first
    _git(repository, "pack-refs", "--all")
    assert commit_of(repository) == first
    _git(repository, "worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    _git(tmp_path / "tree", "commit", "-q", "--allow-empty", "-m", "second")
    assert commit_of(tmp_path / "tree") == _git(tmp_path / "tree", "rev-parse", "HEAD") != first
    _git(repository, "checkout", "-q", "--detach")
    assert commit_of(repository) == first
    (repository / ".git" / "HEAD").write_text("ref: ../../etc/passwd")
    assert commit_of(repository) is None

"""Reports: their figures, their files, and evaluations that go on from them."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import nighthawk_async as nh
from nighthawk_async.evals import (
    Case,
    CaseResult,
    EvaluationError,
    Report,
    ReportError,
    Score,
    Trial,
    TrialResult,
    UndecidedError,
    equals,
    evaluate,
    load_report,
)
from tests.unit.evals.evals_support import cases, executor, stars

anyio_test = pytest.mark.anyio

PROGRAM = Path(__file__).parent / "killed_evaluation.py"


def report_of(*rates: tuple[int, int], **fields: Any) -> Report:
    """A report with these numbers of passed trials, out of these numbers of trials."""
    found = tuple(
        CaseResult(
            name=f"case {index}",
            trials=tuple(
                TrialResult(
                    case=f"case {index}", number=number, status="passed" if number <= passed else "failed"
                )
                for number in range(1, trials + 1)
            ),
        )
        for index, (passed, trials) in enumerate(rates)
    )
    most = max(trials for _, trials in rates)
    return Report(subject="here:it", cases=found, scorers=("equals",), trials_per_case=most, **fields)


# Figures.


def test_figures_are_means_over_cases() -> None:
    report = report_of((5, 5), (1, 5), (0, 5))
    assert report.pass_rate == report.pass_at(1) == pytest.approx(0.4)
    assert report.pass_at(2) == pytest.approx((1 + (1 - 6 / 10) + 0) / 3)
    assert report.pass_at(5) == pytest.approx(2 / 3)
    assert report.pass_all(2) == pytest.approx(1 / 3)
    assert report.decided == 15


def test_every_case_counts_the_same_however_many_trials_it_has() -> None:
    assert report_of((1, 1), (0, 50)).pass_rate == 0.5


def test_two_cases_with_fifty_trials_are_two_samples() -> None:
    few = report_of((25, 50), (30, 50)).interval
    assert (few.low, few.high) == pytest.approx((0.5, 0.6))
    assert report_of((50, 50), (50, 50)).interval.low == pytest.approx(0.025 ** (1 / 2))


def test_the_interval_is_seeded_and_has_the_confidence_of_the_report() -> None:
    rates = [(number % 6, 5) for number in range(30) if number % 6 < 6]
    report = report_of(*[(min(passed, 5), trials) for passed, trials in rates], seed=4, confidence=0.9)
    assert (
        report.interval
        == report_of(*[(min(passed, 5), trials) for passed, trials in rates], seed=4, confidence=0.9).interval
    )
    assert report.interval.confidence == 0.9


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8), st.integers(1, 4))
def test_pass_at_k_grows_and_pass_all_k_shrinks_with_k(passed: list[int], k: int) -> None:
    report = report_of(*[(each, 4) for each in passed])
    assert report.pass_all(k) <= report.pass_all(1) + 1e-12
    assert report.pass_at(1) == pytest.approx(report.pass_rate)
    assert report.pass_at(k) >= report.pass_at(1) - 1e-12
    low, high = report.interval
    assert 0 <= low <= high <= 1


def test_a_k_that_the_trials_do_not_allow_is_refused() -> None:
    report = report_of((2, 3))
    with pytest.raises(EvaluationError, match="k = 4 needs at least 4 trials of each case, but there are 3"):
        report.pass_at(4)
    with pytest.raises(EvaluationError, match="k is a positive number"):
        report.pass_all(0)


def test_a_scorer_that_is_not_there_has_no_mean() -> None:
    report = report_of((1, 1))
    with pytest.raises(KeyError):
        report.mean_score("speed")
    with pytest.raises(UndecidedError, match="'equals' has scored no trial"):
        report.mean_score("equals")
    with pytest.raises(KeyError):
        report.case("other")


def test_a_report_reads_well() -> None:
    lines = str(report_of((5, 5), (1, 5))).splitlines()
    assert lines[0] == "here:it: 2 cases, 5 trials each"
    assert lines[1].startswith("pass rate 0.600 (0.200 to 1.000, 95% confidence)")
    assert lines[2] == "6 passed, 4 failed"


def test_a_report_can_be_pickled() -> None:
    report = report_of((1, 2))
    assert pickle.loads(pickle.dumps(report)) == report


# Files.


@anyio_test
async def test_a_saved_report_is_the_same_when_it_is_loaded(tmp_path: Path) -> None:
    def careful(trial: Trial) -> Score:
        return Score(0.25, passed=trial.output == 4, reason="“so” \n\u2028")

    report = await evaluate(
        stars, cases("Four", "One"), scorers=[careful], trials=3, model=executor(), seed=5, confidence=0.9
    )
    report.save(tmp_path / "report.jsonl")
    loaded = load_report(tmp_path / "report.jsonl")
    assert loaded == report
    assert (loaded.created_at, loaded.subject_digest) == (report.created_at, report.subject_digest)
    assert [each.seconds for each in loaded.trials] == [each.seconds for each in report.trials]
    assert not (tmp_path / f"report.jsonl.{os.getpid()}.tmp").exists()


@anyio_test
async def test_what_is_appended_is_what_is_saved(tmp_path: Path) -> None:
    report = await evaluate(
        stars,
        cases("Four", "One"),
        trials=3,
        max_concurrent=1,
        model=executor(),
        path=tmp_path / "appended.jsonl",
    )
    assert load_report(tmp_path / "appended.jsonl") == report


async def evaluated(path: Path, calls: list[str] | None = None, **arguments: Any) -> Report:
    """A small evaluation that notes its calls."""

    async def subject(text: str) -> str:
        if calls is not None:
            calls.append(text)
        return text.upper()

    given: dict[str, Any] = {"scorers": [equals()], "trials": 2, "seed": 1, "name": "here:it", **arguments}
    wanted = given.pop("cases", [Case(each, inputs={"text": each}, expected=each.upper()) for each in "abc"])
    return await evaluate(given.pop("subject", subject), wanted, path=path, **given)


@anyio_test
async def test_an_evaluation_that_has_ended_is_not_run_again(tmp_path: Path) -> None:
    calls: list[str] = []
    first = await evaluated(tmp_path / "report.jsonl", calls)
    text = (tmp_path / "report.jsonl").read_bytes()
    assert await evaluated(tmp_path / "report.jsonl", calls) == first
    assert len(calls) == 6
    assert (tmp_path / "report.jsonl").read_bytes() == text


@anyio_test
@pytest.mark.parametrize("kept", [1, 2, 4, 7])
@pytest.mark.parametrize("torn", [b"", b"{", b'{"case":"a","number":1,"sta'], ids=["whole", "short", "long"])
async def test_an_interrupted_evaluation_goes_on(tmp_path: Path, kept: int, torn: bytes) -> None:
    path, calls = tmp_path / "report.jsonl", list[str]()
    first = await evaluated(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:kept]) + torn)
    assert await evaluated(path, calls) == first
    assert len(calls) == 7 - kept
    assert load_report(path) == first


@anyio_test
@pytest.mark.parametrize(
    "content", [b"", b'{"form', b'{"format":"nighthawk-async evaluation","version":1,"su']
)
async def test_an_evaluation_that_died_while_it_began_begins_anew(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "report.jsonl"
    path.write_bytes(content)
    report = await evaluated(path)
    assert load_report(path) == report


@anyio_test
async def test_trials_that_were_not_decided_are_run_again(tmp_path: Path) -> None:
    path = tmp_path / "report.jsonl"
    first = await evaluate(
        stars,
        cases("One", "Two"),
        trials=3,
        max_concurrent=1,
        budget=nh.budget(steps=2),
        model=executor(),
        path=path,
    )
    assert first.counts["not_run"] == 4
    assert load_report(path) == first
    second = await evaluate(stars, cases("One", "Two"), trials=3, model=executor(), path=path)
    assert second.counts["passed"] == 6
    assert load_report(path) == second


def life(path: Path, *arguments: str) -> list[str]:
    """Run the program; return the cases that it called the subject for."""
    command = [sys.executable, str(PROGRAM), str(path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert not done.stderr, done.stderr
    assert (done.returncode == 0) == (not arguments)
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def whole_report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report of the program, when nothing kills it."""
    path = tmp_path_factory.mktemp("whole") / "report.jsonl"
    assert len(life(path)) == 12
    return load_report(path)


@pytest.mark.parametrize("moment", [1, 5, 9])
def test_an_evaluation_that_is_killed_ends_with_the_same_report(
    tmp_path: Path, whole_report: Report, moment: int
) -> None:
    """The process kills itself in the middle of a trial, while others are in flight."""
    path = tmp_path / "report.jsonl"
    calls = [*life(path, str(moment)), *life(path)]
    assert load_report(path) == whole_report
    assert load_report(path).interval == whole_report.interval
    assert 12 <= len(calls) <= 12 + 3  # at most those in flight are repeated


@anyio_test
@pytest.mark.parametrize(
    ("arguments", "difference"),
    [
        pytest.param({"name": "there:it"}, "another subject", id="subject"),
        pytest.param({"scorers": [equals(name="same")]}, "other scorers", id="scorers"),
        pytest.param({"trials": 3}, "another number of trials", id="trials"),
        pytest.param({"seed": 2}, "another seed", id="seed"),
        pytest.param({"pass_mark": 0.9}, "another pass mark", id="pass mark"),
        pytest.param({"confidence": 0.9}, "another confidence", id="confidence"),
        pytest.param({"cases": [Case("a", inputs={"text": "a"})]}, "other cases", id="cases"),
        pytest.param(
            {"cases": [Case(each, inputs={"text": "x"}, expected="X") for each in "abc"]},
            "other cases",
            id="inputs",
        ),
        pytest.param(
            {"subject": stars, "cases": cases("One")}, "another version of the subject's code", id="code"
        ),
    ],
)
async def test_a_file_of_another_evaluation_is_refused_and_kept(
    tmp_path: Path, arguments: dict[str, Any], difference: str
) -> None:
    path = tmp_path / "report.jsonl"
    await evaluated(path)
    before = path.read_bytes()
    with pytest.raises(ReportError, match=f"belongs to another evaluation, with .*{difference}"):
        await evaluated(path, **arguments)
    assert path.read_bytes() == before


def _changed(path: Path, **fields: object) -> None:
    first, *rest = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text(json.dumps({**json.loads(first), **fields}) + "\n" + "".join(rest), encoding="utf-8")


@anyio_test
async def test_a_report_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "report.jsonl"
    await evaluated(path)
    _changed(path, version=2)
    with pytest.raises(ReportError, match=r"has version 2, and this release .* reads version 1"):
        load_report(path)
    with pytest.raises(ReportError, match="version 2"):
        await evaluated(path)


@anyio_test
async def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "report.jsonl"
    await evaluated(path)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join([*lines[:2], "garbage\n", *lines[3:]]), encoding="utf-8")
    with pytest.raises(ReportError, match=r"report\.jsonl:3: this is no trial of a report"):
        load_report(path)
    path.write_text("".join([*lines[:2], lines[2].replace('"case":"', '"case":"?')]), encoding="utf-8")
    with pytest.raises(ReportError, match=r"report\.jsonl:3: the report has no trial 1 of case '\?b'"):
        load_report(path)
    _changed(path, seed="x")
    with pytest.raises(ReportError, match=r"report\.jsonl:1: the first line of the report is damaged"):
        load_report(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"hello\n", b"[]\n", b'{"format":"other","version":1}\n', b"\xff\xfe\n", b'{"a":1}'],
)
def test_a_file_that_is_no_report_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other.txt").write_bytes(content)
    with pytest.raises(ReportError, match=r"other\.txt: this is no report of an evaluation"):
        load_report(tmp_path / "other.txt")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"missing\.jsonl cannot be read: No such file"):
        load_report(tmp_path / "missing.jsonl")


@anyio_test
async def test_a_file_that_cannot_be_written_is_an_error_before_anything_is_called(tmp_path: Path) -> None:
    calls: list[str] = []
    with pytest.raises(OSError, match="No such file"):
        await evaluated(tmp_path / "missing" / "report.jsonl", calls)
    assert calls == []


@anyio_test
async def test_long_results_are_cut(tmp_path: Path) -> None:
    async def subject(text: str) -> str:
        return "x" * 1_000_000

    report = await evaluated(tmp_path / "report.jsonl", subject=subject)
    assert len(report.trials[0].output) == 1_000
    assert (tmp_path / "report.jsonl").stat().st_size < 20_000


@anyio_test
async def test_half_of_a_surrogate_pair_costs_no_trial(tmp_path: Path) -> None:
    async def subject(text: str) -> str:
        return f"{text} \ud83d"

    def reason(trial: Trial) -> Score:
        return Score(1.0, reason="\ud83d" + "x" * 10_000)

    path = tmp_path / "report.jsonl"
    given = [Case("a", inputs={"text": "\ud83d"})]
    report = await evaluate(subject, given, scorers=[reason], path=path)
    assert report.trials[0].output == r"\ud83d \ud83d"
    assert len(report.trials[0].scores["reason"].reason) < 1_100
    assert load_report(path) == report


@anyio_test
async def test_two_evaluations_do_not_write_one_report(tmp_path: Path) -> None:
    path = tmp_path / "report.jsonl"

    async def subject(text: str) -> str:
        if text == "outer":
            await evaluate(subject, [Case("b", inputs={"text": "inner"})], path=path)
        return text

    report = await evaluate(subject, [Case("a", inputs={"text": "outer"}, expected="outer")], path=path)
    assert report.trials[0].error.startswith("ReportError: Another evaluation is writing the report")
    assert os.listdir(tmp_path) == ["report.jsonl"]
    assert load_report(path) == report


def test_a_difference_that_is_only_rounding_is_no_regression() -> None:
    comparison = report_of((1, 10), (2, 10), (1, 10)).compare(report_of((0, 10), (0, 10), (4, 10)))
    assert comparison.difference == 0
    assert comparison.cases_needed is None
    comparison.require_no_regression(strict=True)

"""Gates: whether a report is good enough, and no worse than an earlier one."""

import os
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .comparison import Comparison
from .declarations import check_at_least
from .errors import UndecidedError
from .report import Report
from .results import CaseResult

GateVerdict: TypeAlias = Literal["passed", "missed", "regressed", "inconclusive"]
"""The verdict on a report. `missed`: the pass rate is too low. `regressed`: it is worse than the baseline.
`inconclusive`: nothing was decided, or, when strict, not enough."""

CaseVerdict: TypeAlias = Literal["passed", "tolerated", "failed", "warned", "noted", "undecided"]
"""The verdict on a case. `tolerated`: its pass rate is too low, but that of all blocking cases is not.
`warned`, `noted`: its pass rate is too low, and its severity is `warning` or `informational`."""

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """The verdict on a report.

    Args:
        report: The report.
        verdict: The verdict on its blocking cases.
        reasons: The reasons, in words; empty if it passed.
        at_least: The least pass rate; None for any.
        comparison: The comparison of the blocking cases with the baseline; None without one.
        warnings: What cases of the severity `warning` say, in words; it changes no verdict.
    """

    report: Report
    verdict: GateVerdict
    reasons: tuple[str, ...] = ()
    at_least: float | None = None
    comparison: Comparison | None = None
    warnings: tuple[str, ...] = ()

    @property
    def judged(self) -> Report:
        """The report on the blocking cases alone, which the verdict is about."""
        return self.report.part(_blocks)

    @property
    def has_passed(self) -> bool:
        """Whether the verdict is `passed`."""
        return self.verdict == "passed"

    def case_verdict(self, case: CaseResult) -> CaseVerdict:
        """Return the verdict on a case.

        A case whose pass rate is below `at_least` (1, if that is None) has failed if the gate was missed, or
        if there is none. A case that became worse has failed if the report regressed.

        Args:
            case: A case of the report.
        """
        if not case.decided:
            return "undecided"
        reaches = _reaches(case.pass_rate, 1.0 if self.at_least is None else self.at_least)
        if case.severity != "blocking":
            return "passed" if reaches else "warned" if case.severity == "warning" else "noted"
        worse = () if self.comparison is None else self.comparison.regressed
        if self.verdict == "regressed" and any(each.name == case.name for each in worse):
            return "failed"
        if reaches:
            return "passed"
        holds = self.at_least is not None and _reaches(self.judged.pass_rate, self.at_least)
        return "tolerated" if holds else "failed"


def check_gate(
    report: Report,
    *,
    at_least: float | None = None,
    baseline: Report | str | os.PathLike[str] | None = None,
    strict: bool = False,
) -> GateResult:
    """Judge a report by the pass rate of its blocking cases, and by comparison with an earlier report.

    Args:
        report: The report.
        at_least: The least pass rate over all blocking cases, from 0 to 1; None for any.
        baseline: The earlier report, or the path of its file; None for no comparison.
        strict: Whether a report is inconclusive too if trials of it are not decided, or if its pass rate fell
            below that of the baseline by a difference that the data do not decide.

    Raises:
        EvaluationError: `at_least` is no number from 0 to 1.
        ReportError: The baseline cannot be read, or is the report of another subject.
    """
    check_at_least(at_least)
    missed: list[str] = []
    open_reasons: list[str] = []
    comparison = None
    blocking = report.part(_blocks)
    undecided = len(blocking.trials) - blocking.decided
    if not blocking.cases:
        open_reasons.append("there is no case of the severity blocking")
    elif not blocking.decided:
        open_reasons.append(_nothing_decided(blocking))
    elif undecided and strict:
        open_reasons.append(f"{undecided} of {len(blocking.trials)} trials were not decided")
    if blocking.decided and at_least is not None and not _reaches(blocking.pass_rate, at_least):
        missed.append(f"the pass rate is {blocking.pass_rate:.3f}, and has to be at least {at_least:g}")
    if baseline is not None and blocking.cases:
        try:
            comparison = blocking.compare(baseline)
        except UndecidedError as error:
            open_reasons.append(str(error))
    has_regressed = comparison is not None and comparison.verdict == "regressed"
    if comparison is not None and (has_regressed or (strict and _fell(comparison))):
        (missed if has_regressed else open_reasons).append(str(comparison))
    verdict: GateVerdict = "regressed" if has_regressed else "missed" if missed else "passed"
    if verdict == "passed" and open_reasons:
        verdict = "inconclusive"
    return GateResult(
        report=report,
        verdict=verdict,
        reasons=(*missed, *open_reasons),
        at_least=at_least,
        comparison=comparison,
        warnings=_warnings(report, at_least),
    )


def _blocks(case: CaseResult) -> bool:
    return case.severity == "blocking"


def _warnings(report: Report, at_least: float | None) -> tuple[str, ...]:
    """The cases of the severity `warning` whose pass rate is too low."""
    asked = 1.0 if at_least is None else at_least
    return tuple(
        f"warning: case {case.name!r}: {case.passed} of {case.decided} trials passed"
        for case in report.cases
        if case.severity == "warning" and case.decided and not _reaches(case.pass_rate, asked)
    )


def _fell(comparison: Comparison) -> bool:
    return comparison.verdict == "inconclusive" and comparison.difference < -_ROUNDING


def _reaches(rate: float, at_least: float) -> bool:
    return rate >= at_least - _ROUNDING


def _nothing_decided(report: Report) -> str:
    reason = next((trial.error for trial in report.trials if trial.error), "")
    return "no trial was decided" + (f": {reason}" if reason else "")

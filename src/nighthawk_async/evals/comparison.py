"""The comparison of two reports, case by case."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, Self, TypeAlias

from . import statistics
from .errors import RegressionError, UndecidedError
from .results import CaseResult
from .statistics import Interval

Verdict: TypeAlias = Literal["improved", "regressed", "inconclusive"]
"""The result of a comparison; `inconclusive` if the data do not decide."""

_SHOWN_CASES = 5
_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseDifference:
    """The pass rates of one case in both reports.

    Args:
        name: The name of the case.
        current: Its pass rate in the current report.
        baseline: Its pass rate in the baseline.
    """

    name: str
    current: float
    baseline: float

    @property
    def difference(self) -> float:
        """The current rate minus that of the baseline."""
        return _rounded(self.current - self.baseline)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The comparison of two reports by the cases that both have, with the same inputs and expectation.

    The verdict is that of a paired permutation test over cases, two-sided; the interval is a paired bootstrap
    over cases.

    Args:
        cases: The cases that were compared, in the order of the current report.
        difference: The mean difference of pass rates; positive when the current report is better.
        interval: Its confidence interval.
        p_value: The probability of a difference at least this great if nothing had changed.
        effect_size: The difference in standard deviations (Cohen's d of pairs); None where it has none.
        cases_needed: The number of cases that would decide a difference like this one with a power of 80 %;
            None if it is decided, or if there is no difference.
        confidence: The confidence of the verdict and the interval.
        only_current: The names of cases that only the current report has.
        only_baseline: The names of cases that only the baseline has.
        changed: The names of cases whose inputs or expectation differ, which are not compared.
        undecided: The names of cases that have no decided trial in one of the reports.
    """

    cases: tuple[CaseDifference, ...]
    difference: float
    interval: Interval
    p_value: float
    effect_size: float | None
    cases_needed: int | None
    confidence: float
    only_current: tuple[str, ...] = ()
    only_baseline: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """`improved` or `regressed` if the data decide, `inconclusive` if they do not."""
        if self.p_value > 1 - self.confidence:
            return "inconclusive"
        return "improved" if self.difference > 0 else "regressed"

    @property
    def improved(self) -> tuple[CaseDifference, ...]:
        """The cases that became better, the most improved first."""
        better = (each for each in self.cases if each.difference > 0)
        return tuple(sorted(better, key=lambda each: -each.difference))

    @property
    def regressed(self) -> tuple[CaseDifference, ...]:
        """The cases that became worse, the worst first."""
        worse = (each for each in self.cases if each.difference < 0)
        return tuple(sorted(worse, key=lambda each: each.difference))

    def require_no_regression(self, *, strict: bool = False) -> Self:
        """Raise if the current report is worse than the baseline; otherwise return the comparison.

        Args:
            strict: Whether a worse figure that the data do not decide is refused too.

        Raises:
            RegressionError: The verdict is `regressed`; or, when strict, the mean pass rate fell.
        """
        if self.verdict == "regressed" or (strict and self.difference < 0):
            raise RegressionError(str(self), cases=[each.name for each in self.regressed])
        return self

    def __str__(self) -> str:
        """The comparison in a few lines of text."""
        lines = [
            f"{self.verdict}: pass rate {self.difference:+.3f} ({self.interval.low:+.3f} to "
            f"{self.interval.high:+.3f}) over {len(self.cases)} cases, p = {self.p_value:.4f}"
        ]
        if self.effect_size is not None:
            lines[0] += f", d = {self.effect_size:.2f}"
        if self.verdict == "inconclusive":
            lines.append(
                "the reports do not differ"
                if self.cases_needed is None
                else f"about {self.cases_needed} cases would decide a difference like this"
            )
        lines += _named("worse", [f"{e.name} {e.baseline:.2f} -> {e.current:.2f}" for e in self.regressed])
        lines += _named("better", [f"{e.name} {e.baseline:.2f} -> {e.current:.2f}" for e in self.improved])
        lines += _named("only in the current report", self.only_current)
        lines += _named("only in the baseline", self.only_baseline)
        lines += _named("with other inputs or another expectation, not compared", self.changed)
        lines += _named("not decided, not compared", self.undecided)
        return "\n".join(lines)


def _rounded(difference: float) -> float:
    """Return a difference without the rounding errors of its operands, which make it differ from 0."""
    return round(difference, _DIGITS) + 0.0  # which -0.0 is not after it


def _named(title: str, names: Sequence[str]) -> list[str]:
    if not names:
        return []
    shown, more = ", ".join(names[:_SHOWN_CASES]), len(names) - _SHOWN_CASES
    return [f"{len(names)} {title}: {shown}" + (f" and {more} more" if more > 0 else "")]


def compare_cases(
    current: Sequence[CaseResult], baseline: Sequence[CaseResult], *, confidence: float, seed: int
) -> Comparison:
    """Compare the cases of two reports.

    Args:
        current: The cases of the current report.
        baseline: The cases of the earlier report.
        confidence: The confidence of the verdict.
        seed: The seed of the resampling.

    Raises:
        UndecidedError: No case was decided in both.
    """
    earlier = {case.name: case for case in baseline}
    names = {case.name for case in current}
    common = [(case, earlier[case.name]) for case in current if case.name in earlier]
    changed = {now.name for now, then in common if now.digest and then.digest and now.digest != then.digest}
    undecided = {
        now.name for now, then in common if now.name not in changed and not (now.decided and then.decided)
    }
    pairs = tuple(
        CaseDifference(name=now.name, current=now.pass_rate, baseline=then.pass_rate)
        for now, then in common
        if now.name not in changed and now.name not in undecided
    )
    if not pairs:
        raise UndecidedError(
            "There is nothing to compare: no case with the same name, inputs and expectation was decided in "
            "both reports."
        )
    differences = [each.difference for each in pairs]
    p_value = statistics.paired_p_value(differences, seed=seed)
    is_decided = p_value <= 1 - confidence
    return Comparison(
        cases=pairs,
        difference=_rounded(fmean(differences)),
        interval=statistics.bootstrap_interval(
            differences, confidence=confidence, seed=seed, bounds=(-1.0, 1.0)
        ),
        p_value=p_value,
        effect_size=statistics.effect_size(differences),
        cases_needed=None if is_decided else statistics.cases_needed(differences, confidence=confidence),
        confidence=confidence,
        only_current=tuple(case.name for case in current if case.name not in earlier),
        only_baseline=tuple(name for name in earlier if name not in names),
        changed=tuple(now.name for now, _ in common if now.name in changed),
        undecided=tuple(now.name for now, _ in common if now.name in undecided),
    )

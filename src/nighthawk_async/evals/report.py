"""Reports: the results of all trials of an evaluation, and the figures that follow from them."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from statistics import fmean
from typing import Any

from ..prompt.plain_text import single_line
from ..types.usage import Usage, cost_text
from . import statistics
from .cases import trial_seed
from .comparison import Comparison, compare_cases
from .errors import ReportError, UndecidedError
from .report_file import CaseHeader, ReportHeader, read_report, write_report
from .results import RELIABILITIES, STATUSES, CaseResult, Reliability, TrialResult, TrialStatus
from .scores import DEFAULT_PASS_MARK
from .statistics import DEFAULT_CONFIDENCE, Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The report of an evaluation. Figures are means over cases, in which every case counts the same.

    Args:
        subject: The name of the subject, `module:function`.
        cases: The cases with their trials, in the order of the evaluation.
        scorers: The names of the scorers.
        trials_per_case: The number of trials of each case.
        seed: The seed of the evaluation.
        pass_mark: The least score that passes.
        confidence: The confidence of intervals.
        model: The model id of the executor, when it has one.
        subject_digest: The digest of the source of the subject; None when it has none.
        created_at: The time at which the evaluation began, in Unix seconds.
        commit: The commit of Git in whose working tree it was made; None where there is none.
    """

    subject: str
    cases: tuple[CaseResult, ...]
    scorers: tuple[str, ...]
    trials_per_case: int
    seed: int = 0
    pass_mark: float = DEFAULT_PASS_MARK
    confidence: float = DEFAULT_CONFIDENCE
    model: str | None = None
    subject_digest: str | None = field(default=None, compare=False)
    created_at: float = field(default=0.0, compare=False)
    commit: str | None = field(default=None, compare=False)

    @property
    def trials(self) -> tuple[TrialResult, ...]:
        """All trials, case by case."""
        return tuple(trial for case in self.cases for trial in case.trials)

    def case(self, name: str) -> CaseResult:
        """The case of a name.

        Raises:
            KeyError: There is none.
        """
        for each in self.cases:
            if each.name == name:
                return each
        raise KeyError(name)

    @property
    def counts(self) -> Mapping[TrialStatus, int]:
        """The number of trials of each status; all six are there."""
        counts = dict.fromkeys(STATUSES, 0)
        for trial in self._each_trial():
            counts[trial.status] += 1
        return counts

    @property
    def decided(self) -> int:
        """The number of decided trials."""
        return sum(case.decided for case in self.cases)

    @property
    def pass_rate(self) -> float:
        """The mean part of trials that passed, over the cases that have decided trials; `pass_at(1)`.

        Raises:
            UndecidedError: No trial was decided.
        """
        return fmean(self._pass_rates())

    def pass_at(self, k: int) -> float:
        """Return the estimated probability that at least one of k trials of a case passes (pass@k), unbiased.

        A case with fewer than k decided trials is left out of the mean.

        Args:
            k: The number of trials, at most `trials_per_case`.

        Raises:
            EvaluationError: k is not possible.
            UndecidedError: No case has k decided trials.
        """
        return fmean(self._estimates(k, statistics.pass_at))

    def pass_all(self, k: int) -> float:
        """Return the estimated probability that all of k trials of a case pass (pass^k), unbiased.

        Arguments and errors are those of `pass_at`.
        """
        return fmean(self._estimates(k, statistics.pass_all))

    @property
    def interval(self) -> Interval:
        """The confidence interval of `pass_rate`: a bootstrap over cases, seeded.

        Raises:
            UndecidedError: No trial was decided.
        """
        return _interval(tuple(self._pass_rates()), self.confidence, self.seed)

    def mean_score(self, scorer: str) -> float:
        """Return the mean of the values of a scorer, first over the trials of each case and then over cases.

        Args:
            scorer: The name of the scorer.

        Raises:
            KeyError: There is no scorer of that name.
            UndecidedError: It has scored no trial.
        """
        if scorer not in self.scorers:
            raise KeyError(scorer)
        means = [
            fmean(values)
            for case in self.cases
            if (values := [trial.scores[scorer].value for trial in case.trials if scorer in trial.scores])
        ]
        if not means:
            raise UndecidedError(f"The scorer {scorer!r} has scored no trial.")
        return fmean(means)

    @property
    def usage(self) -> Usage:
        """The usage of everything: of the subject and of the scorers."""
        return self.subject_usage + self.scoring_usage

    @property
    def subject_usage(self) -> Usage:
        """The usage of the subject, in all trials and attempts."""
        return sum((trial.usage for trial in self._each_trial()), Usage())

    @property
    def scoring_usage(self) -> Usage:
        """The usage of the scorers."""
        return sum((trial.scoring_usage for trial in self._each_trial()), Usage())

    @property
    def seconds(self) -> float:
        """The mean time of a decided trial, in seconds.

        Raises:
            UndecidedError: No trial was decided.
        """
        times = [trial.seconds for trial in self._each_trial() if trial.is_decided]
        if not times:
            raise UndecidedError(self._undecided())
        return fmean(times)

    @property
    def reliability(self) -> Mapping[Reliability, int]:
        """The number of cases whose decided trials all passed, or none of which did, or some; all four."""
        counts = dict.fromkeys(RELIABILITIES, 0)
        for case in self.cases:
            counts[case.reliability] += 1
        return counts

    @property
    def flaky(self) -> tuple[str, ...]:
        """The names of the cases of which some decided trials passed and others did not."""
        return tuple(case.name for case in self.cases if case.reliability == "flaky")

    @property
    def pass_rate_by_tag(self) -> Mapping[str, float]:
        """The pass rate over the cases of each tag, the worst first; tags without a decided trial are out."""
        tags = dict.fromkeys(tag for case in self.cases for tag in case.tags)
        parts = {tag: self.part(lambda case, tag=tag: tag in case.tags) for tag in tags}
        rates = {tag: part.pass_rate for tag, part in parts.items() if part.decided}
        return dict(sorted(rates.items(), key=lambda each: (each[1], each[0])))

    @property
    def worst_tag(self) -> str | None:
        """The tag with the lowest pass rate; None without tags."""
        return next(iter(self.pass_rate_by_tag), None)

    @property
    def cost_per_solved_case(self) -> Decimal | None:
        """The cost of everything for each case of which most decided trials passed, in US dollars.

        None when no case was solved, or the price of a request is not known.
        """
        solved = sum(case.is_solved for case in self.cases)
        return self.usage.cost / solved if solved and not self.usage.unpriced_requests else None

    def part(self, holds: Callable[[CaseResult], bool]) -> "Report":
        """Return the report on some of the cases.

        Args:
            holds: Whether a case is one of them.
        """
        return replace(self, cases=tuple(filter(holds, self.cases)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report as JSON lines, in place of a file that may be there.

        Args:
            path: The path of the file.

        Raises:
            OSError: It cannot be written.
        """
        write_report(path, self._header(), self._each_trial())

    def compare(
        self, baseline: "Report | str | os.PathLike[str]", *, any_subject: bool = False
    ) -> Comparison:
        """Compare this report with an earlier one, by the cases that both have.

        Args:
            baseline: The earlier report, or the path of its file.
            any_subject: Whether it may be the report of another subject.

        Raises:
            ReportError: The file cannot be read, or the report is one of another subject.
            UndecidedError: No case was decided in both.
        """
        earlier = loaded_report(baseline)
        if earlier.subject != self.subject and not any_subject:
            raise ReportError(
                f"The baseline is a report on {earlier.subject}, not on {self.subject}; compare them with "
                "any_subject=True."
            )
        return compare_cases(self.cases, earlier.cases, confidence=self.confidence, seed=self.seed)

    def __str__(self) -> str:
        """The figures in a few lines of text."""
        counts = self.counts
        lines = [f"{self.subject}: {len(self.cases)} cases, {self.trials_per_case} trials each"]
        if self.decided:
            lines.append(
                f"pass rate {self.pass_rate:.3f} ({self.interval}, {self.confidence:.0%} confidence)"
            )
        lines.append(
            ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in counts.items() if count)
        )
        lines += reliability_lines(self)
        usage = self.usage
        lines.append(f"{usage.requests} requests, {usage}")
        return "\n".join(lines)

    def _header(self) -> ReportHeader:
        return ReportHeader(
            subject=self.subject,
            subject_digest=self.subject_digest,
            scorers=self.scorers,
            trials_per_case=self.trials_per_case,
            seed=self.seed,
            pass_mark=self.pass_mark,
            confidence=self.confidence,
            model=self.model,
            created_at=self.created_at,
            commit=self.commit,
            cases=tuple(CaseHeader.of(case) for case in self.cases),
        )

    def _each_trial(self) -> Iterator[TrialResult]:
        return (trial for case in self.cases for trial in case.trials)

    def _pass_rates(self) -> list[float]:
        rates = [case.pass_rate for case in self.cases if case.decided]
        if not rates:
            raise UndecidedError(self._undecided())
        return rates

    def _estimates(self, k: int, estimate: Any) -> list[float]:
        statistics.check_k(k, self.trials_per_case)
        estimates = [
            estimate(k, trials=case.decided, passed=case.passed) for case in self.cases if case.decided >= k
        ]
        if not estimates:
            raise UndecidedError(
                self._undecided() if not self.decided else f"No case has {k} decided trials."
            )
        return estimates

    def _undecided(self) -> str:
        reason = next((trial.error for trial in self._each_trial() if trial.error), "")
        return f"No trial of {self.subject} was decided" + (f": {reason}" if reason else ".")


def solved_cost_text(report: Report) -> str:
    """Return the cost of each solved case in US dollars; empty when it is unknown, or none was solved.

    Args:
        report: The report.
    """
    cost = report.cost_per_solved_case
    return "" if cost is None else cost_text(replace(report.usage, cost=cost))


def reliability_lines(report: Report) -> list[str]:
    """Return the reliability of several trials, flaky cases first, and the worst of several tags, in words.

    Args:
        report: The report. One with a trial for each case says nothing of reliability.
    """
    lines: list[str] = []
    if report.trials_per_case > 1 and report.decided:
        flaky = f" ({_shortened(report.flaky)})" if report.flaky else ""
        counts = report.reliability
        lines.append(
            f"{counts['flaky']} flaky{flaky}, {counts['all_fail']} failed always, "
            f"{counts['all_pass']} passed always"
        )
    rates = report.pass_rate_by_tag
    if len(rates) > 1:
        worst, rate = next(iter(rates.items()))
        lines.append(f"worst tag: {worst}, {rate:.3f}")
    return lines


_MOST_NAMES = 5


def _shortened(names: Sequence[str]) -> str:
    """Return the first of some names, and the number of the others."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


@lru_cache(maxsize=64)
def _interval(rates: tuple[float, ...], confidence: float, seed: int) -> Interval:
    return statistics.bootstrap_interval(rates, confidence=confidence, seed=seed)


def load_report(path: str | os.PathLike[str]) -> Report:
    """Read a report from a file.

    Trials that are not in it were not run. A last line that was not written completely is left out.

    Args:
        path: The path of the file.

    Raises:
        ReportError: It is not there, is no report, has another version, or a line is damaged.
    """
    stored = read_report(path)
    return report_of(stored.header, stored.trials)


def loaded_report(report: Report | str | os.PathLike[str]) -> Report:
    """Return a report that is given as itself, or as the path of its file.

    Raises:
        ReportError: The file cannot be read.
    """
    return report if isinstance(report, Report) else load_report(report)


def report_of(header: ReportHeader, trials: Mapping[tuple[str, int], TrialResult]) -> Report:
    """Return the report of these trials; all others of the header's cases were not run.

    Args:
        header: The evaluation.
        trials: The results by case and number.
    """
    cases = tuple(
        CaseResult(
            name=case.name,
            inputs=case.inputs,
            expected=case.expected,
            tags=case.tags,
            digest=case.digest,
            severity=case.severity,
            trials=tuple(
                trials.get((case.name, number))
                or TrialResult(
                    case=case.name,
                    number=number,
                    status="not_run",
                    seed=trial_seed(header.seed, case.name, number),
                    error="it is not in the report",
                )
                for number in range(1, header.trials_per_case + 1)
            ),
        )
        for case in header.cases
    )
    return Report(
        subject=header.subject,
        subject_digest=header.subject_digest,
        cases=cases,
        scorers=header.scorers,
        trials_per_case=header.trials_per_case,
        seed=header.seed,
        pass_mark=header.pass_mark,
        confidence=header.confidence,
        model=header.model,
        created_at=header.created_at,
        commit=header.commit,
    )


_MOST_CHARACTERS = 120
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~#@&])")


def escaped(text: str) -> str:
    """Return a text as Markdown shows it, in one line; the end of a long one is left out."""
    return _SPECIAL.sub(r"\\\1", single_line(" ".join(text.split()), _MOST_CHARACTERS))

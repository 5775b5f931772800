"""Grids: the reports of several arms on the same cases, and what follows from them together."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from ..types.usage import Usage
from .comparison import Comparison, Verdict
from .errors import EvaluationError, ReportError, UndecidedError
from .grid_plot import Point, scatter_plot
from .markdown import escaped
from .report import Report, load_report
from .seeds import case_order
from .statistics import Interval, holm
from .stopping import Passes, pair_evidence

STOPPED = "stopped early: "
"""The beginning of the reason why trials of a stopped arm were not run."""

Criterion: TypeAlias = Literal["pass_rate", "cost", "seconds", "requests"]
"""A figure by which arms are better or worse: more passes, less of everything else."""

CRITERIA: tuple[Criterion, ...] = get_args(Criterion)
_TITLES: Mapping[Criterion, str] = {
    "pass_rate": "pass rate",
    "cost": "cost of a trial ($)",
    "seconds": "seconds of a trial",
    "requests": "requests of a trial",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmFigures:
    """The figures of an arm; None for those that nothing is known about.

    Args:
        name: The name of the arm.
        report: Its report.
        pass_rate: Its pass rate: the mean over cases.
        interval: The confidence interval of the pass rate.
        cost: The mean cost of a decided trial, without scorers, in US dollars; None if a price is unknown.
        seconds: The mean time of a decided trial.
        requests: The mean number of model requests, round trips, of a decided trial.
        stopped: The reason why it was stopped early; None if it was not.
        is_on_front: Whether it is on the Pareto front of all criteria: no other arm is at least as good by
            all of them, and better by one.
    """

    name: str
    report: Report
    pass_rate: float | None
    interval: Interval | None
    cost: Decimal | None
    seconds: float | None
    requests: float | None
    stopped: str | None
    is_on_front: bool

    @property
    def tried_cases(self) -> int:
        """The number of cases with decided trials."""
        return sum(case.decided > 0 for case in self.report.cases)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmComparison:
    """The comparison of two arms on the cases that both have tried.

    Args:
        arm: The name of the one arm.
        other: The name of the arm that it is compared with.
        comparison: The comparison by itself; positive differences when `arm` is better.
        p_value: The p-value of the pair by itself. It is that of the paired permutation test, unless one of
            the two was stopped early: then it is one that stays valid although the data decided when to stop.
        adjusted_p_value: The p-value, corrected by the method of Holm for all pairs of the grid.
    """

    arm: str
    other: str
    comparison: Comparison
    p_value: float
    adjusted_p_value: float

    @property
    def verdict(self) -> Verdict:
        """Whether `arm` improves on `other`, after correction: improved, regressed or inconclusive."""
        if self.adjusted_p_value > 1 - self.comparison.confidence or not self.comparison.difference:
            return "inconclusive"
        return "improved" if self.comparison.difference > 0 else "regressed"


class Grid:
    """The reports of the arms of a grid: `print(grid)` shows them as a table in Markdown.

    Args:
        reports: The reports by the names of the arms, all on the same cases with the same settings.

    Raises:
        EvaluationError: There are no reports, or they are of different cases or settings.
    """

    def __init__(self, reports: Mapping[str, Report]) -> None:
        self.reports = dict(reports)
        if not self.reports:
            raise EvaluationError("A grid has at least one report.")
        first, *others = self.reports.values()
        if any(_shape(each) != _shape(first) for each in others):
            raise EvaluationError(
                "The reports of a grid are on the same cases, with the same scorers, trials, seed, pass mark "
                "and confidence."
            )
        self._first = first

    @cached_property
    def arms(self) -> tuple[ArmFigures, ...]:
        """The figures of the arms, in their order."""
        front = set(self.pareto_front())
        return tuple(_figures(name, report, name in front) for name, report in self.reports.items())

    def arm(self, name: str) -> ArmFigures:
        """The figures of an arm.

        Raises:
            KeyError: There is no arm of that name.
        """
        for each in self.arms:
            if each.name == name:
                return each
        raise KeyError(name)

    @cached_property
    def best(self) -> ArmFigures:
        """The arm with the greatest pass rate that was not stopped; of equal ones the cheapest.

        Raises:
            UndecidedError: No arm has a decided trial.
        """
        running = [each for each in self.arms if each.stopped is None and each.pass_rate is not None]
        if not running:
            raise UndecidedError("No arm of the grid has a decided trial.")
        return min(running, key=lambda each: (-(each.pass_rate or 0.0), each.cost or 0))

    def pareto_front(self, *criteria: Criterion) -> tuple[str, ...]:
        """Return the names of arms that no other arm dominates.

        An arm dominates another one if it is at least as good by all criteria, and better by one. Criteria
        that are unknown for an arm do not count.

        Args:
            criteria: The criteria; none for all.

        Raises:
            EvaluationError: There is no such criterion.
        """
        chosen: tuple[Criterion, ...] = criteria or CRITERIA
        for each in chosen:
            _checked_criterion(each)
        figures = [_figures(name, report, False) for name, report in self.reports.items()]
        figures = [each for each in figures if each.pass_rate is not None]
        known: list[Criterion] = [
            each for each in chosen if all(getattr(arm, each) is not None for arm in figures)
        ]
        losses = {arm.name: [_loss(arm, each) for each in known] for arm in figures}
        return tuple(
            name for name, loss in losses.items() if not any(_dominates(o, loss) for o in losses.values())
        )

    @cached_property
    def comparisons(self) -> tuple[ArmComparison, ...]:
        """The comparisons of all pairs of arms that have cases in common, corrected by the method of Holm."""
        pairs: list[tuple[str, str, Comparison, float]] = []
        for name, other in combinations(self.reports, 2):
            try:
                comparison = self.reports[name].compare(self.reports[other], any_subject=True)
            except UndecidedError:
                continue
            pairs.append((name, other, comparison, self._p_value(name, other, comparison)))
        adjusted = holm([p_value for *_, p_value in pairs])
        return tuple(
            ArmComparison(arm=name, other=other, comparison=each, p_value=p_value, adjusted_p_value=corrected)
            for (name, other, each, p_value), corrected in zip(pairs, adjusted, strict=True)
        )

    def _p_value(self, name: str, other: str, comparison: Comparison) -> float:
        reports = self.reports[name], self.reports[other]
        if all(stop_reason(report) is None for report in reports):
            return comparison.p_value
        ours, theirs = map(_passes, reports)
        trials = self._first.trials_per_case
        greatest = max(pair_evidence(*pair, trials=trials) for pair in ((ours, theirs), (theirs, ours)))
        return min(1.0, 2 * trials / greatest)

    @property
    def usage(self) -> Usage:
        """The usage of all arms, scorers included."""
        return sum((each.usage for each in self.reports.values()), Usage())

    def plot(self, against: Criterion = "cost") -> str:
        """Return a picture as SVG: pass rates with their intervals against another criterion, and the front.

        Args:
            against: The criterion of the horizontal axis.

        Raises:
            EvaluationError: There is no such criterion.
            UndecidedError: No arm has both figures.
        """
        _checked_criterion(against)
        if against == "pass_rate":
            raise EvaluationError("A plot shows the pass rate against another criterion.")
        front = self.pareto_front("pass_rate", against)
        points = [
            Point(
                name=arm.name,
                across=float(across),
                up=arm.pass_rate,
                low=arm.interval.low,
                high=arm.interval.high,
                is_on_front=arm.name in front,
                is_faint=arm.stopped is not None,
            )
            for arm in self.arms
            if (across := getattr(arm, against)) is not None
            and arm.pass_rate is not None
            and arm.interval is not None
        ]
        if not points:
            raise UndecidedError(f"No arm has a pass rate and a figure for {against!r}.")
        return scatter_plot(points, across=_TITLES[against], up=_TITLES["pass_rate"])

    def __str__(self) -> str:
        """The figures and the comparisons as tables in Markdown. A star marks the Pareto front."""
        rows = [
            (
                f"{escaped(arm.name)}{' *' if arm.is_on_front else ''}",
                f"{arm.tried_cases} of {len(arm.report.cases)}",
                "-" if arm.pass_rate is None else f"{arm.pass_rate:.3f} ({arm.interval})",
                "-" if arm.cost is None else f"${arm.cost:.4f}",
                "-" if arm.seconds is None else f"{arm.seconds:.2f} s",
                "-" if arm.requests is None else f"{arm.requests:.2f}",
                escaped(arm.stopped or ""),
            )
            for arm in self.arms
        ]
        lines = _table(("arm", "cases", "pass rate", "cost", "time", "requests", "stopped"), rows)
        if self.comparisons:
            pairs = [
                (
                    f"{escaped(each.arm)} - {escaped(each.other)}",
                    f"{each.comparison.difference:+.3f}",
                    f"{each.adjusted_p_value:.4f}",
                    each.verdict,
                )
                for each in self.comparisons
            ]
            lines += ["", *_table(("pair", "difference", "p (Holm)", "verdict"), pairs)]
        return "\n".join(lines)


def load_grid(folder: str | os.PathLike[str]) -> Grid:
    """Read the grid of a folder of reports, one file for each arm.

    Args:
        folder: The folder that `evaluate_grid` has written.

    Raises:
        ReportError: It holds no report, or a report cannot be read.
        EvaluationError: The reports do not belong to one grid.
    """
    reports = [load_report(path) for path in sorted(Path(folder).glob("*.jsonl"))]
    if not reports:
        raise ReportError(f"The folder {os.fspath(folder)} holds no reports.")
    return Grid({each.subject: each for each in sorted(reports, key=lambda each: each.created_at)})


def stop_reason(report: Report) -> str | None:
    """Return the reason why an arm was stopped early; None if it was not."""
    reasons = (trial.error for trial in report.trials if trial.status == "not_run")
    return next((each.removeprefix(STOPPED) for each in reasons if each.startswith(STOPPED)), None)


def _figures(name: str, report: Report, is_on_front: bool) -> ArmFigures:
    decided = [trial for trial in report.trials if trial.is_decided]
    usage = sum((trial.usage for trial in decided), Usage())
    count = len(decided)
    return ArmFigures(
        name=name,
        report=report,
        pass_rate=report.pass_rate if count else None,
        interval=report.interval if count else None,
        cost=None if not count or usage.unpriced_requests else usage.cost / count,
        seconds=report.seconds if count else None,
        requests=usage.requests / count if count else None,
        stopped=stop_reason(report),
        is_on_front=is_on_front,
    )


def _passes(report: Report) -> Passes:
    """Return the results of an arm in the random order in which its cases were tried."""
    return [
        [trial.has_passed if trial.is_decided else None for trial in case.trials]
        for case in case_order(report.seed, report.cases)
    ]


def _loss(arm: ArmFigures, criterion: Criterion) -> float:
    return -float(getattr(arm, criterion)) if criterion == "pass_rate" else float(getattr(arm, criterion))


def _dominates(loss: Sequence[float], other: Sequence[float]) -> bool:
    return loss != other and all(ours <= theirs for ours, theirs in zip(loss, other, strict=True))


def _shape(report: Report) -> object:
    cases = tuple((case.name, case.digest) for case in report.cases)
    settings = (report.trials_per_case, report.seed, report.pass_mark, report.confidence)
    return cases, report.scorers, settings


def _checked_criterion(criterion: str) -> None:
    if criterion not in CRITERIA:
        raise EvaluationError(f"A criterion is one of {', '.join(CRITERIA)}, not {criterion!r}.")


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [titles, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(titles))]
    lines = [
        f"| {' | '.join(text.ljust(width) for text, width in zip(row, widths, strict=True))} |"
        for row in cells
    ]
    return [lines[0], f"|{'|'.join('-' * (width + 2) for width in widths)}|", *lines[1:]]

"""Grids: the reports of several arms on the same cases, and what follows from them together.

A gambler bets, case by case, that one arm is better than another. The wealth after a case with the difference
d (between -1 and 1) is multiplied by 1 + b·d, for a fixed stake b below 1; the mean over nine stakes is used.
If the arm is not better, so that the expected difference of a random case is at most 0, the wealth is a
supermartingale, and the probability that it ever reaches x is at most 1/x (Ville's inequality). So looking
after every case costs nothing, unlike with an ordinary p-value.

With trials 1 to R of each case there are R gamblers for each pair, one for the means of the first r trials.
An arm is stopped if a gambler against it has reached (arms - 1)·R/alpha. For the best arm to be stopped, one
of the (arms - 1)·R gamblers against it must do so, though it has no edge: the probability of that is at most
alpha.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from html import escape
from itertools import combinations, permutations
from pathlib import Path
from statistics import fmean
from typing import Literal, TypeAlias, get_args

from ..prompt.plain_text import single_line
from ..types.usage import Usage
from .cases import case_order
from .comparison import Comparison, Verdict
from .errors import EvaluationError, ReportError, UndecidedError
from .report import Report, escaped, load_report
from .statistics import Interval, holm

_WIDTH, _HEIGHT = 640, 400
_NAME_CHARACTERS = 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 160, 20, 50
_STYLE = (
    "text{font:12px sans-serif;fill:#333}line,polyline{stroke:#999;fill:none}circle{fill:#3366cc}"
    ".front{stroke:#3366cc;stroke-dasharray:4 3}.off{fill:#999}.faint{opacity:.45}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point with an interval.

    Args:
        name: Its label.
        across: Its place on the horizontal axis, 0 or more.
        up: Its place on the vertical axis, from 0 to 1.
        low: The lower end of its interval.
        high: The upper end of its interval.
        is_on_front: Whether the line of the Pareto front goes through it.
        is_faint: Whether it is drawn faintly.
    """

    name: str
    across: float
    up: float
    low: float
    high: float
    is_on_front: bool
    is_faint: bool


def scatter_plot(points: Sequence[Point], *, across: str, up: str) -> str:
    """Return the plot of points as a whole SVG document.

    Args:
        points: The points; at least one.
        across: The title of the horizontal axis.
        up: The title of the vertical axis.
    """
    right = max(point.across for point in points) * 1.05 or 1.0
    bottom, end = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT

    def x(value: float) -> float:
        return round(_LEFT + value / right * (end - _LEFT), 1)

    def y(value: float) -> float:
        return round(bottom - value * (bottom - _TOP), 1)

    parts = [
        f'<line x1="{_LEFT}" y1="{bottom}" x2="{end}" y2="{bottom}"/>',
        f'<line x1="{_LEFT}" y1="{_TOP}" x2="{_LEFT}" y2="{bottom}"/>',
        *(svg_text(_LEFT - 8, y(part / 4) + 4, f"{part / 4:.2f}", "end") for part in range(5)),
        *(
            svg_text(x(right * part / 4), bottom + 18, f"{right * part / 4:.3g}", "middle")
            for part in range(5)
        ),
        svg_text((_LEFT + end) / 2, _HEIGHT - 10, across, "middle"),
        svg_text(8, 14, up, "start"),
    ]
    front = sorted((point for point in points if point.is_on_front), key=lambda each: each.across)
    if len(front) > 1:
        places = " ".join(f"{x(point.across)},{y(point.up)}" for point in front)
        parts.append(f'<polyline class="front" points="{places}"/>')
    for point in points:
        place = x(point.across)
        kind = " ".join(
            name for name, is_so in (("off", not point.is_on_front), ("faint", point.is_faint)) if is_so
        )
        parts += [
            f'<g class="{kind}">'
            f'<line x1="{place}" y1="{y(point.low)}" x2="{place}" y2="{y(point.high)}"/>'
            f'<circle class="{kind}" cx="{place}" cy="{y(point.up)}" r="5"/>'
            f"<title>{svg_escaped(point.name)}: {point.up:.3f}, {point.across:.4g}</title>"
            f"{svg_text(place + 9, y(point.up) + 4, point.name, 'start')}</g>"
        ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
        f"<title>{escape(up)} by {escape(across)}</title><style>{_STYLE}</style>"
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>{"".join(parts)}</svg>'
    )


def svg_text(x: float, y: float, text: str, anchor: str, *, is_turned: bool = False) -> str:
    """Return a text of a plot.

    Args:
        x: The place of its anchor.
        y: The same.
        text: The text.
        anchor: `start`, `middle` or `end`.
        is_turned: Whether it is written upwards to the right, where others stand beside it.
    """
    turn = f' transform="rotate(-45 {x} {y})"' if is_turned else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{turn}>{svg_escaped(text)}</text>'


def svg_escaped(text: str) -> str:
    """Return a text for XML, which has no control characters."""
    return escape(single_line(text, _NAME_CHARACTERS).translate({0xFFFE: " ", 0xFFFF: " "}))


_STAKES = tuple(tenths / 10 for tenths in range(1, 10))


class Gambler:
    """Bets, case by case, that the mean difference is greater than 0.

    If it is not, `greatest` is ever at least x with a probability of at most 1/x.

    Attributes:
        greatest: The greatest wealth that was reached.
    """

    def __init__(self) -> None:
        self._wealths = [1.0] * len(_STAKES)
        self.greatest = 1.0

    def bet(self, difference: float) -> None:
        """Bet on a case.

        Args:
            difference: Its difference, from -1 to 1. The order of cases must not depend on differences.
        """
        if not difference:
            return
        self._wealths = [
            wealth * (1 + stake * difference) for wealth, stake in zip(self._wealths, _STAKES, strict=True)
        ]
        self.greatest = max(self.greatest, sum(self._wealths) / len(_STAKES))


def evidence(differences: Iterable[float]) -> float:
    """Return the greatest wealth that a gambler has reached.

    Args:
        differences: One difference per case, from -1 to 1, in an order that does not depend on them.
    """
    gambler = Gambler()
    for difference in differences:
        gambler.bet(difference)
    return gambler.greatest


def needed_evidence(*, arms: int, trials: int, confidence: float) -> float:
    """Return the wealth at which an arm is stopped.

    Args:
        arms: The number of arms in the grid, stopped ones included.
        trials: The number of trials of each case.
        confidence: The probability that the best arm is not stopped.
    """
    return (arms - 1) * trials / (1 - confidence)


Passes = Sequence[Sequence[bool | None]]
"""The results of an arm, case by case and trial by trial; None for a trial that is not decided."""


def pair_evidence(better: Passes, worse: Passes, *, trials: int) -> float:
    """Return the evidence that one arm is better than another: that of the most convinced gambler.

    Args:
        better: The results of the one arm, in the random order of the cases.
        worse: The results of the other arm, in the same order.
        trials: The number of trials of each case that have been run.
    """
    return max(
        (evidence(_differences(better, worse, first=first)) for first in range(1, trials + 1)), default=1.0
    )


def _differences(better: Passes, worse: Passes, *, first: int) -> Iterable[float]:
    """Yield the differences of pass rates over the first trials; cases that one arm lacks are left out."""
    for ours, theirs in zip(better, worse, strict=True):
        rates = [_rate(ours, first), _rate(theirs, first)]
        if rates[0] is not None and rates[1] is not None:
            yield rates[0] - rates[1]


def _rate(trials: Sequence[bool | None], first: int) -> float | None:
    """Return the pass rate of the first trials; None if not all have been run, or none is decided."""
    decided = [each for each in trials[:first] if each is not None]
    return sum(decided) / len(decided) if decided and len(trials) >= first else None


class StoppingRule:
    """The rule for one grid. It sees every block of cases once, and keeps its gamblers between looks.

    Args:
        arms: The number of arms in the grid.
        trials_per_case: The number of trials of each case in the whole grid.
        confidence: The probability that the best arm is not stopped.
    """

    def __init__(self, *, arms: int, trials_per_case: int, confidence: float) -> None:
        self._needed = needed_evidence(arms=arms, trials=trials_per_case, confidence=confidence)
        self._round = 0
        self._rates: dict[str, dict[int, float]] = {}
        self._gamblers: dict[tuple[str, str], Gambler] = {}
        self._evidence: dict[tuple[str, str], float] = {}

    def look(self, results: Mapping[str, Passes], *, trials: int, start: int) -> dict[str, str]:
        """Return the arms to stop, each with the arm that is better. At least one arm is left.

        Args:
            results: The results of the arms that are not stopped, of the cases of a block.
            trials: The number of trials of these cases that have been run.
            start: The place of the first of them in the random order of the cases.
        """
        if trials != self._round:  # new gamblers, for the means of more trials
            self._round = trials
            self._gamblers.clear()
        rates = {name: [_rate(row, trials) for row in rows] for name, rows in results.items()}
        for name, found in rates.items():
            known = self._rates.setdefault(name, {})
            known.update((place, rate) for place, rate in enumerate(found, start) if rate is not None)
        for pair in permutations(rates, 2):
            self._bet(pair, rates[pair[0]], rates[pair[1]])
        return self._stopped(list(results))

    def _bet(
        self, pair: tuple[str, str], ours: Sequence[float | None], theirs: Sequence[float | None]
    ) -> None:
        gambler = self._gamblers.setdefault(pair, Gambler())
        for our, their in zip(ours, theirs, strict=True):
            if our is not None and their is not None:
                gambler.bet(our - their)
        self._evidence[pair] = max(self._evidence.get(pair, 1.0), gambler.greatest)

    def _stopped(self, running: Sequence[str]) -> dict[str, str]:
        means = {name: fmean(rates.values()) if (rates := self._rates[name]) else 0.0 for name in running}
        best_first = sorted(running, key=lambda each: -means[each])
        stopped: dict[str, str] = {}
        for name in sorted(running, key=lambda each: means[each]):
            for other in best_first:
                if other != name and other not in stopped and self._evidence[other, name] >= self._needed:
                    stopped[name] = other
                    break
        return stopped


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

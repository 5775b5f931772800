"""What a goal is, and how a run's figures stand to goals. It knows no goal, and shows nothing."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..measure import Result
from ..metrics import Metric, metric_called
from .compare import SPREADS
from .document import Report

__all__ = ["Check", "Goal", "Judgement", "Limit", "Line", "Verdict", "judge"]

Verdict: TypeAlias = Literal["met", "missed", "not measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Which result of a run is meant. What is None does not matter.

    Args:
        metric: The metric's name.
        benchmark: The benchmark's name.
        workload: The benchmark's workload.
        subject: The benchmark's subject.
        concurrency: Steps in flight at once.
    """

    metric: str
    benchmark: str | None = None
    workload: str | None = None
    subject: str | None = None
    concurrency: int | None = None

    @property
    def kind(self) -> Metric:
        """What the metric is."""
        return metric_called(self.metric)

    def find(self, report: Report) -> Result | None:
        """The result in a report, if it is there."""
        return report.result(
            self.metric,
            benchmark=self.benchmark,
            workload=self.workload,
            subject=self.subject,
            concurrency=self.concurrency,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What a figure may be at most: an amount, or one that grows with another figure of the same run.

    Args:
        amount: In the metric's unit.
        factor: How much of the other figure is added to the amount.
        of: The other figure; None for the amount alone.
        words: The limit in words.
    """

    amount: float = 0.0
    factor: float = 1.0
    of: Line | None = None
    words: str

    def in_run(self, report: Report) -> float | None:
        """The limit in a run; None when the other figure was not measured, or with steps that failed."""
        if self.of is None:
            return self.amount
        other = self.of.find(report)
        if other is None or report.errors_of(other.benchmark):
            return None
        return self.amount + self.factor * other.median


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One figure that has a limit.

    Args:
        line: The figure.
        limit: Its limit.
        name: What distinguishes the figure from the others of its goal.
        bound: A run fails when the figure is above this by more than noise explains; None for a figure that
            fails no run.
    """

    line: Line
    limit: Limit
    name: str
    bound: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A goal of the project.

    Args:
        title: What is to be quick or small.
        checks: All that must hold.
    """

    title: str
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """How one figure of a run stands to its limit.

    Args:
        goal: The goal.
        check: The figure and its limit.
        result: What was measured; None when it was not.
        limit: The limit in this run; None when it follows from a figure that was not measured.
        errors: How many operations of a round failed: what fails is no measure of what is to be done.
    """

    goal: Goal
    check: Check
    result: Result | None
    limit: float | None
    errors: float

    @property
    def value(self) -> float | None:
        """The figure that counts: the median, but of errors the most of any round."""
        if self.result is None:
            return None
        return self.result.worst if self.result.metric == "errors" else self.result.median

    @property
    def verdict(self) -> Verdict:
        """Whether the figure keeps to its limit."""
        if self.value is None or self.limit is None:
            return "not measured"
        return "met" if self.value <= self.limit and not self.errors else "missed"

    @property
    def noise(self) -> float:
        """The distance from the bound that noise explains."""
        spread = 0.0 if self.result is None else self.result.spread
        return max(self.check.line.kind.noise, SPREADS * spread)

    @property
    def exceeds_bound(self) -> bool:
        """Whether the figure is above its bound by more than noise explains."""
        if self.value is None or self.check.bound is None:
            return False
        return self.value - self.check.bound > self.noise


def judge(report: Report, goals: Iterable[Goal]) -> list[Judgement]:
    """How every figure that has a limit stands to it in a run."""
    return [_judgement(report, goal, check) for goal in goals for check in goal.checks]


def _judgement(report: Report, goal: Goal, check: Check) -> Judgement:
    result = check.line.find(report)
    return Judgement(
        goal=goal,
        check=check,
        result=result,
        limit=check.limit.in_run(report),
        errors=0.0 if result is None else report.errors_of(result.benchmark),
    )

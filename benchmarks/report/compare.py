"""Two runs side by side: what became worse by more than noise explains. It measures and shows nothing."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..measure import Result
from ..running import Outcome
from .document import Report

__all__ = ["Comparison", "Difference", "Verdict", "compare"]

Verdict: TypeAlias = Literal["worse", "better", "same"]

LEAST_SHARE = 0.1
"""A change by less than this share of the earlier median is noise, however still the rounds were."""

SPREADS = 3
"""A change by less than this many spreads of the more unsteady run is noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One line that both runs have.

    Args:
        before: The earlier run's result.
        after: This run's.
    """

    before: Result
    after: Result

    @property
    def noise(self) -> float:
        """The change that noise explains."""
        steady = max(self.after.kind.noise, SPREADS * max(self.before.spread, self.after.spread))
        if self.after.kind.unit == "count":
            return steady
        if self.after.kind.unit == "instructions":
            return self.after.kind.noise * self.before.median
        return max(steady, LEAST_SHARE * abs(self.before.median))

    @property
    def verdict(self) -> Verdict:
        """What the change means. Any more errors are worse; a figure that is only told is always the same."""
        kind = self.after.kind
        if kind.name == "errors":
            change, noise = self.after.worst - self.before.worst, 0.0
        else:
            change, noise = self.after.median - self.before.median, self.noise
        if kind.better is None or abs(change) <= noise:
            return "same"
        return "worse" if (change > 0) == (kind.better == "lower") else "better"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What became of the lines of an earlier run.

    Args:
        differences: The lines that both runs have.
        not_compared: What could not be compared, a line each, and why.
        cautions: Why the two runs may differ although the code is as fast as it was, or look alike although
            it is not.
    """

    differences: tuple[Difference, ...]
    not_compared: tuple[str, ...]
    cautions: tuple[str, ...]

    @property
    def regressions(self) -> list[Difference]:
        """The lines that became worse."""
        return [each for each in self.differences if each.verdict == "worse"]

    @property
    def improvements(self) -> list[Difference]:
        """The lines that became better."""
        return [each for each in self.differences if each.verdict == "better"]

    @property
    def is_good(self) -> bool:
        """Whether something was compared, and nothing became worse."""
        return bool(self.differences) and not self.regressions


def compare(before: Report, after: Report, *, chosen: Collection[str] | None = None) -> Comparison:
    """Compare a run with an earlier one.

    Args:
        before: The earlier run.
        after: This run.
        chosen: The benchmarks that this run was to measure: of the others, nothing is missed. None for all.
    """
    earlier = {(each.benchmark, each.metric): each for each in before.results}
    later = {(each.benchmark, each.metric): each for each in after.results}
    differences: list[Difference] = []
    not_compared: list[str] = []
    for key in [*earlier, *(key for key in later if key not in earlier)]:
        if chosen is not None and key[0] not in chosen:
            continue
        if key not in later:
            not_compared.append(f"{_line(key)}: {_why_missing(key[0], after)} in this run")
        elif key not in earlier:
            not_compared.append(f"{_line(key)}: {_why_missing(key[0], before)} in the earlier run")
        elif earlier[key].operations != later[key].operations:
            counts = f"{earlier[key].operations:,} operations a round before, {later[key].operations:,} now"
            not_compared.append(f"{_line(key)}: {counts}")
        else:
            differences.append(Difference(before=earlier[key], after=later[key]))
    return Comparison(
        differences=tuple(differences),
        not_compared=tuple(not_compared),
        cautions=tuple(_cautions(before, after)),
    )


def _line(key: tuple[str, str]) -> str:
    return f"{key[0]} ({key[1]})"


def _why_missing(benchmark: str, report: Report) -> str:
    """Why a report has no figures of a benchmark."""
    outcomes: dict[str, Outcome] = {each.benchmark: each for each in report.outcomes}
    if benchmark not in outcomes:
        return "not measured"
    return {"failed": "failed", "not here": "could not be measured", "measured": "without this figure"}[
        outcomes[benchmark].state
    ]


def _cautions(before: Report, after: Report) -> list[str]:
    """What keeps two runs from being compared at face value."""
    cautions = [
        f"{what}: {one} before, {other} now"
        for what, one, other in (
            ("Python", before.machine.python, after.machine.python),
            ("platform", before.machine.platform, after.machine.platform),
            ("architecture", before.machine.architecture, after.machine.architecture),
            ("processors", before.machine.processors, after.machine.processors),
        )
        if one != other
    ]
    if "quick" in (before.suite, after.suite):
        cautions.append("a quick run does too little for its times to count: a slowdown may go unseen")
    if any(outcome.load is not None and outcome.load.is_busy for outcome in before.outcomes):
        cautions.append("the machine was busy with other things during the earlier run")
    return cautions

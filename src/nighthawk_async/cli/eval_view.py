"""The progress of an evaluation: a bar on a terminal, elsewhere a line for each case."""

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from statistics import fmean

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ..evals.exports.markdown import side_by_side
from ..evals.gates import GateResult
from ..evals.report import Report, solved_cost_text
from ..evals.results import TrialResult
from ..prompt.plain_text import single_line
from ..types.usage import Usage, cost_text

_MOST_ROWS = 100
_REASON_CHARACTERS = 60
_LINE_CHARACTERS = 2_000
_STYLES = {
    "passed": "green",
    "tolerated": "yellow",
    "warned": "yellow",
    "noted": "blue",
    "failed": "red",
    "undecided": "magenta",
}


class EvaluationView:
    """Shows the trials of one evaluation as they end.

    Args:
        console: The console, on standard error.
        title: The name of the subject.
        cases: The number of cases.
        trials: The number of trials of each case.
        known: The trials that a report has already.

    Attributes:
        known: The number of decided trials that the report had already.
        spent: The cost of the trials that have ended since, in US dollars.
    """

    def __init__(
        self, console: Console, title: str, *, cases: int, trials: int, known: Report | None = None
    ) -> None:
        self._console = console
        self._title = title
        self._trials = trials
        self._total = cases * trials
        self._ended = Counter[str]()
        self._passed = Counter[str]()
        self._statuses = Counter[str]()
        self._usage = Usage()
        self.spent = Decimal(0)
        self._progress: Progress | None = None
        self.known = 0
        for trial in () if known is None else known.trials:
            if trial.is_decided:
                self._count(trial)
                self.known += 1

    @property
    def decided(self) -> int:
        """The number of decided trials so far."""
        return sum(self._statuses[status] for status in ("passed", "failed", "error"))

    @property
    def total(self) -> int:
        """The number of trials."""
        return self._total

    @contextmanager
    def showing(self) -> Generator[None, None, None]:
        """Show the trials meanwhile."""
        there = f", {self.known} of them in the report already" if self.known else ""
        if self.known == self._total:
            there = ", all of them in the report already; delete it to begin anew"
        self._line(f"{self._title}: {self._total} trials{there}")
        if not self._console.is_terminal:
            yield
            return
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
        with Progress(*columns, console=self._console, transient=True) as self._progress:
            self._progress.add_task(self._figures(), total=self._total, completed=sum(self._ended.values()))
            try:
                yield
            finally:
                self._progress = None

    def ended(self, trial: TrialResult) -> None:
        """Show a trial that has ended.

        Args:
            trial: The trial.
        """
        self._count(trial)
        self.spent += trial.usage.cost + trial.scoring_usage.cost
        if self._progress is not None:
            task = self._progress.task_ids[0]
            self._progress.update(task, completed=sum(self._ended.values()), description=self._figures())
            if not trial.has_passed and trial.status != "not_run":
                self._progress.console.print(_trial_line(trial), soft_wrap=True)
        elif not self._console.is_terminal and self._ended[trial.case] == self._trials:
            number = sum(count == self._trials for count in self._ended.values())
            reason = f": {trial.error}" if trial.error else ""
            self._line(
                f"[{number}] {trial.case}: {self._passed[trial.case]} of {self._trials} passed{reason}"
            )

    def _count(self, trial: TrialResult) -> None:
        self._ended[trial.case] += 1
        self._passed[trial.case] += trial.has_passed
        self._statuses[trial.status] += 1
        self._usage += trial.usage + trial.scoring_usage

    def _figures(self) -> str:
        counts = [f"{count} {status.replace('_', ' ')}" for status, count in self._statuses.items()]
        return ", ".join(filter(None, (*counts, cost_text(self._usage))))

    def _line(self, text: str) -> None:
        self._console.print(_plain(text), soft_wrap=True)


def _trial_line(trial: TrialResult) -> Text:
    reasons = [f"{name}: {score.reason}" for name, score in trial.scores.items() if not score.passed]
    reason = trial.error or "; ".join(reasons) or trial.output
    return _plain(f"{trial.case}, trial {trial.number}: {trial.status}: {reason}", style="yellow")


def show_result(console: Console, result: GateResult) -> None:
    """Show the report of an evaluation, and the verdict on it.

    Args:
        console: The console, on standard output.
        result: The report, judged.
    """
    report = result.report
    table = Table(box=None, pad_edge=False)
    for heading in ("case", "passed", "time", "cost", "reason"):
        table.add_column(heading, no_wrap=heading != "reason", overflow="fold")
    cases = sorted(
        report.cases, key=lambda case: (case.reliability != "flaky", result.case_verdict(case) == "passed")
    )
    for case in cases[:_MOST_ROWS]:
        verdict = result.case_verdict(case)
        reason = "" if verdict == "passed" else _reason(case.trials)
        times = [trial.seconds for trial in case.trials if trial.is_decided]
        table.add_row(
            _plain(case.name),
            Text(f"{case.passed}/{case.decided}", style=_STYLES[verdict]),
            f"{fmean(times):.2f}s" if times else "",
            cost_text(sum((trial.usage + trial.scoring_usage for trial in case.trials), Usage())),
            _plain(reason),
        )
    console.print(table)
    if len(cases) > _MOST_ROWS:
        console.print(f"and {len(cases) - _MOST_ROWS} more cases")
    lines = [str(report)]
    if result.comparison is not None:
        lines.append(f"compared with the baseline: {result.comparison}")
    lines += [reason for reason in result.reasons if reason != str(result.comparison)]
    lines += result.warnings
    if solved := solved_cost_text(report):
        lines.append(f"{solved} for each solved case")
    lines.append(result.verdict)
    for line in "\n".join(lines).splitlines():
        console.print(_plain(line), soft_wrap=True)


def show_side_by_side(console: Console, results: Sequence[GateResult]) -> None:
    """Show the figures of several evaluations in one table.

    Args:
        console: The console, on standard output.
        results: The reports, judged.
    """
    figures = side_by_side([result.report for result in results])
    table = Table(box=None, pad_edge=False)
    for number, heading in enumerate(figures.head):
        table.add_column(heading, justify="left" if number < 2 else "right", overflow="fold")
    group = figures.rows[0][0]
    for row in figures.rows:
        if row[0] != group:
            table.add_section()
        table.add_row(*map(_plain, ("" if row[0] == group and table.row_count else row[0], *row[1:])))
        group = row[0]
    console.print(table)
    if figures.comparison:
        for line in figures.comparison.splitlines():
            console.print(_plain(line), soft_wrap=True)


def _plain(text: str, *, style: str = "") -> Text:
    """Return a line of text without control characters, which names and results may have."""
    return Text(single_line(text, _LINE_CHARACTERS), style=style)


def _reason(trials: tuple[TrialResult, ...]) -> str:
    first = next((trial for trial in trials if not trial.has_passed), None)
    if first is None:
        return ""
    reasons = [f"{name}: {score.reason}" for name, score in first.scores.items() if not score.passed]
    text = " ".join((first.error or "; ".join(reasons) or first.output).split())
    return text if len(text) <= _REASON_CHARACTERS else text[: _REASON_CHARACTERS - 1] + "…"

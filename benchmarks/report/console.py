"""A run as it is told on a terminal. It measures and writes nothing else."""

from collections.abc import Container, Iterable

from rich.console import Console
from rich.table import Table

from ..running import Outcome
from .compare import Comparison
from .document import Report
from .goals import Judgement
from .markdown import bound_in_words, busy_warning, difference_in_words
from .side_by_side import Grid, brief_grid, grids_of_workloads

__all__ = ["tell_bounds", "tell_comparison", "tell_errors", "tell_outcome", "tell_report"]


def tell_outcome(console: Console, outcome: Outcome, place: str) -> None:
    """Say that a benchmark is over, and what went wrong with it.

    Args:
        console: Where to.
        outcome: How it ended.
        place: Which one of all it is.
    """
    busy = ""
    if outcome.load is not None and outcome.load.is_busy and outcome.load.others_share is not None:
        busy = f", other processes took {outcome.load.others_share:.0%} of the machine"
    state = "" if outcome.state == "measured" else f": {outcome.state}"
    _say(console, f"{place} {outcome.benchmark}{state} ({outcome.seconds:.1f} s{busy})")
    for text in (outcome.reason, outcome.said):
        if text is not None:
            _say(console, text)


def tell_report(console: Console, report: Report) -> None:
    """Show the figures of a run."""
    for grid in [brief_grid(report.results), *grids_of_workloads(report.results, is_brief=True)]:
        if grid.rows:
            console.print(_as_table(grid))
    warning = busy_warning(report)
    if warning is not None:
        _say(console, f"WARNING: {warning}")
    for outcome in report.failures:
        _say(console, f"FAILED: {outcome.benchmark}")


def tell_bounds(console: Console, judgements: Iterable[Judgement]) -> bool:
    """Say how the figures that have a bound stand to it.

    Args:
        console: Where to.
        judgements: How the figures of a run stand to their limits and bounds.

    Returns:
        Whether none is above its bound by more than noise explains.
    """
    bounded = [each for each in judgements if each.check.bound is not None and each.value is not None]
    for each in bounded:
        _say(console, f"{'ABOVE ITS BOUND' if each.exceeds_bound else 'ratio'}: {bound_in_words(each)}")
    return not any(each.exceeds_bound for each in bounded)


def tell_errors(console: Console, report: Report, peers: Container[str]) -> bool:
    """Name the benchmarks some of whose operations failed.

    Args:
        console: Where to.
        report: The run.
        peers: The benchmarks of other projects, whose failed operations are theirs.

    Returns:
        Whether there are none.
    """
    lossy = [each.benchmark for each in report.lossy if each.benchmark not in peers]
    for name in lossy:
        _say(console, f"OPERATIONS FAILED: {report.errors_of(name):g} in one round of {name}")
    return not lossy


def tell_comparison(console: Console, comparison: Comparison) -> None:
    """Say what became of the lines of an earlier run."""
    for caution in comparison.cautions:
        _say(console, f"with caution: {caution}")
    for line in comparison.not_compared:
        _say(console, f"not compared: {line}")
    for difference in comparison.improvements:
        _say(console, f"better: {difference_in_words(difference)}")
    for difference in comparison.regressions:
        _say(console, f"REGRESSION: {difference_in_words(difference)}")
    _say(console, f"{len(comparison.differences)} lines compared, {len(comparison.regressions)} regressions")


def _say(console: Console, text: str) -> None:
    """Print a text as it is, whole on its line."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _as_table(grid: Grid) -> Table:
    table = Table(title=grid.title, title_justify="left")
    for column, heading in enumerate(grid.headings):
        if column < grid.words:
            table.add_column(heading)
        else:
            table.add_column(heading, justify="right", no_wrap=True)
    for row in grid.rows:
        table.add_row(*row)
    return table

"""Results in groups, as tables show them: a row each, with the text of every cell. It writes no file."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..measure import Result
from .figures import as_figure

__all__ = ["Grid", "brief_grid", "full_grid", "grids_of_workloads"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table of texts.

    Args:
        title: What it shows.
        headings: The heading of each column.
        rows: The texts of each row.
        words: How many columns from the left hold words; the others hold figures.
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int


def full_grid(results: Iterable[Result]) -> Grid:
    """A row for each result."""
    rows: list[tuple[str, ...]] = []
    for result in results:
        values = (result.median, result.spread, result.best, result.worst)
        figures = (as_figure(value, result.kind.unit) for value in values)
        rows.append((result.benchmark, result.what, result.metric, *figures))
    return Grid(
        title="per operation",
        headings=("benchmark", "one operation is", "metric", "median", "spread", "best", "worst"),
        rows=tuple(rows),
        words=3,
    )


def brief_grid(results: Iterable[Result]) -> Grid:
    """A short row for each result that belongs to no workload."""
    rows = ((each.benchmark, each.metric, _cell(each)) for each in results if each.workload is None)
    return Grid(
        title="per operation",
        headings=("benchmark", "metric", "median ± spread"),
        rows=tuple(rows),
        words=2,
    )


def _median(result: Result) -> str:
    return as_figure(result.median, result.kind.unit)


def _cell(result: Result) -> str:
    """The median with the spread of the rounds, where there is one."""
    unit = result.kind.unit
    shown = as_figure(result.median, unit)
    return f"{shown} ± {as_figure(result.spread, unit)}" if result.spread else shown


def grids_of_workloads(results: Iterable[Result], *, is_brief: bool = False) -> list[Grid]:
    """A grid for each workload: a row for each subject and number of steps at once.

    Args:
        results: The results; those that belong to no workload are left out.
        is_brief: Whether to leave out the spreads, and figures that are only told.
    """
    groups: dict[str, list[Result]] = {}
    for result in results:
        if result.workload is not None and not (is_brief and result.kind.better is None):
            groups.setdefault(result.workload, []).append(result)
    return [
        _grid_of_workload(workload, group, _median if is_brief else _cell)
        for workload, group in groups.items()
    ]


def _grid_of_workload(workload: str, results: list[Result], cell: Callable[[Result], str]) -> Grid:
    metrics = list(dict.fromkeys(result.metric for result in results))
    cells: dict[tuple[int, str], dict[str, str]] = {}
    for result in results:
        row = cells.setdefault((result.concurrency or 1, result.subject or result.benchmark), {})
        row[result.metric] = cell(result)
    # The sort is stable: subjects keep the order in which they were measured.
    rows = sorted(cells.items(), key=lambda item: item[0][0])
    return Grid(
        title=workload,
        headings=("subject", "steps at once", *metrics),
        rows=tuple(
            (subject, f"{at_once:,}", *(row.get(metric, "") for metric in metrics))
            for (at_once, subject), row in rows
        ),
        words=1,
    )

"""Plots of the workloads, each an SVG file that loads nothing from elsewhere. It judges nothing."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..measure import Result
from .document import Report

if TYPE_CHECKING:
    from pygal.graph.graph import Graph

__all__ = ["Plot", "PlotsMissingError", "draw_plots"]


class PlotsMissingError(Exception):
    """The library that draws is not installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One plot that was drawn.

    Args:
        title: What it shows.
        file: The file's name in the folder of the results.
    """

    title: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Curves:
    """A plot of a metric against the steps in flight at once, a curve for each subject."""

    file: str
    title: str
    axis: str
    workload: str
    metric: str
    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bars:
    """A plot of a metric of one workload, a bar for each subject."""

    file: str
    title: str
    workload: str
    metric: str
    factor: float


PLOTS: tuple[_Curves | _Bars, ...] = (
    _Curves(
        file="bursts.svg",
        title="Seconds for a burst of steps, the first byte coming after 200 ms",
        axis="seconds",
        workload="burst",
        metric="burst_wall",
        factor=1.0,
    ),
    _Bars(
        file="sequential.svg",
        title="Processor time of a step, in milliseconds",
        workload="sequential",
        metric="cpu",
        factor=1e3,
    ),
    _Curves(
        file="memory.svg",
        title="Memory of a step in flight, in kilobytes",
        axis="kilobytes",
        workload="burst",
        metric="memory_per_step",
        factor=1e-3,
    ),
)


def draw_plots(report: Report, folder: Path) -> list[Plot]:
    """Draw those plots for which the report has figures.

    Args:
        report: The report.
        folder: Where to.

    Raises:
        PlotsMissingError: pygal is not installed.
    """
    pygal = _import_pygal()
    drawn: list[Plot] = []
    for plot in PLOTS:
        results = [
            result
            for result in report.results
            if (result.workload, result.metric) == (plot.workload, plot.metric) and result.subject is not None
        ]
        draw = _draw_curves if isinstance(plot, _Curves) else _draw_bars
        chart = draw(pygal, plot, report, results)
        if chart is not None:
            (folder / plot.file).write_bytes(chart.render())
            drawn.append(Plot(title=plot.title, file=plot.file))
    return drawn


def _import_pygal() -> Any:
    """The library that draws, imported without what it does to later imports."""
    try:
        import pygal
    except ImportError as error:
        raise PlotsMissingError("no plots: pygal is not installed") from error
    # It adds a finder for its plug-ins, of a kind that Python 3.11 warns of at every import that follows.
    sys.meta_path[:] = [each for each in sys.meta_path if type(each).__name__ != "PluginImportFixer"]
    return pygal


def _draw_curves(pygal: Any, plot: _Curves, report: Report, results: Iterable[Result]) -> "Graph | None":
    curves = {
        subject: points for subject, group in _by_subject(results) if (points := _points(group, plot.factor))
    }
    if not curves:
        return None
    chart = pygal.XY(
        title=plot.title,
        x_title="steps in flight at once",
        y_title=plot.axis,
        logarithmic=True,
        **_options(pygal),
    )
    chart.x_labels = sorted({at_once for points in curves.values() for at_once, _ in points})
    for subject, points in curves.items():
        chart.add(_legend(report, plot.workload, subject), points)
    return chart


def _legend(report: Report, workload: str, subject: str) -> str:
    """A subject, and at which numbers of steps some failed: there it looks better than it is."""
    sizes = sorted(
        result.concurrency
        for result in report.results
        if (result.workload, result.subject, result.metric) == (workload, subject, "errors")
        and result.concurrency is not None
        and result.worst > 0
    )
    return f"{subject} (steps failed at {', '.join(f'{size:,}' for size in sizes)})" if sizes else subject


def _points(results: Iterable[Result], factor: float) -> list[tuple[int, float]]:
    """The points of a curve; what is not above zero has no place on a logarithmic axis."""
    return sorted(
        (result.concurrency, result.median * factor)
        for result in results
        if result.concurrency is not None and result.median > 0
    )


def _draw_bars(pygal: Any, plot: _Bars, report: Report, results: Iterable[Result]) -> "Graph | None":
    # The first bar is drawn at the bottom: the least is to be at the top.
    bars = sorted(
        ((group[0].median * plot.factor, subject) for subject, group in _by_subject(results)), reverse=True
    )
    if not bars:
        return None
    chart = pygal.HorizontalBar(
        title=plot.title,
        print_values=True,
        value_formatter=lambda value: f"{value:.3g}",
        show_legend=False,
        **_options(pygal),
    )
    chart.x_labels = [_legend(report, plot.workload, subject) for _, subject in bars]
    chart.add(plot.title, [value for value, _ in bars])
    return chart


def _by_subject(results: Iterable[Result]) -> Iterator[tuple[str, list[Result]]]:
    """The results of each subject, in the order of their first ones."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        if result.subject is not None:
            groups.setdefault(result.subject, []).append(result)
    yield from groups.items()


def _options(pygal: Any) -> dict[str, Any]:
    """What all plots share: no script, no font and no style sheet from elsewhere."""
    return {
        "js": (),
        "disable_xml_declaration": False,
        "width": 1_200,
        "height": 600,
        "truncate_legend": -1,
        "truncate_label": -1,
        "style": pygal.style.Style(background="white", plot_background="white", font_family="sans-serif"),
    }

"""The folder of a run's results: figures, page and plots. It measures nothing."""

from pathlib import Path

from .compare import Comparison
from .document import Report, write_report
from .markdown import as_markdown
from .plots import Plot, PlotsMissingError, draw_plots

__all__ = ["FIGURES", "PAGE", "write_results"]

FIGURES = "results.json"
PAGE = "results.md"


def write_results(report: Report, folder: Path, *, comparison: Comparison | None = None) -> str | None:
    """Write all that is told of a run into a folder.

    Args:
        report: The run.
        folder: Where to; it is made when it is missing.
        comparison: How the run stands to an earlier one, if it was compared.

    Returns:
        Why no plots were drawn; None when they were.
    """
    write_report(report, folder / FIGURES)
    trouble: str | None = None
    plots: list[Plot] = []
    try:
        plots = draw_plots(report, folder)
    except PlotsMissingError as error:
        trouble = str(error)
    (folder / PAGE).write_text(as_markdown(report, plots=plots, comparison=comparison), encoding="utf-8")
    return trouble

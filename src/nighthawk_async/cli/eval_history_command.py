"""`nighthawk-async eval-history`: the figures of an evaluation over commits."""

from pathlib import Path
from typing import Annotated

import typer

from ..evals import history
from ..evals.errors import ReportError
from .run_script import ArgumentError


def eval_history(
    reports: Annotated[
        list[Path], typer.Argument(help="Reports of one function, or folders of them.", metavar="REPORT")
    ],
    svg: Annotated[
        Path | None, typer.Option(help="Write a plot of the pass rates as SVG.", metavar="FILE")
    ] = None,
) -> None:
    """Show how the figures of an evaluation changed from commit to commit."""
    try:
        shown = history(reports)
    except ReportError as error:
        raise ArgumentError(str(error)) from error
    typer.echo(str(shown))
    if svg is not None:
        try:
            svg.write_text(shown.svg(), encoding="utf-8")
        except OSError as error:
            raise ArgumentError(f"{svg} cannot be written: {error.strerror}") from error

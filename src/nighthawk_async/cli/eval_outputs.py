"""The files of `nighthawk-async eval` beside its reports: JUnit XML, Markdown, pages."""

from collections.abc import Sequence
from pathlib import Path

from ..evals.exports.html_report import report_as_page
from ..evals.exports.junit import junit_xml
from ..evals.exports.markdown import markdown_table
from ..evals.gates import GateResult
from .eval_running import ReportFiles, check_writable
from .run_script import ArgumentError


def check_outputs(junit: Path | None, markdown: Path | None, *others: Path | None) -> None:
    """Check that files can be written, and take the place of no other one."""
    taken = [path.resolve() for path in others if path is not None]
    for path in filter(None, (junit, markdown)):
        check_writable(path)
        if path.resolve() in taken:
            raise ArgumentError(f"{path} is the file of two options")
        taken.append(path.resolve())


def write_outputs(
    results: Sequence[GateResult], files: ReportFiles, *, junit: Path | None, markdown: Path | None
) -> None:
    """Write the files that were asked for."""
    if junit is not None:
        _write(junit, junit_xml(results))
    if markdown is not None:
        _write(markdown, markdown_table(results))
    for index, result in enumerate(results):
        page = files.page_of(index)
        if page is not None:
            _write(page, report_as_page(result.report, baseline=files.baseline_of(index), gate=result))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"{path} cannot be written: {error.strerror}") from error

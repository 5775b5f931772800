"""The evaluations of a command line: run one after the other, with their files, and kept when interrupted."""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import cast

import anyio
import typer
from rich.console import Console

from ..causes import leaves_of
from ..evals.cases import checked_cases
from ..evals.declarations import Evaluation
from ..evals.gates import GateResult, check_gate
from ..evals.report import Report, load_report
from ..policies.budgets.budget import budget
from .eval_view import EvaluationView, show_result, show_side_by_side
from .run_interrupts import EXIT_INTERRUPTED, Interrupts
from .run_script import ArgumentError, Backend

EXIT_GATE = 1
EXIT_INCONCLUSIVE = 3

_WIDTH_OF_PIPES = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationWays:
    """The way in which evaluations run.

    Args:
        quiet: Whether no progress is shown.
        strict: Whether a report may be inconclusive because not enough is decided.
        backend: The backend of the event loop.
        budget_usd: The most that all of them may cost together, in US dollars; None for their own budgets.
    """

    quiet: bool
    strict: bool
    backend: Backend
    budget_usd: float | None = None


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """The reports and baselines of evaluations: with several, a file for each in a folder.

    Args:
        report: The file or folder of reports; None for none.
        baseline: The file or folder of baselines; None for none.
        page: The file or folder of pages; None for none.
        names: The names of the evaluations in folders.
    """

    report: Path | None
    baseline: Path | None
    page: Path | None
    names: Sequence[str]

    def report_of(self, index: int) -> Path | None:
        """Return the file of a report; None for none."""
        return self._made(self.report, index, "jsonl")

    def baseline_of(self, index: int) -> Path | None:
        """Return the file of a baseline; None for none."""
        return self._of(self.baseline, index, "jsonl")

    def page_of(self, index: int) -> Path | None:
        """Return the file of a page; None for none."""
        return self._made(self.page, index, "html")

    def check(self) -> None:
        """Check the files before anything is spent.

        Raises:
            ArgumentError: They cannot be used together.
            ReportError: A baseline cannot be read.
        """
        for index in range(len(self.names)):
            report, baseline, page = self.report_of(index), self.baseline_of(index), self.page_of(index)
            for path in filter(None, (report, page)):
                check_writable(path)
            if page is not None and page.resolve() in {each.resolve() for each in (report, baseline) if each}:
                raise ArgumentError(f"{page} is the file of two options")
            if report is not None and baseline is not None and report.resolve() == baseline.resolve():
                raise ArgumentError(f"--report and --baseline are the same file, {report}")
            if baseline is not None:
                load_report(baseline)

    def _made(self, path: Path | None, index: int, kind: str) -> Path | None:
        """Return the file of an evaluation, in a folder that is made if it is not there."""
        file = self._of(path, index, kind)
        if file is not None and file is not path:
            file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def _of(self, path: Path | None, index: int, kind: str) -> Path | None:
        if path is None or not self._is_folder(path):
            return path
        return path / f"{self.names[index]}.{kind}"

    def _is_folder(self, path: Path) -> bool:
        if len(self.names) > 1 and path.is_file():
            raise ArgumentError(f"{path} is a file, and there are several evaluations: give a folder")
        return len(self.names) > 1 or path.is_dir()


def check_writable(path: Path) -> None:
    """Check that a file can be written, as far as that shows before.

    Args:
        path: The file.

    Raises:
        ArgumentError: It cannot.
    """
    reason = "it is a folder" if path.is_dir() else ""
    if not path.absolute().parent.is_dir():
        reason = f"there is no folder {path.parent}"
    elif not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        reason = "there is no permission"
    if reason:
        raise ArgumentError(f"{path} cannot be written: {reason}")


def file_names(evaluations: Sequence[Evaluation]) -> list[str]:
    """Return the names of evaluations as names of files.

    Args:
        evaluations: The evaluations.

    Raises:
        ArgumentError: Two are the same.
    """
    names = [re.sub(r"[^\w.=+-]+", ".", each.title).lstrip(".") for each in evaluations]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ArgumentError(f"two evaluations have the name {twice}; give one another: Evaluation(…, name=…)")
    return names


def evaluate_all(
    evaluations: Sequence[Evaluation], files: ReportFiles, ways: EvaluationWays
) -> list[GateResult]:
    """Evaluate, show the reports, and judge them.

    Args:
        evaluations: The evaluations.
        files: Their files.
        ways: The way in which they run.

    Raises:
        ArgumentError: The files cannot be used.
        EvaluationError: An evaluation or a baseline cannot be used.
        Exit: Ctrl-C ended an evaluation; what it had decided is kept.
    """
    for each in evaluations:
        checked_cases(each.cases, each.subject)
    files.check()
    results: list[GateResult] = []
    console = Console(width=None if sys.stdout.isatty() else _WIDTH_OF_PIPES)
    left = None if ways.budget_usd is None else Decimal(str(ways.budget_usd))
    with _written_files(files) as written:
        for index, each in enumerate(evaluations):
            limited = each if left is None else replace(each, budget=budget(cost=left))
            path = cast("Path", written.report_of(index))
            view = _view_of(limited, path, ways)
            try:
                report = _evaluate(limited, path, view, ways)
            except BaseException as error:
                if any(isinstance(leaf, KeyboardInterrupt) for leaf in leaves_of(error)):
                    typer.echo(_keep(view, index, files, written), err=True)
                    raise typer.Exit(EXIT_INTERRUPTED) from None
                raise
            left = None if left is None else max(left - view.spent, Decimal(0))
            result = check_gate(
                report, at_least=each.at_least, baseline=files.baseline_of(index), strict=ways.strict
            )
            show_result(console, result)
            sys.stdout.flush()
            results.append(result)
    if len(results) > 1:
        show_side_by_side(console, results)
    return results


@contextmanager
def _written_files(files: ReportFiles) -> Generator[ReportFiles, None, None]:
    """Yield the files, with reports in a temporary folder if none is named."""
    if files.report is not None:
        yield files
        return
    with tempfile.TemporaryDirectory() as folder:
        yield replace(files, report=Path(folder))


def _view_of(evaluation: Evaluation, path: Path, ways: EvaluationWays) -> EvaluationView:
    return EvaluationView(
        Console(file=sys.stderr, quiet=ways.quiet),
        evaluation.title,
        cases=len(tuple(evaluation.cases)),
        trials=evaluation.trials,
        known=load_report(path) if path.exists() and path.stat().st_size else None,
    )


def _evaluate(evaluation: Evaluation, path: Path, view: EvaluationView, ways: EvaluationWays) -> Report:
    interrupts = Interrupts(lambda: typer.echo("ending; Ctrl-C again to end at once", err=True))
    options = {"restrict_keyboard_interrupt_to_checkpoints": True} if ways.backend == "trio" else {}

    async def run() -> Report:
        return await evaluation.run(path=path, on_trial=view.ended)

    with interrupts, view.showing():
        report = anyio.run(run, backend=ways.backend.value, backend_options=options)
        interrupts.finish()
        return report


def _keep(view: EvaluationView, index: int, files: ReportFiles, written: ReportFiles) -> str:
    """Keep what interrupted evaluations have decided, and return the words for it."""
    if not view.decided and not index:
        return "interrupted before a trial was decided"
    kept = files.report
    if kept is None:
        is_one = len(files.names) == 1
        stem, suffix = (files.names[0], ".jsonl") if is_one else ("evaluation-reports", "")
        numbers = ("", *(f"-{number}" for number in range(2, 1_000)))
        kept = next(each for number in numbers if not (each := Path(f"{stem}{number}{suffix}")).exists())
        if is_one:
            shutil.copyfile(cast("Path", written.report_of(0)), kept)
        else:
            shutil.copytree(cast("Path", written.report), kept)
    elif len(files.names) == 1:
        kept = cast("Path", files.report_of(0))
    return (
        f"interrupted: {view.decided} of {view.total} trials are decided, and kept in {kept}. The same "
        + ("command goes on." if files.report is not None else f"command with --report {kept} goes on.")
    )


def status_of(results: Sequence[GateResult]) -> int:
    """Return the exit status.

    Args:
        results: The reports, judged.
    """
    verdicts = {result.verdict for result in results}
    if verdicts & {"missed", "regressed"}:
        return EXIT_GATE
    return EXIT_INCONCLUSIVE if "inconclusive" in verdicts else 0

"""View of a pull: a moving bar in a terminal, a few lines elsewhere."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from ..models.weights import PullProgress

_PHASES = {
    "waiting": "waiting for another process that pulls the same weights",
    "downloading": "downloading",
    "verifying": "verifying",
    "extracting": "extracting",
}
_TENTHS = 10


@contextmanager
def showing_pull(console: Console, name: str) -> Generator[Callable[[PullProgress], None]]:
    """Show the progress of a pull.

    Args:
        console: The console that shows it.
        name: The model's name.

    Returns:
        A context manager that returns the `report` function for `pull_weights`.
    """
    if not console.is_terminal:
        yield _PlainView(console, name).report
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        yield _TerminalView(progress, name).report


class _TerminalView:
    def __init__(self, progress: Progress, name: str) -> None:
        self._progress = progress
        self._name = name
        self._bars: dict[str, TaskID] = {}

    def report(self, progress: PullProgress) -> None:
        total = progress.total_bytes or None
        if progress.phase not in self._bars:
            for bar in self._bars.values():
                self._progress.stop_task(bar)
            description = f"{self._name}: {_PHASES[progress.phase]}"
            self._bars[progress.phase] = self._progress.add_task(description, total=total)
        self._progress.update(self._bars[progress.phase], completed=progress.done_bytes, total=total)


class _PlainView:
    """One line when a phase begins and one for each tenth of a download."""

    def __init__(self, console: Console, name: str) -> None:
        self._console = console
        self._name = name
        self._shown: tuple[str, int] = ("", -1)

    def report(self, progress: PullProgress) -> None:
        tenth = 0
        if progress.phase == "downloading":
            tenth = _TENTHS * progress.done_bytes // progress.total_bytes
        if (progress.phase, tenth) == self._shown:
            return
        self._shown = (progress.phase, tenth)
        megabytes = "" if not progress.total_bytes else f", {progress.total_bytes / 1e6:.0f} MB"
        share = f" {tenth * 10} %" if progress.phase == "downloading" else ""
        line = f"{self._name}: {_PHASES[progress.phase]}{share}{megabytes}"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

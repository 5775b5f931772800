"""Progress as one line: on standard error of a terminal, or in a notebook.

Elsewhere, in a file or a pipe, the line is written once, at the end.
"""

import os
import shutil
import sys
import threading
import time
from importlib import import_module
from typing import Any

from .progress import Progress

_INTERVAL = 0.1  # seconds between two updates
_LEAST_WIDTH = 20
_ERASE = "\r\x1b[K"


class ProgressLine:
    """Shows progress until it is closed. While one line is shown, others in the process wait for their end.

    Args:
        title: The name of what is going on.
    """

    _lock = threading.Lock()

    def __init__(self, title: str) -> None:
        self._title = title
        self._began = time.monotonic()
        self._due = self._began
        self._newest: Progress | None = None
        self._is_shown = self._lock.acquire(blocking=False)
        self._notebook = _find_notebook() if self._is_shown else None

    def __call__(self, progress: Progress) -> None:
        """Show the progress, unless the line was updated just before."""
        self._newest = progress
        now = time.monotonic()
        if self._is_shown and now >= self._due:
            self._due = now + _INTERVAL
            self._show(is_last=False)

    def close(self) -> None:
        """Show the newest progress, and end the line."""
        try:
            self._show(is_last=True)
        finally:
            if self._is_shown:
                self._is_shown = False
                self._lock.release()

    def _show(self, *, is_last: bool) -> None:
        if self._newest is None:
            return
        text = describe(self._newest, title=self._title, seconds=time.monotonic() - self._began)
        if self._notebook is not None:
            self._notebook.show(text)
            return
        error_output: Any = sys.stderr
        if error_output is None:  # a program without a console
            return
        is_terminal = _is_terminal(error_output)
        if not is_last and not is_terminal:
            return
        if is_terminal:
            width = max(_LEAST_WIDTH, shutil.get_terminal_size((80, 0)).columns - 1)
            text = _ERASE + text[:width]
        try:
            error_output.write(text + ("\n" if is_last else ""))
            error_output.flush()
        except (OSError, ValueError):  # it is closed; the work goes on
            return


def describe(progress: Progress, *, title: str, seconds: float) -> str:
    """Return the progress as text.

    Args:
        progress: The progress.
        title: The name of what is going on.
        seconds: The seconds since the beginning.
    """
    total, finished = progress.total, progress.finished
    in_flight = progress.started - finished
    parts = [
        title,
        f"{finished:,} done" if total is None else f"{finished:,}/{total:,} done",
        f"{progress.failed:,} failed" if progress.failed else "",
        f"{in_flight:,} in flight" if in_flight else "",
        "" if progress.usage is None else str(progress.usage),
        _time_text(seconds, finished, total),
    ]
    return "  ".join(part for part in parts if part)


def _time_text(seconds: float, finished: int, total: int | None) -> str:
    """The remaining seconds at the present rate; the elapsed ones when these are unknown."""
    if not finished or total is None or finished >= total:
        return f"{seconds:,.1f}s"
    return f"about {seconds / finished * (total - finished):,.1f}s left"


def _is_terminal(output: Any) -> bool:
    try:
        return bool(output.isatty()) and os.environ.get("TERM") != "dumb"
    except (AttributeError, ValueError):
        return False


class _Notebook:
    """One output of a notebook cell, which is updated in place."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._handle: Any = None

    def show(self, text: str) -> None:
        """Show a text."""
        data = {"text/plain": text}
        if self._handle is None:
            self._handle = self._display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


def _find_notebook() -> _Notebook | None:
    """Return the output of the notebook that the program runs in; None outside of notebooks."""
    interactive: Any = sys.modules.get("IPython")
    if interactive is None or getattr(interactive.get_ipython(), "kernel", None) is None:  # or in a terminal
        return None
    return _Notebook(import_module(f"{interactive.__name__}.display").display)

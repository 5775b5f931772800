"""Shows a tree while a program runs, from a thread of its own.

The thread reads the tree a few times a second. So it continues when the program blocks its event loop, and
the display does not slow the program down, however much happens.

`PlainTree` writes plain lines, one for each beginning and end: for pipes, files and dumb terminals. Nothing
is redrawn and nothing is coloured, and the figures are repeated from time to time while nothing ends.
`JsonTree` writes one line of JSON for each change of a node, for other programs.
"""

import os
import threading
import time
from typing import Protocol, TextIO

from ..observe import NodeView, TaskTree, view_as_json
from ..observe.changes import Change, Changes, NodeLines
from ..observe.node_words import (
    cached_text,
    error_text,
    one_line,
    seconds_of,
    seconds_text,
    sent_and_received_text,
    tokens_text,
)
from ..types.json import JsonableValue
from ..types.usage import Usage, cost_text
from .live_tree_picture import Figures, figures_line
from .run_interrupts import EXIT_INTERRUPTED


class Tally:
    """Counts the steps by state, including those that the tree no longer keeps."""

    def __init__(self) -> None:
        self._open: dict[str, str] = {}
        self.ended = {"completed": 0, "raised": 0, "failed": 0, "cancelled": 0}
        self.usage = Usage()
        self.retries = 0

    def count(self, root: NodeView, changes: list[Change]) -> None:
        """Count changes.

        Args:
            root: The root.
            changes: The changes below it.
        """
        self.usage, self.retries = root.subtree_usage, root.subtree_retries
        for change in changes:
            if change.view.kind != "step" or change.is_text_only:
                continue
            if change.has_ended:
                self._open.pop(change.view.id, None)
                self.ended[change.view.state] += 1
            elif not change.view.is_ended:
                self._open[change.view.id] = change.view.state

    @property
    def open(self) -> dict[str, int]:
        """The numbers of steps that have not ended, by state."""
        states = list(self._open.values())
        return {
            state: states.count(state) for state in ("running", "waiting", "suspended") if state in states
        }

    @property
    def steps(self) -> int:
        """The number of steps that have begun."""
        return len(self._open) + sum(self.ended.values())


INTERVAL = 0.1  # seconds from one read to the next

ASKED_TO_END = "interrupted, ending; Ctrl-C again to end at once"


class TreeDisplay(Protocol):
    """A display of the tree. Called from one thread at a time."""

    def show(self, root: NodeView, changes: list[Change], figures: Figures) -> None:
        """Show the tree.

        Args:
            root: The root.
            changes: The changes since the last call.
            figures: The overall figures.

        Raises:
            OSError: The terminal is gone.
        """
        ...

    def interrupted(self) -> None:
        """Show that the program was asked to end."""
        ...

    def close(self, root: NodeView, figures: Figures, status: int) -> None:
        """Show the end; nothing is shown afterwards.

        Args:
            root: The root.
            figures: The overall figures.
            status: The exit status of the program.

        Raises:
            OSError: The terminal is gone.
        """
        ...


class LiveTree:
    """Shows a tree from `start` to `finish`.

    Args:
        tree: The tree.
        display: The display.
    """

    def __init__(self, tree: TaskTree, display: TreeDisplay) -> None:
        self._tree = tree
        self._display = display
        self._changes = Changes()
        self._tally = Tally()
        self._began = time.monotonic()
        self._is_over = threading.Event()
        self._is_interrupted = False
        self._is_reported = False
        self._thread = threading.Thread(target=self._show_all_the_time, name="live tree", daemon=True)

    def start(self) -> None:
        """Begin to show the tree."""
        self._thread.start()

    def interrupted(self) -> None:
        """Record that the program was asked to end; shown with the next read. Signal handlers may call it."""
        self._is_interrupted = True

    def finish(self, status: int) -> None:
        """Show the end. Nothing is shown afterwards.

        Args:
            status: The exit status of the program.
        """
        self._is_over.set()
        self._thread.join()
        try:
            self._look()
            root = self._tree.snapshot()
            self._display.close(root, figures_of(self._tally, self._seconds), status)
        except OSError:
            return  # the display is gone

    def _show_all_the_time(self) -> None:
        try:
            while not self._is_over.wait(INTERVAL):
                self._look()
        except OSError:
            return  # the program continues without a display

    def _look(self) -> None:
        if self._is_interrupted and not self._is_reported:
            self._is_reported = True
            self._display.interrupted()
        root = self._tree.snapshot()
        changes = self._changes.until(root)
        self._tally.count(root, changes)
        self._display.show(root, changes, figures_of(self._tally, self._seconds))

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._began


def remark_on(status: int) -> str:
    """Return a remark on an exit status; nothing for success.

    Args:
        status: The exit status.
    """
    if status == EXIT_INTERRUPTED:
        return "interrupted"
    return f"exit status {status}" if status else ""


def figures_of(tally: Tally, seconds: float) -> Figures:
    """The figures from the counts.

    Args:
        tally: The counts.
        seconds: The elapsed time, in seconds.
    """
    return Figures(
        seconds=seconds,
        states={**tally.open, **tally.ended},
        tokens=sent_and_received_text(tally.usage),
        cost=cost_text(tally.usage),
        retries=tally.retries,
    )


class JsonTree:
    """Writes each changed node in the form of `observe.view_as_json`, without the nodes below it.

    Args:
        output: The file to write to; it is closed at the end.
    """

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._lines = NodeLines(output)
        self.result: JsonableValue = None

    def show(self, root: NodeView, changes: list[Change], figures: Figures) -> None:
        """Write the changes."""
        self._lines.write(changes)

    def interrupted(self) -> None:
        """Write nothing: the ends of the nodes show it."""

    def close(self, root: NodeView, figures: Figures, status: int) -> None:
        """Write the remaining changes and the summary."""
        self._lines.finish()
        self._lines.write_line(
            {
                "kind": "summary",
                "exit_status": status,
                "seconds": round(figures.seconds, 3),
                "steps": dict(figures.states),
                "retries": figures.retries,
                "usage": view_as_json(root, depth=0)["subtree_usage"],
                "result": self.result,
            }
        )
        self._output.close()


_SHOWN = ("function", "step")
_SILENCE = 10.0  # seconds without a line after which the figures are written
_MAX_INDENT = 8


class PlainTree:
    """Writes a line when a function or a step begins and when it ends.

    Args:
        descriptor: The descriptor of the file to write to.
        encoding: The encoding of the text; unsupported characters become question marks.
    """

    def __init__(self, descriptor: int, encoding: str) -> None:
        self._descriptor = descriptor
        self._encoding = encoding
        self._began_at: float | None = None
        self._spoke_after = 0.0

    def show(self, root: NodeView, changes: list[Change], figures: Figures) -> None:
        """Write beginnings and ends, in the order of time."""
        self._began_at = root.began_at
        events = [event for change in changes for event in self._events(change)]
        for _, line in sorted(events, key=lambda event: event[0]):
            self._write(line)
        if events:
            self._spoke_after = figures.seconds
        elif figures.seconds >= self._spoke_after + _SILENCE:
            self._spoke_after = figures.seconds
            self._write(f"{figures.seconds:8.2f}s  {figures_line(figures)}")

    def interrupted(self) -> None:
        """Write a line."""
        self._write(f"nighthawk-async: {ASKED_TO_END}")

    def close(self, root: NodeView, figures: Figures, status: int) -> None:
        """Write the figures."""
        self._write(f"nighthawk-async: {figures_line(figures, remark=remark_on(status))}")

    def _events(self, change: Change) -> list[tuple[float, str]]:
        view = change.view
        if view.kind not in _SHOWN:
            return []
        what = f"{'  ' * min(change.depth, _MAX_INDENT)}{view.kind} {one_line(view.name, 200)} #{view.id}"
        events: list[tuple[float, str]] = []
        if change.before is None:
            events.append((view.began_at, f"{self._clock(view.began_at)}  {what} began"))
        if change.has_ended and view.ended_at is not None:
            events.append((view.ended_at, f"{self._clock(view.ended_at)}  {what} {_end_of(view)}"))
        return events

    def _clock(self, at: float) -> str:
        return f"{max(0.0, at - (self._began_at or at)):8.2f}s"

    def _write(self, line: str) -> None:
        rest = f"{line}\n".encode(self._encoding, "replace")
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]


def _end_of(view: NodeView) -> str:
    error = f": {text}" if (text := error_text(view)) else ""
    figures = (
        f"after {seconds_text(seconds_of(view, view.began_at))}",
        tokens_text(view.subtree_usage),
        cost_text(view.subtree_usage),
        cached_text(view.subtree_usage),
    )
    return f"{view.state} {', '.join(each for each in figures if each)}{error}"

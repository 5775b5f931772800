"""Shows a tree while a program runs, from a thread of its own.

The thread reads the tree a few times a second. So it continues when the program blocks its event loop, and
the display does not slow the program down, however much happens.
"""

import threading
import time
from typing import Protocol

from ..observe import NodeView, TaskTree
from ..observe.changes import Change, Changes
from ..observe.node_words import (
    sent_and_received_text,
)
from ..types.usage import Usage, cost_text
from .live_tree_picture import Figures
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

"""Shows a tree while a program goes on, from a thread of its own.

The thread looks at the tree a few times a second. So it goes on when the program holds its event loop, and
however much happens, the program is not slowed down by what is shown.
"""

import threading
import time
from typing import Protocol

from ..observe import NodeView, TaskTree
from .live_tree_changes import Change, Changes, Tally
from .live_tree_picture import Figures
from .live_tree_words import cost_text, sent_and_received_text
from .run_interrupts import EXIT_INTERRUPTED

__all__ = ["ASKED_TO_END", "LiveTree", "TreeDisplay", "figures_of", "remark_on"]

INTERVAL = 0.1  # seconds from one look to the next

ASKED_TO_END = "interrupted, ending; Ctrl-C again to end at once"


class TreeDisplay(Protocol):
    """A display of the tree. Called from one thread at a time."""

    def show(self, root: NodeView, changes: list[Change], figures: Figures) -> None:
        """Show the tree.

        Args:
            root: The node above everything.
            changes: What has changed since the last call.
            figures: The figures of everything.

        Raises:
            OSError: What it is shown on is gone.
        """
        ...

    def interrupted(self) -> None:
        """Tell that the program was asked to end."""
        ...

    def close(self, root: NodeView, figures: Figures, status: int) -> None:
        """Show the end, and nothing any more.

        Args:
            root: The node above everything.
            figures: The figures of everything.
            status: The exit status of the program.

        Raises:
            OSError: What it is shown on is gone.
        """
        ...


class LiveTree:
    """Shows a tree from `start` to `finish`.

    Args:
        tree: The tree.
        display: Where and how.
    """

    def __init__(self, tree: TaskTree, display: TreeDisplay) -> None:
        self._tree = tree
        self._display = display
        self._changes = Changes()
        self._tally = Tally()
        self._began = time.monotonic()
        self._is_over = threading.Event()
        self._is_interrupted = False
        self._is_told = False
        self._thread = threading.Thread(target=self._show_all_the_time, name="live tree", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def interrupted(self) -> None:
        """The program was asked to end; told with the next look. A handler of signals may call this."""
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
            return  # nobody is left to see it

    def _show_all_the_time(self) -> None:
        try:
            while not self._is_over.wait(INTERVAL):
                self._look()
        except OSError:
            return  # the program goes on without anybody who sees it

    def _look(self) -> None:
        if self._is_interrupted and not self._is_told:
            self._is_told = True
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
    """The figures of what was counted.

    Args:
        tally: What was counted.
        seconds: How long it has taken, in seconds.
    """
    return Figures(
        seconds=seconds,
        states={**tally.open, **tally.ended},
        tokens=sent_and_received_text(tally.usage),
        cost=cost_text(tally.usage),
        retries=tally.retries,
    )

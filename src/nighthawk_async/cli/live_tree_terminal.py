"""The tree in a terminal, redrawn below what the program prints."""

import time
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from ..observe import NodeView
from .live_tree import ASKED_TO_END, remark_on
from .live_tree_changes import Change
from .live_tree_layout import Digests, Row, rows_that_fit
from .live_tree_picture import Figures, Picture, figures_line
from .live_tree_screen import Screen

__all__ = ["TerminalTree"]

_LEAST_HEIGHT = 3
_HINT = "Ctrl-C ends it"


class TerminalTree:
    """Draws the tree, as high as the terminal at most.

    Args:
        screen: The terminal.
        console: What knows its colours and characters.
    """

    def __init__(self, screen: Screen, console: Console) -> None:
        self._screen = screen
        self._console = console
        self._digests = Digests()
        self._hint = _HINT
        self._is_paused = False

    def show(self, root: NodeView, changes: list[Change], figures: Figures) -> None:
        """Draw a frame, unless a person is asked something at the moment."""
        self._digests.look(root)
        self._pause_for_questions(root)
        lines = [*self._tree(root), self._figures(figures, self._hint)]
        self._screen.draw(self._coloured(lines), [line.cell_len for line in lines])

    def interrupted(self) -> None:
        """Tell it in the line of figures."""
        self._hint = ASKED_TO_END

    def close(self, root: NodeView, figures: Figures, status: int) -> None:
        """Leave the tree as it is at the end, and a line of figures."""
        lines = [*self._tree(root), self._figures(figures, remark_on(status))]
        self._screen.close([line.rstrip() for line in self._coloured(lines)])

    def _tree(self, root: NodeView) -> list[Text]:
        width, height = self._screen.size
        rows: Sequence[Row] = rows_that_fit(root, self._digests, max(_LEAST_HEIGHT, height - 3))
        picture = Picture(width=width - 1, is_ascii=self._console.options.ascii_only)
        return picture.draw(rows, time.time())

    def _figures(self, figures: Figures, remark: str) -> Text:
        width, _ = self._screen.size
        line = Text(figures_line(figures, remark=remark), "bold")
        line.truncate(max(1, width - 1), overflow="crop")
        return line

    def _coloured(self, lines: Sequence[Text]) -> list[str]:
        with self._console.capture() as capture:
            self._console.print(Text("\n").join(lines), end="", soft_wrap=True, highlight=False)
        return capture.get().split("\n")

    def _pause_for_questions(self, root: NodeView) -> None:
        """Stand still while a person is asked, whose cursor would be moved away."""
        is_asking = self._digests.is_asking(root)
        if is_asking != self._is_paused:
            self._is_paused = is_asking
            if is_asking:
                self._screen.pause()
            else:
                self._screen.resume()

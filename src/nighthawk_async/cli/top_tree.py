"""The rows of the tree as a widget: only those that are seen are drawn."""

from collections.abc import Sequence
from typing import ClassVar

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding
from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from .live_tree_layout import Row
from .live_tree_picture import Picture

__all__ = ["TreeRows"]

_CHOSEN = Style(reverse=True)
_NAMED_STYLES = Console()


class TreeRows(ScrollView, can_focus=True):
    """Shows rows, one of which is chosen."""

    BINDINGS: ClassVar = [
        Binding("up", "move(-1)", "up", show=False),
        Binding("down", "move(1)", "down", show=False),
        Binding("pageup", "move(-10)", "page up", show=False),
        Binding("pagedown", "move(10)", "page down", show=False),
        Binding("home", "move(-1000000)", "first", show=False),
        Binding("end", "move(1000000)", "last", show=False),
        Binding("left", "collapse", "collapse", show=False),
        Binding("right", "expand", "expand", show=False),
    ]

    class Chosen(Message):
        """Another row was chosen."""

    class Folded(Message):
        """A row was opened or closed.

        Args:
            node_id: The node of the row.
            is_folded: Whether it is shown no longer.
        """

        def __init__(self, node_id: str, is_folded: bool) -> None:
            super().__init__()
            self.node_id = node_id
            self.is_folded = is_folded

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._rows: Sequence[Row] = ()
        self._now = 0.0
        self.chosen_id: str | None = None

    def show(self, rows: Sequence[Row], now: float) -> None:
        """Show rows in place of those before; the chosen node stays chosen while it is among them.

        Args:
            rows: The rows.
            now: The time of the service, in Unix seconds.
        """
        self._rows, self._now = rows, now
        self.virtual_size = Size(0, len(rows))
        if rows and self._position is None:
            self._choose(rows[0])
        self.refresh()

    def tick(self, now: float) -> None:
        """Let time pass for what goes on.

        Args:
            now: The time of the service, in Unix seconds.
        """
        self._now = now
        self.refresh()

    def choose(self, node_id: str) -> None:
        """Choose the row of a node, if there is one."""
        row = next((row for row in self._rows if row.view.id == node_id), None)
        if row is not None:
            self._choose(row)

    def render_line(self, y: int) -> Strip:
        """One line of what is seen."""
        number = self.scroll_offset.y + y
        width = self.scrollable_content_region.width
        if number >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        row = self._rows[number]
        picture = Picture(width=width, is_ascii=False)
        (line,) = picture.draw([row], self._now)
        base = self.rich_style
        segments = [
            Segment(segment.text, base + segment.style if segment.style else base)
            for segment in line.render(_NAMED_STYLES)
            if segment.text
        ]
        strip = Strip(segments).adjust_cell_length(width, base)
        return strip.apply_style(_CHOSEN) if row.view.id == self.chosen_id else strip

    def on_click(self, event: Click) -> None:
        """Choose the row that was clicked."""
        number = self.scroll_offset.y + event.y
        if number < len(self._rows):
            self._choose(self._rows[number])

    def action_move(self, by: int) -> None:
        """Choose a row further down, or up."""
        if self._rows:
            number = (self._position or 0) + by
            self._choose(self._rows[min(max(number, 0), len(self._rows) - 1)])

    def action_collapse(self) -> None:
        """Hide what is below the chosen row, or go up."""
        position = self._position
        if position is None:
            return
        row = self._rows[position]
        following = self._rows[position + 1 : position + 2]
        if following and len(following[0].levels) > len(row.levels):
            self.post_message(self.Folded(row.view.id, is_folded=True))
        elif row.view.parent_id is not None:
            self.choose(row.view.parent_id)

    def action_expand(self) -> None:
        """Show what is below the chosen row."""
        if self.chosen_id is not None:
            self.post_message(self.Folded(self.chosen_id, is_folded=False))

    @property
    def _position(self) -> int | None:
        numbers = (number for number, row in enumerate(self._rows) if row.view.id == self.chosen_id)
        return next(numbers, None)

    def _choose(self, row: Row) -> None:
        if row.view.id != self.chosen_id:
            self.chosen_id = row.view.id
            self.post_message(self.Chosen())
        position = self._position or 0
        self.scroll_to_region(Region(0, position, 1, 1), animate=False)
        self.refresh()

"""The rows of the tree as a widget: only visible ones are drawn.

The nodes are kept up to date. They are the same views as on the dashboard's page: the parts of each that are
visible without opening it.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding
from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ..observe import ErrorView, NodeView
from ..observe.node_words import STYLES
from ..observe.tree_rows import Row
from ..types.usage import Usage
from .live_tree_picture import Picture

TOP = "0"
"""The id of the root."""

_AMOUNTS = (
    "requests",
    "input_tokens",
    "output_tokens",
    "unpriced_requests",
    "is_complete",
    "cached_requests",
)
_NO_CHILDREN: Sequence[NodeView] = ()
_NOTHING: Mapping[str, Any] = {}


class Nodes:
    """The nodes by id, and their children."""

    def __init__(self) -> None:
        self.views: dict[str, NodeView] = {}
        self._children: dict[str, list[str]] = {}
        self._haystacks: dict[str, str] = {}

    def reset(self) -> None:
        """Forget everything: another tree begins."""
        self.views.clear()
        self._children.clear()
        self._haystacks.clear()

    def apply(self, data: Mapping[str, Any]) -> None:
        """Apply changes.

        Args:
            data: An event `nodes` of the dashboard.
        """
        for summary in data["nodes"]:
            view = _view_of(summary)
            if view.id not in self.views and view.parent_id is not None:
                self._children.setdefault(view.parent_id, []).append(view.id)
            self.views[view.id] = view
            self._haystacks[view.id] = _haystack(view)
        for parent, kept in data.get("kept", {}).items():
            gone = set(self._children.get(parent, ())).difference(kept)
            for node_id in gone:
                self._drop(node_id)
        for node_id in data.get("gone", ()):
            self._drop(node_id)

    def rows(self, *, folded: Mapping[str, bool], search: str) -> list[Row]:
        """The rows to show, from the top.

        Args:
            folded: Whether the nodes below a node are hidden, if the user has chosen. By default they are
                shown unless the node is at the top and has ended well.
            search: Words that must all be in the shown text of a node; the nodes above it are shown as well.
        """
        words = search.lower().split()
        shown = self._matching(words) if words else None
        return list(self._rows_below_top(folded, shown))

    def counts(self) -> dict[str, int]:
        """Count the steps by state."""
        states = [view.state for view in self.views.values() if view.kind == "step"]
        return {state: states.count(state) for state in STYLES if state in states}

    def parent_of(self, node_id: str) -> str | None:
        """Return the parent of a node; None for a root."""
        view = self.views.get(node_id)
        return None if view is None or view.parent_id == TOP else view.parent_id

    def next_failure(self, node_id: str | None) -> str | None:
        """Return the next node that has failed by itself, in the order of the tree; the first after the last.

        Args:
            node_id: The node after which to look; None for the top.
        """
        order = list(self._in_order())
        following = order.index(node_id) + 1 if node_id in order else 0
        return next(filter(self._has_failed_itself, order[following:] + order[:following]), None)

    def with_children(self) -> list[str]:
        """Return the nodes that have children."""
        return [node_id for node_id in self.views if node_id != TOP and self.has_children(node_id)]

    def has_children(self, node_id: str) -> bool:
        """Whether a node has children."""
        return bool(self._children.get(node_id))

    def _in_order(self) -> Iterator[str]:
        waiting = list(reversed(self._children.get(TOP, ())))
        while waiting:
            node_id = waiting.pop()
            yield node_id
            waiting.extend(reversed(self._children.get(node_id, ())))

    def _has_failed_itself(self, node_id: str) -> bool:
        below = self._children.get(node_id, ())
        failed = self.views[node_id].state == "failed"
        return failed and not any(self.views[child].state == "failed" for child in below)

    def _rows_below_top(self, folded: Mapping[str, bool], shown: set[str] | None) -> Iterator[Row]:
        waiting: list[tuple[Iterator[tuple[str, bool]], tuple[bool, ...]]] = [
            (self._shown_children(TOP, shown), ())
        ]
        while waiting:
            children, above = waiting[-1]
            found = next(children, None)
            if found is None:
                waiting.pop()
                continue
            node_id, is_last = found
            view = self.views[node_id]
            is_quiet = view.parent_id == TOP and view.state == "completed"
            is_folded = shown is None and self.has_children(node_id) and folded.get(node_id, is_quiet)
            hidden = self._count_below(node_id) if is_folded else 0
            yield Row(kind="node", view=view, levels=above, is_last=is_last, hidden=hidden)
            if not is_folded:
                waiting.append((self._shown_children(node_id, shown), (*above, not is_last)))

    def _shown_children(self, parent: str, shown: set[str] | None) -> Iterator[tuple[str, bool]]:
        children = self._children.get(parent, ())
        kept = [node_id for node_id in children if shown is None or node_id in shown]
        return ((node_id, number == len(kept)) for number, node_id in enumerate(kept, 1))

    def _matching(self, words: Sequence[str]) -> set[str]:
        shown: set[str] = set()
        for node_id, haystack in self._haystacks.items():
            if not all(word in haystack for word in words):
                continue
            above: str | None = node_id
            while above is not None and above not in shown:
                shown.add(above)
                above = self.parent_of(above)
        return shown

    def _count_below(self, node_id: str) -> int:
        order = list(self._children.get(node_id, ()))
        for below in order:  # which grows meanwhile
            order.extend(self._children.get(below, ()))
        return len(order)

    def _drop(self, node_id: str) -> None:
        view = self.views.get(node_id)
        if view is None:
            return
        if view.parent_id is not None:
            self._children[view.parent_id].remove(node_id)
        order = [node_id]
        for dropped in order:  # which grows meanwhile
            order.extend(self._children.pop(dropped, ()))
            del self.views[dropped], self._haystacks[dropped]


def _haystack(view: NodeView) -> str:
    error = "" if view.error is None else f"{view.error.type} {view.error.message}"
    words = (view.kind, view.name, view.state, view.source or "", *view.inputs.values(), error)
    return " ".join(words).lower()


def _view_of(summary: Mapping[str, Any]) -> NodeView:
    error = summary.get("error")
    return NodeView(
        id=summary["id"],
        parent_id=summary["parent_id"],
        kind=summary["kind"],
        name=summary["name"],
        source=summary.get("source"),
        state=summary["state"],
        began_at=summary["began_at"],
        ended_at=summary.get("ended_at"),
        inputs={"": summary["hint"]} if "hint" in summary else _NOTHING,
        outputs=_NOTHING,
        error=None if error is None else ErrorView(type=error["type"], message=error["message"]),
        usage=usage_of(summary.get("usage", _NOTHING)),
        subtree_usage=usage_of(summary.get("subtree_usage", _NOTHING)),
        usage_by_model=_NOTHING,
        subtree_usage_by_model=_NOTHING,
        retries=summary.get("retries", 0),
        subtree_retries=summary.get("subtree_retries", 0),
        transcript=(),
        children=_NO_CHILDREN,
        dropped_children=summary.get("dropped_children", 0),
        attributes=_NOTHING,
        controls=frozenset(summary.get("controls", ())),
        version=summary["version"],
    )


def usage_of(amounts: Mapping[str, Any]) -> Usage:
    """Return the displayed usage of a node.

    Args:
        amounts: The amounts by name. Missing ones are zero.
    """
    known = {name: amounts[name] for name in _AMOUNTS if name in amounts}
    return Usage(**known, cost=Decimal(amounts.get("cost", "0")))


_CHOSEN = Style(reverse=True)
_NAMED_STYLES = Console()


class TreeRows(ScrollView, can_focus=True):
    """A widget of rows, one of which is chosen."""

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
            is_folded: Whether the nodes below it are now hidden.
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
        self.remark = "connecting …"  # in place of rows, as long as there are none

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
        """Update the durations of running nodes.

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
        """One visible line."""
        number = self.scroll_offset.y + y
        width = self.scrollable_content_region.width
        if number >= len(self._rows):
            text = self.remark if number == 0 else ""
            return Strip([Segment(f" {text}", self.rich_style)]).adjust_cell_length(width, self.rich_style)
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
        """Hide the nodes below the chosen row, or go up."""
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
        """Show the nodes below the chosen row."""
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

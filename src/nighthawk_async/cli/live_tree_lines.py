"""The tree as plain lines, one for each beginning and end: for pipes, files and dumb terminals.

Nothing is redrawn and nothing is coloured. What goes on for long is told from time to time.
"""

import os

from ..observe import NodeView
from .live_tree import ASKED_TO_END, remark_on
from .live_tree_changes import Change
from .live_tree_picture import Figures, figures_line
from .live_tree_words import cost_text, error_text, one_line, seconds_of, seconds_text, tokens_text

__all__ = ["PlainTree"]

_SHOWN = ("function", "step")
_SILENCE = 10.0  # seconds without a line after which the figures are told
_MAX_INDENT = 8


class PlainTree:
    """Writes a line when a function or a step begins and when it ends.

    Args:
        descriptor: Where.
        encoding: In which encoding; what it lacks becomes a question mark.
    """

    def __init__(self, descriptor: int, encoding: str) -> None:
        self._descriptor = descriptor
        self._encoding = encoding
        self._began_at: float | None = None
        self._spoke_after = 0.0

    def show(self, root: NodeView, changes: list[Change], figures: Figures) -> None:
        """Write what has begun and ended, in the order of time."""
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
    )
    return f"{view.state} {', '.join(each for each in figures if each)}{error}"

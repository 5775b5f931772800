"""The tree as plain lines, one for each beginning and end: for pipes, files and dumb terminals.

Nothing is redrawn and nothing is coloured. The figures are repeated from time to time while nothing ends.

Also the tree as lines of JSON, one for each change of a node, for other programs.
"""

import os
from typing import TextIO

from ..observe import NodeView, view_as_json
from ..observe.changes import Change, NodeLines
from ..observe.node_words import (
    error_text,
    one_line,
    seconds_of,
    seconds_text,
    tokens_text,
)
from ..types.json import JsonableValue
from ..types.usage import cost_text
from .live_tree import ASKED_TO_END, remark_on
from .live_tree_picture import Figures, figures_line


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
    )
    return f"{view.state} {', '.join(each for each in figures if each)}{error}"

"""The tree as lines of JSON, one for each change of a node, for other programs."""

import json
import time
from typing import TextIO

from ..observe import NodeView, view_as_json
from ..types.json import JsonableValue
from .live_tree_changes import Change
from .live_tree_picture import Figures

__all__ = ["JsonTree"]

_TEXT_INTERVAL = 1.0  # seconds between two lines for a node of which only the text goes on


class JsonTree:
    """Writes each changed node as `observe.view_as_json` gives it, without what is below it.

    Args:
        output: Where; it is closed at the end.
    """

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._text_due: dict[str, float] = {}
        self._late: dict[str, NodeView] = {}
        self.result: JsonableValue = None

    def show(self, root: NodeView, changes: list[Change], figures: Figures) -> None:
        """Write what has changed."""
        now = time.monotonic()
        for change in changes:
            view = change.view
            if change.is_text_only and now < self._text_due.get(view.id, now):
                self._late[view.id] = view
                continue
            self._tell(view, now)
        for view in [each for each in self._late.values() if self._text_due.get(each.id, now) <= now]:
            self._tell(view, now)
        self._output.flush()

    def interrupted(self) -> None:
        """Write nothing: the nodes that end tell it."""

    def close(self, root: NodeView, figures: Figures, status: int) -> None:
        """Write what is left, and the summary."""
        for view in list(self._late.values()):
            self._tell(view, 0.0)
        usage = view_as_json(root, depth=0)["subtree_usage"]
        self._write(
            {
                "kind": "summary",
                "exit_status": status,
                "seconds": round(figures.seconds, 3),
                "steps": dict(figures.states),
                "retries": figures.retries,
                "usage": usage,
                "result": self.result,
            }
        )
        self._output.close()

    def _tell(self, view: NodeView, now: float) -> None:
        self._late.pop(view.id, None)
        if view.is_ended:
            self._text_due.pop(view.id, None)
        else:
            self._text_due[view.id] = now + _TEXT_INTERVAL
        self._write(view_as_json(view, depth=0))

    def _write(self, value: dict[str, JsonableValue]) -> None:
        self._output.write(f"{json.dumps(value)}\n")  # in ASCII: a text may hold what UTF-8 has no bytes for

"""Changes between two views of a tree, and the lines of JSON that record them.

An unchanged view is the same object, so only changed ones are walked through.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TextIO

from ..types.json import JsonableValue
from .views import NodeView, view_as_json

_TEXT_INTERVAL = 1.0  # seconds between two lines for a node of which only the text grows
_MAX_KNOWN = 60_000  # above this number, they are searched for nodes that the tree has dropped

_own_parts: Callable[[NodeView], tuple[Any, ...]] = attrgetter(
    *("name", "state", "ended_at", "attributes", "controls", "usage", "retries", "error", "outputs")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A node that is new or that has changed itself.

    Args:
        before: The node at the last read; None when it is new.
        view: The node now.
        depth: The number of nodes above it, without the root.
        is_text_only: Whether nothing but its transcript has changed.
    """

    before: NodeView | None
    view: NodeView
    depth: int
    is_text_only: bool = False

    @property
    def has_ended(self) -> bool:
        """Whether it has ended since the last read."""
        return self.view.is_ended and (self.before is None or not self.before.is_ended)


class Changes:
    """Keeps the state of the tree at the last read."""

    def __init__(self) -> None:
        self._known: dict[str, NodeView] = {}

    def until(self, root: NodeView) -> list[Change]:
        """The nodes that have changed since the last call, each before those below it.

        Args:
            root: The current root.
        """
        changes = list(self._walk(root))
        if len(self._known) > _MAX_KNOWN:
            self._known = {view.id: view for view in root.walk()}
        return changes

    def _walk(self, root: NodeView) -> Iterator[Change]:
        known = self._known
        waiting: list[tuple[Iterator[NodeView], int]] = [(iter(root.children), 0)]
        while waiting:
            children, depth = waiting[-1]
            for view in children:
                before = known.get(view.id)
                if before is view:
                    continue
                known[view.id] = view
                if before is None:
                    yield Change(before=None, view=view, depth=depth)
                elif _own_parts(before) != _own_parts(view):
                    yield Change(before=before, view=view, depth=depth)
                elif before.transcript != view.transcript:
                    yield Change(before=before, view=view, depth=depth, is_text_only=True)
                waiting.append((iter(view.children), depth + 1))
                break
            else:
                waiting.pop()


class NodeLines:
    """Writes each changed node as a line in the form of `view_as_json`, without the nodes below it.

    A node of which only the text grows is written at most once a second.

    Args:
        output: The file to write to.
    """

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._text_due: dict[str, float] = {}
        self._late: dict[str, NodeView] = {}

    def write(self, changes: list[Change]) -> None:
        """Write changes.

        Raises:
            OSError: The file cannot be written.
        """
        now = time.monotonic()
        for change in changes:
            view = change.view
            if change.is_text_only and now < self._text_due.get(view.id, now):
                self._late[view.id] = view
                continue
            self._write_node(view, now)
        for view in [each for each in self._late.values() if self._text_due.get(each.id, now) <= now]:
            self._write_node(view, now)
        self._output.flush()

    def finish(self) -> None:
        """Write the text that is still to be written.

        Raises:
            OSError: The file cannot be written.
        """
        for view in list(self._late.values()):
            self._write_node(view, 0.0)
        self._output.flush()

    def write_line(self, value: dict[str, JsonableValue]) -> None:
        """Write a line of its own.

        Raises:
            OSError: The file cannot be written.
        """
        self._output.write(f"{json.dumps(value)}\n")  # in ASCII: texts may hold lone surrogates

    def _write_node(self, view: NodeView, now: float) -> None:
        self._late.pop(view.id, None)
        if view.is_ended:
            self._text_due.pop(view.id, None)
        else:
            self._text_due[view.id] = now + _TEXT_INTERVAL
        self.write_line(view_as_json(view, depth=0))

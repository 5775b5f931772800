"""Changes from one look at the tree to the next.

A view of which nothing has changed is the same object, so only what has changed is walked through.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from ..observe import NodeView
from ..types.usage import Usage

__all__ = ["Change", "Changes", "Tally"]

_MAX_KNOWN = 60_000  # more of them are looked through for such as the tree has dropped

_own_parts: Callable[[NodeView], tuple[Any, ...]] = attrgetter(
    *("name", "state", "ended_at", "attributes", "controls", "usage", "retries", "error", "outputs")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A node that is new or that has changed itself.

    Args:
        before: The node when it was looked at last; None when it is new.
        view: The node now.
        depth: How many nodes are above it, without the one above everything.
        is_text_only: Whether nothing but its transcript has changed.
    """

    before: NodeView | None
    view: NodeView
    depth: int
    is_text_only: bool = False

    @property
    def has_ended(self) -> bool:
        """Whether it has ended since."""
        return self.view.is_ended and (self.before is None or not self.before.is_ended)


class Changes:
    """Remembers the tree as it was looked at last."""

    def __init__(self) -> None:
        self._known: dict[str, NodeView] = {}

    def until(self, root: NodeView) -> list[Change]:
        """The nodes that have changed since the last call, each before those below it.

        Args:
            root: The node above everything, now.
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


class Tally:
    """Counts the steps by where they stand, also those that the tree no longer keeps."""

    def __init__(self) -> None:
        self._open: dict[str, str] = {}
        self.ended = {"completed": 0, "raised": 0, "failed": 0, "cancelled": 0}
        self.usage = Usage()
        self.retries = 0

    def count(self, root: NodeView, changes: list[Change]) -> None:
        """Take notice of changes.

        Args:
            root: The node above everything.
            changes: What has changed in it.
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

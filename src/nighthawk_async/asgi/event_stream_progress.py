"""Progress of a node as counts: the compact profile of event streams. Pure."""

from collections.abc import Iterator

from msgspec import Struct

from ..observe.views import NodeView
from .event_stream_encoding import StreamEvent

_FAILED = ("failed", "raised")


class Counts(Struct, frozen=True):
    """Units of work below a node.

    Args:
        done: The number of units that have ended.
        total: The number of units; it may grow.
        failed: The number of those that have ended with an error.
    """

    done: int = 0
    total: int = 0
    failed: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.done + other.done, self.total + other.total, self.failed + other.failed)


def count_progress(view: NodeView) -> Counts:
    """Count the units of work below a node.

    The units are the calls of each `parallel.map`, `settle`, `stream` or `race`, where the number of its
    items counts from the beginning, and the steps outside of these. Units inside a unit are not counted.

    Args:
        view: The view of the node.
    """
    counts = Counts()
    waiting = [view]
    while waiting:
        for child in waiting.pop().children:
            if child.kind == "step":
                counts += _count_unit(child)
            elif child.kind == "group" and "items" in child.inputs:
                counts += _count_group(child)
            else:
                waiting.append(child)
    return counts


def _count_unit(view: NodeView) -> Counts:
    return Counts(int(view.is_ended), 1, int(view.state in _FAILED))


def _count_group(view: NodeView) -> Counts:
    """Count the calls of a group. Calls that the tree has dropped have ended."""
    begun = sum(map(_count_unit, view.children), Counts(view.dropped_children, view.dropped_children))
    items = view.inputs["items"]
    total = int(items) if items.isascii() and items.isdecimal() else 0
    return Counts(begun.done, max(begun.total, total), begun.failed)


class ProgressEvents:
    """The events of one stream in the compact profile."""

    def __init__(self) -> None:
        self._reported: Counts | None = None

    def between(self, old: NodeView | None, new: NodeView) -> Iterator[StreamEvent]:
        """Return the event of the progress of a node, if it is another one than was reported last.

        Args:
            old: The view that is known; None for none.
            new: A later view of the same node.
        """
        counts = count_progress(new)
        if old is None or counts != self._reported:
            self._reported = counts
            data = {"id": new.id, "done": counts.done, "total": counts.total, "failed": counts.failed}
            yield StreamEvent(name="progress", data={**data})

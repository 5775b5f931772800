"""Changes between two views of a tree, or since a version. Pure.

Views share the parts of which nothing has changed, so what did not change is passed over as a whole.
"""

from collections.abc import Iterator

from msgspec import Struct, field

from ...observe.views import NodeView
from .briefs import is_own_request

__all__ = ["Changes", "changes_between", "changes_since", "everything"]


class Changes(Struct, kw_only=True):
    """Changes that lead from one view to another.

    Args:
        nodes: Those that are new or have changed, each before what is below it, in the order of beginning.
        gone: The ids of those that are there no longer, with everything below them.
        kept: By node, the ids of the children that are still there: all others are gone.
    """

    nodes: list[NodeView] = field(default_factory=list[NodeView])
    gone: list[str] = field(default_factory=list[str])
    kept: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


def changes_between(old: NodeView, new: NodeView) -> Changes:
    """Return the changes that lead from the old view of a node to the new one.

    Args:
        old: The view that is known.
        new: A later view of the same node.
    """
    changes = Changes()
    waiting: list[tuple[NodeView | None, NodeView]] = [(old, new)]
    while waiting:
        before, view = waiting.pop()
        if before is view:
            continue
        if is_own_request(view):
            if before is not None and not is_own_request(before):
                changes.gone.append(view.id)
            continue
        changes.nodes.append(view)
        if before is None:
            waiting.extend((None, child) for child in reversed(view.children))
        else:
            waiting.extend(reversed(list(_changed_children(before, view, changes.gone))))
    return changes


def changes_since(view: NodeView, version: int) -> Changes:
    """Return the changes that lead from the view of an earlier version to this one.

    Args:
        view: The view.
        version: The version that is known.
    """
    changes = Changes()
    waiting = [view]
    while waiting:
        node = waiting.pop()
        if node.version <= version:
            continue
        if is_own_request(node):
            changes.gone.append(node.id)
            continue
        changes.nodes.append(node)
        if node.dropped_children:
            changes.kept[node.id] = [child.id for child in node.children]
        waiting.extend(reversed(node.children))
    return changes


def everything(view: NodeView) -> Changes:
    """Return the changes that lead from nothing to a view."""
    return changes_since(view, -1)


def _changed_children(
    old: NodeView, new: NodeView, gone: list[str]
) -> Iterator[tuple[NodeView | None, NodeView]]:
    """The children that differ, with what they were before.

    New ones begin after all others, and those that stay keep their order: one pass finds who is gone.
    """
    before = iter(old.children)
    for child in new.children:
        known = next(before, None)
        while known is not None and known.id != child.id:
            gone.append(known.id)
            known = next(before, None)
        if known is not child:
            yield known, child
    gone.extend(known.id for known in before)

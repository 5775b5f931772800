"""Telling a tree things the way the places of the library do, without these."""

from nighthawk_async.observation import NodeKind, NodeWriter, find_node_writer
from nighthawk_async.observe import NodeView, TaskTree

__all__ = ["begin", "ids_below", "only", "top_writer"]


def top_writer(tree: TaskTree) -> NodeWriter:
    """The writer of the node above everything."""
    with tree.recording():
        writer = find_node_writer()
    assert writer is not None
    return writer


def begin(tree: TaskTree, kind: NodeKind = "run", name: str = "main") -> NodeWriter:
    """Begin something that has nothing above it."""
    return top_writer(tree).begin_child(kind, name)


def only(tree: TaskTree) -> NodeView:
    """The one node that has nothing above it."""
    (view,) = tree.snapshot().children
    return view


def ids_below(view: NodeView) -> list[str]:
    """The ids of the nodes below a view, in order."""
    return [each.id for each in view.walk()][1:]

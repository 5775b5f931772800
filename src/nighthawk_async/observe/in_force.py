"""The tree into which is recorded where the caller is."""

from contextlib import AbstractContextManager

from ..observation import find_node_writer
from .errors import NotRecordingError
from .node_writer import TreeNodeWriter
from .tree import TaskTree, find_tree
from .views import NodeView
from .watching import Watch

__all__ = ["find_node_id", "get_tree", "recording", "snapshot", "watch"]


def recording(
    *,
    max_nodes: int = 20_000,
    max_finished_trees: int = 1_000,
    max_preview_characters: int = 2_000,
    max_transcript_characters: int = 65_536,
    max_total_transcript_characters: int = 67_108_864,
) -> AbstractContextManager[TaskTree]:
    """Record what goes on during the `with` statement, also in the tasks and threads that it starts.

    Args:
        max_nodes: How many nodes are kept, unless more of them go on.
        max_finished_trees: How many finished trees are kept, of those that have nothing above them.
        max_preview_characters: How many characters of each input, output, attribute and error are kept.
        max_transcript_characters: How many characters of the transcript of each node are kept.
        max_total_transcript_characters: How many characters of all transcripts together are kept.

    Returns:
        A context manager that gives the tree.

    Raises:
        ValueError: A limit is not a whole number, or too small.
    """
    return TaskTree(
        max_nodes=max_nodes,
        max_finished_trees=max_finished_trees,
        max_preview_characters=max_preview_characters,
        max_transcript_characters=max_transcript_characters,
        max_total_transcript_characters=max_total_transcript_characters,
    ).recording()


def get_tree() -> TaskTree:
    """The tree into which is recorded where the caller is.

    Raises:
        NotRecordingError: Nothing is recorded.
    """
    tree = find_tree()
    if tree is None:
        raise NotRecordingError("nothing is recorded here: use `with observe.recording()`")
    return tree


def find_node_id() -> str | None:
    """The id of the node that the caller belongs to, "0" outside any other; None when nothing is recorded."""
    writer = find_node_writer()
    return writer.node_id if isinstance(writer, TreeNodeWriter) else None


def snapshot(node: str | None = None) -> NodeView:
    """Return the view of a node of the active tree; see `TaskTree.snapshot`.

    Args:
        node: The id of the node; None for the node above everything.

    Raises:
        NotRecordingError: Nothing is recorded.
        NodeNotFoundError: There is no such node, or no more.
    """
    return get_tree().snapshot(node)


def watch(node: str | None = None, since: int | None = None, min_interval: float = 0.05) -> Watch:
    """Newer snapshots of a node of the tree in force; see `TaskTree.watch`.

    Args:
        node: The id of the node; None for the node above everything.
        since: The version of the snapshot that was seen last; None for none.
        min_interval: How much time there is between two snapshots at least, in seconds.

    Raises:
        NotRecordingError: Nothing is recorded.
        NodeNotFoundError: There is no such node, or no more.
        ValueError: The interval is no number of seconds.
    """
    return get_tree().watch(node, since, min_interval)

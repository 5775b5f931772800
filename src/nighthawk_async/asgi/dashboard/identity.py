"""Identity of trees, so that the number of a node means the one that was seen.

Every tree numbers its nodes from 1: after a restart, and in another process of the same service, a number
stands for something else.
"""

import os

from ...observe.tree import TaskTree
from ...observe.views import NodeView
from .refusals import OTHER_TREE, RefusalError

__all__ = ["check_stream", "stream_id"]


def stream_id(view: NodeView) -> str:
    """Return an id that differs between the trees of two processes, or of two lifespans.

    Args:
        view: The node above everything.
    """
    return f"{int(view.began_at * 1_000_000):x}-{os.getpid():x}"  # forks have a tree that began before them


def check_stream(seen: str, tree: TaskTree) -> None:
    """Refuse what was meant for a node of another tree.

    Args:
        seen: What identifies the tree in which the node was seen.
        tree: The tree.

    Raises:
        RefusalError: It is another one.
    """
    if seen != stream_id(tree.snapshot()):
        raise RefusalError(OTHER_TREE)

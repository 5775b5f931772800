"""Retention of finished subtrees.

A subtree is finished when nothing in it goes on. Kept are those that belong to no larger finished one, in the
order of finishing.
"""

from collections import OrderedDict

from .node import Node

__all__ = ["Retention"]


class Retention:
    """Keeps the order of finishing.

    Args:
        max_nodes: How many nodes there may be, unless more of them go on.
        max_finished_trees: How many finished trees there may be.
    """

    __slots__ = ("_max_finished_trees", "_max_nodes", "_passed_over", "_subtrees", "_trees")

    def __init__(self, *, max_nodes: int, max_finished_trees: int) -> None:
        self._max_nodes = max_nodes
        self._max_finished_trees = max_finished_trees
        self._subtrees: OrderedDict[Node, None] = OrderedDict()
        self._trees: OrderedDict[Node, None] = OrderedDict()
        self._passed_over: dict[Node, list[Node]] = {}  # parts of finished subtrees, by what they are below

    def add(self, node: Node) -> None:
        """Everything in the subtree of a node has ended."""
        self._subtrees[node] = None
        if node.depth == 1:
            self._trees[node] = None

    def reopen(self, node: Node) -> None:
        """Something begins below it again, so that its finished parts count by themselves."""
        self._forget(node)
        for each in reversed(self._passed_over.pop(node, ())):
            if not each.open_nodes:
                self._subtrees[each] = None
                self._subtrees.move_to_end(each, last=False)

    def drop(self, node: Node) -> None:
        """It is kept no longer."""
        self._forget(node)
        self._passed_over.pop(node, None)

    def _forget(self, node: Node) -> None:
        self._subtrees.pop(node, None)
        self._trees.pop(node, None)

    def next_to_drop(self, nodes: int) -> Node | None:
        """Return the subtree to drop at this number of nodes; None for none."""
        if len(self._trees) > self._max_finished_trees:
            return next(iter(self._trees))
        while nodes > self._max_nodes and self._subtrees:
            node, _ = self._subtrees.popitem(last=False)
            if node.parent is not None and node.parent.open_nodes:
                return node
            if node.parent is not None:  # part of a finished subtree, which has its own, later place
                self._passed_over.setdefault(node.parent, []).append(node)
        return None

"""Trees made of the facts about their nodes: of a recording in a file, or of the records of journals."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct, field

from ..observation import NodeState
from ..types.usage import Usage
from .errors import NodeNotFoundError
from .node import Node
from .tree import TaskTree
from .views import ENDS, ErrorView, TranscriptPart, ViewedKind

_UNLIMITED = 2**40
"""Nodes, and characters of transcripts: what was restored is there already."""

_MAX_RETRIES = 100_000


class RestoredNode(Struct, frozen=True):
    """The facts about one node; see `NodeView`."""

    id: str
    parent_id: str
    kind: ViewedKind
    name: str
    state: NodeState
    began_at: float
    source: str | None = None
    ended_at: float | None = None
    inputs: dict[str, str] = field(default_factory=dict[str, str])
    outputs: dict[str, str] = field(default_factory=dict[str, str])
    error: ErrorView | None = None
    usage_by_model: dict[str, Usage] = field(default_factory=dict[str, Usage])
    retries: Annotated[int, Meta(ge=0, le=_MAX_RETRIES)] = 0
    transcript: list[TranscriptPart] = field(default_factory=list[TranscriptPart])
    attributes: dict[str, str | int | float | bool] = field(
        default_factory=dict[str, str | int | float | bool]
    )

    def node(self) -> Node:
        """Return the node as it began."""
        return Node(
            id=self.id,
            kind=self.kind,
            name=self.name,
            state="running",
            began_at=self.began_at,
            source=self.source,
            inputs=self.inputs,
            attributes=self.attributes,
        )


class RestoredTree:
    """A tree of such nodes, which can be brought up to date later. Thread-safe.

    Args:
        began_at: The time at which the tree began, in Unix seconds; None for now.
    """

    def __init__(self, began_at: float | None = None) -> None:
        self.tree = TaskTree(
            max_nodes=_UNLIMITED,
            max_finished_trees=_UNLIMITED,
            max_transcript_characters=_UNLIMITED,
            max_total_transcript_characters=_UNLIMITED,
        )
        self._shared = self.tree._shared  # pyright: ignore[reportPrivateUsage]  (of the same package)
        self._state = self._shared.state
        self._known: dict[str, RestoredNode] = {}
        if began_at is not None:
            self._state.root.began_at = began_at

    def put(self, nodes: Sequence[RestoredNode]) -> None:
        """Add nodes, or bring them up to date. A node that is there already keeps its parent.

        Args:
            nodes: The nodes, each after its parent.

        Raises:
            NodeNotFoundError: The parent of a node is neither before it nor in the tree.
        """
        self._shared.change(self._put, nodes)

    def put_whole(self, nodes: Sequence[RestoredNode]) -> None:
        """Add nodes, or bring them up to date, and remove all others below the first one; see `put`."""
        self._shared.change(self._put_whole, nodes)

    def remove(self, node_id: str) -> None:
        """Remove a node and everything below it; its parent counts it."""
        self._shared.change(self._remove, node_id)

    def count_left_out(self, number: int) -> None:
        """Set the number of children of the root node that are not in the tree."""
        if self._state.root.dropped_children != number:
            self._shared.change(self._count_left_out, number)

    def _count_left_out(self, number: int) -> None:
        self._state.root.dropped_children = number
        self._state.reopen(self._state.root)  # counts as changed

    def _put(self, nodes: Sequence[RestoredNode]) -> None:
        changed = [each for each in nodes if self._known.get(each.id) != each]
        for each in changed:
            node, known = self._state.nodes.get(each.id), self._known.get(each.id)
            if node is None or known is None:
                self._begin(each)
            else:
                self._revise(node, known, each)
            self._known[each.id] = each
        for each in sorted(changed, key=lambda each: each.ended_at or 0.0):
            if each.state in ENDS:
                ended_at = each.began_at if each.ended_at is None else each.ended_at
                self._state.end(self._state.nodes[each.id], each.state, ended_at, each.outputs, each.error)

    def _put_whole(self, nodes: Sequence[RestoredNode]) -> None:
        top = self._state.nodes.get(nodes[0].id)
        kept = {each.id for each in nodes}
        for node in [] if top is None else top.subtree():
            if node.id not in kept:
                self._remove(node.id)
        self._put(nodes)

    def _remove(self, node_id: str) -> None:
        node = self._state.nodes.get(node_id)
        if node is not None:  # else it was removed with a parent
            for each in node.subtree():
                del self._known[each.id]
            self._state.remove(node)

    def _begin(self, each: RestoredNode) -> None:
        parent = self._state.nodes.get(each.parent_id)
        if parent is None:
            raise NodeNotFoundError(each.parent_id)
        node = each.node()
        self._state.begin(node, parent, speaks_above=False)
        self._add(node, each, each.transcript, each.retries)

    def _revise(self, node: Node, known: RestoredNode, each: RestoredNode) -> None:
        self._state.reopen(node)
        node.name, node.began_at, node.source = each.name, each.began_at, each.source
        node.inputs, node.attributes = each.inputs, each.attributes
        written = len(known.transcript)
        if each.transcript[:written] != known.transcript:
            self._state.clear_transcript(node)
            written = 0
        self._add(node, each, each.transcript[written:], each.retries - known.retries)

    def _add(
        self, node: Node, each: RestoredNode, transcript: Sequence[TranscriptPart], retries: int
    ) -> None:
        for part in transcript:
            self._state.write(node, part.kind, part.text, part.key)
        for model, usage in each.usage_by_model.items():
            self._state.set_usage(node, usage, model)
        for _ in range(retries):
            self._state.count_retry(node)
        if each.state not in ENDS:
            self._state.change_state(node, each.state)
            self._state.set_outputs(node, each.outputs)


def restore_tree(nodes: Sequence[RestoredNode], *, began_at: float) -> TaskTree:
    """Make a tree of nodes.

    Args:
        nodes: The nodes, each after its parent.
        began_at: The time at which the tree began, in Unix seconds.

    Raises:
        NodeNotFoundError: The parent of a node is not before it.
    """
    restored = RestoredTree(began_at)
    restored.put(nodes)
    return restored.tree

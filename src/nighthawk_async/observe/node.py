"""One node while it is recorded: plain state that changes.

It knows its place in the tree and makes its view; which change is allowed when, and what it means to others,
is the business of `tree_state`.
"""

from collections.abc import Iterator, Mapping

from ..observation import NodeState
from ..types.usage import Usage
from .children import ChildList, Chunk
from .controls import HeldControl
from .transcript import Transcript
from .usage_sums import NO_AMOUNTS, NO_USAGE, Amounts, amounts_of, usage_of
from .views import NO_CHILDREN, NO_CONTROLS, NO_VALUES, ErrorView, NodeView, TranscriptPart, ViewedKind
from .watched import Watched

__all__ = ["Node"]


class Node:
    """A node of the tree.

    Args:
        id: Its id.
        kind: What it is.
        name: What it is called.
        state: Where it stands at first.
        began_at: When it began, in Unix seconds.
        source: The place in the program.
        inputs: What it works with, as texts.
        attributes: What else is known of it.
        control: How it can be influenced.

    Attributes:
        parent: What it is below; None for the node above everything, and before it has its place.
        depth: How many nodes are above it.
        chunk: The stretch of the parent's children that it belongs to; None without a parent.
        version: The number of the latest change in it and below it.
        open_nodes: How many nodes of its subtree have not ended, itself included.
        amounts: What its subtree has consumed.
        view: What there is to see of it; None when something has changed since.
        watched: Who waits for changes in it and below it; None for nobody.
        is_dropped: Whether it is in the tree no longer.
        speaks_in: The node in whose transcript stands what is said here; None for a transcript of its own.
    """

    __slots__ = (
        "amounts",
        "attributes",
        "began_at",
        "children",
        "chunk",
        "control",
        "depth",
        "dropped_children",
        "ended_at",
        "error",
        "id",
        "inputs",
        "is_dropped",
        "kind",
        "name",
        "open_nodes",
        "outputs",
        "parent",
        "retries",
        "source",
        "speaks_in",
        "state",
        "subtree_retries",
        "transcript",
        "usage",
        "version",
        "view",
        "watched",
    )

    def __init__(
        self,
        *,
        id: str,
        kind: ViewedKind,
        name: str,
        state: NodeState,
        began_at: float,
        source: str | None = None,
        inputs: Mapping[str, str] = NO_VALUES,
        attributes: Mapping[str, str | int | float | bool] = NO_VALUES,
        control: HeldControl | None = None,
    ) -> None:
        self.id = id
        self.kind: ViewedKind = kind
        self.name = name
        self.state: NodeState = state
        self.began_at = began_at
        self.source = source
        self.inputs = inputs
        self.attributes = attributes
        self.control = control
        self.outputs: Mapping[str, str] = NO_VALUES
        self.error: ErrorView | None = None
        self.ended_at: float | None = None
        self.transcript: Transcript | None = None
        self.speaks_in: Node | None = None
        self.usage = NO_USAGE
        self.retries = 0
        self._begin_subtree()

    def _begin_subtree(self) -> None:
        self.parent: Node | None = None
        self.depth = 0
        self.chunk: Chunk[Node] | None = None
        self.children: ChildList[Node] | None = None
        self.dropped_children = 0
        self.open_nodes = 1
        self.amounts: Amounts = NO_AMOUNTS
        self.subtree_retries = 0
        self.version = 0
        self.view: NodeView | None = None
        self.watched: Watched | None = None
        self.is_dropped = False

    def path(self) -> Iterator["Node"]:
        """It, and the nodes above it, one after the other."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    def subtree(self) -> list["Node"]:
        """It and everything below it, each before what is below that."""
        nodes: list[Node] = [self]
        for node in nodes:  # which grows meanwhile
            if node.children is not None:
                nodes.extend(node.children)
        return nodes

    def add_child(self, child: "Node") -> None:
        """Give a node its place here."""
        if self.children is None:
            self.children = ChildList()
        child.parent = self
        child.depth = self.depth + 1
        child.chunk = self.children.append(child)

    def drop_child(self, child: "Node") -> None:
        """Keep a child no longer, and count it. It still knows what it was below."""
        if self.children is not None and child.chunk is not None:
            self.children.remove(child, child.chunk)
        self.dropped_children += 1

    def mark_changed(self, version: int) -> None:
        """Something has changed in it or below it."""
        self.version = version
        self.view = None
        if self.chunk is not None:
            self.chunk.views = None

    def up_to_date_view(self) -> NodeView:
        """Return its view; only changed parts are built anew."""
        if self.view is not None:
            return self.view
        changed: list[Node] = [self]
        for node in changed:  # which grows meanwhile
            if node.children is not None:
                changed.extend(node.children.without_view())
        for node in reversed(changed):  # children come before their parents
            node.view = node._make_view()
        assert self.view is not None
        return self.view

    def _make_view(self) -> NodeView:
        return NodeView(
            id=self.id,
            parent_id=None if self.parent is None else self.parent.id,
            kind=self.kind,
            name=self.name,
            source=self.source,
            state=self.state,
            began_at=self.began_at,
            ended_at=self.ended_at,
            inputs=self.inputs,
            outputs=self.outputs,
            error=self.error,
            usage=self.usage,
            subtree_usage=self._subtree_usage(),
            retries=self.retries,
            subtree_retries=self.subtree_retries,
            transcript=self._transcript_view(),
            children=NO_CHILDREN if self.children is None else self.children.view(),
            dropped_children=self.dropped_children,
            attributes=self.attributes,
            controls=NO_CONTROLS if self.control is None else self.control.offered(self.state),
            version=self.version,
        )

    def _transcript_view(self) -> tuple[TranscriptPart, ...]:
        if self.speaks_in is None:
            return () if self.transcript is None else self.transcript.view()
        transcript = self.speaks_in.transcript
        return () if transcript is None else transcript.view_of(self.id)

    def _subtree_usage(self) -> Usage:
        if self.amounts is NO_AMOUNTS:
            return NO_USAGE
        return self.usage if self.amounts == amounts_of(self.usage) else usage_of(self.amounts)

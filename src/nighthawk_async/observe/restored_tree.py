"""A tree made of the facts about its nodes: of a recording in a file, or of the records of a journal."""

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
"""Characters of transcripts; those of a file are there already."""

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


def restore_tree(nodes: Sequence[RestoredNode], *, began_at: float) -> TaskTree:
    """Make a tree of nodes.

    Args:
        nodes: The nodes, each after its parent.
        began_at: The time at which the tree began, in Unix seconds.

    Raises:
        NodeNotFoundError: The parent of a node is not before it.
    """
    tree = TaskTree(
        max_nodes=len(nodes) + 1,
        max_finished_trees=len(nodes),
        max_transcript_characters=_UNLIMITED,
        max_total_transcript_characters=_UNLIMITED,
    )
    state = tree._shared.state  # pyright: ignore[reportPrivateUsage]  (of the same package)
    state.root.began_at = began_at
    for each in nodes:
        parent = state.nodes.get(each.parent_id)
        if parent is None:
            raise NodeNotFoundError(each.parent_id)
        node = each.node()
        state.begin(node, parent, speaks_above=False)
        for part in each.transcript:
            state.write(node, part.kind, part.text, part.key)
        for model, usage in each.usage_by_model.items():
            state.set_usage(node, usage, model)
        for _ in range(each.retries):
            state.count_retry(node)
        if each.state not in ENDS:
            state.change_state(node, each.state)
            state.set_outputs(node, each.outputs)
    for each in sorted(nodes, key=lambda each: each.ended_at or 0.0):
        if each.state in ENDS:
            ended_at = each.began_at if each.ended_at is None else each.ended_at
            state.end(state.nodes[each.id], each.state, ended_at, each.outputs, each.error)
    return tree

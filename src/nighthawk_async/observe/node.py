"""One node while it is recorded: plain mutable state.

A node knows its position in the tree and builds its view. `tree_state` decides which changes are allowed and
how they affect other nodes.

Usage is reported repeatedly and may become less incomplete. Amounts hold usage as a tuple of plain numbers,
the last of which counts the incomplete parts, so that an earlier report can be subtracted.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from operator import add, attrgetter, sub
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from ..observation import NodeState
from ..types.usage import Usage
from .controls import HeldControl
from .transcript import Transcript
from .views import (
    NO_CHILDREN,
    NO_CONTROLS,
    NO_VALUES,
    Children,
    ErrorView,
    NodeView,
    TranscriptPart,
    ViewedKind,
)
from .watched import Watched

Amounts: TypeAlias = tuple[Any, ...]
"""Whole numbers, and decimals for costs."""

AmountsByModel: TypeAlias = Mapping[str, Amounts]

_NAMES = tuple(field.name for field in fields(Usage) if field.name != "is_complete")
_numbers_of: Callable[[Usage], Amounts] = attrgetter(*_NAMES)


def amounts_of(usage: Usage) -> Amounts:
    """Convert a usage to amounts."""
    return (*_numbers_of(usage), 0 if usage.is_complete else 1)


def total(amounts: Amounts, others: Amounts) -> Amounts:
    """Return the sum of two amounts."""
    return tuple(map(add, amounts, others))


def difference(amounts: Amounts, others: Amounts) -> Amounts:
    """Return the difference of two amounts."""
    return tuple(map(sub, amounts, others))


def usage_of(amounts: Amounts) -> Usage:
    """Convert amounts to a usage."""
    values = dict(zip(_NAMES, amounts[:-1], strict=True))
    return Usage(**values, is_complete=amounts[-1] == 0)


def usage_by_model(amounts: AmountsByModel) -> Mapping[str, Usage]:
    """Convert amounts by model to usage by model."""
    return MappingProxyType({model: usage_of(each) for model, each in amounts.items()})


NO_USAGE = Usage()
NO_AMOUNTS = amounts_of(NO_USAGE)
NOTHING_USED: AmountsByModel = MappingProxyType({})


CHILDREN_PER_CHUNK = 256
"""The number of children whose views are rebuilt when one of them changes."""


class Viewed(Protocol):
    """A node with a view; None when it has changed since the view was made."""

    view: NodeView | None


Child = TypeVar("Child", bound=Viewed)


class Chunk(Generic[Child]):
    """A slice of a node's children.

    Attributes:
        children: The children, in order.
        views: Their views; None when one of them has changed since.
    """

    __slots__ = ("children", "views")

    def __init__(self) -> None:
        self.children: dict[Child, None] = {}
        self.views: tuple[NodeView, ...] | None = None


class ChildList(Generic[Child]):
    """The children of one node, in the order in which they began."""

    __slots__ = ("_chunks", "_last", "_taken")

    def __init__(self) -> None:
        self._chunks: dict[Chunk[Child], None] = {}
        self._last: Chunk[Child] | None = None
        self._taken = 0

    def append(self, child: Child) -> Chunk[Child]:
        """Add a child and return its chunk."""
        chunk = self._last
        if chunk is None or self._taken == CHILDREN_PER_CHUNK:
            chunk = self._last = Chunk()
            self._chunks[chunk] = None
            self._taken = 0
        self._taken += 1
        chunk.children[child] = None
        chunk.views = None
        return chunk

    def remove(self, child: Child, chunk: Chunk[Child]) -> None:
        """Remove a child from its chunk."""
        del chunk.children[child]
        chunk.views = None
        if not chunk.children:
            del self._chunks[chunk]
            if chunk is self._last:
                self._last = None

    def __iter__(self) -> Iterator[Child]:
        for chunk in self._chunks:
            yield from chunk.children

    def without_view(self) -> Iterator[Child]:
        """Yield the children that have changed since their views were made."""
        for chunk in self._chunks:
            if chunk.views is None:
                for child in chunk.children:
                    if child.view is None:
                        yield child

    def view(self) -> Children:
        """Return the views of all children. Every child must have one."""
        return Children(tuple(map(_views_of, self._chunks)))


def _views_of(chunk: Chunk[Child]) -> tuple[NodeView, ...]:
    if chunk.views is None:
        chunk.views = tuple(child.view for child in chunk.children if child.view is not None)
    return chunk.views


class Node:
    """A node of the tree.

    Args:
        id: Its id.
        kind: The kind of the node.
        name: Its name.
        state: Its first state.
        began_at: The time at which it began, in Unix seconds.
        source: The place in the program.
        inputs: Its inputs, as texts.
        attributes: Its further attributes.
        control: Its control.

    Attributes:
        parent: The parent; None for the root node, and before the node is added to the tree.
        depth: The number of its ancestors.
        chunk: The chunk of the parent's children that it belongs to; None without a parent.
        version: The number of the latest change in it or below it.
        open_nodes: The number of nodes of its subtree that have not ended, itself included.
        own_amounts: Its own usage by model.
        amounts: The usage of its subtree by model.
        view: Its view; None when something has changed since.
        watched: The watchers of it and its subtree; None for none.
        is_dropped: Whether it is no longer in the tree.
        speaks_in: The node whose transcript its text is written to; None when it has its own transcript.
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
        "own_amounts",
        "parent",
        "retries",
        "source",
        "speaks_in",
        "state",
        "subtree_retries",
        "transcript",
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
        self.own_amounts = NOTHING_USED
        self.retries = 0
        self._begin_subtree()

    def _begin_subtree(self) -> None:
        self.parent: Node | None = None
        self.depth = 0
        self.chunk: Chunk[Node] | None = None
        self.children: ChildList[Node] | None = None
        self.dropped_children = 0
        self.open_nodes = 1
        self.amounts = NOTHING_USED
        self.subtree_retries = 0
        self.version = 0
        self.view: NodeView | None = None
        self.watched: Watched | None = None
        self.is_dropped = False

    def path(self) -> Iterator["Node"]:
        """Yield the node and its ancestors, nearest first."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    def subtree(self) -> list["Node"]:
        """Return the node and everything below it, parents before children."""
        nodes: list[Node] = [self]
        for node in nodes:  # the list grows during the loop
            if node.children is not None:
                nodes.extend(node.children)
        return nodes

    def add_child(self, child: "Node") -> None:
        """Add a child."""
        if self.children is None:
            self.children = ChildList()
        child.parent = self
        child.depth = self.depth + 1
        child.chunk = self.children.append(child)

    def drop_child(self, child: "Node") -> None:
        """Remove a child, and count it as dropped. The child keeps its parent."""
        if self.children is not None and child.chunk is not None:
            self.children.remove(child, child.chunk)
        self.dropped_children += 1

    def mark_changed(self, version: int) -> None:
        """Record that something has changed in it or below it."""
        self.version = version
        self.view = None
        if self.chunk is not None:
            self.chunk.views = None

    def up_to_date_view(self) -> NodeView:
        """Return its view; only changed parts are rebuilt."""
        if self.view is not None:
            return self.view
        changed: list[Node] = [self]
        for node in changed:  # the list grows during the loop
            if node.children is not None:
                changed.extend(node.children.without_view())
        for node in reversed(changed):  # children come before their parents
            node.view = node._make_view()
        assert self.view is not None
        return self.view

    def _make_view(self) -> NodeView:
        below = usage_by_model(self.amounts) if self.amounts else NO_VALUES
        own = below if self.amounts == self.own_amounts else usage_by_model(self.own_amounts)
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
            usage=_sum(own),
            usage_by_model=own,
            subtree_usage=_sum(below),
            subtree_usage_by_model=below,
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


def _sum(usages: Mapping[str, Usage]) -> Usage:
    return sum(usages.values(), NO_USAGE) if len(usages) > 1 else next(iter(usages.values()), NO_USAGE)

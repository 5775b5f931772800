"""The children of a node, in chunks, so that a change of one child among thousands costs little."""

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from .views import Children, NodeView

__all__ = ["CHILDREN_PER_CHUNK", "ChildList", "Chunk", "Viewed"]

CHILDREN_PER_CHUNK = 256
"""What is put together anew when one of them has changed."""


class Viewed(Protocol):
    """A node with a view; None when it has changed since."""

    view: NodeView | None


Child = TypeVar("Child", bound=Viewed)


class Chunk(Generic[Child]):
    """A stretch of children.

    Attributes:
        children: They, in order.
        views: Their views; None when one has changed since.
    """

    __slots__ = ("children", "views")

    def __init__(self) -> None:
        self.children: dict[Child, None] = {}
        self.views: tuple[NodeView, ...] | None = None


class ChildList(Generic[Child]):
    """The children of one node, in the order of beginning."""

    __slots__ = ("_chunks", "_last", "_taken")

    def __init__(self) -> None:
        self._chunks: dict[Chunk[Child], None] = {}
        self._last: Chunk[Child] | None = None
        self._taken = 0

    def append(self, child: Child) -> Chunk[Child]:
        """Add a child; gives its chunk."""
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
        """Take a child out of its chunk."""
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
        """Those that have changed since they were looked at last."""
        for chunk in self._chunks:
            if chunk.views is None:
                for child in chunk.children:
                    if child.view is None:
                        yield child

    def view(self) -> Children:
        """The views of all, every child having one."""
        return Children(tuple(map(_views_of, self._chunks)))


def _views_of(chunk: Chunk[Child]) -> tuple[NodeView, ...]:
    if chunk.views is None:
        chunk.views = tuple(child.view for child in chunk.children if child.view is not None)
    return chunk.views

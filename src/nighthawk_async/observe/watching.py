"""Newer views of a node as they come to be, for somebody who may be slow. Floor 4.

Who watches holds no queue: a change only wakes, and what is seen then is the newest view.
"""

import math
from collections.abc import AsyncIterator

import anyio
from anyio.lowlevel import checkpoint

from ..actors.argument_checks import check_seconds
from ..runtime.loop_event import LoopEvent
from .errors import NodeNotFoundError, ObserveError
from .node import Node
from .shared_tree import SharedTree
from .views import NodeView

__all__ = ["Watch"]


class Watch(AsyncIterator[NodeView]):
    """Gives newer and newer views of a node; `async with` it, then iterate over it.

    Each view is the newest there is when it is asked for. It ends after the view in which the node has ended.
    Only one task may iterate at a time.

    Entering it raises `NodeNotFoundError` when the node was dropped meanwhile.

    Args:
        tree: The tree.
        node: The node.
        since: Which version was seen before; None, or a version that the tree has not had, for none.
        min_interval: How much time there is between two views at least, in seconds.
    """

    def __init__(self, tree: SharedTree, node: Node, *, since: int | None, min_interval: float) -> None:
        check_seconds("min_interval", min_interval)
        self._tree = tree
        self._node = node
        self._seen = -1 if since is None else since
        self._min_interval = min_interval
        self._due = -math.inf
        self._is_entered = False
        self._is_over = False
        self._armed: list[LoopEvent] = []  # at most one; who takes it out sets it, so it is set once
        self._guard = anyio.ResourceGuard("waiting for changes")

    async def __aenter__(self) -> "Watch":
        self._tree.read(self._begin)
        self._is_entered = True
        return self

    async def __aexit__(self, *exc_details: object) -> None:
        self._is_over = True
        self._tree.read(self._end)
        self.wake()

    def __aiter__(self) -> "Watch":
        return self

    async def __anext__(self) -> NodeView:
        if not self._is_entered:
            raise ObserveError("changes are watched inside `async with`")
        with self._guard:
            await checkpoint()
            while (event := self._tree.read(self._find_event)) is not None:
                await event.wait()
            if self._due > anyio.current_time():
                await anyio.sleep_until(self._due)
            if self._is_over:
                raise StopAsyncIteration
            view = self._tree.read(self._node.up_to_date_view)
            self._due = anyio.current_time() + self._min_interval
            self._seen = view.version
            self._is_over = view.is_ended
            return view

    def wake(self) -> None:
        """Something has changed; see `node.Watcher`."""
        try:
            event = self._armed.pop()
        except IndexError:  # nobody waits, or another thread wakes already
            return
        event.set()

    def _begin(self) -> None:
        if self._node.is_dropped:
            raise NodeNotFoundError(self._node.id)
        if self._seen > self._tree.state.version:
            self._seen = -1
        if self._node.watchers is None:
            self._node.watchers = {}
        self._node.watchers[self] = None

    def _end(self) -> None:
        watchers = self._node.watchers
        if watchers is not None:
            watchers.pop(self, None)
            self._node.watchers = watchers or None

    def _find_event(self) -> LoopEvent | None:
        """What to wait for; None when there is something to see, or nothing will come any more."""
        node = self._node
        if node.version <= self._seen and node.ended_at is not None:
            self._is_over = True
        if self._is_over or node.version > self._seen:
            return None
        event = LoopEvent()
        self._armed[:] = [event]
        return event

"""Newer views of a node as it changes, for readers that may be slow.

A watcher has no queue: a change only wakes it, and it then reads the newest view.
"""

import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Protocol, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from ..actors.errors import check_seconds
from ..parallel.event_loop import LoopEvent, is_loop_thread
from .errors import NodeNotFoundError, ObserveError
from .node import Node
from .shared_tree import SharedTree
from .views import NodeView
from .watched import Watched

_NOTICE_SECONDS = 0.5
"""A thread that waits without a limit notices Ctrl-C on some systems only."""


class _Event(Protocol):
    """An event that a change sets."""

    def set(self) -> object: ...


Event = TypeVar("Event", bound=_Event)


class Watch(AsyncIterator[NodeView], Iterator[NodeView]):
    """Yields newer and newer views of a node; enter it with `async with`, then iterate over it.

    In a thread without an event loop, enter it with `with`, and iterate with `for`.

    Each view is the newest at the time it is asked for. When the last view of the node took long to build,
    the next one comes later, and all watchers of the node get the same one. Iteration ends after the view in
    which the node has ended, or when the watch is closed. Only one task or thread may iterate at a time.

    Entering it raises `NodeNotFoundError` when the node was dropped meanwhile.

    Args:
        tree: The tree.
        node: The node.
        since: The version that was seen before; None, or a version that the tree has not had, for none.
        min_interval: The minimum time between two views, in seconds.
    """

    def __init__(self, tree: SharedTree, node: Node, *, since: int | None, min_interval: float) -> None:
        check_seconds("min_interval", min_interval)
        self._tree = tree
        self._node = node
        self._seen = -1 if since is None else since
        self._min_interval = min_interval
        self._due = -math.inf
        self._watched = Watched()
        self._is_entered = False
        self._is_over = False
        self._armed: list[_Event] = []  # at most one; the thread that takes it sets it, so it is set once
        self._is_closed = threading.Event()
        self._guard = anyio.ResourceGuard("waiting for changes")

    async def __aenter__(self) -> "Watch":
        self._enter()
        return self

    async def __aexit__(self, *exc_details: object) -> None:
        self.close()

    def __enter__(self) -> "Watch":
        if is_loop_thread():
            raise ObserveError("this thread runs an event loop: enter the watch with `async with`")
        self._enter()
        return self

    def __exit__(self, *exc_details: object) -> None:
        self.close()

    def newest(self) -> NodeView:
        """Return the newest view, whether or not it was seen."""
        return self._tree.read(self._node.up_to_date_view)

    def close(self) -> None:
        """End the iteration. Any thread may call it."""
        self._is_over = True
        self._is_closed.set()
        self._tree.read(self._end)
        self.wake()

    def __aiter__(self) -> "Watch":
        return self

    def __iter__(self) -> "Watch":
        return self

    async def __anext__(self) -> NodeView:
        self._check_entered("async with")
        with self._guard:
            await checkpoint()
            while (event := self._tree.read(self._find_event, LoopEvent)) is not None:
                await event.wait()
            pause = max(self._due - anyio.current_time(), self._tree.read(self._seconds_left))
            if pause > 0:
                await anyio.sleep(pause)
            if self._is_over:
                raise StopAsyncIteration
            return self._take(anyio.current_time())

    def __next__(self) -> NodeView:
        self._check_entered("with")
        with self._guard:
            while (event := self._tree.read(self._find_event, threading.Event)) is not None:
                while not event.wait(_NOTICE_SECONDS):
                    pass
            pause = max(self._due - time.monotonic(), self._tree.read(self._seconds_left))
            if pause > 0:
                self._is_closed.wait(pause)
            if self._is_over:
                raise StopIteration
            return self._take(time.monotonic())

    def wake(self) -> None:
        """Notify it of a change; see `watched.Watcher`."""
        try:
            event = self._armed.pop()
        except IndexError:  # no task waits, or another thread wakes it already
            return
        event.set()

    def _enter(self) -> None:
        self._tree.read(self._begin)
        self._is_entered = True

    def _check_entered(self, statement: str) -> None:
        if not self._is_entered:
            raise ObserveError(f"enter the watch with `{statement}` before iterating over it")

    def _take(self, now: float) -> NodeView:
        view = self._tree.read(self._look)
        self._due = now + self._min_interval
        self._seen = view.version
        self._is_over = self._is_over or view.is_ended
        return view

    def _begin(self) -> None:
        if self._node.is_dropped:
            raise NodeNotFoundError(self._node.id)
        if self._seen > self._tree.state.version:
            self._seen = -1
        if self._node.watched is None:
            self._node.watched = Watched()
        self._watched = self._node.watched
        self._watched.watchers[self] = None

    def _end(self) -> None:
        self._watched.watchers.pop(self, None)
        self._watched.waiting.pop(self, None)
        if self._node.watched is self._watched and not self._watched.watchers:
            self._node.watched = None

    def _seconds_left(self) -> float:
        return self._watched.seconds_left(self._seen)

    def _look(self) -> NodeView:
        return self._watched.view(self._seen, self._node.up_to_date_view)

    def _find_event(self, make_event: Callable[[], Event]) -> Event | None:
        """Return the event to wait for; None when there is a new view, or none will come."""
        node = self._node
        if node.version <= self._seen and node.ended_at is not None:
            self._is_over = True
        if self._is_over or node.version > self._seen:
            return None
        event = make_event()
        self._armed[:] = [event]
        self._watched.waiting[self] = None
        return event

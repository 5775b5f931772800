"""Snapshots of contested objects before some code runs, and the changes it made.

A watch is open while code runs in one thread. On one event loop no two are open at once, so that code made
every change found. Watches of several threads can overlap: then the watch that closes first reports the
change and names the other step, and the other watch does not report it again.
"""

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from ...runtime.mutable_state import Shape, shapes_of
from ...runtime.snapshot import is_shared
from .bound_objects import Binding, BoundObjects

MAX_WATCHED_DEPTH = 4
"""The depth below a bound object to which changes are detected."""

MAX_WATCHED_OBJECTS = 250
"""The number of objects that are compared for one command."""

MAX_WATCHED_ITEMS = 20_000
"""The total number of items in these; objects beyond it are compared only by size."""


class Mutation(Struct, frozen=True, kw_only=True, eq=False):
    """One contested object that was changed.

    Args:
        name: The step's name of the contested object.
        path: The changed object, as an expression from that name.
        value: The changed object.
        root: The contested object itself, through which the changed one was reached.
        other: The binding of another step that holds the contested object.
        rival: A step whose code ran in another thread meanwhile and may have made the change instead.
    """

    name: str
    path: str
    value: object
    root: object
    other: Binding
    rival: BoundObjects | None


class _Root(Struct, frozen=True):
    name: str
    value: object
    other: Binding


class _Watched(Struct, kw_only=True, eq=False):
    value: object
    root: "_Root"
    path: str
    depth: int
    shapes: tuple[Shape, ...]
    size: int
    states: list[Any] | None = None
    rival: BoundObjects | None = None

    def read(self) -> None:
        self.states = [shape.read(self.value) for shape in self.shapes]

    def is_changed(self) -> bool:
        if self.states is None:
            return _size(self.value, self.shapes) != self.size
        return not all(
            not shape.is_mutable or shape.is_same(state, shape.read(self.value))
            for shape, state in zip(self.shapes, self.states, strict=True)
        )

    def rebase(self) -> None:
        """Take a new snapshot of the object."""
        self.size = _size(self.value, self.shapes)
        if self.states is not None:
            self.read()

    def children(self) -> Iterator[tuple[str, object]]:
        for shape, state in zip(self.shapes, self.states or (), strict=False):
            yield from shape.children(state)


class MutationWatch:
    """A snapshot of a step's contested objects, and of the objects reached from them, before some code runs.

    Args:
        owner: The step whose code will run.
        roots: The contested objects: name, object and the other step's binding.
    """

    def __init__(self, owner: BoundObjects, roots: list[tuple[str, object, Binding]]) -> None:
        self._owner = owner
        self._watched: dict[int, _Watched] = {}
        self._pending: deque[_Watched] = deque()
        self._items_left = MAX_WATCHED_ITEMS
        self._take_snapshots(roots)
        _OPEN_WATCHES.add(self)

    def close(self) -> list[Mutation]:
        """Return the changes: for each contested object, the first one found at it or below it.

        Close a watch in the thread that opened it, once.
        """
        _OPEN_WATCHES.remove(self)
        found: dict[int, _Watched] = {}
        for watched in self._watched.values():
            if watched.is_changed():
                found.setdefault(id(watched.root.value), watched)
                watched.rival = _OPEN_WATCHES.notify(self._owner, watched.value) or watched.rival
        return [
            Mutation(
                name=watched.root.name,
                path=watched.path,
                value=watched.value,
                root=watched.root.value,
                other=watched.root.other,
                rival=watched.rival,
            )
            for watched in found.values()
        ]

    def restore(self) -> bool:
        """Restore the changed objects that no other thread may have changed.

        Returns:
            Whether every changed object was restored.
        """
        is_whole = True
        for watched in self._watched.values():
            if watched.is_changed():
                is_whole = _restore(watched) and is_whole
                _OPEN_WATCHES.notify(self._owner, watched.value)
        return is_whole

    def rebase(self, value: object) -> bool:
        """Take a new snapshot of an object; return whether the watch includes it."""
        watched = self._watched.get(id(value))
        if watched is not None:
            watched.rebase()
        return watched is not None

    @property
    def owner(self) -> BoundObjects:
        """The step whose code runs."""
        return self._owner

    def _take_snapshots(self, roots: list[tuple[str, object, Binding]]) -> None:
        for name, value, other in roots:
            self._add(value, root=_Root(name, value, other), path=name, depth=0)
        while self._pending:
            watched = self._pending.popleft()
            for label, child in watched.children():
                if len(self._watched) >= MAX_WATCHED_OBJECTS:
                    return
                self._add(child, root=watched.root, path=watched.path + label, depth=watched.depth + 1)

    def _add(self, value: object, *, root: _Root, path: str, depth: int) -> None:
        if id(value) in self._watched:
            return
        shapes = shapes_of(type(value))
        if not shapes or is_shared(value):
            return
        size = _size(value, shapes)
        watched = _Watched(value=value, root=root, path=path, depth=depth, shapes=shapes, size=size)
        self._watched[id(value)] = watched
        if size <= self._items_left:
            self._items_left -= size
            watched.read()
            if depth < MAX_WATCHED_DEPTH:
                self._pending.append(watched)


class _OpenWatches:
    """The watches that are open at this moment, at most one for each thread that runs steps."""

    def __init__(self) -> None:
        self._watches: list[MutationWatch] = []
        self._lock = threading.Lock()

    def add(self, watch: MutationWatch) -> None:
        with self._lock:
            self._watches.append(watch)

    def remove(self, watch: MutationWatch) -> None:
        with self._lock:
            self._watches.remove(watch)

    def notify(self, owner: BoundObjects, value: object) -> BoundObjects | None:
        """Report to the other open watches that a change of an object was found.

        Args:
            owner: The step that found it.
            value: The object.

        Returns:
            A step that may have made the change as well. A step that waits for the finder did not.
        """
        with self._lock:
            owners = [watch.owner for watch in self._watches if watch.rebase(value)]
        return next((step for step in owners if step not in owner.callers), None)


_OPEN_WATCHES = _OpenWatches()


def _size(value: object, shapes: tuple[Shape, ...]) -> int:
    return sum(shape.size(value) for shape in shapes)


def _restore(watched: _Watched) -> bool:
    if watched.states is None or watched.rival is not None:
        return False
    try:
        for shape, state in zip(watched.shapes, watched.states, strict=True):
            if shape.is_mutable and not shape.is_same(state, shape.read(watched.value)):
                shape.restore(watched.value, state)
    except Exception:  # keys with a user-defined `__hash__`, a bytearray whose memory is in use
        return False
    return not watched.is_changed()

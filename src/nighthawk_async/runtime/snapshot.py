"""Snapshots of objects and their contents, taken before some code runs.

`shared` declares objects that steps may share and change.
"""

import sys
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

from msgspec import Struct

from .mutable_state import Shape, attributes_of, shapes_of

Object = TypeVar("Object")

_FIRST_SWEEP = 64


class _SharedObjects:
    """The declared objects, by identity.

    Objects without weak references (lists, dictionaries) are held strongly. From time to time those that
    nothing else refers to are released, so a service that declares a list per request does not grow.
    """

    def __init__(self) -> None:
        self._held: dict[int, object] = {}
        self._weak: dict[int, weakref.ref[object]] = {}
        self._sweep_at = _FIRST_SWEEP
        self._has_types = False

    def add(self, value: object) -> None:
        key = id(value)
        try:
            self._weak[key] = weakref.ref(value, lambda _: self._weak.pop(key, None))
        except TypeError:  # it supports no weak references
            self._held[key] = value
            if len(self._held) >= self._sweep_at:
                self._sweep()
        self._has_types = self._has_types or isinstance(value, type)

    def __contains__(self, value: object) -> bool:
        if not self._held and not self._weak:
            return False
        return self._is_declared(value) or (
            self._has_types and any(map(self._is_declared, type(value).__mro__))
        )

    def _is_declared(self, value: object) -> bool:
        if (reference := self._weak.get(id(value))) is not None:
            return reference() is value
        return id(value) in self._held

    def _sweep(self) -> None:
        for key in list(self._held):
            # Two references: this table's, and the argument of getrefcount.
            if sys.getrefcount(self._held[key]) <= 2:
                del self._held[key]
        self._sweep_at = max(_FIRST_SWEEP, 2 * len(self._held))


_SHARED = _SharedObjects()


def shared(value: Object) -> Object:
    """Declare that an object is meant to be changed by steps that run at the same time.

    It causes no `ConcurrentMutationWarning`, nor do objects that are reachable only through it. Use it for
    caches, registries and clients that synchronise themselves. `SharedCell`, `SharedMap`, mailboxes and locks
    need no declaration.

    Args:
        value: The object; a class declares its instances and those of its subclasses.

    Returns:
        The same object.
    """
    _SHARED.add(value)
    return value


def is_shared(value: object) -> bool:
    """Whether an object, or its class, was declared to be shared."""
    return value in _SHARED


NEVER_CHANGED = frozenset({str, int, float, bool, bytes, complex, type(None)})
"""Types of values that no code can change."""

MAX_REMEMBERED_OBJECTS = 1_000
"""The greatest number of objects in a snapshot, those nearest to the roots first."""

MAX_REMEMBERED_ITEMS = 20_000
"""The greatest number of items in them together; an object beyond that is compared only by its size."""


class _ClassAttributes:
    """The attributes of a class itself."""

    is_mutable = True

    def size(self, value: type[Any]) -> int:
        return len(vars(value))

    def read(self, value: type[Any]) -> dict[str, Any]:
        return dict(vars(value))

    def is_same(self, before: dict[str, Any], now: dict[str, Any]) -> bool:
        return before.keys() == now.keys() and all(now[name] is each for name, each in before.items())

    def restore(self, value: type[Any], before: dict[str, Any]) -> None:
        now = vars(value)
        for name in now.keys() - before.keys():
            type.__delattr__(value, name)
        for name, each in before.items():
            if name not in now or now[name] is not each:
                type.__setattr__(value, name, each)

    def children(self, state: dict[str, Any]) -> Iterator[tuple[str, object]]:
        yield from ()


_CLASS_ATTRIBUTES = _ClassAttributes()


class _Remembered(Struct, frozen=True, eq=False):
    value: object
    shapes: tuple[Shape, ...]
    size: int
    states: list[Any] | None

    def is_changed(self) -> bool:
        if self.states is None:
            return _size(self.value, self.shapes) != self.size
        return any(self._differs(shape, state) for shape, state in zip(self.shapes, self.states, strict=True))

    def restore(self) -> None:
        for shape, state in zip(self.shapes, self.states or (), strict=False):
            if self._differs(shape, state):
                shape.restore(self.value, state)

    def _differs(self, shape: Shape, state: Any) -> bool:
        now = shape.read(self.value)
        is_in_place = getattr(state, "variables", None) is getattr(now, "variables", None)
        return not (is_in_place and shape.is_same(state, now))


class Snapshot:
    """Contents of some objects and of everything reached from them, within bounds; none of their code runs.

    Args:
        *roots: The objects. Their own attributes are recorded, whatever their types; objects that they hold
            are followed if they are data (see `mutable_state.shapes_of`).
    """

    __slots__ = ("_pending", "_remembered", "_room")

    def __init__(self, *roots: object) -> None:
        self._remembered: dict[int, _Remembered] = {}
        self._pending: deque[_Remembered] = deque()
        self._room = MAX_REMEMBERED_ITEMS
        for root in roots:
            self._add(root, is_root=True)
        while self._pending and len(self._remembered) < MAX_REMEMBERED_OBJECTS:
            holder = self._pending.popleft()
            for shape, state in zip(holder.shapes, holder.states or (), strict=False):
                for _, child in shape.children(state):
                    self._add(child)

    def is_changed(self) -> bool:
        """Whether one of the objects has changed."""
        return any(each.is_changed() for each in self._remembered.values())

    def restore(self) -> None:
        """Restore what has changed. An object that refuses keeps its current state."""
        for each in self._remembered.values():
            try:
                each.restore()
            except Exception:  # a user's `__hash__` of keys, or a bytearray whose memory is in use
                continue

    def _add(self, value: Any, *, is_root: bool = False) -> None:
        if type(value) in (WeakKeyDictionary, WeakValueDictionary):
            value = value.data  # where descriptors keep the values of objects
        if id(value) in self._remembered or (len(self._remembered) >= MAX_REMEMBERED_OBJECTS and not is_root):
            return
        kind = cast("type[Any]", type(value))
        shapes = shapes_of(kind)
        if not shapes and is_root:
            shapes = (_CLASS_ATTRIBUTES,) if issubclass(kind, type) else (attributes_of(kind),)
        if not shapes or (is_shared(value) and not is_root):
            return
        size = _size(value, shapes)
        is_read = size <= self._room
        states = [shape.read(value) for shape in shapes] if is_read else None
        remembered = _Remembered(value, shapes, size, states)
        self._remembered[id(value)] = remembered
        if is_read:
            self._room -= size
            self._pending.append(remembered)


def _size(value: object, shapes: tuple[Shape, ...]) -> int:
    return sum(shape.size(value) for shape in shapes)

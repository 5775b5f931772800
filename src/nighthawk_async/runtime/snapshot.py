"""Snapshots of objects and their contents, from before some code ran."""

from collections import deque
from collections.abc import Iterator
from typing import Any, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

from msgspec import Struct

from .mutable_state import Shape, attributes_of, shapes_of
from .shared_objects import is_shared

__all__ = ["MAX_REMEMBERED_ITEMS", "MAX_REMEMBERED_OBJECTS", "Snapshot"]

MAX_REMEMBERED_OBJECTS = 1_000
"""How many objects are looked at, those nearest to the roots first."""

MAX_REMEMBERED_ITEMS = 20_000
"""How many things these may hold together; an object beyond that is compared by its size alone."""


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
        *roots: The objects. Their own attributes are remembered whatever they are; what they hold is followed
            where it is data (see `mutable_state.shapes_of`).
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
        """Whether one of the objects is not as it was."""
        return any(each.is_changed() for each in self._remembered.values())

    def restore(self) -> None:
        """Put back what has changed. An object that refuses keeps its state."""
        for each in self._remembered.values():
            try:
                each.restore()
            except Exception:  # keys with a `__hash__` of the user's, a bytearray whose memory is in use
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

"""The mutable state of Python objects: recorded, compared, restored, and copied before some code runs.

No code of the object runs: state is read directly from lists, dictionaries, sets, instance dictionaries and
slots, and compared by identity. Reports of concurrent changes are in
`policies.shared_objects.bound_objects`.

`shared` declares objects that steps may share and change.
"""

import sys
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from functools import lru_cache, partial
from operator import is_
from typing import Any, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

from msgspec import Struct
from pydantic import BaseModel

_MISSING = object()
_SCALARS = frozenset({str, int, float, complex, bool, bytes, type(None)})
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement
_INFRASTRUCTURE = sys.stdlib_module_names | {"anyio", "trio", "outcome", "sniffio", "nighthawk_async"}
_NEVER_FOLLOWED = (type, types.ModuleType, BaseException, Enum)
_VOCABULARY = frozenset(
    {
        "abc",
        "builtins",
        "collections",
        "collections.abc",
        "_collections_abc",
        "contextlib",
        "numbers",
        "types",  # also the module that Python 3.11 gives to classes of `dataclasses.make_dataclass`
        "typing",
    }
)
"""Modules of the standard library whose classes serve as bases of data classes."""


class Shape(Protocol):
    """One way in which objects of a type hold others."""

    @property
    def is_mutable(self) -> bool:
        """Whether the held objects can be replaced; if not, only their own contents can change."""
        ...

    def size(self, value: Any, /) -> int:
        """Return the number of held objects."""
        ...

    def read(self, value: Any) -> Any:
        """Return the current contents: a copy that holds the same objects."""
        ...

    def is_same(self, before: Any, now: Any) -> bool:
        """Whether two readings hold the same objects at the same positions."""
        ...

    def restore(self, value: Any, before: Any) -> None:
        """Restore the contents of a reading. Raises what the object raises."""
        ...

    def children(self, state: Any) -> Iterator[tuple[str, object]]:
        """Return the containers in a reading, each with the expression that reaches it."""
        ...


def _same_items(before: list[Any], now: list[Any]) -> bool:
    return len(before) == len(now) and (all(map(is_, before, now)) or all(map(_is_same, before, now)))


def _is_same(before: object, now: object) -> bool:
    return before is now or (type(before) in _SCALARS and type(before) is type(now) and before == now)


class _Items:
    """Contents of a list, a deque, a bytearray, a tuple or a subclass of one, in order."""

    def __init__(self, base: Any, *, is_mutable: bool = True) -> None:
        self.is_mutable = is_mutable
        self.size: Callable[[Any], int] = base.__len__
        self._iterate: Callable[[Any], Iterable[Any]] = base.__iter__
        self._base = base

    def read(self, value: Any) -> list[Any]:
        return list(self._iterate(value))

    def is_same(self, before: list[Any], now: list[Any]) -> bool:
        return _same_items(before, now)

    def restore(self, value: Any, before: list[Any]) -> None:
        if self._base is deque:
            deque[Any].clear(value)
            deque[Any].extend(value, before)
        else:
            self._base.__setitem__(value, slice(None), before)

    def children(self, state: list[Any]) -> Iterator[tuple[str, object]]:
        if not _SCALARS.issuperset(map(type, state)):
            for index, item in enumerate(state):
                if type(item) not in _SCALARS:
                    yield f"[{index}]", item


class _Members:
    """Contents of a set or frozenset."""

    def __init__(self, base: Any, *, is_mutable: bool = True) -> None:
        self.is_mutable = is_mutable
        self.size: Callable[[Any], int] = base.__len__
        self._iterate: Callable[[Any], Iterable[Any]] = base.__iter__

    def read(self, value: Any) -> list[Any]:
        return list(self._iterate(value))

    def is_same(self, before: list[Any], now: list[Any]) -> bool:
        return _same_items(before, now) or {*map(_member, before)} == {*map(_member, now)}

    def restore(self, value: Any, before: list[Any]) -> None:
        set[Any].clear(value)
        set[Any].update(value, before)

    def children(self, state: list[Any]) -> Iterator[tuple[str, object]]:
        yield from (("{…}", item) for item in state if type(item) not in _SCALARS)


def _member(item: object) -> object:
    return (type(item), item) if type(item) in _SCALARS else id(item)


class _Entries:
    """Contents of a dictionary or a subclass of one."""

    is_mutable = True

    def __init__(self, base: Any) -> None:
        self.size: Callable[[Any], int] = base.__len__
        self._base = base

    def read(self, value: Any) -> tuple[list[Any], list[Any]]:
        return list(dict[Any, Any].keys(value)), list(dict[Any, Any].values(value))

    def is_same(self, before: tuple[list[Any], list[Any]], now: tuple[list[Any], list[Any]]) -> bool:
        return _same_items(before[0], now[0]) and _same_items(before[1], now[1])

    def restore(self, value: Any, before: tuple[list[Any], list[Any]]) -> None:
        self._base.clear(value)
        for key, item in zip(*before, strict=True):
            self._base.__setitem__(value, key, item)

    def children(self, state: tuple[list[Any], list[Any]]) -> Iterator[tuple[str, object]]:
        for key, item in zip(*state, strict=True):
            if type(item) not in _SCALARS:
                yield f"[{key!r}]" if type(key) in _SCALARS else "[…]", item


class _OrderedEntries(_Entries):
    """Contents of an `OrderedDict` or a subclass of one, in its own order, which `move_to_end` changes.

    Reading that order hashes the keys, so it is read only if all keys are scalars, such as texts and numbers.
    """

    def __init__(self) -> None:
        super().__init__(OrderedDict)

    def read(self, value: Any) -> tuple[list[Any], list[Any]]:
        keys, values = super().read(value)
        if not _SCALARS.issuperset(map(type, keys)):
            return keys, values
        items = dict(zip(keys, values, strict=True))
        ordered = list(OrderedDict[Any, Any].__iter__(value))
        return ordered, [items.get(key) for key in ordered]


class _Reading(dict[str, Any]):
    """The attributes of an object, by name.

    _Attributes:
        variables: The instance dictionary that they were read from.
    """

    __slots__ = ("variables",)
    variables: dict[str, Any]


class _Attributes:
    """The instance dictionary and the slots of an object.

    Args:
        dictionary: The descriptor of the instance dictionary; None when there is none.
        slots: The descriptors of the slots.
        computed: Names that reading may add, as a `cached_property` does; they count as no change.
        is_mutable: Whether attributes can be set.
    """

    def __init__(
        self, dictionary: Any, slots: Mapping[str, Any], computed: frozenset[str], *, is_mutable: bool
    ) -> None:
        self.is_mutable = is_mutable
        self._dictionary = dictionary
        self._slots = slots
        self._computed = computed

    def size(self, value: Any) -> int:
        return len(self._slots) + len(self._variables(value))

    def read(self, value: Any) -> "_Reading":
        variables = self._variables(value)
        state = _Reading(variables)
        state.variables = variables
        if self._slots:
            slots = {name: self.get(value, name, _MISSING) for name in self._slots}
            state.update((name, item) for name, item in slots.items() if item is not _MISSING)
        return state

    def is_same(self, before: dict[str, Any], now: dict[str, Any]) -> bool:
        if len(before) == len(now) and all(map(is_, before.values(), now.values())):
            return list(before) == list(now)
        names = (before.keys() | now.keys()) - self._computed
        return all(name in before and name in now and _is_same(before[name], now[name]) for name in names)

    @property
    def can_read(self) -> bool:
        """Whether there is an instance dictionary, or a slot."""
        return self._dictionary is not None or bool(self._slots)

    def reader_of_variables(self, names: Collection[str]) -> Callable[[Any], Mapping[str, object]] | None:
        """The function that returns instance dictionaries, where they show all; see below."""
        if self._slots or self._dictionary is None or not self._computed.isdisjoint(names):
            return None
        read: Callable[[Any], Mapping[str, object]] = self._dictionary.__get__
        return read

    def given(self, value: Any) -> dict[str, Any]:
        """The attributes by name, without those that were computed."""
        if not self._slots:
            variables = dict(self._variables(value))
            return variables if self._computed.isdisjoint(variables) else self._without_computed(variables)
        return self._without_computed(self.read(value))

    def _without_computed(self, attributes: dict[str, Any]) -> dict[str, Any]:
        return {name: item for name, item in attributes.items() if name not in self._computed}

    def restore(self, value: Any, before: "_Reading") -> None:
        variables = before.variables
        if self._dictionary is not None and self._variables(value) is not variables:
            self._dictionary.__set__(value, variables)  # pydantic may have replaced it
        variables.clear()
        variables.update((name, item) for name, item in before.items() if name not in self._slots)
        for name, slot in self._slots.items():
            if name in before:
                slot.__set__(value, before[name])
            elif self.get(value, name, _MISSING) is not _MISSING:
                slot.__delete__(value)

    def copy(self, value: Any, blank: Any) -> None:
        self._variables(blank).update(self._variables(value))
        for name, slot in self._slots.items():
            if (item := self.get(value, name, _MISSING)) is not _MISSING:
                slot.__set__(blank, item)

    def children(self, state: dict[str, Any]) -> Iterator[tuple[str, object]]:
        for name, item in state.items():
            if type(item) not in _SCALARS:
                yield f".{name}", item

    def get(self, value: Any, name: str, default: object) -> object:
        """One attribute; the default if the object does not hold it."""
        if name not in self._slots:
            return self._variables(value).get(name, default)
        try:
            return self._slots[name].__get__(value)
        except AttributeError:  # not set
            return default

    def _variables(self, value: Any) -> dict[str, Any]:
        return {} if self._dictionary is None else self._dictionary.__get__(value)


_CONTAINERS: Mapping[type, Shape] = {
    list: _Items(list),
    OrderedDict: _OrderedEntries(),
    dict: _Entries(dict),
    set: _Members(set),
    tuple: _Items(tuple, is_mutable=False),
    frozenset: _Members(frozenset, is_mutable=False),
    deque: _Items(deque),
    bytearray: _Items(bytearray),
}


@lru_cache(maxsize=4096)
def shapes_of(kind: type[Any]) -> tuple[Shape, ...]:
    """Return the shapes in which objects of a type hold others; empty for types that are never followed.

    Followed are lists, dictionaries, sets, deques, bytearrays, tuples, frozensets, and instances of classes
    written in Python: dataclasses, pydantic models and plain objects. Instances of frozen classes are
    followed, but are not mutable themselves. Classes, functions, modules, enumerations and exceptions are not
    followed, nor are the plain objects of the standard library, AnyIO, Trio and this library (locks, queues,
    loggers, paths, shared cells), which are values or are safe to share. Neither are instances of classes
    derived from these, since inherited attributes cannot be distinguished from their own.
    """
    if issubclass(kind, _NEVER_FOLLOWED) or _is_infrastructure(kind):
        return ()
    containers = [shape for base, shape in _CONTAINERS.items() if issubclass(kind, base)][:1]
    return (*containers, *_attribute_shapes(kind))


def attribute_of(value: object, name: str, default: object = None) -> object:
    """An attribute that the object itself holds, read without running its code; else the default."""
    shapes = shapes_of(type(value))
    if shapes and isinstance(shapes[-1], _Attributes):
        return shapes[-1].get(value, name, default)
    return default


def _is_infrastructure(kind: type[Any]) -> bool:
    if kind in _CONTAINERS or kind is types.SimpleNamespace:
        return False
    modules = [str(vars(base).get("__module__", "builtins")) for base in kind.__mro__]
    return any(
        module.partition(".")[0] in _INFRASTRUCTURE and module not in _VOCABULARY for module in modules
    )


def attributes_of(kind: type[Any]) -> Shape:
    """Return the shape in which instances of any class hold their attributes.

    Args:
        kind: The class.
    """
    return _own_attributes(kind)


def copy_attributes(value: object, blank: object) -> None:
    """Copy the attributes of an object to a blank object of the same class.

    Args:
        value: The object to copy from.
        blank: The object without attributes.
    """
    _own_attributes(type(value)).copy(value, blank)


def held_attributes(value: object) -> dict[str, Any] | None:
    """The attributes that an object of any class holds, in its instance dictionary and its slots.

    None of its code runs. What an attribute of its class computes and keeps there, as a `cached_property`
    does, is left out.

    Returns:
        None where it does not hold them itself: it is a proxy that shows those of another object.
    """
    kind = type(value)
    attributes = _own_attributes(kind)
    if not attributes.can_read and any("__dict__" in vars(base) for base in kind.__mro__):
        return None
    return attributes.given(value)


def reader_of_variables(
    kind: type[Any], names: Collection[str]
) -> Callable[[Any], Mapping[str, object]] | None:
    """The function that returns the instance dictionaries of a class, if they show all that is held.

    Args:
        kind: The class.
        names: The attributes of interest; none of them is computed.
    """
    return _own_attributes(kind).reader_of_variables(names)


@lru_cache(maxsize=4096)
def _own_attributes(kind: type[Any]) -> _Attributes:
    shapes = _attribute_shapes(kind)
    return shapes[0] if shapes else _Attributes(None, {}, frozenset(), is_mutable=False)


def _attribute_shapes(kind: type[Any]) -> tuple[_Attributes, ...]:
    if not kind.__flags__ & _HEAP_TYPE and kind is not types.SimpleNamespace:
        return ()
    dictionary = next((vars(base)["__dict__"] for base in kind.__mro__ if "__dict__" in vars(base)), None)
    if not isinstance(dictionary, types.GetSetDescriptorType | types.MemberDescriptorType | None):
        return ()  # a proxy that shows the attributes of another object
    slots = {name: slot for base in reversed(kind.__mro__) for name, slot in _slots(base)}
    if dictionary is None and not slots:
        return ()
    return (_Attributes(dictionary, slots, _computed_names(kind), is_mutable=not _is_frozen(kind)),)


def _slots(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    if "__slots__" in vars(kind):
        for name, item in vars(kind).items():
            if isinstance(item, types.MemberDescriptorType) and name != "__weakref__":
                yield name, item


def _computed_names(kind: type[Any]) -> frozenset[str]:
    """The names of descriptors that an instance attribute overrides, except functions and partials."""
    return frozenset(
        name
        for base in kind.__mro__
        for name, item in vars(base).items()
        if _gives_way(item)
        and not isinstance(item, types.FunctionType | staticmethod | classmethod | partial)
    )


def _gives_way(item: object) -> bool:
    return hasattr(type(item), "__get__") and not hasattr(type(item), "__set__")


def _is_frozen(kind: type[Any]) -> bool:
    if issubclass(kind, BaseModel):
        return bool(kind.model_config.get("frozen"))
    parameters: object = getattr(kind, "__dataclass_params__", None)
    return bool(getattr(parameters, "frozen", False))


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

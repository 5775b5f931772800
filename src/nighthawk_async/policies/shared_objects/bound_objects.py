"""Objects bound by steps in flight, by identity, in the whole process.

A step binds the values of its `<name>` and `<:name>` bindings when it begins, and the objects that tools bind
them to later; for a dotted `<name.field>`, the last object on the path that can hold others. This costs one
dictionary operation per object when the step begins and one when it ends. A binding holds its object, so no
identity is used twice.

`report` says which step changed an object.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar

from msgspec import Struct

from ...runtime.mutable_state import attribute_of, shapes_of
from ...runtime.snapshot import is_shared
from ...runtime.step_context import StepContext

_MISSING = object()


class Binding(Struct, frozen=True, eq=False):
    """An object that a step in flight has bound.

    Args:
        owner: The step.
        name: The binding, as the block spells it.
        value: The object.
    """

    owner: "BoundObjects"
    name: str
    value: object


class _Registry:
    """The bindings of each object by steps in flight."""

    def __init__(self) -> None:
        self._bindings: dict[int, dict[Binding, None]] = {}  # in the order of binding
        self._lock = threading.Lock()  # steps of several event loops, in several threads

    def add(self, *bindings: Binding) -> None:
        with self._lock:
            for binding in bindings:
                self._bindings.setdefault(id(binding.value), {})[binding] = None

    def remove(self, *bindings: Binding) -> None:
        with self._lock:
            for binding in bindings:
                holders = self._bindings[id(binding.value)]
                del holders[binding]
                if not holders:
                    del self._bindings[id(binding.value)]

    def bound_elsewhere(
        self, values: Iterable[tuple[str, object]], own_counts: Mapping[int, int]
    ) -> list[tuple[str, object]]:
        """Return those of some named objects that have more bindings than the step's own."""
        find = self._bindings.get
        return [
            (name, value)
            for name, value in values
            if (holders := find(id(value))) is not None and len(holders) != own_counts.get(id(value))
        ]

    def find(self, value: object, is_wanted: Callable[[Binding], bool]) -> Binding | None:
        """Return the oldest wanted binding of an object."""
        with self._lock:
            return next(filter(is_wanted, self._bindings.get(id(value), ())), None)


_REGISTRY = _Registry()
_innermost: ContextVar["BoundObjects | None"] = ContextVar("nighthawk_async_bound_objects", default=None)


class BoundObjects:
    """The objects that one step binds. The step is in flight within the `with` statement.

    Args:
        context: The state of the step, whose parent is the step in flight of the caller, if any.
        is_registered: Whether other steps see what it binds.
    """

    __slots__ = (
        "_bindings",
        "_is_in_flight",
        "_is_registered",
        "_names",
        "_own_counts",
        "_token",
        "callers",
        "context",
    )

    def __init__(self, context: StepContext, *, is_registered: bool) -> None:
        self.context = context
        self.callers = _enclosing_steps()
        self._names = tuple(dict.fromkeys((*context.write_names, *context.read_names)))
        self._bindings: dict[str, Binding] = {}
        self._own_counts: dict[int, int] = {}
        self._is_registered = is_registered
        self._is_in_flight = False

    def __enter__(self) -> None:
        self._token = _innermost.set(self)
        self._is_in_flight = True
        if self._is_registered:
            self._bind(*_bound_values(self.context, self._names))

    def __exit__(self, *exc_details: object) -> None:
        self._is_in_flight = self._is_registered = False
        _REGISTRY.remove(*self._bindings.values())
        self._bindings.clear()
        self._own_counts.clear()
        _innermost.reset(self._token)

    @property
    def is_in_flight(self) -> bool:
        """Whether the step has begun and not ended."""
        return self._is_in_flight

    def refresh(self) -> None:
        """Record bindings that tools have bound to other objects."""
        if not self._is_registered:
            return
        step_locals = self.context.step_locals
        for name in self._names:
            if name not in step_locals:
                continue
            value, binding = step_locals[name], self._bindings.get(name)
            if binding is None:
                self._bind((name, value))
            elif binding.value is not value:
                self._unbind(binding)
                self._bind((name, value))

    def contested(self, *, with_callees: bool) -> list[tuple[str, object, Binding]]:
        """Return the bindings and locals of the step whose objects another step binds.

        Args:
            with_callees: Whether steps that this one called count as others. Its callers never do: they wait
                for it.

        Returns:
            Name, object, and the other step's binding; an object may occur twice.
        """
        bound = [(name, binding.value) for name, binding in self._bindings.items()]
        return [
            (name, value, other)
            for values in (bound, self.context.step_locals.items())
            for name, value in _REGISTRY.bound_elsewhere(values, self._own_counts)
            if (other := self.other(value, with_callees=with_callees))
        ]

    def other(self, value: object, *, with_callees: bool) -> Binding | None:
        """Return another step's oldest binding of an object; None when it is declared shared."""

        def is_other(binding: Binding) -> bool:
            return not (
                binding.owner is self
                or binding.owner in self.callers
                or (not with_callees and self in binding.owner.callers)
            )

        other = _REGISTRY.find(value, is_other)
        return None if other is None or is_shared(value) else other

    def _bind(self, *values: tuple[str, object]) -> None:
        # Two references may lead to the same object: `<user.name>` and `<user.email>`.
        bindings = {
            name: Binding(self, name, value)
            for name, value in values
            if name not in self._bindings and shapes_of(type(value))
        }
        for binding in bindings.values():
            key = id(binding.value)
            self._bindings[binding.name] = binding
            self._own_counts[key] = self._own_counts.get(key, 0) + 1
        _REGISTRY.add(*bindings.values())

    def _unbind(self, binding: Binding) -> None:
        del self._bindings[binding.name]
        self._own_counts[id(binding.value)] -= 1
        _REGISTRY.remove(binding)


def _enclosing_steps() -> frozenset[BoundObjects]:
    parent = _innermost.get()
    if parent is None:
        return frozenset()
    return frozenset(step for step in (parent, *parent.callers) if step.is_in_flight)


def _bound_values(context: StepContext, names: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    for name in names:
        value = context.step_locals.get(name, context.step_globals.get(name, _MISSING))
        if value is not _MISSING:
            yield name, value
    for reference in context.references:
        if "." in reference:
            yield _last_holder(reference, context)


def _last_holder(reference: str, context: StepContext) -> tuple[str, object]:
    """Return the last object on a dotted path that can hold others, found without running its code."""
    name, *fields = reference.split(".")
    value = context.step_locals.get(name, context.step_globals.get(name))
    for field in fields:
        held = attribute_of(value, field, _MISSING)
        if held is _MISSING or not shapes_of(type(held)):
            break
        name, value = f"{name}.{field}", held
    return name, value

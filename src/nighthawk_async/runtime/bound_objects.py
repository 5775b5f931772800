"""Which objects are bound by which steps in flight, by identity, in the whole process. Floor 3.

A step binds what its `<name>` and `<:name>` bindings mean when it begins, and what tools bind them to later;
for a dotted `<name.field>`, the last object on the way that can hold others. One dictionary operation per
object when the step begins and one when it ends. A binding holds its object, so no identity is used twice.

It does not say who changed something: that is `concurrent_mutation`.
"""

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from .mutable_state import attributes_of, shapes_of
from .shared_objects import is_shared
from .step_context import StepContext

__all__ = ["Binding", "BoundObjects"]

_MISSING = object()


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
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
    """Who binds an object."""

    def __init__(self) -> None:
        self._bindings: dict[int, dict[Binding, None]] = {}  # in the order of binding
        self._lock = threading.Lock()  # steps of several event loops, in several threads

    def add(self, binding: Binding) -> None:
        with self._lock:
            self._bindings.setdefault(id(binding.value), {})[binding] = None

    def remove(self, binding: Binding) -> None:
        key = id(binding.value)
        with self._lock:
            bindings = self._bindings[key]
            del bindings[binding]
            if not bindings:
                del self._bindings[key]

    def is_bound(self, value: object) -> bool:
        return id(value) in self._bindings

    def find(self, value: object, is_wanted: Callable[[Binding], bool]) -> Binding | None:
        """The oldest wanted binding of an object."""
        with self._lock:
            return next(filter(is_wanted, self._bindings.get(id(value), ())), None)


_REGISTRY = _Registry()
_innermost: ContextVar["BoundObjects | None"] = ContextVar("nighthawk_async_bound_objects", default=None)


class BoundObjects:
    """The objects that one step binds.

    Args:
        context: The state of the step, which begins inside the step in flight around the caller, if any.
    """

    __slots__ = ("_bindings", "_is_in_flight", "callers", "context")

    def __init__(self, context: StepContext) -> None:
        outer = _innermost.get()
        self.context = context
        self.callers: frozenset[BoundObjects] = frozenset() if outer is None else outer.callers | {outer}
        self._bindings: dict[str, Binding] = {}
        self._is_in_flight = False

    @contextmanager
    def in_flight(self, *, is_registered: bool) -> Generator[None, None, None]:
        """The extent of the step.

        Args:
            is_registered: Whether other steps see what it binds.
        """
        token = _innermost.set(self)
        self._is_in_flight = is_registered
        if is_registered:
            for name, value in _bound_values(self.context):
                self._bind(name, value)
        try:
            yield
        finally:
            self._is_in_flight = False
            for binding in self._bindings.values():
                _REGISTRY.remove(binding)
            self._bindings.clear()
            _innermost.reset(token)

    def refresh(self) -> None:
        """Take note of bindings that tools have bound to something else."""
        if not self._is_in_flight:
            return
        for name in (*self.context.write_names, *self.context.read_names):
            value = self.context.step_locals.get(name, _MISSING)
            binding = self._bindings.get(name)
            if value is _MISSING or (binding is not None and binding.value is value):
                continue
            if binding is not None:
                _REGISTRY.remove(self._bindings.pop(name))
            self._bind(name, value)

    def contested(self, *, with_callees: bool) -> Iterator[tuple[str, object, Binding]]:
        """The objects within the step's reach that another step binds: its bindings and its locals.

        Args:
            with_callees: Whether steps that this one called count as others. Those that called it never do:
                they wait for it.

        Returns:
            Name, object, and the other step's binding; an object may come twice.
        """
        for binding in list(self._bindings.values()):
            if other := self.other(binding.value, with_callees=with_callees):
                yield binding.name, binding.value, other
        for name, value in list(self.context.step_locals.items()):
            if other := self.other(value, with_callees=with_callees):
                yield name, value, other

    def other(self, value: object, *, with_callees: bool) -> Binding | None:
        """The oldest binding of another step that holds an object; None when it is meant to be shared."""
        if not _REGISTRY.is_bound(value):
            return None

        def is_other(binding: Binding) -> bool:
            return not (
                binding.owner is self
                or binding.owner in self.callers
                or (not with_callees and self in binding.owner.callers)
            )

        other = _REGISTRY.find(value, is_other)
        return None if other is None or is_shared(value) else other

    def _bind(self, name: str, value: object) -> None:
        if shapes_of(type(value)):
            self._bindings[name] = Binding(self, name, value)
            _REGISTRY.add(self._bindings[name])


def _bound_values(context: StepContext) -> Iterator[tuple[str, object]]:
    for name in dict.fromkeys((*context.write_names, *context.read_names)):
        value = context.step_locals.get(name, context.step_globals.get(name, _MISSING))
        if value is not _MISSING:
            yield name, value
    for reference in context.references:
        if "." in reference:
            yield _last_holder(reference, context)


def _last_holder(reference: str, context: StepContext) -> tuple[str, object]:
    """The last object on a dotted way that can hold others, found without running its code."""
    name, *fields = reference.split(".")
    value = context.step_locals.get(name, context.step_globals.get(name))
    for field in fields:
        held = attributes_of(value).get(field, _MISSING)
        if held is _MISSING or not shapes_of(type(held)):
            break
        name, value = f"{name}.{field}", held
    return name, value

"""Objects bound by steps in flight: their snapshots before some code runs, and reports of changes.

A step binds the values of its `<name>` and `<:name>` bindings when it begins, and the objects that tools bind
them to later; for a dotted `<name.field>`, the last object on the path that can hold others. This costs one
dictionary operation per object when the step begins and one when it ends. A binding holds its object, so no
identity is used twice.

`report` says which step changed an object.

A watch is open while code runs in one thread. On one event loop no two are open at once, so that code made
every change found. Watches of several threads can overlap: then the watch that closes first reports the
change and names the other step, and the other watch does not report it again.

Steps never share their state, but they can bind the same objects, such as two steps of a task group that both
read `<basket>`. While one waits for its model, the other may change the basket through its tools, and the
first acts on outdated data. The guard reports this with both steps, the names of the bindings and the type of
the object, as a `ConcurrentMutationWarning` at the block that made the change. With
`run(…, concurrent_mutation="error")` the tool call fails instead: the model reads why, and the object is
restored. With `"first"` the first step that changes the object goes on, and the others are shown what it has
become (`first_writer`). With `"ignore"` steps of the run are neither watched nor registered. Declare objects
that several steps may change with `nighthawk_async.shared(object)`; `SharedCell`, `SharedMap`, mailboxes and
locks are known.

**What counts as bound.** The objects of `<name>` and `<:name>` bindings; for a dotted `<name.field>` the last
object that can hold others. The changing step need not bind the object itself: it can reach its locals too. A
step that called another one, through a binding function or tool, waits for it, so the child step may change
the objects that its parent has bound.

**What counts as a change.** Before and after each tool call (`nh_eval`, `nh_assign`, `nh_exec`, tools, return
expressions), and each stretch between two awaits of the code that such a call awaits, the contents of the
objects that two steps bind are compared by identity, and so are the objects reached from them: lists,
dictionaries, sets, deques, bytearrays, dataclasses, pydantic models, objects of your classes with or without
`__slots__`; four objects deep, at most 250 objects that hold 20,000 items. The order counts where there is
one, in dictionaries too. Binding a name to another object is not a change of an object.

**Cost.** A bound object that can change costs a step one dictionary operation when it begins and one when it
ends, and each tool call one check of each name of the step. An object bound by only one step is never
inspected. An object that two steps bind is read before and after each tool call and each stretch between two
awaits, in time that grows with its contents, up to the limits above (`benchmarks/cases/guard.py` has the
figures).

**What is not detected.** Changes by code outside tool calls (the Python code between blocks, executors of
your own); changes in other tasks that a binding function starts, and in worker threads
(`nighthawk_async.blocking`); two steps that reach one object from different bound objects, unless a dotted
`nh_assign` leads to it and another step binds it. State that Python code cannot see: arrays, data frames,
tensors, files, the position of an iterator or generator, exceptions, objects of the standard library other
than collections, and objects of your classes that derive from these (`threading.Thread`,
`argparse.Namespace`). Objects that are keys of a dictionary, and objects reached only through them; the order
of an `OrderedDict` that has other keys than texts and numbers. Beyond 20,000 items, changes that keep the
size.

**False reports.** Attributes created by a `cached_property` do not count as a change. Declare a class with
`shared` when it fills a cache in another way, in a property for instance, or when it guards itself: holding a
lock is not taken as a declaration, and the lock is neither inspected nor restored. Changes by another thread
during a tool call are attributed to that call.

**What is not undone.** With `"error"`, an object that is too large to be remembered, or that steps of two
threads may have changed at once, is not restored; the message says so. Changes of objects that no other step
binds stay, but names bound by a synchronous call are restored. Code that a call awaits goes on after one of
its changes was undone; the call fails when that code has ended.
"""

import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from ...errors import ToolBoundaryError
from ...kernel.context import StepContext
from ...pickling import PicklableError
from ...types.execution import ExecutionRef
from ...values.snapshots import Shape, attribute_of, is_shared, shapes_of

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
# It flows through the runs within a step, whose environment has no step.
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

    def held(self) -> Iterator[tuple[str, object, Binding | None]]:
        """Yield what the step binds, with its bindings, and then its other locals."""
        yield from ((name, binding.value, binding) for name, binding in self._bindings.items())
        yield from ((name, value, None) for name, value in self.context.step_locals.items())

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
    other: Binding | None


class Watched(Struct, kw_only=True, eq=False):
    """An object, and its contents at one moment.

    Args:
        value: The object.
        root: The object from which it was reached.
        path: An expression for it, from the name of the root.
        depth: The number of objects between the root and it, itself included.
        shapes: The ways to read it.
        size: The number of its items.
        states: Its contents; None if it was too large to be read.
        rival: See `Mutation`.
    """

    value: object
    root: "_Root"
    path: str
    depth: int
    shapes: tuple[Shape, ...]
    size: int
    states: list[Any] | None = None
    rival: BoundObjects | None = None

    def read(self) -> None:
        """Take a snapshot of the contents."""
        self.states = [shape.read(self.value) for shape in self.shapes]

    def is_changed(self) -> bool:
        """Whether the object has changed since."""
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
        """The objects in it, with the ends of their paths."""
        for shape, state in zip(self.shapes, self.states or (), strict=False):
            yield from shape.children(state)


class ObjectStates:
    """The contents of some objects, and of the objects reached from them, at one moment.

    Args:
        roots: The objects: their names, the objects, and the bindings that make them of interest; None for
            none.

    Attributes:
        entries: The objects by identity.
    """

    def __init__(self, roots: Iterable[tuple[str, object, Binding | None]]) -> None:
        self.entries: dict[int, Watched] = {}
        self._pending: deque[Watched] = deque()
        self._items_left = MAX_WATCHED_ITEMS
        self._take_snapshots(roots)

    def changed(self) -> list[Watched]:
        """The objects that have changed since, in the order in which they were reached."""
        return [watched for watched in self.entries.values() if watched.is_changed()]

    def _take_snapshots(self, roots: Iterable[tuple[str, object, Binding | None]]) -> None:
        for name, value, other in roots:
            self._add(value, root=_Root(name, value, other), path=name, depth=0)
        while self._pending:
            watched = self._pending.popleft()
            for label, child in watched.children():
                if len(self.entries) >= MAX_WATCHED_OBJECTS:
                    return
                self._add(child, root=watched.root, path=watched.path + label, depth=watched.depth + 1)

    def _add(self, value: object, *, root: _Root, path: str, depth: int) -> None:
        if id(value) in self.entries:
            return
        shapes = shapes_of(type(value))
        if not shapes or is_shared(value):
            return
        size = _size(value, shapes)
        watched = Watched(value=value, root=root, path=path, depth=depth, shapes=shapes, size=size)
        self.entries[id(value)] = watched
        if size <= self._items_left:
            self._items_left -= size
            watched.read()
            if depth < MAX_WATCHED_DEPTH:
                self._pending.append(watched)


class MutationWatch(ObjectStates):
    """A snapshot of a step's contested objects, and of the objects reached from them, before some code runs.

    Args:
        owner: The step whose code will run.
        roots: The contested objects: name, object and the other step's binding.
    """

    def __init__(self, owner: BoundObjects, roots: Iterable[tuple[str, object, Binding | None]]) -> None:
        super().__init__(roots)
        self._owner = owner
        _OPEN_WATCHES.add(self)

    def close(self) -> list[Watched]:
        """Return the objects that have changed.

        Close a watch in the thread that opened it, once.
        """
        _OPEN_WATCHES.remove(self)
        found = self.changed()
        for watched in found:
            watched.rival = _OPEN_WATCHES.notify(self._owner, watched.value) or watched.rival
        return found

    def restore(self) -> bool:
        """Restore the changed objects that no other thread may have changed.

        Returns:
            Whether every changed object was restored.
        """
        is_whole = True
        for watched in self.changed():
            is_whole = restore(watched) and is_whole
            _OPEN_WATCHES.notify(self._owner, watched.value)
        return is_whole

    def rebase(self, value: object) -> bool:
        """Take a new snapshot of an object; return whether the watch includes it."""
        watched = self.entries.get(id(value))
        if watched is not None:
            watched.rebase()
        return watched is not None

    @property
    def owner(self) -> BoundObjects:
        """The step whose code runs."""
        return self._owner


def mutations_of(found: Iterable[Watched]) -> list[Mutation]:
    """The changes to report: for each contested object, the first one found at it or below it."""
    firsts: dict[int, Mutation] = {}
    for watched in found:
        root = watched.root
        if root.other is not None and id(root.value) not in firsts:
            firsts[id(root.value)] = Mutation(
                name=root.name,
                path=watched.path,
                value=watched.value,
                root=root.value,
                other=root.other,
                rival=watched.rival,
            )
    return list(firsts.values())


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


def restore(watched: Watched) -> bool:
    """Restore an object, unless code in another thread may have changed it; return whether it is restored."""
    if watched.states is None or watched.rival is not None:
        return False
    try:
        for shape, state in zip(watched.shapes, watched.states, strict=True):
            if shape.is_mutable and not shape.is_same(state, shape.read(watched.value)):
                shape.restore(watched.value, state)
    except Exception:  # keys with a user-defined `__hash__`, a bytearray whose memory is in use
        return False
    return not watched.is_changed()


ConcurrentMutation: TypeAlias = Literal["warn", "error", "first", "ignore"]
"""The reaction of a run to a step that changes an object that another step in flight has bound."""

_GUIDANCE = "Change a copy and bind that, or leave this change to the program."
_shown: dict[Any, Any] = {}  # warnings shown by the `default` action, as in a `__warningregistry__`


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationReport:
    """The report of a concurrent change: the object, the step that changed it, the steps that bind it.

    Args:
        step: The step that made the change.
        binding: The name of the shared object in that step.
        path: The changed object as an expression from that name; the name itself when it is the same object.
        object_type: The qualified name of the changed object's type.
        other_step: The step in flight that has the shared object bound.
        other_binding: The name of the shared object in that other step.
        rival_step: A step in another thread that may have made the change instead; None when there is none.
    """

    step: ExecutionRef
    binding: str
    path: str
    object_type: str
    other_step: ExecutionRef
    other_binding: str
    rival_step: ExecutionRef | None

    def __str__(self) -> str:
        rival = "" if self.rival_step is None else f", or {self._name(self.rival_step)} in another thread,"
        reached = "" if self.path == self.binding else f", reached from '{self.binding}'"
        return (
            f"step {self.step.step_id}{rival} changed '{self.path}' ({self.object_type}){reached}, "
            f"which {self._name(self.other_step)} in flight has bound as '{self.other_binding}'"
        )

    def _name(self, step: ExecutionRef) -> str:
        if step.step_id == self.step.step_id:
            return f"another execution of step {step.step_id}"
        return f"step {step.step_id}"


class ConcurrentMutationWarning(PicklableError, RuntimeWarning):  # noqa: N818  (not an error)
    """A step changed an object that another step in flight has bound.

    Args:
        report: The report of the change.
    """

    def __init__(self, report: MutationReport) -> None:
        super().__init__(
            f"{report}; pass each step its own copy, or declare the object with nighthawk_async.shared"
        )
        self.report = report


ConcurrentMutationWarning.__module__ = "nighthawk_async.policies"  # which exports it


class ConcurrentMutationError(ToolBoundaryError):
    """The error that the model sees for such a change in a run with `concurrent_mutation="error"`.

    Args:
        report: The report of the change.
        is_restored: Whether the change was undone.
    """

    def __init__(self, report: MutationReport, *, is_restored: bool) -> None:
        end = "the change was undone" if is_restored else "the change could not be undone"
        super().__init__(kind="execution", message=f"{report}; {end}", guidance=_GUIDANCE)
        self.report = report
        self.is_restored = is_restored


def report_of(step: BoundObjects, mutation: Mutation) -> MutationReport:
    """Make the report of a change that a watch has found.

    Args:
        step: The step of the watch.
        mutation: The change.
    """
    kind = type(mutation.value)
    return MutationReport(
        step=step.context.execution_ref,
        binding=mutation.name,
        path=mutation.path,
        object_type=f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."),
        other_step=mutation.other.owner.context.execution_ref,
        other_binding=mutation.other.name,
        rival_step=None if mutation.rival is None else mutation.rival.context.execution_ref,
    )


def warn_of(report: MutationReport, *, filename: str, line: int) -> None:
    """Emit the warning at the block whose step made the change.

    Args:
        report: The report to warn of.
        filename: The source file of the block.
        line: The line of the block in that file.

    Raises:
        ConcurrentMutationWarning: Python's warning filters turn the warning into an error.
    """
    module = (report.step.step_id or "").rpartition(":")[0]
    warnings.warn_explicit(
        ConcurrentMutationWarning(report),
        ConcurrentMutationWarning,
        filename,
        line,
        module=module,
        registry=_shown,
    )

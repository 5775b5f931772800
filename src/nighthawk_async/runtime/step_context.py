"""The mutable state of one step (specification 4 and 8.1)."""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import cast

from ..types.execution import ExecutionRef
from ..types.outcomes import OutcomeKind
from .snapshot import NEVER_CHANGED, Snapshot

__all__ = ["ChangedRoots", "StepContext"]

_MISSING = object()


def _no_names() -> set[str]:
    """Make an empty set; `set[str]` takes ten times as long, because it tries to note itself in it."""
    return set()


def _is_shared(value: object) -> bool:
    """Whether equal values may be the same object, wherever they come from."""
    kind = type(value)
    if kind is int:
        return -5 <= cast("int", value) <= 256
    if kind in (str, bytes):
        return len(cast("str | bytes", value)) <= 1
    if kind in (tuple, frozenset):
        return not value
    return value is None or kind is bool or issubclass(kind, Enum | type)


class ChangedRoots:
    """The valid objects of write bindings, and their changes by the step's code.

    A snapshot of an initial object is taken right before the first code that mentions its binding, because
    most steps mention few. One of an object that was assigned is taken before the first code that runs,
    because the object may have other names.

    Attributes:
        objects: The objects to track, by the names of their bindings.
    """

    __slots__ = ("_assigned", "_marked", "_remembered", "objects")

    def __init__(self) -> None:
        self.objects: dict[str, object] = {}
        self._assigned: set[str] = set()
        self._remembered: dict[str, Snapshot] = {}
        self._marked: set[str] = set()

    def track(self, name: str, value: object) -> None:
        """Track the object that a write binding has been assigned."""
        self.objects[name] = value
        self._assigned.add(name)
        self._remembered.pop(name, None)
        self._marked.discard(name)

    def remember(self, names: Iterable[str]) -> None:
        """Take snapshots before code that mentions these names runs."""
        for name in self._assigned.union(names):
            if name in self.objects and name not in self._remembered:
                value = self.objects[name]
                if type(value) not in NEVER_CHANGED:
                    self._remembered[name] = Snapshot(value)

    def mark(self, name: str, value: object) -> None:
        """Mark a write binding's object as changed, unless the binding holds another object by now."""
        if self.objects.get(name, self) is value:
            self._marked.add(name)

    def confirm(self, name: str) -> None:
        """Mark the current state of a write binding's object as valid; only later changes count."""
        self._marked.discard(name)
        self._remembered[name] = Snapshot(self.objects[name])

    def is_changed(self, name: str) -> bool:
        """Whether the object of a write binding was changed."""
        snapshot = self._remembered.get(name)
        return name in self._marked or (snapshot is not None and snapshot.is_changed())

    def changed(self) -> Iterator[tuple[str, object]]:
        """The write bindings whose objects were changed, with the objects."""
        for name, value in tuple(self.objects.items()):
            if self.is_changed(name):
                yield name, value


@dataclass(slots=True, kw_only=True, eq=False)
class StepContext:
    """The state of one execution of one natural block.

    It belongs to its step actor: while the step runs, the agent executor and the tools reach it through
    messages. An executor of your own receives it and may read and change `step_locals` while its `run_step`
    runs.

    Args:
        step_id: The block, `python_module:line`.
        execution_ref: The identity of the run, scope and step.
        step_globals: The module globals of the block's expressions: the live globals of the function's
            module, with the scope's implicit references on top when there are any.
        step_locals: The names the block can read and assign.
        is_async: Whether the block's function is async, so that awaitables are awaited.
        is_generator: Whether that function is a generator or async generator.
        read_names: The names of the `<name>` bindings.
        write_names: The names of the `<:name>` bindings.
        binding_types: The type of each write binding; `object` if unknown.
        references: Every `<name>` and dotted `<name.field>` of the program, in order of appearance.
        mentions: The same, repeated as often as the program mentions them.
        referenced_globals: The values of referenced names that are not step locals.
        visible_builtins: The only builtins that the step's code can use; it then sees no globals besides
            `referenced_globals`. None for all globals and builtins.
        allowed_kinds: The outcome kinds the block may end with.
        refused_kinds: Outcome kinds that the function's return annotation excludes, with the reasons.
        raise_error_types: The exception types a `raise` outcome may name.
        enclosing_names: The known variables of the functions that enclose the block's function; texts in its
            signature's annotations may use them.
        parameter_annotations: The annotations of the function's parameters, unresolved.
        return_annotation: The annotation of the function's return value, unresolved; None for none.
        initial_values: The values of the write bindings when the step began.
        helper_names: Names that the step's code has made for itself.
        lost_names: Names that code has assigned although the block does not set them, and the program names
            them, or the assignment had no other purpose.
        assigned_names: Write bindings assigned by a tool, or dirty because a field of theirs was.
        changes: The objects that the step's code has changed in place.
        converted: The values that have the types of their write bindings already, by the names of the
            bindings; a value to return has the name "return".
        declared: The values of write bindings that come from variables of the same type: their initial
            objects, and copies.
        copies: Other names that code has set to values with declared types: the declared type and the value.
        variable_annotations: The annotations of the function's variables besides its write bindings,
            unresolved.
        initial_variables: The values of those variables when the step began.
    """

    step_id: str
    execution_ref: ExecutionRef
    step_globals: dict[str, object]
    step_locals: dict[str, object]
    is_async: bool = True
    is_generator: bool = False
    read_names: tuple[str, ...] = ()
    write_names: tuple[str, ...] = ()
    binding_types: Mapping[str, object] = field(default_factory=lambda: {})
    references: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()
    referenced_globals: Mapping[str, object] = field(default_factory=lambda: {})
    visible_builtins: frozenset[str] | None = None
    allowed_kinds: tuple[OutcomeKind, ...] = ()
    refused_kinds: Mapping[OutcomeKind, str] = field(default_factory=lambda: {})
    raise_error_types: Mapping[str, type[Exception]] = field(default_factory=lambda: {})
    enclosing_names: Mapping[str, object] = field(default_factory=lambda: {})
    parameter_annotations: Mapping[str, object] = field(default_factory=lambda: {})
    return_annotation: object = None
    initial_values: Mapping[str, object] = field(default_factory=lambda: {})
    helper_names: set[str] = field(default_factory=_no_names)
    lost_names: set[str] = field(default_factory=_no_names)
    assigned_names: set[str] = field(default_factory=_no_names)
    changes: ChangedRoots = field(default_factory=ChangedRoots)
    converted: dict[str, object] = field(default_factory=lambda: {})
    declared: dict[str, object] = field(default_factory=lambda: {})
    copies: dict[str, tuple[object, object]] = field(default_factory=lambda: {})
    variable_annotations: Mapping[str, object] = field(default_factory=lambda: {})
    initial_variables: Mapping[str, object] = field(default_factory=lambda: {})

    def settle(self, name: str, value: object) -> None:
        """Set a write binding to a value that was converted to its type."""
        self.step_locals[name] = self.converted[name] = value
        self.changes.track(name, value)

    def is_converted(self, name: str, value: object) -> bool:
        """Whether a value is the one that was converted for this name, so that it must not be again."""
        return self.converted.get(name, _MISSING) is value

    def converted_name(self, value: object, annotation: object) -> str | None:
        """The write binding of a type for which this very object was converted; None for none.

        Values of which Python keeps one object for all uses do not say so.
        """
        if _is_shared(value):
            return None
        names = (name for name, each in self.converted.items() if each is value)
        return next((each for each in names if self.binding_types.get(each) == annotation), None)

    def is_declared(self, name: str, value: object) -> bool:
        """Whether a value comes from a variable of the type of this write binding."""
        return self.declared.get(name, _MISSING) is value

    def note_bound(
        self, names: Iterable[str], before: Container[str], global_names: Container[str] = ()
    ) -> list[str]:
        """Note names that code has bound or deleted; return those whose old values come back after the block.

        Args:
            names: The names.
            before: The step locals before that.
            global_names: The names that the code declares `global`.
        """
        lost: list[str] = []
        roots = {reference.partition(".")[0] for reference in self.references}
        for name in names:
            if name in self.write_names:
                continue
            is_global = name in self.visible_globals and (name in roots or name in global_names)
            if is_global or (name in before and name not in self.helper_names):
                lost.append(name)
                if is_global or name in roots:
                    self.lost_names.add(name)
            else:
                self.helper_names.add(name)
        return lost

    def named_exceptions(self) -> list[Exception]:
        """The exception objects that the program names; the block may raise them, whatever their types."""
        roots = dict.fromkeys(reference.partition(".")[0] for reference in self.references)
        values = (self.step_locals.get(name, self.referenced_globals.get(name)) for name in roots)
        return [cast("Exception", value) for value in values if issubclass(type(value), Exception)]

    @property
    def visible_globals(self) -> Mapping[str, object]:
        """The globals that the step's code can use."""
        return self.step_globals if self.visible_builtins is None else self.referenced_globals

    def changed_bindings(self) -> dict[str, object]:
        """The write bindings that were assigned, rebound or made dirty, with their current values."""
        missing = object()
        return {
            name: self.step_locals[name]
            for name in self.write_names
            if name in self.step_locals
            and (
                name in self.assigned_names
                or self.step_locals[name] is not self.initial_values.get(name, missing)
            )
        }

"""The mutable state of one step (specification 4 and 8.1)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from ..types.execution import ExecutionRef
from ..types.outcomes import OutcomeKind
from .snapshot import Snapshot

__all__ = ["ChangedRoots", "StepContext"]

_NEVER_CHANGED = frozenset({str, int, float, bool, bytes, complex, type(None)})


class ChangedRoots:
    """The initial objects of write bindings that the step's code has mentioned, and their changes.

    A snapshot is taken right before the first code that mentions the binding, because most steps mention few.

    Attributes:
        objects: The objects to track, by the names of their bindings.
    """

    __slots__ = ("_marked", "_remembered", "objects")

    def __init__(self) -> None:
        self.objects: Mapping[str, object] = {}
        self._remembered: dict[str, Snapshot] = {}
        self._marked: set[str] = set()

    def remember(self, names: Iterable[str]) -> None:
        """Take snapshots for the write bindings among these names, before code that mentions them runs."""
        for name in names:
            if name in self.objects and name not in self._remembered:
                value = self.objects[name]
                if type(value) not in _NEVER_CHANGED:
                    self._remembered[name] = Snapshot(value)

    def mark(self, name: str, value: object) -> None:
        """Mark a write binding's object as changed, unless the binding holds another object by now."""
        if self.objects.get(name, self) is value:
            self._marked.add(name)

    def confirm(self, name: str) -> None:
        """Mark the current state of a write binding's object as valid; only later changes count."""
        self._marked.discard(name)
        self._remembered[name] = Snapshot(self.objects[name])

    def changed(self) -> Iterator[tuple[str, object]]:
        """The write bindings whose objects were changed, with the objects."""
        for name, value in tuple(self.objects.items()):
            snapshot = self._remembered.get(name)
            if name in self._marked or (snapshot is not None and snapshot.is_changed()):
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
        assigned_names: Write bindings assigned by a tool, or dirty because a field of theirs was.
        changes: The objects that the step's code has changed in place.
        checked: The values that were made from data, and are valid while no code has run on them, by the
            names of their write bindings; a value to return has the name "return".
    """

    step_id: str
    execution_ref: ExecutionRef
    step_globals: dict[str, object]
    step_locals: dict[str, object]
    is_async: bool = True
    is_generator: bool = False
    read_names: tuple[str, ...] = ()
    write_names: tuple[str, ...] = ()
    binding_types: Mapping[str, object] = field(default_factory=dict[str, object])
    references: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()
    referenced_globals: Mapping[str, object] = field(default_factory=dict[str, object])
    visible_builtins: frozenset[str] | None = None
    allowed_kinds: tuple[OutcomeKind, ...] = ()
    refused_kinds: Mapping[OutcomeKind, str] = field(default_factory=dict[OutcomeKind, str])
    raise_error_types: Mapping[str, type[Exception]] = field(default_factory=dict[str, type[Exception]])
    enclosing_names: Mapping[str, object] = field(default_factory=dict[str, object])
    parameter_annotations: Mapping[str, object] = field(default_factory=dict[str, object])
    return_annotation: object = None
    initial_values: Mapping[str, object] = field(default_factory=dict[str, object])
    assigned_names: set[str] = field(default_factory=set[str])
    changes: ChangedRoots = field(default_factory=ChangedRoots)
    checked: dict[str, object] = field(default_factory=dict[str, object])

    def is_checked(self, name: str, value: object) -> bool:
        """Whether a value was made from data for this name, and needs no further validation."""
        return name in self.checked and self.checked[name] is value

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

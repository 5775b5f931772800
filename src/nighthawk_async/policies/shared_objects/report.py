"""The gather-safety guard: noticing when one step changes what another step in flight has bound.

Steps never share a state, but the objects that they bind can be the same: two steps of a task group that both
read `<basket>`. While one thinks, the other may change the basket through its tools, and the first acts on
what is no longer true. The guard reports that with both steps, the names of the bindings and the type of the
object, as a `ConcurrentMutationWarning` at the block that made the change. With
`run(…, concurrent_mutation="error")` the tool call fails instead: the model reads why, and the object is as
it was. With `"ignore"` steps of the run are neither watched nor registered. Objects that are meant to be
changed by several steps say so: `nighthawk_async.shared(object)`; `SharedCell`, `SharedMap`, mailboxes and
locks are known.

**What counts as bound.** The objects of `<name>` and `<:name>` bindings, and of dotted `<name.field>` the
last one that can hold others. The step that changes need not have written the binding itself: its locals are
within its reach too. A step that called another one, through a binding function or tool, waits for it, so
the inner step may change what the outer one has bound.

**What counts as a change.** Around each tool call (`nh_eval`, `nh_assign`, `nh_exec`, tools, return
expressions), and around each stretch between two awaits of what such a call awaits, the objects that two
steps bind are compared by identity with what they held before, and so is what is reached from them: lists,
dictionaries, sets, deques, bytearrays, dataclasses, pydantic models, objects of your classes with or without
`__slots__`; four objects deep, at most 250 objects that hold 20,000 things. The order counts where there is
one, in dictionaries too. Binding a name to another object is no change of an object.

**Cost.** A bound object that can change costs a step one dictionary operation when it begins and one when it
ends, and each tool call one look at each name the step has. An object bound by one step alone is never looked
into. One that two steps bind is read before and after each tool call and each stretch between two awaits:
time that grows with what it holds, up to the limits above (`benchmarks/cases/guard.py` has the figures).

**What is not noticed.** Changes by code that is no tool call (the Python code around blocks, executors of
your own); changes made in other tasks that a binding function starts, and in worker threads
(`nighthawk_async.blocking`); two steps that reach one object from different bound objects, unless a dotted
`nh_assign` leads to it and another step binds it. State that Python code cannot see: arrays, data frames,
tensors, files, how far an iterator or generator is, exceptions, and objects of the standard library other
than collections, and of classes of yours that derive from such (`threading.Thread`, `argparse.Namespace`).
Objects that are keys of a dictionary, and what is reached through them alone; the order of an `OrderedDict`
that has other keys than texts and numbers. Beyond 20,000 things, changes that keep the size.

**What is reported and is none.** Attributes that reading creates are no change when they belong to a
`cached_property`; a class that fills a cache by hand, in a property for instance, is to be declared with
`shared`. So is one that guards itself: that it holds a lock is not taken for a declaration, and the lock is
neither looked into nor put back. What another thread changes during a tool call is taken for that call's
change.

**What is not undone.** With `"error"`, an object that is too large to be remembered, or that steps of two
threads may have changed at once, is not put back; the message says so. What the call did besides to objects
that no other step binds stays, except that names bound by a synchronous call are as they were. What a call
awaits goes on when a change of it was undone, and the call fails when it has ended.
"""

import warnings
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ...errors import ToolBoundaryError
from ...pickling import PicklableError
from ...types.execution import ExecutionRef
from .bound_objects import BoundObjects
from .watch import Mutation

ConcurrentMutation: TypeAlias = Literal["warn", "error", "ignore"]
"""What a run does about a step that changes what another step in flight has bound."""

_GUIDANCE = "Change a copy and bind that, or leave this change to the program."
_shown: dict[Any, Any] = {}  # what Python's `default` action has shown, as `__warningregistry__` of a module


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationReport:
    """The report of a concurrent change: the object, the step that changed it, the steps that bind it.

    Args:
        step: The step that made the change.
        binding: Its name of the shared object.
        path: The changed object as an expression from that name; the name itself when it is the same object.
        object_type: The qualified name of the changed object's type.
        other_step: The step in flight that has the shared object bound.
        other_binding: Its name of the shared object.
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


class ConcurrentMutationError(ToolBoundaryError):
    """The same in a run with `concurrent_mutation="error"`: what the model sees.

    Args:
        report: The report of the change.
        is_restored: Whether the object is as it was.
    """

    def __init__(self, report: MutationReport, *, is_restored: bool) -> None:
        end = "the change was undone" if is_restored else "the change could not be undone"
        super().__init__(kind="execution", message=f"{report}; {end}", guidance=_GUIDANCE)
        self.report = report
        self.is_restored = is_restored


def report_of(step: BoundObjects, mutation: Mutation) -> MutationReport:
    """Put into words what a watch has found.

    Args:
        step: The step whose watch it is.
        mutation: The change that it found.
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
    """Give the warning at the block whose step made the change.

    Args:
        report: The report to warn of.
        filename: The source file of the block.
        line: The line of the block in that file.

    Raises:
        ConcurrentMutationWarning: Python was told to make errors of warnings.
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

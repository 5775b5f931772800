"""The gather-safety guard: detects when a step changes an object that another step in flight has bound.

Steps never share their state, but they can bind the same objects, such as two steps of a task group that both
read `<basket>`. While one waits for its model, the other may change the basket through its tools, and the
first acts on outdated data. The guard reports this with both steps, the names of the bindings and the type of
the object, as a `ConcurrentMutationWarning` at the block that made the change. With
`run(…, concurrent_mutation="error")` the tool call fails instead: the model reads why, and the object is
restored. With `"ignore"` steps of the run are neither watched nor registered. Declare objects that several
steps may change with `nighthawk_async.shared(object)`; `SharedCell`, `SharedMap`, mailboxes and locks are
known.

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

import warnings
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ...errors import ToolBoundaryError
from ...pickling import PicklableError
from ...types.execution import ExecutionRef
from .bound_objects import BoundObjects
from .watch import Mutation

ConcurrentMutation: TypeAlias = Literal["warn", "error", "ignore"]
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

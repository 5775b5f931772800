"""Reports of a step to observers: its inputs, its state and its outcome."""

from collections.abc import Awaitable, Mapping
from types import NoneType
from typing import TypeVar

import anyio

from ..observation import NodeState, NodeWriter, find_node_writer, using_node_writer
from ..parallel import TaskCancelledError, current_task
from ..parallel.outcomes import state_after
from ..tracing import Span
from ..types.messages import UserContent
from ..types.outcomes import RaiseStepOutcome, StepOutcome
from .activities import Corrections, KernelActivity, identity_attributes
from .conclude import StepResult
from .environment import find_environment
from .step import Step
from .step_actor import StepActor
from .step_context import StepContext

Result = TypeVar("Result")


def find_step_node() -> NodeWriter | None:
    """The node of the step in progress; None if it is not observed, and outside steps."""
    environment = find_environment()
    return None if environment is None or environment.step is None else environment.step.actor.node


def write_note(text: str) -> None:
    """Write a note into the transcript of the step in progress.

    Args:
        text: The note.
    """
    node = find_step_node()
    if node is not None:
        node.write("note", f"{text}\n")


def write_retry(text: str) -> None:
    """Report a retry of the active work; the step in progress gets a note of it as well.

    Args:
        text: The cause and the time of the retry.
    """
    node = find_node_writer()
    if node is None:
        return
    node.count_retry()
    node.write("note", f"{text}\n")
    if find_step_node() is not node:
        write_note(text)


class waiting_state:  # noqa: N801  (a context manager that reads as a statement)
    """Report that the active work waits during the `with` statement, and runs before and after it."""

    __slots__ = ("_node",)

    def __enter__(self) -> None:
        self._node = find_node_writer()
        if self._node is not None:
            self._node.change_state("waiting")

    def __exit__(self, *exc_details: object) -> None:
        if self._node is not None:
            self._node.change_state("running")


class ObservedStep:
    """Reports one step to its span, and from `begin` on as a node, during the `with` statement.

    An error that leaves the statement ends the node. If it comes before `begin`, because the step cannot be
    prepared, the step becomes a failed node.

    Args:
        activity: The step.
        span: Its span, which the caller ends; None for none.
    """

    __slots__ = (
        "_active_node",
        "_activity",
        "_actor",
        "_before",
        "_control",
        "_node",
        "_parent",
        "_span",
    )

    def __init__(self, activity: KernelActivity, span: Span | None) -> None:
        self._activity = activity
        self._span = span
        self._parent = find_node_writer()
        self._actor: StepActor | None = None
        self._before: Mapping[str, object] = {}
        self._control: _ControlledStep | None = None
        self._node: NodeWriter | None = None
        self._active_node: using_node_writer | None = None

    def __enter__(self) -> "ObservedStep":
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        if self._parent is not None:
            self._end_node(self._parent, exc)
        if self._span is not None and self._actor is not None and self._actor.progress.corrections:
            self._span.note(Corrections(counts=self._actor.progress.corrections))

    def _end_node(self, parent: NodeWriter, error: BaseException | None) -> None:
        if self._active_node is not None:
            self._active_node.__exit__()
        if error is None:
            return
        execution_ref = self._activity.execution_ref
        step_id = execution_ref.step_id or ""
        node = self._node or parent.begin_child(
            "step", step_id, source=step_id, attributes=identity_attributes(execution_ref)
        )
        node.end(state_after(error), error=error)

    def begin(self, step: Step) -> None:
        """Report that the step waits for admission, and make its node the parent of what it causes.

        Args:
            step: The step.
        """
        self._actor = step.actor
        if self._parent is None:
            return
        context = step.context
        attributes: dict[str, str | int | float | bool] = {
            **identity_attributes(self._activity.execution_ref),
            "nighthawk.step.program": step.program,
        }
        if self._activity.attempt is not None:
            attributes["nighthawk.step.attempt"] = self._activity.attempt
        self._before = _bindings(context)
        self._control = _ControlledStep(step.actor)
        self._node = step.actor.node = self._parent.begin_child(
            "step",
            context.step_id,
            state="waiting",
            source=context.step_id,
            inputs=self._before,
            attributes=attributes,
            control=self._control,
        )
        self._active_node = using_node_writer(self._node)
        self._active_node.__enter__()

    def execute(self, work: Awaitable[Result]) -> Awaitable[Result]:
        """Execute the step, unless an observer cancels it.

        Args:
            work: The execution of the step.

        Raises:
            TaskCancelledError: An observer cancelled it.
        """
        return work if self._control is None else self._control.execute(work)

    def end(self, outcome: StepOutcome, result: StepResult) -> None:
        """Report the end of the step.

        Args:
            outcome: The outcome that the model chose.
            result: The result that the generated code commits and acts on.
        """
        if self._span is not None:
            self._span.note(outcome)
        node = self._node
        if node is None:
            return
        node.set_attributes({"nighthawk.step.outcome_kind": outcome.kind})
        # A value may have changed although no name was bound again.
        mutable = {name: value for name, value in self._before.items() if not _never_changes(value)}
        outputs = {**mutable, **result.bindings}
        if outcome.kind == "return":
            outputs["return"] = result.return_value
        state: NodeState = "raised" if isinstance(outcome, RaiseStepOutcome) else "completed"
        node.end(state, outputs=outputs, error=result.exception)


class _ControlledStep:
    """Control of a step by observers, like that of its task's handle, but of the step only.

    Args:
        actor: The actor of the step.
    """

    __slots__ = ("_actor", "_reason", "_scope")

    def __init__(self, actor: StepActor) -> None:
        self._actor = actor
        self._scope = anyio.CancelScope()
        self._reason: str | None = None

    async def execute(self, work: Awaitable[Result]) -> Result:
        with self._scope:
            return await work
        raise TaskCancelledError(task_id=current_task().id, reason=self._reason, forced=False)

    def request_cancel(self, reason: str | None) -> None:
        self._reason = self._reason or reason
        self._scope.cancel()

    def steer(self, *content: UserContent) -> None:
        self._actor.steer(*content)

    def suspend(self) -> None:
        self._actor.suspend()

    def resume(self, input: UserContent | None = None) -> None:
        self._actor.resume(input)


def _bindings(context: StepContext) -> Mapping[str, object]:
    """The read bindings, and those write bindings that have a value."""
    values = (context.step_locals, context.referenced_globals, context.step_globals)
    read = {
        name: next(each[name] for each in values if name in each)
        for name in context.read_names
        if any(name in each for each in values)
    }
    local = context.step_locals
    return {**read, **{name: local[name] for name in context.write_names if name in local}}


_PLAIN = (str, bytes, int, float, complex, NoneType)


def _never_changes(value: object) -> bool:
    return isinstance(value, _PLAIN) or callable(value)

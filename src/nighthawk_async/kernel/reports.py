"""Activities and events for `tracing`, and reports of a step to observers.

Events for hooks are in `events`, events of a response in `types.model`.
"""

from collections.abc import Awaitable, Mapping
from types import NoneType
from typing import Any, Literal, TypeAlias, TypeVar

import anyio
from msgspec import Struct

from ..errors import CorrectionCause, ErrorKind
from ..observation import NodeState, NodeWriter, find_node_writer, using_node_writer
from ..parallel import TaskCancelledError, current_task
from ..parallel.outcomes import state_after
from ..ports import Model
from ..tracing import Span
from ..types.execution import ExecutionRef, PartialValues
from ..types.messages import ToolCall, UserContent
from ..types.model import ModelEvent, ModelRequest
from ..types.outcomes import RaiseStepOutcome, Reading, StepOutcome
from .actor import StepActor
from .conclude import StepResult
from .context import StepContext
from .environment import find_environment
from .step import Step


class KernelActivity(Struct, frozen=True, kw_only=True, eq=False):
    """An activity of the kernel (specification 10.1).

    Args:
        name: The name of its span, without `nighthawk.`.
        execution_ref: The identity of what is running.
        attempt: The number of the attempt at a step, from 1; None without retries.
    """

    name: Literal["run", "scope", "step", "step_executor"]
    execution_ref: ExecutionRef
    attempt: int | None = None


class AgentActivity(Struct, frozen=True, kw_only=True, eq=False):
    """The work of an agent on one step. Records `UsageReported` for each request, and `ToolCallFailed`.

    Args:
        address: The address of the block, `python_module:function:number`.
        model: The model; None for the user's own agent.
        settings: The settings of its requests.
    """

    address: str
    model: Model | None
    settings: Mapping[str, Any]


class ToolCallActivity(Struct, frozen=True, kw_only=True, eq=False):
    """A tool call. Records its result.

    Args:
        call: The call.
        description: The description of the tool; empty for an unknown one.
        agent: The span of the agent that makes it.
    """

    call: ToolCall
    description: str
    agent: Span


class RequestActivity(Struct, frozen=True, kw_only=True, eq=False):
    """A model request, over all attempts. Records each `EventArrived`, and its usage at the end.

    Args:
        model: The model.
        request: The request as it is sent.
        is_replay: Whether the response is a recorded one, so that no model is asked.
        journal_place: The place of the request in a run with a journal; None without one.
        is_cached: Whether the response comes from a response cache.
        agent: The span of the agent that sends it; None for none.
    """

    model: Model
    request: ModelRequest
    is_replay: bool
    journal_place: str | None = None
    is_cached: bool = False
    agent: Span | None = None


class LifeBegun(Struct, frozen=True, kw_only=True, eq=False):
    """A life of a run with a journal has begun.

    Args:
        life: Its number.
        first_trace_parent: The trace context of the run in its first traced life, as the header `traceparent`
            of W3C Trace Context has it; None for none.
    """

    life: int
    first_trace_parent: str | None


class EventArrived(Struct, frozen=True, kw_only=True, eq=False):
    """An event of a response has arrived.

    Args:
        event: The event.
        waited_since: The beginning of the wait for it, in seconds of `time.perf_counter`.
        arrived_at: The arrival of the chunk of the response that contained it, on the same clock.
    """

    event: ModelEvent
    waited_since: float
    arrived_at: float


class ToolCallFailed(Struct, frozen=True, kw_only=True, eq=False):
    """A tool call failed with an error that the model sees.

    Args:
        call: The call.
        kind: The kind of error.
    """

    call: ToolCall
    kind: ErrorKind


class Corrected(Struct, frozen=True, kw_only=True, eq=False):
    """The model was asked to correct something.

    Args:
        cause: The cause of the correction.
    """

    cause: CorrectionCause


class ReadLeniently(Struct, frozen=True, kw_only=True, eq=False):
    """An answer or a call was read although it was not as it should be.

    Args:
        reading: The form in which it was read.
    """

    reading: Reading


class ResultEvaluated(Struct, frozen=True, kw_only=True, eq=False):
    """A scorer has scored the result of a trial, or could not.

    Args:
        scorer: The name of the scorer.
        case: The name of the case.
        trial: The number of the trial.
        value: The score; None if the scorer raised.
        label: `pass` or `fail`; None if the scorer raised.
        explanation: The reason of the score, which may quote data; empty for none.
        error_type: The class of the error of the scorer; None for none.
    """

    scorer: str
    case: str
    trial: int
    value: float | None = None
    label: Literal["pass", "fail"] | None = None
    explanation: str = ""
    error_type: str | None = None


class QueueLifeEnded(Struct, frozen=True, kw_only=True, eq=False):
    """A life of a run that a worker of a queue began has ended.

    Args:
        queue: The queue.
        function: The function that the run calls, as `module:name`.
        end: How it ended; see `journal.queued_life`.
    """

    queue: str
    function: str
    end: str


class Corrections(Struct, frozen=True, kw_only=True, eq=False):
    """The corrections of a step, and what was read leniently in it, at its end.

    Args:
        counts: The number of corrections, by cause.
        readings: The number of answers and calls that were read leniently, by the form of reading.
    """

    counts: Mapping[CorrectionCause, int]
    readings: Mapping[Reading, int]


HookAnswer: TypeAlias = Literal["veto", "abort", "modify"]
"""The answer of a hook that changes something."""


class HookAnswered(Struct, frozen=True, kw_only=True, eq=False):
    """A hook answered.

    Args:
        hook: The name of the hook.
        event: The name of the event that it was called for.
        answer: Its answer.
        reason: Its reason, which may quote arguments; None for none.
    """

    hook: str
    event: str
    answer: HookAnswer
    reason: str | None = None


class HookFailed(Struct, frozen=True, kw_only=True, eq=False):
    """A hook failed.

    Args:
        hook: The name of the hook.
        event: The name of the event that it was called for.
        error_type: The class of its error.
    """

    hook: str
    event: str
    error_type: str


def correction_attributes(counts: Mapping[CorrectionCause, int]) -> dict[str, int]:
    """Return the attributes for a step's corrections: their number by cause."""
    return {f"nighthawk.step.corrections.{cause}": count for cause, count in counts.items()}


def reading_attributes(counts: Mapping[Reading, int]) -> dict[str, int]:
    """Return the attributes for what was read leniently in a step: the numbers by form."""
    return {f"nighthawk.step.readings.{reading}": count for reading, count in counts.items()}


def identity_attributes(execution_ref: ExecutionRef) -> dict[str, str]:
    """The identity as attributes of spans and nodes."""
    attributes = {"run.id": execution_ref.run_id, "scope.id": execution_ref.scope_id}
    if execution_ref.step_id is not None:
        attributes["step.id"] = execution_ref.step_id
    if execution_ref.execution_id is not None:
        attributes["execution.id"] = execution_ref.execution_id
    if execution_ref.parent_execution_id is not None:
        attributes["execution.parent_id"] = execution_ref.parent_execution_id
    return attributes


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
        parent: The node below which it is shown; None without observers.

    Attributes:
        control: Executes the step unless an observer cancels it; None without observers.
    """

    __slots__ = (
        "_active_node",
        "_activity",
        "_actor",
        "_before",
        "_node",
        "_parent",
        "_span",
        "control",
    )

    def __init__(self, activity: KernelActivity, span: Span | None, parent: NodeWriter | None) -> None:
        self._activity = activity
        self._span = span
        self._parent = parent
        self._actor: StepActor | None = None
        self._before: Mapping[str, object] = {}
        self.control: _ControlledStep | None = None
        self._node: NodeWriter | None = None
        self._active_node: using_node_writer | None = None

    def __enter__(self) -> "ObservedStep":
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        if self._parent is not None:
            self._end_node(self._parent, exc)
        progress = None if self._actor is None else self._actor.progress
        if self._span is not None and progress is not None and (progress.corrections or progress.readings):
            self._span.note(Corrections(counts=progress.corrections, readings=progress.readings))

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
        self.control = _ControlledStep(step.actor)
        self._node = step.actor.node = self._parent.begin_child(
            "step",
            context.step_id,
            state="waiting",
            source=context.step_id,
            inputs=self._before,
            attributes=attributes,
            control=self.control,
        )
        step.listen(_ShownValues(self._node))
        self._active_node = using_node_writer(self._node)
        self._active_node.__enter__()

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


class _ShownValues:
    """Shows the values of a step at its node while the answer streams; the last ones come with its end."""

    __slots__ = ("_node",)

    def __init__(self, node: NodeWriter) -> None:
        self._node = node

    @property
    def is_listening(self) -> bool:
        return self._node.is_watched

    def put(self, partial: PartialValues) -> None:
        if self._node.is_watched and not partial.is_final:
            self._node.set_outputs(partial.values)

    def step_ended(self, execution_id: str) -> None:
        pass


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
        """Execute the step; raises `TaskCancelledError` if an observer cancels it."""
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

"""Activities and events of the kernel and the executors, for `tracing`.

Events for hooks are in `events`, events of a response in `types.model`.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from ..errors import CorrectionCause, ErrorKind
from ..ports import Model
from ..tracing import Span
from ..types.execution import ExecutionRef
from ..types.messages import ToolCall
from ..types.model import ModelEvent, ModelRequest


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
    """

    model: Model
    request: ModelRequest
    is_replay: bool
    journal_place: str | None = None
    is_cached: bool = False


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
    """The corrections of a step, at its end.

    Args:
        counts: Their number, by cause.
    """

    counts: Mapping[CorrectionCause, int]


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

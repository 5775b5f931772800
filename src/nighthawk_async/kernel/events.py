"""The events that hooks are called for, and reports of events that have no duration.

The allowed answers to each are in the table of `policies.hooks.rules`. The events about people are in
`policies.people.events`.

Something that lasts, such as a run, a step or a request, is an activity.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..observation import find_node_writer
from ..tracing import note_event
from ..types.compaction import CompactionPlan
from ..types.execution import OUTSIDE_RUNS, ExecutionRef
from ..types.messages import Citation, UserContent
from ..types.model import FinishReason, ModelRequest
from ..types.outcomes import StepOutcome
from ..types.usage import Usage
from ..values.error_text import describe_error
from .commit import described, raise_unknown
from .environment import Environment, find_environment, run_from_sync

OversightSubject: TypeAlias = Literal["tool_call", "commit"]
"""The subjects of oversight decisions."""

OversightDecision: TypeAlias = Literal["accept", "reject", "rewrite", "abort"]
"""The decisions of oversight."""

CallKind: TypeAlias = Literal["tool", "function"]
"""A call of a tool, or a call of a function in an expression or a statement."""

Verdict: TypeAlias = Literal["allow", "ask", "deny"]
"""The decisions of permissions about a call."""

ToolLoopAction: TypeAlias = Literal["warned", "refused", "failed"]
"""The action of the loop guard: a note in the result, a tool error, or the end of the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """Fields of every event.

    Args:
        execution_ref: The run, scope, step and execution in which it happens.
    """

    execution_ref: ExecutionRef


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedEvent(HookEvent):
    """The end of something whose start was reported, whether it succeeded or not.

    Args:
        usage: Its usage so far.
        error: The error or cancellation that ends it; None if it succeeded.
    """

    usage: Usage
    error: BaseException | None = None

    @property
    def is_cancelled(self) -> bool:
        """Whether it was cancelled or interrupted, and did not fail."""
        return self.error is not None and not isinstance(self.error, Exception)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(HookEvent):
    """A run was entered. Observation only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(FinishedEvent):
    """A run is being left; the tasks of its task group have ended. Observation only.

    Args:
        usage: The usage of the run.
        error: The error or cancellation that leaves it; None if it succeeded.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeStarted(HookEvent):
    """A scope was entered. Observation only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeFinished(FinishedEvent):
    """A scope is being left. Observation only.

    Args:
        usage: The usage of the steps in it so far.
        error: The error or cancellation that leaves it; None if it succeeded.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted(HookEvent):
    """A step was admitted and is about to be executed. May be vetoed.

    Args:
        program: The program text as the model sees it.
    """

    program: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished(FinishedEvent):
    """A step has ended; nothing was committed yet. Observation only.

    Args:
        outcome: Its outcome; None if it failed or was cancelled.
        usage: Its usage, including that of the steps that its tools executed.
        error: The error or cancellation that ended it; None if it succeeded.
    """

    outcome: StepOutcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeModelRequest(HookEvent):
    """A request is about to be sent. May be vetoed; `Modify` takes another `ModelRequest`.

    Args:
        model_name: The model id.
        request: The request.
    """

    model_name: str
    request: ModelRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeCompaction(HookEvent):
    """A step's conversation is about to be compacted, because it has outgrown its model's context.

    After a veto the request is sent as it is if it fits, and the next turn asks again. `Modify` takes another
    `CompactionPlan`: with other texts, with fewer digests, or with a summary, for which no model is asked
    then.

    Args:
        plan: What is about to be replaced, with the sizes.
    """

    plan: CompactionPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterModelRequest(HookEvent):
    """A request has succeeded or failed; not reported after a cancellation. Observation only.

    Args:
        model_name: The model id.
        usage: Its usage; None if nothing was sent, or if the usage is unknown.
        finish_reason: Why the response ended; None if it did not end by itself.
        error: The error that it failed with; None if it succeeded.
        citations: The sources that the response cites, in order.
    """

    model_name: str
    usage: Usage | None
    finish_reason: FinishReason | None = None
    error: Exception | None = None
    citations: tuple[Citation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeToolCall(HookEvent):
    """A tool call is about to be executed, before permissions and oversight.

    A veto reaches the model as a tool error of kind `oversight`. `Modify` takes other arguments, a mapping of
    JSON values; they are validated like those of the model.

    Args:
        tool_name: The tool.
        call_id: The id of the call.
        arguments: The parsed arguments of the model; read-only at every level.
    """

    tool_name: str
    call_id: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterToolCall(HookEvent):
    """A tool call has a result, which the model has not seen yet. `Modify` takes other content.

    That is a text, or a tuple of texts and other content.

    Args:
        tool_name: The tool.
        call_id: The id of the call.
        content: The content that the model is about to see, in order.
        is_error: Whether the call failed.
    """

    tool_name: str
    call_id: str
    content: tuple[UserContent, ...]
    is_error: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeCommit(HookEvent):
    """A step is about to commit, before oversight. May be vetoed.

    It happens before the expression of a `return` outcome is evaluated: a hook that reads `return_value` is
    called again once the expression has been evaluated, and decides then.

    `Modify` takes other bindings, a mapping; they are validated like those of the step. The expression of a
    `return` outcome sees them, unless it was evaluated already.

    Args:
        outcome: The outcome of the step.
        bindings: The validated values of the write bindings, in a read-only mapping.
        return_value: The validated value of a `return` outcome; None for other outcomes, and afterwards for
            a commit that was rejected before its expression was evaluated.
    """

    outcome: StepOutcome
    bindings: Mapping[str, Any]
    return_value: Any = None

    if not TYPE_CHECKING:
        __getattr__ = raise_unknown
        __repr__ = described


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetThreshold(HookEvent):
    """A part of a budget is spent; reported once per threshold to each `Hooks` object. Observation only.

    Args:
        budget: The name of the budget.
        resource: The limited resource: `tokens`, `cost`, `steps`, `turns`, `tool_calls` or `seconds`.
        fraction: The threshold that was passed, between 0 and 1.
        spent: The amount spent; cost in US dollars.
        limit: The amount that the budget allows.
    """

    budget: str
    resource: str
    fraction: float
    spent: int | float | Decimal
    limit: int | float | Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry(HookEvent):
    """An attempt failed, and there will be another. Observation only.

    Args:
        name: The name of the function, or the id of the step or model, that is retried.
        attempt: The number of the attempt that failed, from 1.
        error: The error that it failed with.
        wait_seconds: Seconds until the next attempt.
        failed_execution_id: The `execution_id` of the attempt that failed; None if it was not a step.
    """

    name: str
    attempt: int
    error: Exception
    wait_seconds: float
    failed_execution_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSuspended(HookEvent):
    """A step in progress parks at a turn boundary. Observation only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResumed(HookEvent):
    """A parked step goes on, or ends because it was asked to. Observation only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLoopSuspected(HookEvent):
    """The model made the same tool call with the same result again. Observation only.

    Args:
        tool_name: The tool.
        repetitions: The number of calls in a row, including the first.
        action: The action of the loop guard.
    """

    tool_name: str
    repetitions: int
    action: ToolLoopAction


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationRefused(HookEvent):
    """A check refused an outcome that the model proposed. Observation only.

    Args:
        check: The name of the check.
        feedback: The feedback of the check.
        refusals: The number of refused outcomes of this step so far, including this one.
        max_refusals: The number of refusals after which the step fails.
    """

    check: str
    feedback: str
    refusals: int
    max_refusals: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OversightDecided(HookEvent):
    """Oversight decided about a tool call or a commit. Observation only.

    Args:
        subject: The subject of the decision.
        decision: The decision.
        tool_name: The tool; None for a commit.
        reason: The reason of a rejection or an abort.
    """

    subject: OversightSubject
    decision: OversightDecision
    tool_name: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionDecided(HookEvent):
    """A call is denied, or people are asked about it. Observation only.

    It happens inside a step's code, so its hooks must be `def`.

    Args:
        name: The name of the tool or function.
        kind: The kind of call.
        decision: `ask` if people are about to be asked, or `deny`.
        rule: The rule that decided; None for a default.
    """

    name: str
    kind: CallKind
    decision: Verdict
    rule: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressReported(HookEvent):
    """Code of the program, or a model, has reported progress. Observation only.

    It happens in any code, so its hooks must be `def`.

    Args:
        message: What is being done; may be empty.
        done: The number of units that are done; None if it was not given.
        total: The number of units; None if it is not known.
    """

    message: str
    done: float | None = None
    total: float | None = None


Event: TypeAlias = (
    BudgetThreshold
    | OversightDecided
    | PermissionDecided
    | ProgressReported
    | Retry
    | ToolLoopSuspected
    | VerificationRefused
)


async def report(event: Event) -> None:
    """Report an event.

    Raises:
        StepAbortedError: A hook ends the step.
        HookError: A hook failed.
    """
    note_event(event)
    environment = find_environment()
    if environment is not None:
        await environment.policies.report(event)


def report_at_once(event: Event) -> None:
    """Report an event from code that cannot await.

    Raises:
        HookError: A hook failed.
    """
    note_event(event)
    environment = find_environment()
    if environment is not None:
        environment.policies.report_at_once(event)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RetryScheduled:
    """An attempt failed, and there will be another.

    Args:
        name: The name of the function, or the id of the step or model, that is retried.
        attempt: The number of the attempt that failed, from 1.
        error: The error that it failed with.
        wait_seconds: Seconds until the next attempt.
        failed_execution_id: The id of the execution that failed; None if it was not a step.
    """

    name: str
    attempt: int
    error: Exception
    wait_seconds: float
    failed_execution_id: str | None = None


def report_retry(retry: RetryScheduled) -> None:
    """Report a retry from synchronous code; async hooks run on the loop of its steps.

    Args:
        retry: The failed attempt, and the wait for the next one.

    Raises:
        HookError: A hook failed.
    """
    _write_note(retry)
    environment = find_environment()
    event = _retry_event(environment, retry)
    note_event(event)
    if environment is None:
        return
    for observer in environment.policies.observers:
        if observer.awaits(Retry):
            run_from_sync(observer.report, event)
        else:
            observer.report_at_once(event)


async def report_retry_async(retry: RetryScheduled) -> None:
    """Report a retry.

    Args:
        retry: The failed attempt, and the wait for the next one.

    Raises:
        HookError: A hook failed.
    """
    _write_note(retry)
    await report(_retry_event(find_environment(), retry))


async def report_retry_to_hooks(retry: RetryScheduled) -> None:
    """Report a retry to the active hooks only; the caller records it elsewhere itself.

    Args:
        retry: The failed attempt, and the wait for the next one.

    Raises:
        HookError: A hook failed.
    """
    environment = find_environment()
    if environment is not None:
        await environment.policies.report(_retry_event(environment, retry))


def _retry_event(environment: Environment | None, retry: RetryScheduled) -> Retry:
    return Retry(
        execution_ref=OUTSIDE_RUNS if environment is None else environment.execution_ref,
        name=retry.name,
        attempt=retry.attempt,
        error=retry.error,
        wait_seconds=retry.wait_seconds,
        failed_execution_id=retry.failed_execution_id,
    )


def _write_note(retry: RetryScheduled) -> None:
    node = find_node_writer()
    if node is not None:
        node.count_retry()
        wait, text = f"{retry.wait_seconds:.3g}", describe_error(retry.error)
        node.write(
            "note", f"{retry.name}: attempt {retry.attempt} failed, next one in {wait} seconds: {text}\n"
        )

"""The events that hooks are called for.

What each of them lets hooks answer stands in the table of `hooks.rules`. The events about people are in
`human.events`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..types.execution import ExecutionRef
from ..types.messages import UserContent
from ..types.model import FinishReason, ModelRequest
from ..types.outcomes import StepOutcome
from ..types.usage import Usage
from .late_value import described, raise_unknown

OversightSubject: TypeAlias = Literal["tool_call", "commit"]
"""What oversight decides about."""

OversightDecision: TypeAlias = Literal["accept", "reject", "rewrite", "abort"]
"""What oversight decides."""

CallKind: TypeAlias = Literal["tool", "function"]
"""A call of a tool, or a call of a function in an expression or a statement."""

Verdict: TypeAlias = Literal["allow", "ask", "deny"]
"""What permissions say about a call."""

ToolLoopAction: TypeAlias = Literal["warned", "refused", "failed"]
"""What the loop guard did: a note in the result, a tool error, or the end of the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """Fields of every event.

    Args:
        execution_ref: The run, scope, step and execution in which it happens.
    """

    execution_ref: ExecutionRef


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedEvent(HookEvent):
    """The end of something that was told to have started, however it ends.

    Args:
        usage: Its usage so far.
        error: The error or cancellation that ends it; None when all went well.
    """

    usage: Usage
    error: BaseException | None = None

    @property
    def is_cancelled(self) -> bool:
        """Whether it was cancelled, or interrupted, rather than having failed."""
        return self.error is not None and not isinstance(self.error, Exception)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(HookEvent):
    """A run was entered. Look on only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(FinishedEvent):
    """A run is being left, the tasks of its task group have ended. Look on only.

    Args:
        usage: The usage of the run.
        error: The error or cancellation that leaves it; None when all went well.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeStarted(HookEvent):
    """A scope was entered. Look on only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeFinished(FinishedEvent):
    """A scope is being left. Look on only.

    Args:
        usage: The usage of the steps in it so far.
        error: The error or cancellation that leaves it; None when all went well.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted(HookEvent):
    """A step was admitted and is about to be carried out. May be vetoed.

    Args:
        program: The program text as the model sees it.
    """

    program: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished(FinishedEvent):
    """A step has ended, and nothing was committed yet. Look on only.

    Args:
        outcome: Its outcome; None when it failed or was cancelled.
        usage: Its usage, together with that of the steps that its tools carried out.
        error: Why it failed, or the cancellation; None when it did not.
    """

    outcome: StepOutcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeModelRequest(HookEvent):
    """A request is about to be sent. May be vetoed; `Modify` takes another `ModelRequest`.

    Args:
        model_name: The id of the model.
        request: The request.
    """

    model_name: str
    request: ModelRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterModelRequest(HookEvent):
    """A request has ended, well or not. Look on only. After a cancellation it is not told.

    Args:
        model_name: The id of the model.
        usage: Its usage; None when nothing was sent, or nobody knows.
        finish_reason: Why the response ended; None when it did not come to its end.
        error: Why it failed; None when it did not.
    """

    model_name: str
    usage: Usage | None
    finish_reason: FinishReason | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeToolCall(HookEvent):
    """A tool call is about to be carried out, before permissions and oversight.

    A veto reaches the model as a tool error of kind `oversight`. `Modify` takes other arguments, a mapping of
    what JSON can hold; they are validated like those of the model.

    Args:
        tool_name: The tool.
        call_id: The id of the call.
        arguments: The arguments as the model gave them, parsed; read-only throughout.
    """

    tool_name: str
    call_id: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterToolCall(HookEvent):
    """A tool call has its result, which the model has not seen. `Modify` takes another content.

    Its value is a text, or a tuple of texts and other content.

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
    called once more when the expression has been evaluated, and decides then.

    `Modify` takes other bindings, a mapping; they are validated like those of the step. The expression of a
    `return` outcome sees them, unless it was evaluated already.

    Args:
        outcome: The outcome of the step.
        bindings: The validated values of the write bindings, in a read-only mapping.
        return_value: The validated value that a `return` outcome gives; None for other outcomes, and
            afterwards for a commit whose expression was not evaluated, because it was rejected.
    """

    outcome: StepOutcome
    bindings: Mapping[str, Any]
    return_value: Any = None

    if not TYPE_CHECKING:
        __getattr__ = raise_unknown
        __repr__ = described


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetThreshold(HookEvent):
    """A part of a budget is spent. Look on only. Told once for each threshold, to each `Hooks` object.

    Args:
        budget: The name of the budget.
        resource: The limited resource: `tokens`, `cost`, `steps`, `turns`, `tool_calls` or `seconds`.
        fraction: The threshold that was passed, between 0 and 1.
        spent: The amount spent; cost in US dollars.
        limit: The amount that it allows.
    """

    budget: str
    resource: str
    fraction: float
    spent: int | float | Decimal
    limit: int | float | Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry(HookEvent):
    """An attempt failed, and there will be another. Look on only.

    Args:
        name: The name of the function, or the id of the step or of the model, that is tried again.
        attempt: The number of the attempt that failed, from 1.
        error: The error that it failed with.
        wait_seconds: Seconds until the next attempt.
        failed_execution_id: The `execution_id` of the attempt that failed, which has ended; None when what is
            tried is no step.
    """

    name: str
    attempt: int
    error: Exception
    wait_seconds: float
    failed_execution_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSuspended(HookEvent):
    """A step in progress parks at a turn boundary. Look on only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResumed(HookEvent):
    """A step that was parked goes on, or ends because it was asked to. Look on only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLoopSuspected(HookEvent):
    """The model made the same tool call with the same result again. Look on only.

    Args:
        tool_name: The tool.
        repetitions: The number of times in a row, the first one included.
        action: The reaction to it.
    """

    tool_name: str
    repetitions: int
    action: ToolLoopAction


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationRefused(HookEvent):
    """A check refused an outcome that the model proposed. Look on only.

    Args:
        check: The name of the check.
        feedback: The feedback of the check.
        refusals: The number of outcomes of this step that were refused so far, this one included.
        max_refusals: After how many the step fails.
    """

    check: str
    feedback: str
    refusals: int
    max_refusals: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OversightDecided(HookEvent):
    """Oversight decided about a tool call or a commit. Look on only.

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
    """A call is not plainly allowed. Look on only.

    It happens inside of a step's code, so its hooks must be `def`.

    Args:
        name: The name of the tool or function.
        kind: One of the two.
        decision: `ask` when people are about to be asked, or `deny`.
        rule: The rule that said so; None for a default.
    """

    name: str
    kind: CallKind
    decision: Verdict
    rule: str | None = None

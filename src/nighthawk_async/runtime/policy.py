"""`Policy`: behaviour that a program puts around steps, model requests, tool calls and commits.

The kernel folds over the active policies, in the order of `Position`. It knows nothing else of budgets,
permissions, hooks, oversight or retries: a program's own policy can do whatever these can. A method that no
active policy overrides costs nothing.

Methods find the active environment and the current step with `environment.get_environment` and
`environment.get_current_step`.

`StepCommit` and `ModelCall` are a commit and a model request as policies see them.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, get_args

from ..errors import HookError, NighthawkError
from ..natural.blocks import NaturalBlock
from ..ports import AttemptsSource, Model, RequestSource
from ..types.messages import ToolCall, ToolResult
from ..types.model import FinishReason, ModelEvent, ModelRequest
from ..types.outcomes import StepOutcome
from ..types.usage import Usage
from .commands import CallGuard, CommandGuard
from .conclude import StepResult
from .late_value import described, raise_unknown, with_changes
from .step import Step, Verify
from .step_context import StepContext
from .step_control import ExecuteAttempt
from .step_executor import StepExecutor
from .tool_function import Tool

if TYPE_CHECKING:
    from ..types.compaction import CompactionPlan
else:
    CompactionPlan = object


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCommit:
    """A commit that a step proposes.

    It is inspected before the expression of a `return` outcome is evaluated: a policy that reads
    `return_value` is asked again once the expression has been evaluated, and decides then.

    Args:
        step_id: The step.
        outcome: The outcome of the step.
        bindings: The validated values of the write bindings, in a read-only mapping.
        return_value: The validated value of a `return` outcome; None for other outcomes, and afterwards for
            a commit that was rejected before its expression was evaluated.
    """

    step_id: str
    outcome: StepOutcome
    bindings: Mapping[str, Any]
    return_value: Any = None

    if not TYPE_CHECKING:
        __getattr__ = raise_unknown
        __repr__ = described

    def changed(self, **changes: object) -> "StepCommit":
        """Return a copy with other `bindings` or another `return_value`, to be committed instead."""
        return with_changes(self, **changes)


class CommitReview(Protocol):
    """One policy's review of one commit; it decides once."""

    async def ask(self, result: StepResult, *, is_modified: bool) -> StepResult:
        """Ask the policy for its decision, unless it has decided already.

        Args:
            result: The result of the step; its return value is UNSET while it is not evaluated.
            is_modified: Whether an earlier policy has just modified the result.

        Returns:
            What to commit.

        Raises:
            StepRejectedError: The policy rejects the commit.
            StepAbortedError: The policy ends the step.
            HookError: The policy failed.
        """
        ...


class RequestCharges(Protocol):
    """The charges of a request to budgets, from before it is sent until it has ended."""

    @property
    def pricing_error(self) -> Exception | None:
        """The error that prevented pricing it; None if it was priced."""
        ...

    def note(self, event: ModelEvent) -> None:
        """Record an event that arrived, in case no usage is reported."""
        ...

    def check_resend(self, attempts: AttemptsSource) -> bool | Awaitable[bool]:
        """See `ports.ResendCheck`."""
        ...

    def settle(self, reported: Usage | None, *, may_have_consumed: bool) -> Usage:
        """Charge what it consumed.

        Args:
            reported: The usage that the provider reported; None for none.
            may_have_consumed: Whether it may have consumed more than was reported.

        Returns:
            What was charged.
        """
        ...


class ModelCall:
    """One request to a model.

    Args:
        model: The model.
        request: The request.
        may_be_last: Whether its answer may end the step, so that it may take the last of a budget.
        place: Its place in a run with a journal; None without one.

    Attributes:
        request: The request as it is sent; policies may replace it before.
        charges: The charges to budgets; None for none.
        usage: Its usage; None if nothing was sent, or if the usage is unknown.
        finish_reason: Why the response ended; None if it did not end by itself.
        error: The error that it failed with; None if it did not fail.
        source: The source of its response; None for the model.
    """

    __slots__ = (
        "charges",
        "error",
        "finish_reason",
        "may_be_last",
        "model",
        "place",
        "request",
        "source",
        "usage",
    )

    def __init__(
        self, model: Model, request: ModelRequest, *, may_be_last: bool = True, place: str | None = None
    ) -> None:
        self.model = model
        self.place = place
        self.request = request
        self.may_be_last = may_be_last
        self.charges: RequestCharges | None = None
        self.usage: Usage | None = None
        self.finish_reason: FinishReason | None = None
        self.error: Exception | None = None
        self.source: RequestSource | None = None

    async def is_cached(self) -> bool:
        """Whether a response cache answers the request as it is now; it waits for an equal one."""
        return self.source is not None and await self.source.find(self.request)


Result = TypeVar("Result")

PolicyMethod: TypeAlias = Literal[
    "active",
    "after_request",
    "after_step",
    "after_tool_call",
    "around_attempts",
    "around_step",
    "around_waiting",
    "before_commit",
    "before_compaction",
    "before_request",
    "before_step",
    "before_tool_call",
    "scope_events",
    "find_host_error",
    "for_step",
    "guard_calls",
    "guard_commands",
    "guard_tool_call",
    "listeners",
    "prepare",
    "report",
    "review",
    "verifier",
]
"""The methods of a policy that may be overridden."""


class Position(IntEnum):
    """The order of policies, outermost first.

    Permissions come after whatever may change a call, so that people approve exactly what is executed;
    budgets come after permissions, so that nothing is charged that is not permitted.
    """

    HOOKS = 1
    OWN = 2
    """Policies of the program, in the order in which they became active."""
    OVERSIGHT = 3
    VERIFICATION = 4
    PERMISSIONS = 5
    BUDGETS = 6
    ATTEMPTS = 7
    PEOPLE = 8
    VISIBLE_NAMES = 9
    SHARED_OBJECTS = 10


class InnerScope(NamedTuple):
    """A run or scope that is about to get policies of its own.

    Args:
        executor: The executor of the steps inside.
        is_added: Whether the given policies are added to those of the enclosing scope, or replace them.
    """

    executor: StepExecutor
    is_added: bool


class ScopeEvents(AbstractContextManager[None], AbstractAsyncContextManager[None], Protocol):
    """Reports the beginning and the end of a run or scope; entered as that is, `with` or `async with`."""


class Listener(Protocol):
    """Receives events and cannot answer them. Equal listeners count as one."""

    @property
    def is_answering(self) -> bool:
        """Whether it is itself the cause of what happens here, so that it gets no events."""
        ...

    def listens_to(self, event_type: type) -> bool:
        """Whether it wants the events of a type."""
        ...

    async def notify(self, event: object) -> None:
        """Deliver an event.

        Raises:
            HookError: It failed.
        """
        ...


class Policy:
    """Behaviour around steps. Override what is needed; what is not overridden costs nothing.

    One object may be active in many runs and steps at once, so it keeps no state of a single one in its
    attributes; a context variable set in `around_step` is visible in everything that the step does.
    """

    position: ClassVar[Position] = Position.OWN
    """Its position among the active policies."""

    holds_in_inner_runs: ClassVar[bool] = False
    """Whether it stays active in a nested run."""

    overridden: ClassVar[frozenset[PolicyMethod]] = frozenset()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        names: Sequence[PolicyMethod] = get_args(PolicyMethod)
        overridden = {name for name in names if getattr(cls, name) is not getattr(Policy, name)}
        if "before_tool_call" in overridden:
            overridden.add("guard_tool_call")
        cls.overridden = frozenset(overridden)

    # Methods for a program's own policies.

    async def around_step(self, proceed: Callable[[], Awaitable[Result]]) -> Result:
        """Execute an admitted step.

        Args:
            proceed: Executes it up to its commit; may be called once.

        Returns:
            The result of `proceed`; anything else fails the step.
        """
        return await proceed()

    async def before_request(self, call: ModelCall) -> None:
        """Called before a model request is sent; may replace `call.request`. An exception fails the call.

        Args:
            call: The request and its model.
        """

    async def after_request(self, call: ModelCall) -> None:
        """Called when a request has succeeded or failed; not after a cancellation, nor when it was refused.

        Args:
            call: The request, with its usage and the reason why it ended.
        """

    async def before_tool_call(self, call: ToolCall) -> ToolCall:
        """Called before a tool call is executed.

        Args:
            call: The call. A value in an answer appears as a call of `nh_assign`.

        Returns:
            The call to execute, the same or another one, which is validated like those of the model.

        Raises:
            ToolBoundaryError: The call is not executed; the model sees the reason. Any other error fails the
                step.
        """
        return call

    async def after_tool_call(self, result: ToolResult) -> ToolResult:
        """Called with the result of a tool call before the model sees it.

        Args:
            result: The result of the call, or its failure.

        Returns:
            The result that the model sees.
        """
        return result

    async def before_commit(self, commit: StepCommit) -> StepCommit | None:
        """Called when a step is about to commit, before the expression of a `return` outcome is evaluated.

        A policy that reads `commit.return_value` is called again when there is one, and decides then.

        Args:
            commit: The commit that is about to happen.

        Returns:
            The commit to make instead, which is validated; None for no change. Anything else fails the step.

        Raises:
            StepRejectedError: Nothing is committed. The model sees the reason if it can answer again; else
                the step fails.
        """

    async def before_compaction(self, plan: CompactionPlan) -> CompactionPlan | None:
        """Called when a step's conversation has outgrown the threshold of its model's context.

        Args:
            plan: What is about to be replaced, with the sizes.

        Returns:
            A plan with other texts, fewer digests or a summary; None for no change. Anything else fails the
            step.

        Raises:
            StepRejectedError: The conversation stays as it is. Any other error fails the step.
        """

    # Further methods, for the library's own policies.

    def active(self) -> AbstractContextManager[None] | None:
        """Return a context manager for a run or scope with the policy; entered before anything else in it."""

    def scope_events(self, kind: Literal["run", "scope"]) -> ScopeEvents | None:
        """Return the context manager that reports the beginning and the end of a run or scope."""

    def for_step(self) -> "Policy":
        """Return the policy that is active in one step, and in everything that the step causes."""
        return self

    async def before_step(self) -> None:
        """Called inside every `around_step`, before the step is executed. An exception fails the step."""

    async def after_step(self, outcome: StepOutcome | None, error: BaseException | None) -> None:
        """Called outside every `around_step`, at the end of a step whose `before_step` was called.

        Nothing was committed yet.

        Args:
            outcome: The outcome of the step; None if it failed or was cancelled.
            error: The error or cancellation that ended it; None if it succeeded.
        """

    async def guard_tool_call(self, call: ToolCall, function: Tool | None, *, is_counted: bool) -> ToolCall:
        """See `before_tool_call`.

        Args:
            call: The call.
            function: The tool of the program; None for a provided one.
            is_counted: Whether the model made it as a call, and not as a value in an answer.
        """
        passed = await self.before_tool_call(call)
        method = f"{type(self).__qualname__}.before_tool_call"
        check_answer(passed, ToolCall, method)
        check_answer(passed.arguments, str, method)
        return passed

    def around_attempts(self, step_id: str, execute: ExecuteAttempt) -> Awaitable[StepResult]:
        """Execute a block, in several attempts if necessary.

        Args:
            step_id: The block.
            execute: Executes one attempt.
        """
        return execute()

    def prepare(self, context: StepContext, block: NaturalBlock) -> None:
        """Change the context of a step before the step begins."""

    def guard_calls(self, context: StepContext) -> CallGuard | None:
        """Make the guard of the calls that the step's code makes; None for none."""

    def guard_commands(self, context: StepContext, block: NaturalBlock) -> CommandGuard | None:
        """Make the guard that executes the commands of the step's actor; None for none."""

    def verifier(self, *, step_id: str, program: str) -> Verify | None:
        """Return the function that checks whether a step is done; None for none."""

    def within(self, outer: Any) -> "Policy":
        """Return the policy of a function that is called where another one of the same class is active."""
        return self

    async def around_waiting(
        self, work: Callable[[Callable[[], None]], Awaitable[Result]], begin: Callable[[], None]
    ) -> Result:
        """Run work that waits before it begins, as a step waits for admission.

        Args:
            work: The work; it gets a function to call when it begins.
            begin: The function to call when it begins.
        """
        return await work(begin)

    def review(self, step: Step, outcome: StepOutcome, shown: list[object]) -> CommitReview | None:
        """Begin the review of one commit; see `before_commit`.

        Args:
            step: The step.
            outcome: The outcome of the step.
            shown: The list of objects that were shown without a return value.
        """

    def find_host_error(self, error: BaseException) -> NighthawkError | None:
        """Return the error of this policy that caused an error and that no model can fix; None for none."""

    def listeners(self) -> Sequence[Listener]:
        """The listeners that receive events."""
        return ()

    async def report(self, event: object) -> None:
        """Report an event that allows no answer, except to end the step."""

    def report_at_once(self, event: object) -> None:
        """Report an event from code that cannot await."""

    def report_end(self, event: object, error: BaseException | None) -> None:
        """Report an end from code that cannot await, even if something else fails.

        Args:
            event: The event of the end.
            error: The error or cancellation that ended it; None if it succeeded.
        """

    def awaits(self, event_type: type) -> bool:
        """Whether an event must be reported with `report`, because one of its listeners is async."""
        return False


def check_answer(answer: object, kind: type, method: str) -> None:
    """Check that a method of a policy returned an object of the right type.

    Args:
        answer: The returned object.
        kind: The required type.
        method: The method, with its class.

    Raises:
        HookError: The object has another type.
    """
    if not isinstance(answer, kind):
        without_content = f"{method} gave {type(answer).__name__} instead of {kind.__name__}"
        error = HookError(f"{method} gave {answer!r} instead of a {kind.__name__}", hook=method)
        raise error.without_content(without_content)

"""`Policy`: behaviour that a program puts around steps, model requests, tool calls and commits.

The kernel folds over the active policies, in the order of `Position`. It knows nothing else of budgets,
permissions, hooks, oversight or retries: a program's own policy is as good as any of these. A method that no
active policy overrides costs nothing.

What is active, and which step it concerns, every method finds in the current context
(`environment.get_environment`, `environment.get_current_step`).

`StepCommit` and `ModelCall` are a commit and a model request as policies see them.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, get_args

from ..errors import HookError, NighthawkError
from ..natural.blocks import NaturalBlock
from ..ports import AttemptsSource, Model
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
from .tool_function import ToolFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCommit:
    """A commit that a step proposes.

    It is inspected before the expression of a `return` outcome is evaluated: whoever reads `return_value` is
    asked once more when the expression has been evaluated, and decides then.

    Args:
        step_id: The step.
        outcome: The outcome of the step.
        bindings: The validated values of the write bindings, in a read-only mapping.
        return_value: The validated value that a `return` outcome gives; None for other outcomes, and
            afterwards for a commit whose expression was not evaluated, because it was rejected.
    """

    step_id: str
    outcome: StepOutcome
    bindings: Mapping[str, Any]
    return_value: Any = None

    if not TYPE_CHECKING:
        __getattr__ = raise_unknown
        __repr__ = described

    def changed(self, **changes: object) -> "StepCommit":
        """The same with other `bindings` or another `return_value`, to be committed instead."""
        return with_changes(self, **changes)


class CommitReview(Protocol):
    """One policy's look at one commit, which it decides about once."""

    async def ask(self, result: StepResult, *, is_modified: bool) -> StepResult:
        """Let it decide, unless it has.

        Args:
            result: The result of the step; its return value is UNSET while it is not evaluated.
            is_modified: Whether a policy before it has just modified that.

        Returns:
            What to commit.

        Raises:
            StepRejectedError: It is against it.
            StepAbortedError: It ends the step.
            HookError: It failed.
        """
        ...


class RequestCharges(Protocol):
    """The charges of a request, from before it is sent until it has ended."""

    @property
    def pricing_error(self) -> Exception | None:
        """The error with which it could not be priced; None when it could."""
        ...

    def note(self, event: ModelEvent) -> None:
        """Remember what has arrived, for the case that nobody tells its usage."""
        ...

    def check_resend(self, attempts: AttemptsSource) -> bool:
        """See `ports.ResendCheck`."""
        ...

    def settle(self, reported: Usage | None, *, may_have_consumed: bool) -> Usage:
        """Charge what it consumed.

        Args:
            reported: The given object; None when there was none.
            may_have_consumed: Whether it may have consumed what was not told.

        Returns:
            What was charged.
        """
        ...


class ModelCall:
    """One request to a model.

    Args:
        model: The model that is asked.
        request: The request.

    Attributes:
        request: The request as it is sent; policies may replace it before that.
        charges: The charges to budgets; None for none.
        usage: Its usage; None when nothing was sent, or nobody knows.
        finish_reason: Why the response ended; None when it did not come to its end.
        error: Why it failed; None when it did not.
    """

    __slots__ = ("charges", "error", "finish_reason", "model", "request", "usage")

    def __init__(self, model: Model, request: ModelRequest) -> None:
        self.model = model
        self.request = request
        self.charges: RequestCharges | None = None
        self.usage: Usage | None = None
        self.finish_reason: FinishReason | None = None
        self.error: Exception | None = None


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

    Permissions come after whatever may change a call, so that people approve exactly what is carried out;
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
    """A run or scope that is about to have policies of its own.

    Args:
        executor: The executor of the steps inside.
        is_added: Whether what is given is added to what is around it, or replaces that.
    """

    executor: StepExecutor
    is_added: bool


class ScopeEvents(AbstractContextManager[None], AbstractAsyncContextManager[None], Protocol):
    """The beginning and the end of a run or scope, entered with `with` or `async with` as that is."""


class Listener(Protocol):
    """One who is told of events and answers nothing. Equal to another one when both are the same."""

    @property
    def is_answering(self) -> bool:
        """Whether it brings about what happens here, so that it is not told."""
        ...

    def listens_to(self, event_type: type) -> bool:
        """Whether it wants the events of a type."""
        ...

    async def notify(self, event: object) -> None:
        """Tell it of an event.

        Raises:
            HookError: It failed.
        """
        ...


class Policy:
    """Behaviour around steps. Override what is needed; what is not overridden costs nothing.

    One object may be active in many runs and steps at once, so it keeps nothing of one of them in its
    attributes; a context variable set in `around_step` is visible in everything that the step does.
    """

    position: ClassVar[Position] = Position.OWN
    """Where it stands among the active policies."""

    holds_in_inner_runs: ClassVar[bool] = False
    """Whether it stays active in a run inside the run or scope."""

    overridden: ClassVar[frozenset[PolicyMethod]] = frozenset()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        names: Sequence[PolicyMethod] = get_args(PolicyMethod)
        overridden = {name for name in names if getattr(cls, name) is not getattr(Policy, name)}
        if "before_tool_call" in overridden:
            overridden.add("guard_tool_call")
        cls.overridden = frozenset(overridden)

    # What a program's own policies override.

    async def around_step(self, proceed: Callable[[], Awaitable[Result]]) -> Result:
        """Carry an admitted step out.

        Args:
            proceed: Carries it out, once, up to but without its commit.

        Returns:
            What `proceed` gave; anything else fails the step.
        """
        return await proceed()

    async def before_request(self, call: ModelCall) -> None:
        """Called before a model request is sent; may replace `call.request`. What it raises fails the call.

        Args:
            call: The request, and the model that is asked.
        """

    async def after_request(self, call: ModelCall) -> None:
        """Called when a request has ended, well or not; not after a cancellation, nor when it was refused.

        Args:
            call: The request, with its usage, and why it ended.
        """

    async def before_tool_call(self, call: ToolCall) -> ToolCall:
        """Called before a tool call is carried out.

        Args:
            call: The call. A value of an answer is set like by a call of `nh_assign`.

        Returns:
            The call to carry out, the same or another one, which is validated like those of the model.

        Raises:
            ToolBoundaryError: It is not carried out; the model is told why. Whatever else is raised fails the
                step.
        """
        return call

    async def after_tool_call(self, result: ToolResult) -> ToolResult:
        """Called with the result of a tool call before the model sees it.

        Args:
            result: The result of the call, or its failure.

        Returns:
            What the model sees.
        """
        return result

    async def before_commit(self, commit: StepCommit) -> StepCommit | None:
        """Called when a step is about to commit, before the expression of a `return` outcome is evaluated.

        A policy that reads `commit.return_value` is called once more when there is one, and decides then.

        Args:
            commit: The commit that is about to happen.

        Returns:
            What to commit instead, which is validated; None to let it happen. Anything else fails the step.

        Raises:
            StepRejectedError: Nothing is committed: the model is told why where it can answer again, and else
                the step fails.
        """

    # What the library's own policies override as well.

    def active(self) -> AbstractContextManager[None] | None:
        """The extent of a run or scope in which the policy is active; entered before anything else in it."""

    def scope_events(self, kind: Literal["run", "scope"]) -> ScopeEvents | None:
        """Give an extent for what happens at the beginning and at the end of a run or scope."""

    def for_step(self) -> "Policy":
        """The policy that is active in one step, and in what that brings about."""
        return self

    async def before_step(self) -> None:
        """Called inside of every `around_step`, before the step is carried out. What it raises fails it."""

    async def after_step(self, outcome: StepOutcome | None, error: BaseException | None) -> None:
        """Called outside of every `around_step`, at the end of a step whose `before_step` was called.

        Nothing was committed yet.

        Args:
            outcome: The outcome of the step; None when it failed or was cancelled.
            error: Why it failed, or the cancellation; None when it did not.
        """

    async def guard_tool_call(
        self, call: ToolCall, function: ToolFunction | None, *, is_counted: bool
    ) -> ToolCall:
        """See `before_tool_call`.

        Args:
            call: The call.
            function: The tool of the program; None for a provided one.
            is_counted: Whether the model made it as a call; a value of an answer is set without one.
        """
        passed = await self.before_tool_call(call)
        method = f"{type(self).__qualname__}.before_tool_call"
        check_answer(passed, ToolCall, method)
        check_answer(passed.arguments, str, method)
        return passed

    def around_attempts(self, step_id: str, execute: ExecuteAttempt) -> Awaitable[StepResult]:
        """Carry a block out, in several steps if need be.

        Args:
            step_id: The block.
            execute: Carries one step out.
        """
        return execute()

    def prepare(self, context: StepContext, block: NaturalBlock) -> None:
        """Change what a step sees, before it begins."""

    def guard_calls(self, context: StepContext) -> CallGuard | None:
        """Make the guard of the calls that the step's code makes; None for none."""

    def guard_commands(self, context: StepContext, block: NaturalBlock) -> CommandGuard | None:
        """Make the guard that carries out the commands of the step's actor; None for none."""

    def verifier(self, *, step_id: str, program: str) -> Verify | None:
        """Give the function that says whether a step is done; None for none."""

    def within(self, outer: Any) -> "Policy":
        """The policy of a function that is called where another one of the same class is active."""
        return self

    async def around_waiting(
        self, work: Callable[[Callable[[], None]], Awaitable[Result]], begin: Callable[[], None]
    ) -> Result:
        """Carry out what waits before it begins, as a step waits to be admitted.

        Args:
            work: The work; it is given a function to call when it begins.
            begin: The function to call then.
        """
        return await work(begin)

    def review(self, step: Step, outcome: StepOutcome, shown: list[object]) -> CommitReview | None:
        """Begin to look at one commit; see `before_commit`.

        Args:
            step: The step.
            outcome: The outcome of the step.
            shown: The list of what was shown without a return value.
        """

    def find_host_error(self, error: BaseException) -> NighthawkError | None:
        """The error of this policy that an error came from, which no model can mend; None for none."""

    def listeners(self) -> Sequence[Listener]:
        """Those who are told of events."""
        return ()

    async def report(self, event: object) -> None:
        """Tell of an event that nothing can be answered to, or that may only be ended."""

    def report_at_once(self, event: object) -> None:
        """Tell of an event that happens where nothing can be awaited."""

    def report_end(self, event: object, error: BaseException | None) -> None:
        """Tell of an end, where nothing can be awaited, whatever else fails.

        Args:
            event: The event of the end.
            error: The error or cancellation that ended it; None when all went well.
        """

    def awaits(self, event_type: type) -> bool:
        """Whether an event must be told with `report`, because somebody who listens to it is async."""
        return False


def check_answer(answer: object, kind: type, method: str) -> None:
    """Find out whether a method of a policy gave an object of the right type.

    Args:
        answer: The answer of the method.
        kind: The type that it has to have.
        method: The method, with its class.

    Raises:
        HookError: It has another one.
    """
    if not isinstance(answer, kind):
        without_content = f"{method} gave {type(answer).__name__} instead of {kind.__name__}"
        error = HookError(f"{method} gave {answer!r} instead of a {kind.__name__}", hook=method)
        raise error.without_content(without_content)

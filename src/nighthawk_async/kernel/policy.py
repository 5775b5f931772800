"""`Policy`: behaviour that a program puts around steps, requests and commits; and the active policies.

A commit is inspected before its return expression is evaluated, when it has no return value. Deciding code
that reads it wants to decide about the value: its answer is ignored, and it is asked again once there is one.
So all code that decides without the value has decided before the expression has any effect.

Read-only data behave otherwise like dictionaries and lists: JSON can represent them, and their copies are
plain.

The kernel folds over the active policies, in the order of `Position`. It knows nothing else of budgets,
permissions, hooks, oversight or retries: a program's own policy can do whatever these can. A method that no
active policy overrides costs nothing.

Methods find the active environment and the current step with `environment.get_environment` and
`environment.get_current_step`.

`StepCommit` and `ModelCall` are a commit and a model request as policies see them.
"""

from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    NoReturn,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
)

from ..errors import HookError, NighthawkError
from ..natural.blocks import NaturalBlock
from ..ports import AttemptsSource, Model, RequestSource
from ..types.messages import ToolCall, ToolResult
from ..types.model import FinishReason, ModelEvent, ModelRequest
from ..types.outcomes import StepOutcome
from ..types.unset import UNSET, Unset
from ..types.usage import Usage
from .commands import CallGuard, CommandGuard
from .conclude import StepResult
from .context import StepContext, StepExecutor
from .features import Feature
from .step import ExecuteAttempt, Step, Verify
from .tools import Tool

_Unfilled: TypeAlias = tuple[object, Any, int]  # a dictionary or list, its empty copy, its depth

_MAX_DEPTH = 10_000
_put, _append = vars(dict)["__setitem__"], vars(list)["append"]
"""The methods that fill read-only copies, whose own methods refuse."""


def read_only(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a mapping that cannot be changed in place; its values can.

    Args:
        mapping: Any mapping.
    """
    return _ReadOnlyDict(mapping)


def deeply_read_only(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a mapping that cannot be changed in place, nor can dictionaries and lists in it.

    It may be nested as deep as a JSON parser accepts, deeper than Python's recursion limit.

    Args:
        mapping: A mapping of JSON values.

    Raises:
        RecursionError: It contains itself, or is nested deeper than any parser accepts.
    """
    copy = _ReadOnlyDict()
    to_fill: list[_Unfilled] = [(mapping, copy, 1)]
    while to_fill:
        source, target, depth = to_fill.pop()
        if depth > _MAX_DEPTH:
            raise RecursionError(f"nested deeper than {_MAX_DEPTH:,} levels")
        if type(target) is _ReadOnlyDict:
            for name, member in cast("Mapping[object, object]", source).items():
                _put(target, name, _begin_copy(member, depth, to_fill))
        else:
            for member in cast("list[object]", source):
                _append(target, _begin_copy(member, depth, to_fill))
    return copy


def _begin_copy(member: object, depth: int, to_fill: list[_Unfilled]) -> object:
    """Return the read-only form of a member at a depth; copies are filled later."""
    is_mapping = isinstance(member, Mapping)
    if not is_mapping and not isinstance(member, list | tuple):
        return member
    copy = _ReadOnlyDict() if is_mapping else _ReadOnlyList()
    to_fill.append((cast("object", member), copy, depth + 1))
    return copy


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise TypeError(
        "data shown to hooks and oversight is read-only: answer Modify(…), or Rewrite(…), with a changed copy"
    )


def _read_only_type(plain: type, *names: str) -> Any:
    methods: dict[str, Any] = dict.fromkeys(names, _refuse)

    def reduce_to_plain(self: object) -> tuple[type, tuple[object]]:
        return plain, (plain(self),)

    methods["__reduce__"] = reduce_to_plain  # for copies and pickles
    return type(f"ReadOnly{plain.__name__.title()}", (plain,), {"__slots__": (), **methods})


_IN_BOTH = ("__setitem__", "__delitem__", "clear", "pop")
_ReadOnlyDict = _read_only_type(dict, *_IN_BOTH, "__ior__", "popitem", "setdefault", "update")
_ReadOnlyList = _read_only_type(
    list, *_IN_BOTH, "__iadd__", "__imul__", "append", "extend", "insert", "remove", "reverse", "sort"
)


Answer = TypeVar("Answer")
Subject = TypeVar("Subject")

_FIELD = "return_value"


class _Question:
    """One question about a commit; records whether the missing value was read.

    Args:
        subject: The object that was shown.
        outer: The question during which this one is asked; None for none.
    """

    __slots__ = ("outer", "subject", "wants_value")

    def __init__(self, subject: object, outer: "_Question | None") -> None:
        self.subject = subject
        self.outer = outer
        self.wants_value = False


_question = Feature[_Question | None](None)


def shown(subject: Subject, return_value: object) -> Subject:
    """Set the return value of an object that shows a commit; leave it missing if it is UNSET.

    Args:
        subject: A fresh object with the slot `return_value`, whose `__getattr__` is `raise_unknown`.
        return_value: The value; UNSET if the expression is not evaluated yet.
    """
    object.__delattr__(subject, _FIELD)
    if return_value is not UNSET:
        reveal((subject,), return_value)
    return subject


def reveal(subjects: Iterable[object], return_value: object) -> None:
    """Set the return value of objects that were shown without one.

    Args:
        subjects: The objects that were shown; those with a value keep it.
        return_value: The value.
    """
    for subject in subjects:
        if not _has_value(subject):
            object.__setattr__(subject, _FIELD, return_value)


def with_changes(subject: Subject, **changes: object) -> Subject:
    """Return a copy with other fields; without a return value if neither the object nor the changes have one.

    Args:
        subject: An object of a frozen data class.
        changes: The changed fields.
    """
    late = getattr(type(subject), "__getattr__", None) is raise_unknown and not _has_value(subject)
    if not late or _FIELD in changes:
        return cast("Subject", replace(cast("Any", subject), **changes))
    return shown(cast("Subject", replace(cast("Any", subject), **{_FIELD: None, **changes})), UNSET)


def raise_unknown(subject: object, name: str) -> NoReturn:
    """Raise the error of an object without a return value; serves as `__getattr__`."""
    if name != _FIELD:
        raise AttributeError(f"{type(subject).__name__!r} object has no attribute {name!r}")
    question = _question.get()
    while question is not None and question.subject is not subject:
        question = question.outer
    if question is not None:
        question.wants_value = True
    raise NighthawkError(
        "The return expression of this commit is not evaluated; see commit.outcome.return_expression."
    )


def value_of(subject: object) -> object:
    """Return the return value of an object that shows a commit; UNSET while it has none."""
    return object.__getattribute__(subject, _FIELD) if _has_value(subject) else UNSET


def described(subject: object) -> str:
    """Return the `repr` of an object with a late return value; it does not count as reading the value."""
    names = [each.name for each in fields(cast("Any", subject)) if each.repr]
    texts = [f"{name}={getattr(subject, name)!r}" for name in names if name != _FIELD]
    value = repr(getattr(subject, _FIELD)) if _has_value(subject) else "<not evaluated>"
    texts.append(f"{_FIELD}={value}")
    return f"{type(subject).__qualname__}({', '.join(texts)})"


def wants_value() -> bool:
    """Whether the code being asked has read a return value that does not exist yet."""
    question = _question.get()
    return question is not None and question.wants_value


async def ask_early(subject: object, ask: Callable[[], Awaitable[Answer]]) -> Answer | Unset:
    """Ask about a commit that may have no return value yet.

    Args:
        subject: The object that is shown.
        ask: Asks for the answer.

    Returns:
        The answer; UNSET if the value was read, so that it has to be asked again.

    Raises:
        Exception: Any error of `ask`, unless the value was read.
    """
    question = _Question(subject, _question.get())
    before = _question.set(question)
    try:
        answer = await ask()
    except Exception:
        if question.wants_value:
            return UNSET
        raise
    finally:
        _question.reset(before)
    return UNSET if question.wants_value else answer


def _has_value(subject: object) -> bool:
    try:
        object.__getattribute__(subject, _FIELD)
    except AttributeError:
        return False
    return True


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


Kind = TypeVar("Kind", bound=Policy)


class _ByMethod(dict[PolicyMethod, tuple[Policy, ...]]):
    """The policies that override a method, by method; computed on first access."""

    __slots__ = ("_active",)

    def __init__(self, active: tuple[Policy, ...]) -> None:
        self._active = active

    def __missing__(self, method: PolicyMethod) -> tuple[Policy, ...]:
        self[method] = found = tuple(policy for policy in self._active if method in policy.overridden)
        return found


class Policies:
    """The active policies.

    Args:
        policies: The policies, in any order.
        outer_listeners: The listeners of the enclosing runs, for events that concern those.

    Attributes:
        active: The policies, outermost first.
        overriding: The policies that override a method, outermost first, by method.
        outer_listeners: The listeners of the enclosing runs.
    """

    __slots__ = ("active", "outer_listeners", "overriding")

    def __init__(self, policies: Iterable[Policy] = (), *, outer_listeners: Sequence[Listener] = ()) -> None:
        self.active: tuple[Policy, ...] = tuple(sorted(policies, key=_position_of))
        self.outer_listeners: tuple[Listener, ...] = tuple(outer_listeners)
        self.overriding: Mapping[PolicyMethod, tuple[Policy, ...]] = _ByMethod(self.active)

    def has(self, position: Position) -> bool:
        """Whether a policy is active at a position."""
        return any(policy.position is position for policy in self.active)

    def find(self, kind: type[Kind]) -> Kind | None:
        """The active policy of a class that has at most one; None for none."""
        return next((policy for policy in self.active if type(policy) is kind), None)

    def with_policy(self, policy: Policy) -> "Policies":
        """Return a copy with a policy that replaces the one of its class."""
        return self._replaced((*self._others(type(policy)), policy))

    def without(self, kind: type[Policy]) -> "Policies":
        """Return a copy without the policy of a class."""
        return self._replaced(self._others(kind))

    def with_only(self, position: Position, policy: Policy | None) -> "Policies":
        """Return a copy with one policy, or none, at a position."""
        others = [each for each in self.active if each.position is not position]
        if policy is None:
            return self if len(others) == len(self.active) else self._replaced(others)
        return self._replaced((*others, policy))

    def adding(self, policies: Iterable[Policy]) -> "Policies":
        """Return a copy with more of the program's own policies, each object once."""
        own = {id(policy): policy for policy in (*self.active, *policies)}  # a data class may not be hashable
        return self._replaced(own.values())

    def without_own(self) -> "Policies":
        """Return a copy without the program's own policies."""
        return self.with_only(Position.OWN, None)

    def of_function(self, policies: Iterable[Policy]) -> "Policies":
        """Return a copy with the policies of a function that is about to be called."""
        inside = self
        for policy in policies:
            outer = inside.find(type(policy))
            inside = inside.with_policy(policy if outer is None else policy.within(outer))
        return inside

    def of_step(self) -> "Policies":
        """Return the policies for one step."""
        if not self.overriding["for_step"]:
            return self
        return self._replaced(policy.for_step() for policy in self.active)

    def of_inner_run(self) -> "Policies":
        """Return the policies that stay active in a nested run."""
        return Policies(
            (policy for policy in self.active if policy.holds_in_inner_runs),
            outer_listeners=(*self.outer_listeners, *self.listeners),
        )

    @property
    def govern_tool_calls(self) -> bool:
        """Whether any of them handles tool calls."""
        return bool(self.overriding["guard_tool_call"] or self.overriding["after_tool_call"])

    @property
    def govern_requests(self) -> bool:
        """Whether any of them handles model requests."""
        return bool(self.overriding["before_request"] or self.overriding["after_request"])

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The listeners that receive events."""
        return tuple(listener for policy in self.overriding["listeners"] for listener in policy.listeners())

    async def report(self, event: object) -> None:
        """Report an event; see `Policy.report`.

        Raises:
            StepAbortedError: A policy ends the step.
            HookError: A policy failed.
        """
        for policy in self.overriding["report"]:
            await policy.report(event)

    def report_at_once(self, event: object) -> None:
        """Report an event from code that cannot await; see `Policy.report_at_once`."""
        for policy in self.overriding["report"]:
            policy.report_at_once(event)

    def report_end(self, event: object, error: BaseException | None) -> None:
        """Report an end from code that cannot await; see `Policy.report_end`."""
        for policy in self.overriding["report"]:
            policy.report_end(event, error)

    def _others(self, kind: type[Policy]) -> list[Policy]:
        return [policy for policy in self.active if type(policy) is not kind]

    def _replaced(self, policies: Iterable[Policy]) -> "Policies":
        return Policies(policies, outer_listeners=self.outer_listeners)


async def notify_all(listeners: Iterable[Listener], event: object) -> None:
    """Notify every listener of an event, even if others fail.

    Raises:
        HookError: Some failed: the first error, with notes on the others.
    """
    failure: HookError | None = None
    for listener in listeners:
        try:
            await listener.notify(event)
        except HookError as error:
            if failure is None:
                failure = error
            else:
                failure.add_note(str(error))
    if failure is not None:
        raise failure


@contextmanager
def active_policies(policies: Policies) -> Generator[None, None, None]:
    """Enter the context managers of policies for a run or scope; see `Policy.active`."""
    with ExitStack() as stack:
        for policy in policies.overriding["active"]:
            active = policy.active()
            if active is not None:
                stack.enter_context(active)
        yield


def scope_events(policies: Policies, kind: Literal["run", "scope"]) -> Iterator[ScopeEvents]:
    """The reports of policies at the beginning and the end of a run or scope; see `Policy.scope_events`."""
    for policy in policies.overriding["scope_events"]:
        events = policy.scope_events(kind)
        if events is not None:
            yield events


def _position_of(policy: Policy) -> int:
    return policy.position


NO_POLICIES = Policies()

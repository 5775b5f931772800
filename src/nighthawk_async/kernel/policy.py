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

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, ExitStack
from enum import IntEnum
from functools import cached_property
from inspect import iscoroutine, iscoroutinefunction
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

from ..errors import HookError
from ..lazy_exports import LazyModule
from ..types.code import CodeLevel
from ..types.messages import ToolCall, ToolResult
from ..types.usage import Usage
from .commit import CommitProceed, StepCommit
from .conclude import StepResult
from .context import StepExecutor
from .fold import Events, ModelCall, OpenRequest, StepEnd, StepProceed, ToolCallProceed
from .short_forms import complete
from .step import ExecuteAttempt, Step

if TYPE_CHECKING:
    from . import function_calls
else:
    function_calls = LazyModule(f"{__package__}.function_calls")  # few programs have policies around them

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


PolicyMethod: TypeAlias = Literal[
    "around_commit",
    "around_function",
    "around_request",
    "around_step",
    "around_tool_call",
    "scope",
    "on_event",
    "prepare",
]
"""The methods of a policy that may be overridden."""


class Position(IntEnum):
    """The order of policies, outermost first.

    Permissions come after whatever may change a call, so that people approve exactly what is executed;
    budgets come after permissions, so that nothing is charged that is not permitted.
    """

    RUN = 0
    """The demands of the run itself on the steps of its guests."""
    HOOKS = 1
    OWN = 2
    """Policies of the program, in the order in which they became active."""
    OVERSIGHT = 3
    VERIFICATION = 4
    PERMISSIONS = 5
    RESPONSES = 6
    """The response cache: what it answers costs nothing."""
    BUDGETS = 7
    ATTEMPTS = 8
    PEOPLE = 9
    SKILLS = 10
    """After names are hidden: a block that names a skill shows its text instead."""
    VISIBLE_NAMES = 11
    CODE = 12
    """The level of code: what the prompt shows follows from the names that are visible."""
    SHARED_OBJECTS = 13
    PASTS = 14
    READERS = 15
    """Those who read the values of steps while answers stream."""
    COMPACTION = 16
    MODEL = 17
    """The source of responses in place of every model, such as a recorder or a replay."""
    EGRESS = 20
    """Last, so that it sees requests as they are sent."""


class InnerScope(NamedTuple):
    """A run or scope that is about to get policies of its own.

    Args:
        executor: The executor of the steps inside.
        is_added: Whether the given policies are added to those of the enclosing scope, or replace them.
    """

    executor: StepExecutor
    is_added: bool


ScopeExtent: TypeAlias = AbstractAsyncContextManager[object] | AbstractContextManager[object]
"""What a policy has entered while a run or scope lasts."""


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
        complete(cls, Policy)
        names: Sequence[PolicyMethod] = get_args(PolicyMethod)
        overridden = {name for name in names if getattr(cls, name) is not getattr(Policy, name)}
        cls.overridden = frozenset(overridden)

    async def around_function(
        self, call: "function_calls.FunctionCall", proceed: "function_calls.FunctionProceed"
    ) -> Any:
        """Make a call of a natural function. Policies are around no generator, only around its steps.

        Args:
            call: The call.
            proceed: Makes it: `await proceed()`, or `await proceed(call.changed(arguments={…}))`, once.

        Returns:
            The value of the call: what `proceed` gave, or a value of the policy's own, which is validated as
            that of a `return` statement.

        Raises:
            HookError: `proceed` or the returned value was used wrongly.
            Exception: Any other error reaches the caller.
        """
        return await proceed()

    async def around_step(self, step: Step, proceed: StepProceed) -> StepEnd:
        """Execute an admitted step.

        Args:
            step: The step.
            proceed: Executes it up to its commit: `await proceed()`, once. With
                `await proceed.answer(outcome, bindings)` the policy answers the step itself.

        Returns:
            What `proceed` gave; anything else fails the step.
        """
        return await proceed()

    def around_request(self, call: ModelCall, open_request: OpenRequest) -> Events:
        """Send a model request.

        Args:
            call: The request and its model. Its `request` may be replaced before it is sent; its usage and
                how it ended are known when the response is left.
            open_request: Sends `call.request`; enter what it returns for the events of the response.

        Returns:
            An async context manager that gives the events: what `open_request` returned, something around it,
            or a response of the policy's own, such as `nighthawk_async.policies.replayed(events)`. An
            exception on entering fails the request.
        """
        return open_request()

    async def around_tool_call(self, call: ToolCall, proceed: ToolCallProceed) -> ToolResult:
        """Carry out a tool call.

        Args:
            call: The call. A value in an answer appears as a call of `nh_assign`.
            proceed: Goes on with it: `await proceed()`, or `await proceed(replace(call, …))` with another
                call, which is validated like those of the model.

        Returns:
            The result that the model sees: what `proceed` gave, changed or not, or one of the policy's own.

        Raises:
            ToolBoundaryError: The call is not carried out; the model sees the reason. Any other error fails
                the step.
        """
        return await proceed()

    async def around_commit(self, commit: StepCommit, proceed: CommitProceed) -> StepResult:
        """Let a step commit, or do not.

        Nothing is committed before all policies have returned. The expression of a `return` outcome is not
        evaluated yet; `await proceed.value()` evaluates it, once.

        Args:
            commit: The commit that is about to happen.
            proceed: Goes on with it: `await proceed()`, or `await proceed(commit.changed(…))`.

        Returns:
            What `proceed` gave; anything else fails the step.

        Raises:
            StepRejectedError: Nothing is committed. The model sees the reason if it can answer again; else
                the step fails.
        """
        return await proceed()

    def scope(self, kind: Literal["run", "scope"]) -> ScopeExtent | None:
        """Return what is entered while a run or scope with the policy lasts; None for nothing.

        Args:
            kind: Which of them it is.

        Returns:
            An async context manager, a context manager, or one that is both. A run or scope that is entered
            with `with` needs one that can be entered so.
        """

    def prepare(self, step: Step) -> None:
        """Prepare a step, before it waits for admission and after the policies inside of this one.

        What is set here belongs to this step alone: names that its model may use, in `step.context`; the
        policies that are active in it and in everything that it causes, `step.policies`; the check that its
        outcome must pass, `step.verify`; errors that no model can fix, `step.host_errors`. Policies that are
        added to the step are not called for it here.

        Args:
            step: The step. The current step is still the one that brings it about, if any.

        Raises:
            StepRejectedError: The step is refused; any other error fails it as well.
        """

    def on_event(self, event: object) -> Awaitable[None] | None:
        """Called for an event that no other method is around.

        Such events are a retry, a passed threshold of a budget, a decision of permissions, oversight, a check
        or people, and a call that repeats itself.

        Args:
            event: The event; see `nighthawk_async.hooks`.

        Returns:
            None, or something to await. Where an event happens in synchronous code, it must be None.
        """


class Repeating(Policy):
    """A policy that may execute a block several times, each time as another step; one is active at most."""

    __slots__ = ()

    def execute_block(self, step_id: str, execute: ExecuteAttempt) -> Awaitable[StepResult]:
        """Execute a block.

        Args:
            step_id: The block.
            execute: Executes it once: prepares a step, waits for admission, and goes on to its commit.
        """
        return execute()


class Metering(Policy):
    """A policy that charges agents whose requests it is not around; one is active at most."""

    __slots__ = ()

    @property
    def is_charging(self) -> bool:
        """Whether anything is charged."""
        return False

    async def check_turn(self) -> None:
        """Check that there is room for a turn.

        Raises:
            BudgetExceededError: There is none.
        """

    async def begin_turn(self) -> None:
        """Charge a turn; see `check_turn`."""

    def charge(self, model_name: str, usage: Usage) -> Usage:
        """Charge usage that an agent reports, and return it with its cost.

        Args:
            model_name: The model id.
            usage: The reported usage.
        """
        return usage


class Naming(Policy):
    """A policy that has values for names that blocks read."""

    __slots__ = ()

    def named(self, names: Iterable[str], variables: Iterable[Mapping[str, object]]) -> Mapping[str, object]:
        """Return the values that a block gets under its names.

        Args:
            names: The names that the author of the block wrote.
            variables: The variables that win.
        """
        raise NotImplementedError


class CodeLevels(Policy):
    """A policy that says what code of models may do; the one that is active last counts."""

    __slots__ = ()

    @property
    def coding(self) -> CodeLevel | None:
        """The level of code; None for that of a program."""
        raise NotImplementedError


class Observing(Policy):
    """A policy that is told of events of all kinds, also where nothing can be awaited."""

    __slots__ = ()

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


class _EventMethod(Observing):
    """The method `on_event` of a policy."""

    __slots__ = ("_policy",)

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    async def report(self, event: object) -> None:
        answer = self._policy.on_event(event)
        if answer is not None:
            await answer

    def report_at_once(self, event: object) -> None:
        answer = self._policy.on_event(event)
        if answer is None:
            return
        if iscoroutine(answer):
            answer.close()
        method = f"{type(self._policy).__qualname__}.on_event"
        what = (
            f"{method} is async, but this {type(event).__name__} happens in synchronous code: make it `def`"
        )
        raise HookError(what, hook=method)

    def report_end(self, event: object, error: BaseException | None) -> None:
        self.report_at_once(event)

    def awaits(self, event_type: type) -> bool:
        return iscoroutinefunction(self._policy.on_event)


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

    def __init__(self, policies: Iterable[Policy] = (), *, outer_listeners: Sequence[Listener] = ()) -> None:
        self.active: tuple[Policy, ...] = tuple(sorted(policies, key=_position_of))
        self.outer_listeners: tuple[Listener, ...] = tuple(outer_listeners)
        self.overriding: Mapping[PolicyMethod, tuple[Policy, ...]] = _ByMethod(self.active)
        self._by_kind: dict[type[Policy], tuple[Policy, ...]] = {}

    def has(self, position: Position) -> bool:
        """Whether a policy is active at a position."""
        return any(policy.position is position for policy in self.active)

    def find(self, kind: type[Kind]) -> Kind | None:
        """The active policy of a class that has at most one; None for none."""
        return next((policy for policy in self.active if type(policy) is kind), None)

    def all_of(self, kind: type[Kind]) -> tuple[Kind, ...]:
        """The active policies of a class and of those derived from it, outermost first."""
        found: Any = self._by_kind.get(kind)
        if found is None:
            found = tuple(policy for policy in self.active if isinstance(policy, kind))
            self._by_kind[kind] = found
        return found

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

    def of_inner_run(self) -> "Policies":
        """Return the policies that stay active in a nested run."""
        return Policies(
            (policy for policy in self.active if policy.holds_in_inner_runs),
            outer_listeners=(*self.outer_listeners, *self.listeners),
        )

    @cached_property
    def repeating(self) -> Repeating | None:
        """The policy that may execute a block several times; None for none."""
        return next(iter(self.all_of(Repeating)), None)

    @cached_property
    def naming(self) -> tuple[Naming, ...]:
        """The policies that have values for names, outermost first."""
        return self.all_of(Naming)

    @cached_property
    def coding(self) -> CodeLevel | None:
        """The level of the code of models; None for that of a program."""
        levels = self.all_of(CodeLevels)
        return levels[-1].coding if levels else None

    @property
    def metering(self) -> Metering | None:
        """The policy that charges agents; None for none."""
        return next(iter(self.all_of(Metering)), None)

    @cached_property
    def observers(self) -> tuple[Observing, ...]:
        """Those that are told of events, outermost first."""
        return tuple(
            policy if isinstance(policy, Observing) else _EventMethod(policy)
            for policy in self.active
            if isinstance(policy, Observing) or "on_event" in policy.overridden
        )

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The listeners that receive events."""
        return tuple(listener for observer in self.observers for listener in observer.listeners())

    async def report(self, event: object) -> None:
        """Report an event; see `Policy.report`.

        Raises:
            StepAbortedError: A policy ends the step.
            HookError: A policy failed.
        """
        for observer in self.observers:
            await observer.report(event)

    def report_at_once(self, event: object) -> None:
        """Report an event from code that cannot await; see `Policy.report_at_once`."""
        for observer in self.observers:
            observer.report_at_once(event)

    def report_end(self, event: object, error: BaseException | None) -> None:
        """Report an end from code that cannot await; see `Policy.report_end`."""
        for observer in self.observers:
            observer.report_end(event, error)

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


def enter_scope(policies: Policies, kind: Literal["run", "scope"], stack: ExitStack) -> None:
    """Enter what policies want entered while a run or scope lasts, with `with`; see `Policy.scope`.

    Raises:
        HookError: One of them can only be entered with `async with`.
    """
    for policy in policies.overriding["scope"]:
        extent = policy.scope(kind)
        if isinstance(extent, AbstractContextManager):
            stack.enter_context(extent)
        elif extent is not None:
            method = f"{type(policy).__qualname__}.scope"
            raise HookError(
                f"{method} gave what is entered with `async with`: enter the {kind} so", hook=method
            )


async def enter_scope_async(policies: Policies, kind: Literal["run", "scope"], stack: AsyncExitStack) -> None:
    """Enter what policies want entered while a run or scope lasts, with `async with`; see `Policy.scope`."""
    for policy in policies.overriding["scope"]:
        extent = policy.scope(kind)
        if isinstance(extent, AbstractAsyncContextManager):
            await stack.enter_async_context(extent)
        elif extent is not None:
            stack.enter_context(extent)


def _position_of(policy: Policy) -> int:
    return policy.position


NO_POLICIES = Policies()

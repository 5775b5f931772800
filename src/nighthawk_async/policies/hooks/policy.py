"""Hooks as a policy: the points of a step at which they are called."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import ClassVar, Literal, TypeVar, cast

from anyio.abc import TaskGroup

from ...actors import BareTaskGroup
from ...errors import NighthawkError, ToolBoundaryError
from ...kernel.actor import ParkingMoment
from ...kernel.commands import await_value, is_awaitable
from ...kernel.commit import CommitProceed, StepCommit, shown, value_of
from ...kernel.conclude import StepResult
from ...kernel.environment import get_environment
from ...kernel.events import (
    AfterModelRequest,
    AfterToolCall,
    BeforeCommit,
    BeforeCompaction,
    BeforeModelRequest,
    BeforeToolCall,
    FinishedEvent,
    HookEvent,
    RunFinished,
    RunStarted,
    ScopeFinished,
    ScopeStarted,
    StepFinished,
    StepResumed,
    StepStarted,
    StepSuspended,
)
from ...kernel.fold import OpenRequest, StepEnd, StepProceed, ToolCallProceed, with_end_reported
from ...kernel.policy import (
    InnerScope,
    ModelCall,
    Observing,
    Policies,
    Position,
    deeply_read_only,
    notify_all,
    read_only,
)
from ...kernel.step import Step
from ...kernel.tool_calls import parsed_arguments, with_arguments
from ...types.compaction import CompactionPlan
from ...types.execution import OnPartial, PartialValues
from ...types.messages import AssistantMessage, Message, ToolCall, ToolDefinition, ToolResult
from ...types.model import ModelEvent, ModelRequest
from ...types.outcomes import StepOutcome
from ...values.error_text import callable_name
from .calls import (
    Registration,
    emit,
    emit_early,
    emit_finished,
    emit_finished_sync,
    emit_sync,
    has_async_hook,
    is_answering,
    notify,
    refuse_async_hooks,
)
from .registry import Hooks, combined_hooks
from .rules import HookFunction


class HookedScope:
    """Notifies hooks of the beginning and end of a run or scope; enter it once the environment is active.

    `with` cannot await, so it refuses async hooks. The end is reported whenever the beginning was, also when
    a hook refused the beginning.

    Args:
        hooks: The active hooks, at least one.
        started: The event of the beginning.
        finished: The event of the end.
    """

    __slots__ = ("_finished", "_hooks", "_started")

    def __init__(
        self, hooks: Sequence[Hooks], started: type[HookEvent], finished: type[FinishedEvent]
    ) -> None:
        self._hooks = hooks
        self._started = started
        self._finished = finished

    def __enter__(self) -> None:
        refuse_async_hooks(self._hooks, self._started, self._finished)
        try:
            emit_sync(self._hooks, self._beginning())
        except BaseException as error:
            emit_finished_sync(self._hooks, self._end(error), error)
            raise

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        emit_finished_sync(self._hooks, self._end(exc), exc)

    async def __aenter__(self) -> None:
        try:
            await emit(self._hooks, self._beginning())
        except BaseException as error:
            await emit_finished(self._hooks, self._end(error))
            raise

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await emit_finished(self._hooks, self._end(exc))

    def _beginning(self) -> HookEvent:
        return self._started(execution_ref=get_environment().execution_ref)

    def _end(self, error: BaseException | None) -> FinishedEvent:
        environment = get_environment()
        usage = environment.usage_meter.usage
        return self._finished(execution_ref=environment.execution_ref, usage=usage, error=error)


Part = TypeVar("Part")


def as_shown(request: ModelRequest) -> ModelRequest:
    """Return the request with read-only settings, tools, schemas and contents of providers.

    Args:
        request: The request.
    """
    form = request.response_format
    return replace(
        request,
        messages=tuple(map(_shown_message, request.messages)),
        settings=deeply_read_only(request.settings),
        tools=tuple(map(_shown_tool, request.tools)),
        response_format=None if form is None else replace(form, schema=deeply_read_only(form.schema)),
    )


def as_answered(answer: ModelRequest, *, shown: ModelRequest, request: ModelRequest) -> ModelRequest:
    """Return the request as the hooks answered it; parts that they did not change are the original ones.

    Args:
        answer: The request that the hooks returned.
        shown: The request that they were shown.
        request: The request itself.
    """
    if answer is shown:
        return request
    form = answer.response_format
    return replace(
        answer,
        messages=_originals(answer.messages, shown.messages, request.messages),
        settings=request.settings if answer.settings is shown.settings else answer.settings,
        tools=_originals(answer.tools, shown.tools, request.tools),
        response_format=request.response_format if form is shown.response_format else form,
    )


def _shown_message(message: Message) -> Message:
    content = message.provider_content if isinstance(message, AssistantMessage) else None
    if content is None:
        return message
    content = replace(content, items=tuple(map(deeply_read_only, content.items)))
    return replace(message, provider_content=content)


def _shown_tool(tool: ToolDefinition) -> ToolDefinition:
    return replace(tool, parameters=deeply_read_only(tool.parameters), metadata=read_only(tool.metadata))


def _originals(
    answered: tuple[Part, ...], shown: tuple[Part, ...], own: tuple[Part, ...]
) -> tuple[Part, ...]:
    """Return the answer with the request's own parts in place of the shown ones."""
    by_shown = {id(each): original for each, original in zip(shown, own, strict=True)}
    return tuple(by_shown.get(id(each), each) for each in answered)


@dataclass(frozen=True, slots=True)
class HookListener:
    """One `Hooks` object that is notified of events; see `policy.Listener`."""

    hooks: Hooks

    @property
    def is_answering(self) -> bool:
        """Whether one of its hooks is running here."""
        return is_answering(self.hooks)

    def listens_to(self, event_type: type) -> bool:
        """Whether it has a hook for the events of a type."""
        return bool(self.hooks.functions_for(event_type))

    async def notify(self, event: object) -> None:
        """Call its hooks."""
        await notify((self.hooks,), event)


@dataclass(frozen=True, slots=True, eq=False)
class HookPolicy(Observing):
    """Calls hooks.

    Args:
        hooks: The objects that hold them, those of enclosing scopes first.
    """

    hooks: tuple[Hooks, ...]

    position: ClassVar[Position] = Position.HOOKS

    def scope(self, kind: Literal["run", "scope"]) -> HookedScope:
        """Call the hooks of the beginning and the end of a run or scope."""
        if kind == "run":
            return HookedScope(self.hooks, RunStarted, RunFinished)
        return HookedScope(self.hooks, ScopeStarted, ScopeFinished)

    def prepare(self, step: Step) -> None:
        """Have hooks called with the values of the step while its model's answer streams."""
        _have_called(step, self.listeners())

    async def around_step(self, step: Step, proceed: StepProceed) -> StepEnd:
        """Call the hooks of the step's beginning, which may veto it, and those of its end, if it began."""
        started: list[Step] = []

        async def start() -> None:
            started.append(step)
            execution_ref = get_environment().execution_ref
            await emit(self.hooks, StepStarted(execution_ref=execution_ref, program=step.program))
            step.actor.observe_parking(self._report_parking)

        proceed.at_begin(start)
        try:
            end = await proceed()
        except BaseException as error:
            if started:
                await self._report_end(step, None, error)
            raise
        await self._report_end(step, end.outcome, None)
        return end

    async def _report_end(self, step: Step, outcome: StepOutcome | None, error: BaseException | None) -> None:
        event = StepFinished(
            execution_ref=get_environment().execution_ref,
            outcome=outcome,
            usage=step.actor.progress.usage_meter.usage,
            error=error,
        )
        await emit_finished(self.hooks, event)

    @asynccontextmanager
    async def around_request(
        self, call: ModelCall, open_request: OpenRequest
    ) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
        """Call the hooks that may veto or modify the request, and those that observe its end."""
        visible = as_shown(call.request)
        event = BeforeModelRequest(
            execution_ref=get_environment().execution_ref, model_name=call.model.name, request=visible
        )
        answer = (await emit(self.hooks, event)).request
        call.request = as_answered(answer, shown=visible, request=call.request)
        async with with_end_reported(call, open_request, self._report_request) as events:
            yield events

    async def _report_request(self, call: ModelCall) -> None:
        event = AfterModelRequest(
            execution_ref=get_environment().execution_ref,
            model_name=call.model.name,
            usage=call.usage,
            finish_reason=call.finish_reason,
            error=call.error,
            citations=call.citations,
        )
        await emit(self.hooks, event)

    async def around_tool_call(self, call: ToolCall, proceed: ToolCallProceed) -> ToolResult:
        """Call the hooks that may veto or modify the call, and those that may modify what the model sees."""
        try:
            admitted = await self._before_tool_call(call)
        except ToolBoundaryError as error:
            result = await proceed.refuse(error)
        else:
            result = await proceed(admitted)
        event = AfterToolCall(
            execution_ref=get_environment().execution_ref,
            tool_name=result.name,
            call_id=result.call_id,
            content=result.content,
            is_error=result.is_error,
        )
        event = await emit(self.hooks, event)
        return result if event.content is result.content else replace(result, content=event.content)

    async def _before_tool_call(self, call: ToolCall) -> ToolCall:
        arguments = deeply_read_only(parsed_arguments(call))
        event = BeforeToolCall(
            execution_ref=get_environment().execution_ref,
            tool_name=call.name,
            call_id=call.id,
            arguments=arguments,
        )
        event = await emit(self.hooks, event)
        if event.arguments is arguments:  # no hook answered `Modify`, which takes a copy
            return call
        return with_arguments(call, event.arguments, author="A hook")

    async def before_compaction(self, plan: CompactionPlan) -> CompactionPlan:
        """Call the hooks that may veto the compaction, or modify its texts."""
        visible = replace(plan, summarized=tuple(map(_shown_message, plan.summarized)))
        event = BeforeCompaction(execution_ref=get_environment().execution_ref, plan=visible)
        answer = (await emit(self.hooks, event)).plan
        return plan if answer is visible else answer

    async def around_commit(self, commit: StepCommit, proceed: CommitProceed) -> StepResult:
        """Call the hooks that may veto or modify the commit.

        Each decides once, before a return expression is evaluated; those that want its value decide when it
        is known.
        """
        commit, undecided = await self._ask_about(commit, proceed, among=None)
        if undecided:
            await proceed(commit, rewriter="BeforeCommit")
            await proceed.value()
            commit, _ = await self._ask_about(proceed.commit, proceed, among=undecided)
        return await proceed(commit, rewriter="BeforeCommit")

    async def _ask_about(
        self, commit: StepCommit, proceed: CommitProceed, *, among: Sequence[Registration] | None
    ) -> tuple[StepCommit, Sequence[Registration]]:
        """Return the commit as hooks have modified it, and those that have not decided yet."""
        bindings = read_only(commit.bindings)
        event = shown(
            BeforeCommit(
                execution_ref=get_environment().execution_ref, outcome=commit.outcome, bindings=bindings
            ),
            value_of(commit),
        )
        event, undecided = await emit_early(self.hooks, event, among=among, shown=proceed.shown)
        if event.bindings is not bindings:  # a hook answered `Modify`, which takes a copy
            commit = commit.changed(bindings=event.bindings)
        return commit, undecided

    def listeners(self) -> tuple[HookListener, ...]:
        """Return the listeners, one for each object that holds hooks."""
        return tuple(map(HookListener, self.hooks))

    async def report(self, event: object) -> None:
        """Call the hooks of an event."""
        await emit(self.hooks, event)

    def report_at_once(self, event: object) -> None:
        """Call the hooks of an event that happens in synchronous code."""
        emit_sync(self.hooks, event)

    def report_end(self, event: object, error: BaseException | None) -> None:
        """Call the hooks of an end that happens in synchronous code."""
        emit_finished_sync(self.hooks, event, error)

    def awaits(self, event_type: type) -> bool:
        """Whether a hook of an event is async."""
        return has_async_hook(self.hooks, event_type)

    async def _report_parking(self, moment: ParkingMoment) -> None:
        event = StepSuspended if moment == "suspended" else StepResumed
        await emit(self.hooks, event(execution_ref=get_environment().execution_ref))


def with_hooks(policies: Policies, hooks: Hooks | Sequence[Hooks] | None, inner: InnerScope) -> Policies:
    """Add the `hooks` argument of `run` and `scope` to the policies.

    Args:
        policies: The policies before.
        hooks: The given objects; None for no change.
        inner: The run or scope.

    Raises:
        NighthawkError: The argument is not a `Hooks` object or a list of them.
    """
    if hooks is None:
        return policies
    parent = policies.find(HookPolicy)
    combined = combined_hooks(parent.hooks if parent is not None and inner.is_added else (), hooks)
    return policies.with_policy(HookPolicy(combined)) if combined else policies.without(HookPolicy)


class _Calls(AbstractAsyncContextManager[None]):
    """Calls listeners with the values of one step while its model's answer streams; see `PartialSink`.

    They are called in a task of their own, one after the other. While they are called, later values replace
    earlier ones.
    """

    __slots__ = ("_is_calling", "_listeners", "_next", "_task_group", "_tasks")

    def __init__(self) -> None:
        self._listeners: tuple[HookListener, ...] = ()
        self._task_group: TaskGroup | None = None
        self._next: PartialValues | None = None
        self._is_calling = False

    def add_outer(self, listeners: tuple[HookListener, ...]) -> None:
        """Add listeners that are called before the others."""
        self._listeners = (*listeners, *self._listeners)

    @property
    def is_listening(self) -> bool:
        """Whether a listener wants values now."""
        return any(listener.listens_to(PartialValues) for listener in self._listeners)

    def put(self, partial: PartialValues) -> None:
        """Call the listeners with values soon."""
        if self._task_group is None or not self.is_listening:
            return
        self._next = partial
        if not self._is_calling:
            self._is_calling = True
            self._task_group.start_soon(self._call)

    def step_ended(self, execution_id: str) -> None:
        """Do nothing: the last values have come."""

    async def __aenter__(self) -> None:
        self._tasks = BareTaskGroup()
        self._task_group = await self._tasks.__aenter__()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Leave after the last call. An error of a listener, a `HookError`, cancels the execution."""
        return await self._tasks.__aexit__(exc_type, exc, traceback)

    async def _call(self) -> None:
        while (partial := self._next) is not None:
            self._next = None
            await notify_all(self._listeners, partial)
        self._is_calling = False


def _have_called(step: Step, listeners: tuple[HookListener, ...]) -> None:
    """Have listeners called with the values of a step, before those that are called already."""
    calls = step.alongside
    if not isinstance(calls, _Calls):
        step.alongside = calls = _Calls()
        step.listen(calls)
    calls.add_outer(listeners)


def policy_of_callback(on_partial: OnPartial) -> HookPolicy:
    """Return the policy of a function that calls a callback, and ignores its return value.

    Args:
        on_partial: The callback.

    Raises:
        NighthawkError: The callback cannot be called.
    """
    if not callable(cast("object", on_partial)):
        raise NighthawkError(f"on_partial is a function of PartialValues, not {on_partial!r}.")

    async def call(partial: PartialValues) -> None:
        answer = on_partial(partial)
        if is_awaitable(answer):
            await await_value(answer)

    call.__qualname__ = callable_name(cast("HookFunction[PartialValues]", on_partial))
    hooks = Hooks()
    hooks.on(PartialValues, call)
    return HookPolicy((hooks,))

"""Hooks as a policy: every point of a step at which they are called."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from ...runtime.conclude import StepResult, rewritten
from ...runtime.environment import get_current_step, get_environment
from ...runtime.events import (
    AfterModelRequest,
    AfterToolCall,
    BeforeCommit,
    BeforeModelRequest,
    BeforeToolCall,
    RunFinished,
    RunStarted,
    ScopeFinished,
    ScopeStarted,
    StepFinished,
    StepResumed,
    StepStarted,
    StepSuspended,
)
from ...runtime.failures import failing_as_rewriter
from ...runtime.late_value import shown
from ...runtime.model_call import ModelCall
from ...runtime.policies import Policies
from ...runtime.policy import InnerExtent, Policy, Position
from ...runtime.read_only import deeply_read_only, read_only
from ...runtime.steering import ParkingMoment
from ...runtime.step import Step
from ...runtime.tool_arguments import parsed_arguments, with_arguments
from ...types.messages import ToolCall, ToolResult
from ...types.outcomes import StepOutcome
from .calls import (
    Registration,
    emit,
    emit_early,
    emit_finished,
    emit_finished_sync,
    emit_sync,
    has_async_hook,
    is_answering,
    tell,
)
from .extents import HookedExtent
from .registry import Hooks, combined_hooks
from .shown_request import as_answered, as_shown

__all__ = ["HookListener", "HookPolicy", "with_hooks"]


@dataclass(frozen=True, slots=True)
class HookListener:
    """One `Hooks` object that is told of events; see `policy.Listener`."""

    hooks: Hooks

    @property
    def is_answering(self) -> bool:
        """Whether one of its hooks brings about what happens here."""
        return is_answering(self.hooks)

    def listens_to(self, event_type: type) -> bool:
        """Whether it has a hook for the events of a type."""
        return bool(self.hooks.functions_for(event_type))

    async def tell(self, event: object) -> None:
        """Call its hooks."""
        await tell((self.hooks,), event)


@dataclass(frozen=True, slots=True, eq=False)
class HookPolicy(Policy):
    """Calls hooks.

    Args:
        hooks: The objects that hold them, those of outer scopes first.
    """

    hooks: tuple[Hooks, ...]

    position: ClassVar[Position] = Position.HOOKS

    def extent_events(self, kind: Literal["run", "scope"]) -> HookedExtent:
        """Call the hooks of the beginning and the end of a run or scope."""
        if kind == "run":
            return HookedExtent(self.hooks, RunStarted, RunFinished)
        return HookedExtent(self.hooks, ScopeStarted, ScopeFinished)

    async def before_step(self) -> None:
        """Call the hooks of the step's beginning, which may veto it."""
        environment, step = get_environment(), get_current_step()
        await emit(self.hooks, StepStarted(execution_ref=environment.execution_ref, program=step.program))
        step.actor.observe_parking(self._tell_parking)

    async def after_step(self, outcome: StepOutcome | None, error: BaseException | None) -> None:
        """Call the hooks of the step's end, whatever else fails."""
        event = StepFinished(
            execution_ref=get_environment().execution_ref,
            outcome=outcome,
            usage=get_current_step().actor.progress.usage_meter.usage,
            error=error,
        )
        await emit_finished(self.hooks, event)

    async def before_request(self, call: ModelCall) -> None:
        """Call the hooks that may veto or modify the request."""
        visible = as_shown(call.request)
        event = BeforeModelRequest(
            execution_ref=get_environment().execution_ref, model_name=call.model.name, request=visible
        )
        answer = (await emit(self.hooks, event)).request
        call.request = as_answered(answer, shown=visible, request=call.request)

    async def after_request(self, call: ModelCall) -> None:
        """Call the hooks that look at how the request ended."""
        event = AfterModelRequest(
            execution_ref=get_environment().execution_ref,
            model_name=call.model.name,
            usage=call.usage,
            finish_reason=call.finish_reason,
            error=call.error,
        )
        await emit(self.hooks, event)

    async def before_tool_call(self, call: ToolCall) -> ToolCall:
        """Call the hooks that may veto the call, or modify its arguments."""
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

    async def after_tool_call(self, result: ToolResult) -> ToolResult:
        """Call the hooks that may modify what the model sees."""
        event = AfterToolCall(
            execution_ref=get_environment().execution_ref,
            tool_name=result.name,
            call_id=result.call_id,
            content=result.content,
            is_error=result.is_error,
        )
        event = await emit(self.hooks, event)
        return result if event.content is result.content else replace(result, content=event.content)

    def review(self, step: Step, outcome: StepOutcome, shown: list[object]) -> "_CommitHooks":
        """Begin to call the hooks of one commit."""
        return _CommitHooks(self.hooks, step, outcome, shown)

    def listeners(self) -> Sequence[HookListener]:
        """The objects that hold hooks."""
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

    async def _tell_parking(self, moment: ParkingMoment) -> None:
        event = StepSuspended if moment == "suspended" else StepResumed
        await emit(self.hooks, event(execution_ref=get_environment().execution_ref))


class _CommitHooks:
    """The hooks that look at one commit: each decides once, before a return expression is evaluated.

    One that wants the return value decides when there is one. When it then modifies the bindings, the
    expression is not evaluated a second time.

    Args:
        hooks: The hooks.
        step: The step.
        outcome: How it ends.
        shown: Where to note what hooks were shown.
    """

    __slots__ = ("_hooks", "_outcome", "_shown", "_step", "_undecided")

    def __init__(self, hooks: Sequence[Hooks], step: Step, outcome: StepOutcome, shown: list[object]) -> None:
        self._hooks = hooks
        self._step = step
        self._outcome = outcome
        self._undecided: tuple[Registration, ...] | None = None
        self._shown = shown

    async def ask(self, result: StepResult, *, is_modified: bool) -> StepResult:
        """Call those that have not decided yet; see `commit.CommitReview`."""
        bindings = read_only(result.bindings)
        event = shown(
            BeforeCommit(
                execution_ref=self._step.context.execution_ref, outcome=self._outcome, bindings=bindings
            ),
            result.return_value,
        )
        event, self._undecided = await emit_early(
            self._hooks, event, among=self._undecided, shown=self._shown
        )
        if event.bindings is bindings:  # no hook answered `Modify`, which takes a copy
            return result
        with failing_as_rewriter("BeforeCommit"):
            return rewritten(
                self._step.context, self._outcome, result, rewriter="BeforeCommit", bindings=event.bindings
            )


def with_hooks(policies: Policies, hooks: Hooks | Sequence[Hooks] | None, extent: InnerExtent) -> Policies:
    """The policies with what `run` and `scope` were told of hooks.

    Args:
        policies: The policies without.
        hooks: What they were told; None for no change.
        extent: The run or scope.

    Raises:
        NighthawkError: It is no `Hooks` object, and no list of them.
    """
    if hooks is None:
        return policies
    outer = policies.find(HookPolicy)
    combined = combined_hooks(outer.hooks if outer is not None and extent.is_added else (), hooks)
    return policies.with_policy(HookPolicy(combined)) if combined else policies.without(HookPolicy)

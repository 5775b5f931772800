"""Has the loop guard decide about the calls of a step, and tells the model, traces and hooks.

The counting is `repeated_calls`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from opentelemetry import trace

from ..configuration import LoopGuard
from ..errors import RepeatedToolCallError, ToolBoundaryError
from ..runtime.environment import Environment
from ..types.messages import ToolCall, ToolResult
from .quotation import quote
from .repeated_calls import RepeatedCalls, Repetition

if TYPE_CHECKING:
    from ..runtime.events import ToolLoopAction

__all__ = ["GuardedCalls"]

_Result: TypeAlias = Callable[[], Awaitable[ToolResult]]
_GUIDANCE = "Go on with what is known, try something else, or end the block."


class GuardedCalls:
    """The loop guard of one step.

    Args:
        environment: What is in force in the step.
        guard: When to warn, to refuse and to fail.
    """

    def __init__(self, environment: Environment, guard: LoopGuard) -> None:
        self._environment = environment
        self._repeated = RepeatedCalls(guard)

    def begin(
        self,
        call: ToolCall,
        turn: int,
        carry_out: Callable[[ToolCall], _Result],
        refuse: Callable[[ToolCall, ToolBoundaryError], Awaitable[ToolResult]],
    ) -> _Result:
        """Begin a call; await the result of what this returns.

        Args:
            call: The call.
            turn: The turn of the step; 0 when its agent has none.
            carry_out: Begins the call.
            refuse: Gives the result of a call that is not carried out.

        Raises (on awaiting):
            RepeatedToolCallError: The call was made too often.
        """
        repetition = self._repeated.begin(call, turn)
        match repetition.action:
            case "proceed":
                return partial(self._watched, call, repetition, carry_out(call))
            case "refuse":
                return partial(self._refused, call, repetition, refuse)
            case "fail":
                return partial(self._fail, call, repetition)

    async def _watched(self, call: ToolCall, repetition: Repetition, result: _Result) -> ToolResult:
        given = await result()
        if not self._repeated.finish(repetition, given.content):
            return given
        await self._tell(call, repetition, "warned")
        note = (
            f"Note: {call.name} was called like this in {repetition.count} turns, with the same result. "
            f"{_GUIDANCE}"
        )
        return replace(given, content=(*given.content, note))

    async def _refused(
        self,
        call: ToolCall,
        repetition: Repetition,
        refuse: Callable[[ToolCall, ToolBoundaryError], Awaitable[ToolResult]],
    ) -> ToolResult:
        await self._tell(call, repetition, "refused")
        error = ToolBoundaryError(
            kind="invalid_input",
            message=f"not carried out: {call.name} was called like this in {repetition.count} turns, and its "
            "result stayed the same",
            guidance=_GUIDANCE,
        )
        return await refuse(call, error)

    async def _fail(self, call: ToolCall, repetition: Repetition) -> ToolResult:
        await self._tell(call, repetition, "failed")
        what = (
            f"step {self._environment.execution_ref.step_id}: the model called {call.name} in "
            f"{repetition.count} turns with the same arguments, and its result stayed the same (loop_guard)"
        )
        raise RepeatedToolCallError(f"{what}: {quote(call.arguments)}").without_content(what)

    async def _tell(self, call: ToolCall, repetition: Repetition, action: "ToolLoopAction") -> None:
        span = trace.get_current_span()
        if span.is_recording():
            attributes: dict[str, str | int] = {
                "nighthawk.tool_loop.tool_name": call.name,
                "nighthawk.tool_loop.repetitions": repetition.count,
                "nighthawk.tool_loop.action": action,
            }
            span.add_event("nighthawk.tool_loop.suspected", attributes)
        policies = self._environment.policies
        if policies.that("report"):
            from ..runtime.events import ToolLoopSuspected  # here, because few programs are told of events

            event = ToolLoopSuspected(
                execution_ref=self._environment.execution_ref,
                tool_name=call.name,
                repetitions=repetition.count,
                action=action,
            )
            await policies.report(event)

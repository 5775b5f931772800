"""Applies the loop guard to the calls of a step, and informs the model, traces and hooks."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from ..configuration import LoopGuard
from ..errors import RepeatedToolCallError, ToolBoundaryError
from ..runtime.environment import Environment
from ..runtime.tool_calls import canonical_arguments
from ..types.messages import ToolCall, ToolResult, UserContent
from .refusals import quote

if TYPE_CHECKING:
    from ..runtime.events import ToolLoopAction

_Key: TypeAlias = tuple[str, str]


class Repetition(Struct, frozen=True, kw_only=True):
    """The decision about a call.

    Args:
        key: The call: its name and its arguments, however they were written.
        count: The number of turns in which it was made with the same result, this one included.
        action: Execute it, refuse it, or fail the step.
    """

    key: _Key
    count: int
    action: Literal["proceed", "refuse", "fail"]


class _Streak(Struct, kw_only=True):
    """The last result of a call, and the consecutive turns that gave it without anything new.

    Args:
        content: The result.
        turn: The last of these turns.
        count: The number of them.
        is_new: Whether the result appeared for the first time in that turn.
    """

    content: tuple[UserContent, ...]
    turn: int
    count: int = 1
    is_new: bool = True


class RepeatedCalls(Struct, eq=False):
    """Counts the repetitions of one step.

    Args:
        guard: The limits for warning, refusing and failing.
    """

    guard: LoopGuard
    _streaks: dict[_Key, _Streak] = {}
    _turn: int = 0
    _turn_is_new: bool = False
    _last_new_turn: int = 0

    def begin(self, call: ToolCall, turn: int) -> Repetition:
        """Decide about a call that is about to be executed.

        Args:
            call: The call.
            turn: The turn of the step, from 1; 0 for an agent that has no turns, whose calls then count each.
        """
        self._enter(turn or self._turn + 1)
        key = (call.name, canonical_arguments(call))
        count = self._count_now(key)
        if count >= self.guard.fail_after:
            return Repetition(key=key, count=count, action="fail")
        if count >= self.guard.refuse_after:
            self._keep(key, count)
            return Repetition(key=key, count=count, action="refuse")
        return Repetition(key=key, count=count, action="proceed")

    def finish(self, repetition: Repetition, content: tuple[UserContent, ...]) -> bool:
        """Record the result of a call that was executed.

        Args:
            repetition: The answer of `begin` about the call.
            content: The content that the model is about to see.

        Returns:
            Whether to warn the model.
        """
        streak = self._streaks.get(repetition.key)
        if streak is None or streak.content != content:
            self._streaks[repetition.key] = _Streak(content=content, turn=self._turn)
            self._turn_is_new = True
            return False
        self._keep(repetition.key, repetition.count)
        return repetition.count >= self.guard.warn_after

    def _enter(self, turn: int) -> None:
        if turn == self._turn:
            return
        if self._turn_is_new:
            self._last_new_turn = self._turn
        self._turn = turn
        self._turn_is_new = False

    def _count_now(self, key: _Key) -> int:
        streak = self._streaks.get(key)
        if streak is None:
            return 1
        if streak.turn == self._turn:
            return streak.count
        since_new = streak.turn if streak.is_new else streak.turn - 1
        return 1 if self._last_new_turn > since_new else streak.count + 1

    def _keep(self, key: _Key, count: int) -> None:
        streak = self._streaks[key]
        if streak.turn != self._turn:
            streak.turn, streak.count, streak.is_new = self._turn, count, False


_Result: TypeAlias = Callable[[], Awaitable[ToolResult]]
_GUIDANCE = "Go on with what is known, try something else, or end the block."


class GuardedCalls(Struct, frozen=True, eq=False):
    """The loop guard of one step.

    Args:
        environment: The environment of the step.
        repeated: Counts its repetitions.
    """

    environment: Environment
    repeated: RepeatedCalls

    def begin(
        self,
        call: ToolCall,
        turn: int,
        carry_out: Callable[[ToolCall], _Result],
        refuse: Callable[[ToolCall, ToolBoundaryError], Awaitable[ToolResult]],
    ) -> _Result:
        """Begin a call; return an awaitable of its result.

        Args:
            call: The call.
            turn: The turn of the step; 0 when its agent has none.
            carry_out: Begins the call.
            refuse: Returns the result of a call that is not executed.

        Raises (on awaiting):
            RepeatedToolCallError: The call was made too often.
        """
        repetition = self.repeated.begin(call, turn)
        match repetition.action:
            case "proceed":
                return partial(self._watched, call, repetition, carry_out(call))
            case "refuse":
                return partial(self._refused, call, repetition, refuse)
            case "fail":
                return partial(self._fail, call, repetition)

    async def _watched(self, call: ToolCall, repetition: Repetition, result: _Result) -> ToolResult:
        given = await result()
        if not self.repeated.finish(repetition, given.content):
            return given
        await self._report(call, repetition, "warned")
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
        await self._report(call, repetition, "refused")
        error = ToolBoundaryError(
            kind="invalid_input",
            message=f"not carried out: {call.name} was called like this in {repetition.count} turns, and its "
            "result stayed the same",
            guidance=_GUIDANCE,
        )
        return await refuse(call, error)

    async def _fail(self, call: ToolCall, repetition: Repetition) -> ToolResult:
        await self._report(call, repetition, "failed")
        what = (
            f"step {self.environment.execution_ref.step_id}: the model called {call.name} in "
            f"{repetition.count} turns with the same arguments, and its result stayed the same (loop_guard)"
        )
        raise RepeatedToolCallError(f"{what}: {quote(call.arguments)}").without_content(what)

    async def _report(self, call: ToolCall, repetition: Repetition, action: "ToolLoopAction") -> None:
        # here, because most models do not repeat themselves
        from ..runtime.events import ToolLoopSuspected
        from ..runtime.reporting import report

        event = ToolLoopSuspected(
            execution_ref=self.environment.execution_ref,
            tool_name=call.name,
            repetitions=repetition.count,
            action=action,
        )
        await report(event)

"""The loop guard: the same tool call with the same result, turn after turn. No I/O.

A model that has seen what a call gives and makes it again learns nothing. The guard counts the turns in which
that happens, not the calls: a model that asks for ten identical calls at once has not seen any result yet.
Whatever is new meanwhile, a call or a result that was not there before, resets every count, so that a call
which is repeated while the work goes on (polling, a counter, the same question about each of many things) is
no loop.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from ..configuration import LoopGuard
from ..runtime.tool_arguments import canonical_arguments
from ..types.content import UserContent
from ..types.messages import ToolCall

__all__ = ["RepeatedCalls", "Repetition"]

_Key: TypeAlias = tuple[str, str]


class Repetition(Struct, frozen=True, kw_only=True):
    """The decision about a call.

    Args:
        key: Which call it is: its name and its arguments, however they were written.
        count: In how many turns it was made with the same result, this one included.
        action: Carry it out, refuse it, or fail the step.
    """

    key: _Key
    count: int
    action: Literal["proceed", "refuse", "fail"]


class _Streak(Struct, kw_only=True):
    """The last result of a call, and the turns in a row that brought it without anything new.

    Args:
        content: The result.
        turn: The last of these turns.
        count: How many they are.
        is_new: Whether the result was there for the first time in that turn.
    """

    content: tuple[UserContent, ...]
    turn: int
    count: int = 1
    is_new: bool = True


class RepeatedCalls:
    """Counts the repetitions of one step.

    Args:
        guard: When to warn, to refuse and to fail.
    """

    def __init__(self, guard: LoopGuard) -> None:
        self._guard = guard
        self._streaks: dict[_Key, _Streak] = {}
        self._turn = 0
        self._turn_is_new = False
        self._last_new_turn = 0

    def begin(self, call: ToolCall, turn: int) -> Repetition:
        """Decide about a call that is about to be carried out.

        Args:
            call: The call.
            turn: The turn of the step, from 1; 0 for an agent that has no turns, whose calls then count each.
        """
        self._enter(turn or self._turn + 1)
        key = (call.name, canonical_arguments(call))
        count = self._count_now(key)
        if count >= self._guard.fail_after:
            return Repetition(key=key, count=count, action="fail")
        if count >= self._guard.refuse_after:
            self._keep(key, count)
            return Repetition(key=key, count=count, action="refuse")
        return Repetition(key=key, count=count, action="proceed")

    def finish(self, repetition: Repetition, content: tuple[UserContent, ...]) -> bool:
        """Take in the result of a call that was carried out.

        Args:
            repetition: What `begin` said of the call.
            content: What the model is about to see.

        Returns:
            Whether to warn the model.
        """
        streak = self._streaks.get(repetition.key)
        if streak is None or streak.content != content:
            self._streaks[repetition.key] = _Streak(content=content, turn=self._turn)
            self._turn_is_new = True
            return False
        self._keep(repetition.key, repetition.count)
        return repetition.count >= self._guard.warn_after

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

"""Requests that wait until others have settled what they set aside, in the order in which they came.

Only a step that has nothing set aside itself, and no step around it, waits: whoever holds something is never
held up by the line, so that it always moves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ...runtime.loop_event import LoopEvent
from .account import BudgetAccount

__all__ = ["Waiter", "WaitingLine"]

Answer = TypeVar("Answer")


@dataclass(slots=True, kw_only=True, eq=False)
class Waiter(Generic[Answer]):
    """One that waits. Made on its event loop.

    Args:
        accounts: The accounts that it needs room in.
        decide_locked: Gives the answer; None while there is none. Called with the lock of the accounts held.

    Attributes:
        answer: The answer, once there is one.
    """

    accounts: Sequence[BudgetAccount]
    decide_locked: Callable[[], Answer | None]
    answer: Answer | None = None
    _answered: LoopEvent = field(default_factory=LoopEvent)

    async def wait(self) -> None:
        """Wait for the answer."""
        await self._answered.wait()

    def wake(self) -> None:
        """Tell it that it has an answer. To be called without the lock."""
        self._answered.set()


class WaitingLine(Generic[Answer]):
    """Those that wait, in the order in which they came. Every method is called with the lock held."""

    __slots__ = ("_awaited", "_waiters")

    def __init__(self) -> None:
        self._waiters: list[Waiter[Answer]] = []
        self._awaited: set[BudgetAccount] = set()  # the accounts that they need room in

    def join(self, waiter: Waiter[Answer]) -> None:
        """Take somebody in, unless there is an answer at once. Nobody overtakes at the same accounts."""
        if self._awaited.isdisjoint(waiter.accounts):
            waiter.answer = waiter.decide_locked()
        if waiter.answer is None:
            self._waiters.append(waiter)
            self._awaited.update(waiter.accounts)

    def leave(self, waiter: Waiter[Answer]) -> None:
        """Let somebody go who has waited enough."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)
            self._awaited = {account for other in self._waiters for account in other.accounts}

    def move(self) -> list[Waiter[Answer]]:
        """Give answers where there are any by now.

        Returns:
            Those that are to be woken.
        """
        waiters, self._waiters, self._awaited = self._waiters, [], set()
        for waiter in waiters:
            self.join(waiter)
        return [waiter for waiter in waiters if waiter.answer is not None]

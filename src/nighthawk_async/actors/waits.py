"""Waiting for the first of several things: exactly one happens, and a cancelled wait undoes itself. Floor 1.

It does not know what is waited for: queues of messages say that (`message_queue`).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeVar

import anyio

__all__ = ["Wait", "Waiter", "wait_for_first"]


class Waiter:
    """A waiting task. It is woken once, for one of the things it waits for."""

    __slots__ = ("_is_woken", "woken_for")

    def __init__(self) -> None:
        self._is_woken = anyio.Event()
        self.woken_for: Wait | None = None

    def wake(self, wait: "Wait") -> bool:
        """Wake the task for a thing; False when it was woken for another one already."""
        if self.woken_for is not None:
            return False
        self.woken_for = wait
        self._is_woken.set()
        return True

    async def wait(self) -> None:
        """Wait until woken."""
        await self._is_woken.wait()


class Wait(ABC):
    """A thing that a task waits for. Every method is synchronous: it decides, and never waits itself."""

    @abstractmethod
    def poll(self) -> bool:
        """Do it now if nobody waits before; whether it was done."""

    @abstractmethod
    def enter(self, waiter: Waiter, *, is_again: bool) -> None:
        """Stand in the queue: last, or first when the task was woken for nothing and waits again."""

    @abstractmethod
    def leave(self) -> None:
        """Stand in the queue no more."""

    @abstractmethod
    def settle(self) -> bool:
        """Do it, when the task was woken for this; False when there is nothing to be done any more."""

    @abstractmethod
    def pass_on(self) -> None:
        """Leave it to the next, when the task was woken for this and then cancelled."""


AnyWait = TypeVar("AnyWait", bound=Wait)


async def wait_for_first(waits: Sequence[AnyWait]) -> AnyWait:
    """Wait until one of several things is done; the others are not, and nothing is when this is cancelled.

    Args:
        waits: What to wait for. Of those that can be done at once, the first is.

    Returns:
        What was done.
    """
    is_again = False
    while True:
        for wait in waits:
            if wait.poll():
                return wait
        woken_for = await _wait_until_woken(waits, is_again=is_again)
        for wait in waits:
            if wait is woken_for and wait.settle():
                return wait
        is_again = True


async def _wait_until_woken(waits: Sequence[Wait], *, is_again: bool) -> Wait | None:
    waiter = Waiter()
    for wait in waits:
        wait.enter(waiter, is_again=is_again)
    try:
        await waiter.wait()
    except BaseException:  # cancelled, maybe after it was woken
        _leave(waits)
        if waiter.woken_for is not None:
            waiter.woken_for.pass_on()
        raise
    _leave(waits)
    return waiter.woken_for


def _leave(waits: Sequence[Wait]) -> None:
    for wait in waits:
        wait.leave()

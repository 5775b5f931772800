"""Waiting for the first of several things: exactly one happens, and a cancelled wait undoes itself.

It does not know what is waited for: queues of messages say that (`message_queue`).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeVar, cast

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

__all__ = ["Wait", "Waiter", "wait_for_first"]


class Waiter:
    """A waiting task. It is woken for one of the things it waits for."""

    __slots__ = ("_is_woken", "_woken_for")

    def __init__(self) -> None:
        self._is_woken = anyio.Event()
        self._woken_for: Wait | None = None

    def wake(self, wait: "Wait") -> bool:
        """Wake the task for a thing; False when it was woken for another one already."""
        if self._woken_for is not None:
            return False
        self._woken_for = wait
        self._is_woken.set()
        return True

    async def wait(self) -> "Wait":
        """Wait until woken; what for."""
        try:
            await self._is_woken.wait()
        except BaseException:  # cancelled, maybe after it was woken
            if self._woken_for is not None:
                self._woken_for.pass_on()
            raise
        return cast("Wait", self._woken_for)

    def wait_again(self) -> None:
        """Be ready to be woken once more."""
        self._is_woken = anyio.Event()
        self._woken_for = None


class Wait(ABC):
    """A thing that a task waits for. Every method is synchronous: it decides, and never waits itself.

    Attributes:
        is_refused: Whether it will never happen. A task that is told so has waited for it all the same.
    """

    __slots__ = ("is_refused",)

    is_refused: bool

    @abstractmethod
    def poll(self) -> bool:
        """Do it now if nobody waits before; whether it was done."""

    @abstractmethod
    def enter(self, waiter: Waiter, *, is_again: bool) -> None:
        """Stand in the queue, last at first; a task that was woken for nothing keeps its place."""

    @abstractmethod
    def leave(self) -> None:
        """Stand in the queue no more."""

    @abstractmethod
    def settle(self) -> bool:
        """Do it, when the task was woken for this; False when there is nothing to be done any more."""

    @abstractmethod
    def pass_on(self) -> None:
        """Undo it and leave it to the next, when the task was woken for this and then cancelled."""


AnyWait = TypeVar("AnyWait", bound=Wait)


async def wait_for_first(waits: Sequence[AnyWait]) -> AnyWait:
    """Wait until one of several things is done; the others are not, and nothing is when this is cancelled.

    Args:
        waits: What to wait for. Of those that can be done at once, the first is.

    Returns:
        What was done.
    """
    done = _poll(waits)
    if done is not None:
        return done
    waiter = Waiter()
    is_again = False
    try:
        while True:
            for wait in waits:
                wait.enter(waiter, is_again=is_again)
            done = _settle(waits, await waiter.wait())
            if done is not None:
                if done.is_refused:  # what cancelled the other side may have cancelled the caller, too
                    await checkpoint_if_cancelled()
                return done
            waiter.wait_again()
            is_again = True
    finally:
        for wait in waits:
            wait.leave()


def _settle(waits: Sequence[AnyWait], woken_for: Wait) -> AnyWait | None:
    for wait in waits:
        if wait is woken_for and wait.settle():
            return wait
    return _poll(waits)  # what came to the others meanwhile woke nobody


def _poll(waits: Sequence[AnyWait]) -> AnyWait | None:
    return next((wait for wait in waits if wait.poll()), None)

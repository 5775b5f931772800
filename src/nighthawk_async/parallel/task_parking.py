"""Parking of suspended work: the machine behind suspend and resume.

    running ── suspend ──► suspending ── boundary ──► suspended ── resume ──► resuming ── goes on ──► running

Everything is synchronous except waiting, and happens on one event loop.
"""

from typing import Literal, TypeAlias

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from .task_errors import AlreadyResumedError, NotSuspendedError, TaskEndedError

__all__ = ["ParkingPlace", "ParkingState"]

ParkingState: TypeAlias = Literal["running", "suspending", "suspended", "resuming", "ended"]
"""`suspending`: asked to park and not at a boundary yet; `resuming`: free to go on and not woken yet."""


class ParkingPlace:
    """Lets others suspend something at its boundaries.

    Its owner calls `park` at each boundary, and `close` at the end. What goes with being resumed, a message
    for instance, is the owner's own affair.

    Args:
        title: What parks here, for error messages: `step`.
    """

    __slots__ = ("_changed", "_is_released", "_parkings", "_state", "_title")

    def __init__(self, title: str) -> None:
        self._title = title
        self._state: ParkingState = "running"
        self._is_released = False
        self._parkings = 0
        self._changed: anyio.Event | None = None

    @property
    def state(self) -> ParkingState:
        """The present state."""
        return self._state

    @property
    def is_suspended(self) -> bool:
        """Whether it is parked and waits to be resumed."""
        return self._state == "suspended"

    def suspend(self) -> None:
        """Ask it to park at its next boundary. Asking again changes nothing, nor does asking after `release`.

        Raises:
            TaskEndedError: It has ended.
        """
        self._refuse_ended()
        if self._state in ("running", "resuming") and not self._is_released:
            self._enter("suspending")

    def resume(self) -> None:
        """Let it go on, or take back that it was asked to park.

        Raises:
            NotSuspendedError: Nobody has suspended it.
            AlreadyResumedError: It was resumed already and has not gone on yet.
            TaskEndedError: It has ended.
        """
        self._refuse_ended()
        if self._state == "running":
            raise NotSuspendedError(f"the {self._title} is not suspended")
        if self._state == "resuming":
            raise AlreadyResumedError(f"the {self._title} was resumed already and has not gone on yet")
        self._enter("resuming")

    def release(self) -> None:
        """Let it go on, and never park again: it was asked to end."""
        self._is_released = True
        if self._state in ("suspending", "suspended"):
            self._enter("resuming")

    def close(self) -> None:
        """It has ended. Closing twice is fine."""
        self._enter("ended")

    async def park(self) -> None:
        """Wait as long as it is suspended. A checkpoint only when it is.

        Raises:
            TaskEndedError: It has ended.
        """
        try:
            while self._state in ("suspending", "suspended"):
                self._enter("suspended")
                await self._wait_changed()
        except BaseException:  # cancelled: from here on it cleans up
            if self._state != "ended":
                self._enter("running")
            raise
        self._refuse_ended()
        self._enter("running")

    async def wait_suspended(self) -> None:
        """Wait until it is parked.

        Every one who waits then hears of it, also when another of them resumes it at once.

        Raises:
            TaskEndedError: It ended before.
        """
        seen = self._parkings - self.is_suspended
        await checkpoint()
        while self._parkings == seen:
            self._refuse_ended()
            await self._wait_changed()

    async def _wait_changed(self) -> None:
        if self._changed is None:
            self._changed = anyio.Event()
        await self._changed.wait()
        if self._state == "ended":
            await checkpoint_if_cancelled()  # what ended it may have cancelled the caller, too

    def _enter(self, state: ParkingState) -> None:
        if state == self._state:
            return
        self._state = state
        self._parkings += state == "suspended"
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def _refuse_ended(self) -> None:
        if self._state == "ended":
            raise TaskEndedError(f"the {self._title} has ended")

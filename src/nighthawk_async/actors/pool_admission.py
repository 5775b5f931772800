"""Waiting until a pool takes a job: by those who submit it while the pool is full. Floor 1.

Several wait for the same job when they submit it with the same idempotency key.
"""

import anyio
from anyio import TaskInfo

from .pool_waits import PoolWait

__all__ = ["Admission"]


class Admission:
    """Those who wait for a place for one job."""

    __slots__ = ("_event", "_tasks", "_waits", "is_refused")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._tasks: list[TaskInfo] = []
        self._waits: list[PoolWait] = []
        self.is_refused = False

    @property
    def is_given_up(self) -> bool:
        """Whether nobody waits any more."""
        return not self._tasks

    @property
    def is_from_inside(self) -> bool:
        """Whether a job of the pool waits."""
        return bool(self._waits)

    def is_wanted(self) -> bool:
        """Whether somebody waits whose cancellation is not under way."""
        return any(not task.has_pending_cancellation() for task in self._tasks)

    async def wait(self, wait: PoolWait | None) -> None:
        """Wait until it is decided.

        Args:
            wait: What says that the caller is a job of the pool; None when it is none.
        """
        task = anyio.get_current_task()
        self._tasks.append(task)
        if wait is not None:
            self._waits.append(wait)
        try:
            await self._event.wait()
        finally:
            self._tasks.remove(task)
            if wait is not None:
                wait.end()
                self._waits.remove(wait)

    def decide(self, *, refused: bool) -> None:
        """Wake those who wait: the pool has taken the job, or refuses it."""
        self.is_refused = refused
        for wait in self._waits:
            wait.end()
        self._event.set()

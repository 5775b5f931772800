"""Admission of a run's steps: the number in flight at once, and their order.

Steps are admitted in the order in which they ask, on whichever event loop of the run they are. A child of a
step in flight joins its parent's slot without waiting; otherwise the parent would wait for the child while
holding the slot that the child needs. So the limit is on slots: a slot holds any number of steps, and becomes
free when the last of them has ended. Steps of a task that outlives its step need a slot of their own once the
step's slot is free.
"""

import threading
from typing import cast

from ..errors import NighthawkError
from ..parallel.fair_queue import FairQueue, wake


def checked_max_concurrent_steps(value: object) -> int | None:
    """Return the number of steps that may be in flight at once; None for any number.

    Raises:
        NighthawkError: It is neither None nor a positive integer.
    """
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if value is None or (is_number and cast("int", value) > 0):
        return cast("int | None", value)
    raise NighthawkError(f"max_concurrent_steps must be a positive integer or None, not {value!r}")


class Slot:
    """The slot of a step in flight and of the steps that it causes; made by `StepAdmission`."""

    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps = 1
        """The number of steps in flight in it."""


class StepAdmission:
    """Admits steps in the order in which they ask.

    Args:
        max_concurrent_steps: The number of slots.
    """

    def __init__(self, max_concurrent_steps: int) -> None:
        self._free = max_concurrent_steps
        self._lock = threading.Lock()  # the event loops of portal threads share the run
        self._queue = FairQueue[Slot](self._lock)

    async def enter(self, parent: Slot | None = None) -> Slot:
        """Take a slot for a step, waiting until one is free.

        Args:
            parent: The slot of the parent step, joined while a step is in flight in it; None for none.
        """
        with self._lock:
            if parent is not None and parent.steps:  # otherwise it is free, or belongs to another step by now
                parent.steps += 1
                return parent
            turn = self._queue.join(self._take)
        return await self._queue.wait(turn, self.leave)

    def leave(self, slot: Slot) -> None:
        """Report that a step in a slot has ended; the last one frees the slot for the next step."""
        with self._lock:
            slot.steps -= 1
            self._free += not slot.steps
            served = self._queue.move()
        wake(served)

    def _take(self) -> Slot | None:
        if not self._free:
            return None
        self._free -= 1
        return Slot()

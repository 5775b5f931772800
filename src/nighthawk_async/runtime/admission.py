"""Admission of a run's steps: the number in flight at once, and their order.

Steps are admitted in the order in which they ask, whichever event loop of the run they are on. A step that a
step in flight brings about is not asked to wait: it joins the slot of that one, which would otherwise wait
for it while holding what it waits for. So what is limited is the number of slots: any number of steps may be
in one, and it becomes free when the last of them has ended. A task that a step leaves behind asks like
everybody else once its slot is free.
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
    """The slot of a step in flight and of the steps that it causes. `StepAdmission` gives it."""

    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps = 1
        """How many steps are in flight in it."""


class StepAdmission:
    """Admits steps in the order of their asking.

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
            parent: The slot of the step around this one, which is joined while a step is in flight in it;
                None for none.
        """
        with self._lock:
            if parent is not None and parent.steps:  # otherwise it has another owner by now, or none
                parent.steps += 1
                return parent
            turn = self._queue.join(self._take)
        return await self._queue.wait(turn, self.leave)

    def leave(self, slot: Slot) -> None:
        """A step in a slot has ended; the last one lets the next step in."""
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

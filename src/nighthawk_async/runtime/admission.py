"""Admission of a run's steps: the number in flight at once, and their order.

Steps are admitted in the order in which they ask, whichever event loop of the run they are on. A step that a
step in flight brings about is not asked to wait: it joins the place of that one, which would otherwise wait
for it while holding what it waits for. So what is limited is the number of places: any number of steps may be
at one, and it becomes free when the last of them has ended. A task that a step leaves behind asks like
everybody else once its place is free.
"""

import threading
from collections import OrderedDict
from typing import cast

from ..errors import NighthawkError
from .loop_event import LoopEvent


def checked_max_concurrent_steps(value: object) -> int | None:
    """Return the number of steps that may be in flight at once; None for any number.

    Raises:
        NighthawkError: It is neither None nor a positive integer.
    """
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if value is None or (is_number and cast("int", value) > 0):
        return cast("int | None", value)
    raise NighthawkError(f"max_concurrent_steps must be a positive integer or None, not {value!r}")


class Place:
    """The slot of a step in flight and of the steps that it causes. `StepAdmission` gives it."""

    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps = 1
        """How many steps are in flight at it."""


class StepAdmission:
    """Admits steps in the order of their asking.

    Args:
        max_concurrent_steps: How many places there are.
    """

    def __init__(self, max_concurrent_steps: int) -> None:
        self._free = max_concurrent_steps
        self._waiting: OrderedDict[LoopEvent, None] = OrderedDict()
        self._lock = threading.Lock()  # the event loops of portal threads share the run

    async def enter(self, around: Place | None = None) -> Place:
        """Take a place for a step, waiting until one is free.

        Args:
            around: The place of the step around this one, which is joined while a step is in flight at it;
                None for none.
        """
        if around is not None and self._join(around):
            return around
        waiter = self._ask()
        if waiter is not None:
            await self._wait(waiter)
        return Place()

    def leave(self, place: Place) -> None:
        """A step at a place has ended; the last one lets the next step in."""
        with self._lock:
            place.steps -= 1
            is_free = not place.steps
        if is_free:
            self._pass_on()

    def _join(self, place: Place) -> bool:
        with self._lock:
            if not place.steps:  # it has another owner by now, or none
                return False
            place.steps += 1
            return True

    def _ask(self) -> LoopEvent | None:
        with self._lock:
            if self._free:  # then nobody waits
                self._free -= 1
                return None
            waiter = LoopEvent()
            self._waiting[waiter] = None
            return waiter

    async def _wait(self, waiter: LoopEvent) -> None:
        try:
            await waiter.wait()
        except BaseException:  # cancelled
            self._give_up(waiter)
            raise

    def _give_up(self, waiter: LoopEvent) -> None:
        with self._lock:
            was_waiting = waiter in self._waiting
            self._waiting.pop(waiter, None)
        if not was_waiting:  # it was admitted at the same moment: the next one gets its place
            self._pass_on()

    def _pass_on(self) -> None:
        with self._lock:
            waiter = self._waiting.popitem(last=False)[0] if self._waiting else None
            if waiter is None:
                self._free += 1
        if waiter is not None:
            waiter.set()

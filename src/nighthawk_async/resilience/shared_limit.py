"""The calls that share one rate limit: who goes now, who is next, what they took.

What counts against the limits is decided by `models.pacing_counts`, as for the requests to a model. Here is
only the queue: calls go in the order in which they came, from whichever thread or event loop. The first one
in it keeps the time; whoever leaves it wakes the one behind.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial

import anyio

from ..models.pacing_counts import LimitCounts, Start
from ..models.pacing_lane import Demand, PacingLimits
from ..parallel import raise_if_cancel_requested
from ..parallel.stopwatch import shared_time
from ..parallel.task_current import told_to_end
from ..runtime.loop_event import LoopEvent

__all__ = ["RateLimitStatistics", "SharedLimit"]

_FIRST_GUESS = 1_000
_NEVER = float("inf")
_LEAST_WAIT_SECONDS = 0.001
"""So that the last bit of a float does not let anybody wait for no time at all, again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimitStatistics:
    """Statistics of a rate limit at one moment.

    Args:
        waiting: Calls that wait for their turn.
        tokens_per_call: The tokens that a call is expected to take when nobody says.
    """

    waiting: int
    tokens_per_call: int


@dataclass(slots=True, eq=False)
class _Waiter:
    demand: Demand
    event: LoopEvent


class SharedLimit:
    """A rate limit. Used from any thread and event loop.

    Args:
        limits: What it limits.
    """

    def __init__(self, limits: PacingLimits) -> None:
        self.limits = limits
        self._counts = LimitCounts()
        self._queue: OrderedDict[_Waiter, None] = OrderedDict()
        self._lock = threading.Lock()
        self._known_calls = 0
        self._known_tokens = 0

    def statistics(self) -> RateLimitStatistics:
        """Return its present statistics."""
        with self._lock:
            return RateLimitStatistics(waiting=len(self._queue), tokens_per_call=self._expected_tokens())

    def enter_nowait(self, tokens: int | None) -> Start | None:
        """Begin a call, unless it has to wait; None when it has to.

        Args:
            tokens: The tokens it will take; None for as many as calls do on average.
        """
        with self._lock:
            return None if self._queue else self._begin(self._demand(tokens))[0]

    async def enter(self, tokens: int | None, *, goes_first: bool = False) -> Start:
        """Begin a call when it is its turn. Whoever is cancelled before, or asked to end, takes nothing.

        Args:
            tokens: The tokens it will take; None for as many as calls do on average.
            goes_first: Whether it goes before those that wait, because they cannot go while it waits.

        Raises:
            TaskCancelledError: It would have to wait, and the task of the caller was asked to end.
        """
        with self._lock:
            waiter = _Waiter(self._demand(tokens), LoopEvent())
            self._queue[waiter] = None
            if goes_first:
                self._queue.move_to_end(waiter, last=False)
        try:
            with told_to_end(partial(self._wake, waiter)):
                return await self._wait_for_turn(waiter)
        finally:
            self._leave(waiter)

    def settle(self, start: Start, tokens: int | None) -> None:
        """Take note that a call has ended.

        Args:
            start: What began it.
            tokens: The tokens it took; None when nobody knows.
        """
        if tokens is None:
            return
        with self._lock:
            self._known_calls += 1
            self._known_tokens += tokens
            self._counts.correct(start, tokens)
        self._wake_first()

    async def _wait_for_turn(self, waiter: _Waiter) -> Start:
        while True:
            with self._lock:
                start, seconds = self._begin(waiter.demand) if self._first is waiter else (None, _NEVER)
                if start is not None:
                    return start
                event = waiter.event = LoopEvent()
            raise_if_cancel_requested()  # after the event is there: whoever asks from now on sets it
            with anyio.move_on_after(seconds):
                await event.wait()

    @property
    def _first(self) -> _Waiter | None:
        return next(iter(self._queue), None)

    def _demand(self, tokens: int | None) -> Demand:
        expected = self._expected_tokens() if tokens is None else tokens
        return Demand(lane="", input_tokens=expected, limits=self.limits)

    def _expected_tokens(self) -> int:
        return -(-self._known_tokens // self._known_calls) if self._known_calls else _FIRST_GUESS

    def _begin(self, demand: Demand) -> tuple[Start | None, float]:
        """Begin a call, or tell in how many seconds it may."""
        now = shared_time()
        self._counts.forget_before_minute(now)
        blocking = self._counts.blocking(demand)
        if blocking:
            return None, max(max(blocking.values()) - now, _LEAST_WAIT_SECONDS)
        return self._counts.begin(demand, now), 0.0

    def _leave(self, waiter: _Waiter) -> None:
        with self._lock:
            del self._queue[waiter]
        self._wake_first()

    def _wake_first(self) -> None:
        with self._lock:
            first = self._first
        if first is not None:
            self._wake(first)

    def _wake(self, waiter: _Waiter) -> None:
        with self._lock:
            event = waiter.event
        event.set()

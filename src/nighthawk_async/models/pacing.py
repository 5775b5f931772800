"""Waits until a request may be sent, fairly and cancellable at every point.

The pacer is shared by the requests of a run that go to one endpoint with one key, on one event loop. It holds
no task: the oldest waiting request keeps the time.
"""

from collections.abc import AsyncGenerator, Callable, Hashable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from typing import TypeAlias

import anyio
from msgspec import Struct, field

from ..wire.rate_limits import RateLimit, read_rate_limits
from .pacing_lane import Demand, Lane, LimitCounts, LimitName, Start, Ticket, names_of_limits

_NEVER = float("inf")


class PacerStatistics(Struct, frozen=True, kw_only=True):
    """Numbers of a pacer at one moment.

    Args:
        in_flight: Requests that had their turn and have not ended.
        waiting: Requests that wait for their turn.
    """

    in_flight: int
    waiting: int


class PacingDecision(Struct, frozen=True, kw_only=True):
    """A decision from the current state.

    Args:
        admitted: Requests that may be sent now, in order.
        first: The oldest request that still waits; None when none does.
        wake_at: The time to decide again even without an event; infinity for never.
    """

    admitted: list[Ticket] = field(default_factory=list[Ticket])
    first: Ticket | None = None
    wake_at: float = _NEVER


class PacingState:
    """The state of one key at one endpoint: requests in flight, waiting requests, and known limits."""

    def __init__(self) -> None:
        self._turns = count()
        self._lanes: dict[str, Lane] = {}
        self._counts = LimitCounts()
        self._start_of: dict[Ticket, Start] = {}
        self._waiting = 0
        self._held_until = -_NEVER

    def statistics(self) -> PacerStatistics:
        """Return the numbers of requests in flight and waiting."""
        return PacerStatistics(in_flight=len(self._start_of), waiting=self._waiting)

    def join(self, demand: Demand, *, turn: int | None = None) -> Ticket:
        """Let a request wait for its turn.

        Args:
            demand: The demand of the request.
            turn: The turn that it had already; None for a new request.
        """
        ticket = Ticket(next(self._turns) if turn is None else turn, demand)
        self._lanes.setdefault(demand.lane, Lane()).join(ticket)
        self._waiting += 1
        return ticket

    def withdraw(self, ticket: Ticket) -> None:
        """Forget a request that waits no longer.

        Args:
            ticket: Its ticket.
        """
        if ticket.is_waiting:
            ticket.is_waiting = False
            self._waiting -= 1

    def decide(self, now: float) -> PacingDecision:
        """Admit the requests that may be sent.

        Args:
            now: The present time, in seconds.
        """
        self._counts.forget_before_minute(now)
        lanes = list(self._lanes.values())
        if now < self._held_until:
            return PacingDecision(first=_oldest(lanes), wake_at=self._held_until)
        admitted: list[Ticket] = []
        wake_at = _NEVER
        full: set[LimitName] = set()
        while (ticket := _oldest(lanes)) is not None:
            blocked_until = self._blocked_until(ticket, full, now)
            if blocked_until is None:
                self._admit(ticket, now)
                admitted.append(ticket)
            else:
                wake_at = min(wake_at, blocked_until)
                lanes.remove(self._lanes[ticket.demand.lane])
        return PacingDecision(admitted=admitted, first=_oldest(self._lanes.values()), wake_at=wake_at)

    def answered(self, ticket: Ticket, rate_limits: Iterable[RateLimit], now: float) -> None:
        """Record that a response has begun, or never will, and the rate limits in its head.

        Args:
            ticket: The request's ticket.
            rate_limits: The rate limits in the head.
            now: The present time, in seconds.
        """
        if ticket.is_in_flight and not ticket.is_answered:
            ticket.is_answered = True
            self._lanes[ticket.demand.lane].answered(ticket.demand, rate_limits, now)

    def accepted(self, ticket: Ticket) -> None:
        """Record that the server accepted a request.

        Args:
            ticket: The request's ticket.
        """
        ticket.is_accepted = True

    def refused(self, ticket: Ticket, until: float) -> None:
        """Admit no request before a time, and fewer at once afterwards: the server refused a request.

        Args:
            ticket: The request's ticket.
            until: The end of the delay that the server asked for, in seconds on the clock of `decide`.
        """
        self._held_until = max(self._held_until, until)
        if ticket.is_in_flight:
            self._lanes[ticket.demand.lane].refused()

    def correct(self, ticket: Ticket, tokens: int) -> None:
        """Replace the estimate of a request by its actual usage.

        Args:
            ticket: The request's ticket.
            tokens: All tokens that it used.
        """
        start = self._start_of.get(ticket)
        if start is not None:
            self._counts.correct(start, tokens)

    def end(self, ticket: Ticket, now: float) -> None:
        """Record the end of a request, successful or not. Doing so twice does nothing.

        Args:
            ticket: The request's ticket.
            now: The present time, in seconds.
        """
        if ticket.is_in_flight:
            self.answered(ticket, (), now)
            ticket.is_in_flight = False
            self._lanes[ticket.demand.lane].ended(is_accepted=ticket.is_accepted)
            self._counts.end(self._start_of.pop(ticket))

    def _admit(self, ticket: Ticket, now: float) -> None:
        self.withdraw(ticket)
        ticket.is_in_flight = True
        self._lanes[ticket.demand.lane].sent(ticket.demand)
        self._start_of[ticket] = self._counts.begin(ticket.demand, now)

    def _blocked_until(self, ticket: Ticket, full: set[LimitName], now: float) -> float | None:
        """Return the time at which a request may go; infinity for after another event, None for now.

        Args:
            ticket: The request's ticket.
            full: The limits that block an older request, which no other may overtake there; more are added.
            now: The present time, in seconds.
        """
        demand = ticket.demand
        blocked_until = self._lanes[demand.lane].blocked_until(demand, now)
        if blocked_until is not None:
            return blocked_until
        if not full.isdisjoint(names_of_limits(demand.limits)):
            return _NEVER
        blocking = self._counts.blocking(demand)
        full.update(blocking)
        return max(blocking.values(), default=None)


def _oldest(lanes: Iterable[Lane]) -> Ticket | None:
    return min((ticket for lane in lanes if (ticket := lane.first) is not None), default=None)


PacerSource: TypeAlias = Callable[[Hashable], AbstractAsyncContextManager["Pacer"]]
"""Provides the pacer for requests to one endpoint with one key; the argument identifies these."""


@asynccontextmanager
async def pacer_of_request(key: Hashable) -> AsyncGenerator["Pacer", None]:
    """A pacer for one request alone, which waits for no other request.

    Args:
        key: The identity of the endpoint and the key.
    """
    yield Pacer()


class Permit:
    """A request's permission to be in flight. Made by `Pacer.admit`; `release` ends it."""

    def __init__(self, pacer: "Pacer", ticket: Ticket) -> None:
        self._pacer = pacer
        self._ticket = ticket

    @property
    def turn(self) -> int:
        """The request's position in the queue."""
        return self._ticket.turn

    def answered(self, headers: Mapping[str, str]) -> None:
        """Record the head of the response.

        Args:
            headers: Its headers, names in lower case; none when there was no response.
        """
        self.reported(read_rate_limits(headers))

    def reported(self, rate_limits: Iterable[RateLimit]) -> None:
        """Record that the response has begun, or never will; see `answered`.

        Args:
            rate_limits: The rate limits in the head.
        """
        self._pacer.answered(self._ticket, rate_limits)

    def accepted(self) -> None:
        """Record that the server accepted the request, which makes room for others when it has ended."""
        self._pacer.accepted(self._ticket)

    def refused(self, seconds: float) -> None:
        """Let no request be sent for a while, and fewer at once afterwards, because the server asked for it.

        Args:
            seconds: The wait, in seconds.
        """
        self._pacer.refused(self._ticket, seconds)

    def correct(self, tokens: int) -> None:
        """Count the actual usage of the request.

        Args:
            tokens: All its tokens.
        """
        self._pacer.correct(self._ticket, tokens)

    def release(self) -> None:
        """Record that the response has ended, or never came. Doing so twice does nothing."""
        self._pacer.release(self._ticket)


class Pacer:
    """Admits requests in turn. Belongs to one event loop."""

    def __init__(self) -> None:
        self._state = PacingState()
        self._signals: dict[Ticket, anyio.Event] = {}
        self._timekeeper: Ticket | None = None
        self._wake_at = _NEVER

    def statistics(self) -> PacerStatistics:
        """Return the numbers of requests in flight and waiting."""
        return self._state.statistics()

    def admit_nowait(self, demand: Demand, *, turn: int | None = None) -> Permit | None:
        """A permit for a request that may be sent at once; None when it would have to wait.

        Args:
            demand: The demand of the request.
            turn: The turn of the permit it had before, when it is sent again.
        """
        ticket = self._state.join(demand, turn=turn)
        self._settle()
        if ticket.is_in_flight:
            return Permit(self, ticket)
        self._state.withdraw(ticket)
        self._settle()  # it may have become the timekeeper
        return None

    async def admit(self, demand: Demand, *, turn: int | None = None) -> Permit:
        """Wait until a request may be sent.

        A request that is cancelled while waiting leaves the queue and uses nothing.

        Args:
            demand: The demand of the request.
            turn: The turn of the permit it had before, when it is sent again.
        """
        ticket = self._state.join(demand, turn=turn)
        self._settle()
        try:
            while not ticket.is_in_flight:
                await self._wait_for_signal(ticket)
        except BaseException:
            # Cancelled, perhaps just as its turn came.
            self._state.withdraw(ticket)
            self.release(ticket)
            raise
        return Permit(self, ticket)

    def answered(self, ticket: Ticket, rate_limits: Iterable[RateLimit]) -> None:
        """Record the head of a response; see `Permit.reported`."""
        self._state.answered(ticket, rate_limits, anyio.current_time())
        self._settle()

    def accepted(self, ticket: Ticket) -> None:
        """Record that the server accepted a request; see `Permit.accepted`."""
        self._state.accepted(ticket)

    def refused(self, ticket: Ticket, seconds: float) -> None:
        """Record that the server refused a request; see `Permit.refused`."""
        self._state.refused(ticket, anyio.current_time() + seconds)
        self._settle()

    def correct(self, ticket: Ticket, tokens: int) -> None:
        """Count the actual usage of a request; see `Permit.correct`."""
        self._state.correct(ticket, tokens)

    def release(self, ticket: Ticket) -> None:
        """Take a permit back; see `Permit.release`."""
        self._state.end(ticket, anyio.current_time())
        self._settle()

    async def _wait_for_signal(self, ticket: Ticket) -> None:
        """Wait until its turn has come, it becomes the timekeeper, or, as the timekeeper, it is time."""
        signal = self._signals[ticket] = anyio.Event()
        try:
            with anyio.CancelScope(deadline=self._wake_at if ticket is self._timekeeper else _NEVER):
                await signal.wait()
        finally:
            del self._signals[ticket]
        if not ticket.is_in_flight:
            self._settle()

    def _settle(self) -> None:
        """Admit the requests that may go, and make sure that one of the others keeps the time."""
        decision = self._state.decide(anyio.current_time())
        for ticket in decision.admitted:
            self._signal(ticket)
        if decision.first is not self._timekeeper or decision.wake_at < self._wake_at:
            self._timekeeper = decision.first
            self._wake_at = decision.wake_at
            self._signal(decision.first)
        self._wake_at = decision.wake_at

    def _signal(self, ticket: Ticket | None) -> None:
        if ticket is not None and ticket in self._signals:
            self._signals[ticket].set()

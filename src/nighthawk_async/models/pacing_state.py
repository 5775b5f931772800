"""Admission of requests, now and next. Pure: nothing here waits or reads a clock.

Requests wait in lanes, one for each model, because providers limit each model by itself. What the
configuration limits (requests in flight, requests and tokens within a minute) and a delay that the server
asks for hold for all lanes together. Within a lane, among the requests with the same limit, and among all
that may be sent, the oldest goes first: nobody overtakes because it is small. A request that is sent again
keeps the turn it had.
"""

from collections.abc import Iterable
from itertools import count

from msgspec import Struct, field

from ..wire.rate_limits import RateLimit
from .pacing_counts import LimitCounts, LimitName, Start, names_of_limits
from .pacing_lane import Demand, Lane, Ticket

__all__ = ["PacerStatistics", "PacingDecision", "PacingState"]

_NEVER = float("inf")


class PacerStatistics(Struct, frozen=True, kw_only=True):
    """Numbers of a pacer at one moment.

    Args:
        in_flight: Requests that had their turn and are not over.
        waiting: Requests that wait for their turn.
    """

    in_flight: int
    waiting: int


class PacingDecision(Struct, frozen=True, kw_only=True):
    """A decision from the present state.

    Args:
        admitted: Requests that may be sent now, in order.
        first: The oldest request that still waits; None when none does.
        wake_at: When to decide again though nothing happened; infinity for never.
    """

    admitted: list[Ticket] = field(default_factory=list[Ticket])
    first: Ticket | None = None
    wake_at: float = _NEVER


class PacingState:
    """The requests with one key at one endpoint: those in flight, those that wait, and what is known."""

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
            demand: What it needs.
            turn: The turn that it had already; None when it comes for the first time.
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
        """Take note that a response has begun, or never will, and of what its head says.

        Args:
            ticket: The request's ticket.
            rate_limits: What the head says.
            now: The present time, in seconds.
        """
        if ticket.is_in_flight and not ticket.is_answered:
            ticket.is_answered = True
            self._lanes[ticket.demand.lane].answered(ticket.demand, rate_limits, now)

    def accepted(self, ticket: Ticket) -> None:
        """Take note that the server accepted a request.

        Args:
            ticket: The request's ticket.
        """
        ticket.is_accepted = True

    def refused(self, ticket: Ticket, until: float) -> None:
        """Admit nobody before then, and fewer at once afterwards: the server refused a request.

        Args:
            ticket: The request's ticket.
            until: The end of the delay that the server asked for, in seconds on the clock of `decide`.
        """
        self._held_until = max(self._held_until, until)
        if ticket.is_in_flight:
            self._lanes[ticket.demand.lane].refused()

    def correct(self, ticket: Ticket, tokens: int) -> None:
        """Count what a request really took in place of the estimate.

        Args:
            ticket: The request's ticket.
            tokens: All tokens it took.
        """
        start = self._start_of.get(ticket)
        if start is not None:
            self._counts.correct(start, tokens)

    def end(self, ticket: Ticket, now: float) -> None:
        """Take note that a request is over, however it ended. Doing so twice does nothing.

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
            full: The limits that hold up an older request, which nobody may overtake there; more are added.
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

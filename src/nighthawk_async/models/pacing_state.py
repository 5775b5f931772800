"""Who may send a request now, and when the next one may. Floor 4. Pure: nothing here waits or reads a clock.

Requests wait in lanes, one for each model, because providers limit each model by itself. What the
configuration limits (requests in flight, requests and tokens within a minute) and a delay that the server
asks for hold for all lanes together. Within a lane, and among the lanes that may send, the oldest request
goes first: nobody overtakes because it is small. A request that is sent again keeps the turn it had.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

from ..wire.rate_limits import RateLimit
from .pacing_lane import Demand, Lane, Ticket

__all__ = ["PacerStatistics", "PacingDecision", "PacingState"]

_WINDOW_SECONDS = 60.0
_NEVER = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class PacerStatistics:
    """What a pacer sees at one moment.

    Args:
        in_flight: Requests that had their turn and are not over.
        waiting: Requests that wait for their turn.
    """

    in_flight: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PacingDecision:
    """What follows from the present state.

    Args:
        admitted: Requests that may be sent now, in order.
        first: The oldest request that still waits; None when none does.
        wake_at: When to decide again though nothing happened; infinity for never.
    """

    admitted: list[Ticket] = field(default_factory=list[Ticket])
    first: Ticket | None = None
    wake_at: float = _NEVER


@dataclass(slots=True)
class _Start:
    """A request that began within the last minute."""

    at: float
    tokens: int
    is_counted: bool = True


class PacingState:
    """The requests with one key at one endpoint: those in flight, those that wait, and what is known."""

    def __init__(self) -> None:
        self._turns = count()
        self._lanes: dict[str, Lane] = {}
        self._starts: deque[_Start] = deque()
        self._start_of: dict[Ticket, _Start] = {}
        self._tokens = 0
        self._waiting = 0
        self._held_until = -_NEVER

    def statistics(self) -> PacerStatistics:
        """How many are in flight, and how many wait."""
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
        self._forget_starts(now)
        lanes = list(self._lanes.values())
        if now < self._held_until:
            return PacingDecision(first=_oldest(lanes), wake_at=self._held_until)
        admitted: list[Ticket] = []
        wake_at = _NEVER
        while (ticket := _oldest(lanes)) is not None:
            lane = self._lanes[ticket.demand.lane]
            blocked_until = lane.blocked_until(ticket.demand, now)
            if blocked_until is not None:
                wake_at = min(wake_at, blocked_until)
                lanes.remove(lane)
                continue
            blocked_until = self._blocked_until(ticket.demand)
            if blocked_until is not None:
                wake_at = min(wake_at, blocked_until)
                break
            self._admit(ticket, lane, now)
            admitted.append(ticket)
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

    def hold(self, until: float) -> None:
        """Admit nobody before then: an overloaded server asked for it.

        Args:
            until: The end of the delay, in seconds on the clock of `decide`.
        """
        self._held_until = max(self._held_until, until)

    def correct(self, ticket: Ticket, tokens: int) -> None:
        """Count what a request really took in place of the estimate.

        Args:
            ticket: The request's ticket.
            tokens: All tokens it took.
        """
        start = self._start_of.get(ticket)
        if start is not None:
            if start.is_counted:
                self._tokens += tokens - start.tokens
            start.tokens = tokens

    def end(self, ticket: Ticket, now: float) -> None:
        """Take note that a request is over, however it ended. Doing so twice does nothing.

        Args:
            ticket: The request's ticket.
            now: The present time, in seconds.
        """
        if ticket.is_in_flight:
            self.answered(ticket, (), now)
            ticket.is_in_flight = False
            del self._start_of[ticket]

    def _admit(self, ticket: Ticket, lane: Lane, now: float) -> None:
        self.withdraw(ticket)
        ticket.is_in_flight = True
        lane.sent(ticket.demand)
        start = _Start(now, ticket.demand.tokens)
        self._starts.append(start)
        self._start_of[ticket] = start
        self._tokens += start.tokens

    def _blocked_until(self, demand: Demand) -> float | None:
        """When the configured limits let a request go, infinity for when another one ends; None for now."""
        limits = demand.limits
        most = limits.max_concurrent_requests
        if most is not None and len(self._start_of) >= most:
            return _NEVER
        blocking: list[_Start] = []
        if limits.requests_per_minute is not None and len(self._starts) >= limits.requests_per_minute:
            blocking.append(self._starts[len(self._starts) - limits.requests_per_minute])
        if limits.tokens_per_minute is not None:
            blocking += self._starts_that_must_expire(demand.tokens, limits.tokens_per_minute)
        return max((start.at + _WINDOW_SECONDS for start in blocking), default=None)

    def _starts_that_must_expire(self, needed: int, most: int) -> list[_Start]:
        """The starts that must be a minute old before enough tokens are free.

        A request that needs more than there ever is goes when nothing else is counted.
        """
        taken = self._tokens
        found: list[_Start] = []
        for start in self._starts:
            if taken == 0 or taken + needed <= most:
                break
            taken -= start.tokens
            found.append(start)
        return found

    def _forget_starts(self, now: float) -> None:
        while self._starts and self._starts[0].at + _WINDOW_SECONDS <= now:
            start = self._starts.popleft()
            start.is_counted = False
            self._tokens -= start.tokens


def _oldest(lanes: Iterable[Lane]) -> Ticket | None:
    return min((ticket for lane in lanes if (ticket := lane.first) is not None), default=None)

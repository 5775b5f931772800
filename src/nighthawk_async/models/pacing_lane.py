"""The requests to one model that wait for their turn, and what its provider said of its rate limits.

Pure: nothing here waits or reads a clock.
"""

import heapq
from collections.abc import Iterable

from msgspec import Struct

from ..wire.rate_limits import RateLimit, RateLimitKind
from .pacing_ramp import Ramp

__all__ = ["Demand", "Lane", "PacingLimits", "Ticket"]

_LONGEST_RESET_SECONDS = 120.0
_UNTIL_SOMETHING_HAPPENS = float("inf")


class PacingLimits(Struct, frozen=True, kw_only=True):
    """Limits of the configuration; None for no limit.

    Args:
        max_concurrent_requests: Requests in flight at once.
        requests_per_minute: Requests that may begin within a minute.
        tokens_per_minute: Tokens that those may take.
    """

    max_concurrent_requests: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class Demand(Struct, frozen=True, kw_only=True):
    """The needs of a request before it may be sent.

    Args:
        lane: The model it goes to.
        input_tokens: An estimate of the tokens it holds.
        output_tokens: The tokens its response may hold, when it says so.
        limits: What the configuration of this request limits.
    """

    lane: str
    input_tokens: int = 0
    output_tokens: int = 0
    limits: PacingLimits = PacingLimits()

    @property
    def tokens(self) -> int:
        """All tokens."""
        return self.input_tokens + self.output_tokens

    def units(self, kind: RateLimitKind) -> int:
        """Return its share of a rate limit.

        Args:
            kind: What the limit counts.
        """
        match kind:
            case "requests":
                return 1
            case "tokens":
                return self.tokens
            case "input-tokens":
                return self.input_tokens
            case "output-tokens":
                return self.output_tokens


class Ticket(Struct, eq=False):
    """A request on its way through a pacer. Only the pacer's state changes it.

    Args:
        turn: Its place: a lower number goes first.
        demand: What it needs.
        is_waiting: Whether it waits for its turn.
        is_in_flight: Whether it had its turn and is not over.
        is_answered: Whether its response has begun, or never will.
        is_accepted: Whether the server accepted it.
    """

    turn: int
    demand: Demand
    is_waiting: bool = True
    is_in_flight: bool = False
    is_answered: bool = False
    is_accepted: bool = False

    def __lt__(self, other: "Ticket") -> bool:
        return self.turn < other.turn


class _Allowance(Struct):
    """The rest of a rate limit, as the last response reported it."""

    remaining: int
    limit: int | None
    reset_at: float | None

    def blocked_until(self, needed: int, unanswered: int, now: float) -> float | None:
        """Return the time at which enough is left; None for now.

        Args:
            needed: How much is needed.
            unanswered: How much those took whose responses have not begun.
            now: The present time.
        """
        if self.reset_at is not None and now >= self.reset_at:
            # All is there again, and until the next response tells more, only those unanswered count.
            self.remaining = self.remaining if self.limit is None else self.limit
            self.reset_at = None
        if self.remaining - unanswered >= needed:
            return None
        if unanswered == 0 and (self.reset_at is None or self._is_full()):
            return None  # nothing that could be waited for: ask the server itself
        return _UNTIL_SOMETHING_HAPPENS if self.reset_at is None else self.reset_at

    def _is_full(self) -> bool:
        return self.limit is not None and self.remaining >= self.limit


class Lane:
    """The requests to one model."""

    def __init__(self) -> None:
        self._waiting: list[Ticket] = []
        self._in_flight = 0
        self._ramp = Ramp()
        self._allowances: dict[RateLimitKind, _Allowance] = {}
        self._unanswered: dict[RateLimitKind, int] = {
            "requests": 0,
            "tokens": 0,
            "input-tokens": 0,
            "output-tokens": 0,
        }

    @property
    def first(self) -> Ticket | None:
        """The request whose turn is next; None when none waits."""
        while self._waiting and not self._waiting[0].is_waiting:
            heapq.heappop(self._waiting)
        return self._waiting[0] if self._waiting else None

    def join(self, ticket: Ticket) -> None:
        """Let a request wait.

        Args:
            ticket: Its ticket.
        """
        heapq.heappush(self._waiting, ticket)

    def blocked_until(self, demand: Demand, now: float) -> float | None:
        """Return the time at which a request may go; infinity for after another event, None for now.

        Args:
            demand: What the request needs.
            now: The present time, in seconds.
        """
        if self._ramp.is_full(self._in_flight):
            return _UNTIL_SOMETHING_HAPPENS
        moments = [
            allowance.blocked_until(demand.units(kind), self._unanswered[kind], now)
            for kind, allowance in self._allowances.items()
        ]
        return max((moment for moment in moments if moment is not None), default=None)

    def sent(self, demand: Demand) -> None:
        """Count a request whose response has not begun.

        Args:
            demand: What it needs.
        """
        self._in_flight += 1
        for kind in self._unanswered:
            self._unanswered[kind] += demand.units(kind)

    def refused(self) -> None:
        """Take note that the server refused a request in flight because it has too many."""
        self._ramp.refused(self._in_flight)

    def ended(self, *, is_accepted: bool) -> None:
        """Take note that a request is over.

        Args:
            is_accepted: Whether the server had accepted it.
        """
        if is_accepted:
            self._ramp.succeeded(self._in_flight)
        self._in_flight -= 1

    def answered(self, demand: Demand, rate_limits: Iterable[RateLimit], now: float) -> None:
        """Take note of what the head of a response says, if there was one.

        Args:
            demand: What the request needed.
            rate_limits: What the head says.
            now: The present time, in seconds.
        """
        for kind in self._unanswered:
            self._unanswered[kind] -= demand.units(kind)
        for kind, allowance in self._allowances.items():
            allowance.remaining = max(allowance.remaining - demand.units(kind), 0)
        for told in rate_limits:
            if told.reset_seconds is not None and told.reset_seconds > _LONGEST_RESET_SECONDS:
                # A limit per day: the server says better than a wait of hours what is wrong.
                self._allowances.pop(told.kind, None)
            else:
                reset_at = None if told.reset_seconds is None else now + told.reset_seconds
                self._allowances[told.kind] = _Allowance(told.remaining, told.limit, reset_at)

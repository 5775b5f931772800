"""Waits until a request to a model may be sent, fairly; the rate limits that its provider reported.

Pure: nothing here waits or reads a clock.

A limit of the configuration counts the requests that have it, to any model. Requests without it neither count
nor wait, so that no request waits for one that ignores the limit.

The pacer is shared by the requests of a run that go to one endpoint with one key, on one event loop. It holds
no task: the oldest waiting request keeps the time.
"""

import heapq
from collections import deque
from collections.abc import AsyncGenerator, Callable, Hashable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from typing import Literal, Protocol, TypeAlias

import anyio
from msgspec import Struct, field

from ..kernel.features import Feature
from ..wire.rate_limits import RateLimit, RateLimitKind, read_rate_limits


class Ramp:
    """A limit of requests in flight that a model's refusals set and its successes lift."""

    def __init__(self) -> None:
        self._most: int | None = None
        self._most_before = 0
        self._successes = 0

    def is_full(self, in_flight: int) -> bool:
        """Whether another request must wait until one of those in flight ends.

        Args:
            in_flight: Requests in flight.
        """
        return self._most is not None and in_flight >= self._most

    def refused(self, in_flight: int) -> None:
        """Record that the server refused a request because it has too many.

        Args:
            in_flight: Requests in flight, the refused one included.
        """
        if self._most is None:
            self._most = self._most_before = in_flight
        self._most = min(self._most, max(in_flight // 2, 1))
        self._successes = 0

    def succeeded(self, in_flight: int) -> None:
        """Record that a request that the server accepted has ended.

        Args:
            in_flight: Requests in flight, that one included.
        """
        if self._most is None or in_flight < self._most:
            return  # it shows nothing about more requests at once
        self._successes += 1
        if self._successes >= self._most:
            self._most += 1
            self._successes = 0
        if self._most >= self._most_before:
            self._most = None


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
        output_tokens: The tokens its response may hold, when limited.
        limits: The limits of the configuration of this request.
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
            kind: The kind of the limit.
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
        turn: Its position: a lower number goes first.
        demand: The demand of the request.
        is_waiting: Whether it waits for its turn.
        is_in_flight: Whether it had its turn and has not ended.
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
            needed: The needed amount.
            unanswered: The amount taken by requests whose responses have not begun.
            now: The present time.
        """
        if self.reset_at is not None and now >= self.reset_at:
            # The limit is reset, and until the next response reports it, only those unanswered count.
            self.remaining = self.remaining if self.limit is None else self.limit
            self.reset_at = None
        if self.remaining - unanswered >= needed:
            return None
        if unanswered == 0 and (self.reset_at is None or self._is_full()):
            return None  # waiting would not help: ask the server itself
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
            demand: The demand of the request.
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
            demand: The demand of the request.
        """
        self._in_flight += 1
        for kind in self._unanswered:
            self._unanswered[kind] += demand.units(kind)

    def refused(self) -> None:
        """Record that the server refused a request in flight because it has too many."""
        self._ramp.refused(self._in_flight)

    def ended(self, *, is_accepted: bool) -> None:
        """Record the end of a request.

        Args:
            is_accepted: Whether the server had accepted it.
        """
        if is_accepted:
            self._ramp.succeeded(self._in_flight)
        self._in_flight -= 1

    def answered(self, demand: Demand, rate_limits: Iterable[RateLimit], now: float) -> None:
        """Record the rate limits in the head of a response, if there was one.

        Args:
            demand: The demand of the request.
            rate_limits: The rate limits in the head.
            now: The present time, in seconds.
        """
        for kind in self._unanswered:
            self._unanswered[kind] -= demand.units(kind)
        for kind, allowance in self._allowances.items():
            allowance.remaining = max(allowance.remaining - demand.units(kind), 0)
        for limit in rate_limits:
            if limit.reset_seconds is not None and limit.reset_seconds > _LONGEST_RESET_SECONDS:
                # A limit per day: an error from the server is better than a wait of hours.
                self._allowances.pop(limit.kind, None)
            else:
                reset_at = None if limit.reset_seconds is None else now + limit.reset_seconds
                self._allowances[limit.kind] = _Allowance(limit.remaining, limit.limit, reset_at)


LimitName: TypeAlias = Literal["max_concurrent_requests", "requests_per_minute", "tokens_per_minute"]
"""The name of a limit, which is that of the model setting."""

_WINDOW_SECONDS = 60.0
_UNTIL_ONE_ENDS = float("inf")


class Start(Struct, eq=False):
    """A request that began.

    Args:
        at: The time of its beginning, in seconds.
        tokens: The tokens it takes.
        limits: The limits of its configuration.
        is_recent: Whether it began within the last minute.
    """

    at: float
    tokens: int
    limits: PacingLimits
    is_recent: bool = True


class LimitCounts:
    """The requests in flight, and those of the last minute, if a limit counts them."""

    def __init__(self) -> None:
        self._in_flight = 0
        self._recent: deque[Start] = deque()
        self._recent_requests: deque[Start] = deque()
        self._recent_spenders: deque[Start] = deque()
        self._tokens = 0

    def begin(self, demand: Demand, now: float) -> Start:
        """Count a request that begins.

        Args:
            demand: The demand of the request.
            now: The present time, in seconds.
        """
        limits = demand.limits
        start = Start(now, demand.tokens, limits)
        self._recent.append(start)
        if limits.max_concurrent_requests is not None:
            self._in_flight += 1
        if limits.requests_per_minute is not None:
            self._recent_requests.append(start)
        if limits.tokens_per_minute is not None:
            self._recent_spenders.append(start)
            self._tokens += start.tokens
        return start

    def end(self, start: Start) -> None:
        """Record the end of a request.

        Args:
            start: The start that `begin` gave.
        """
        if start.limits.max_concurrent_requests is not None:
            self._in_flight -= 1

    def withdraw(self, start: Start) -> None:
        """Forget a request that was not sent after all.

        Args:
            start: The start that `begin` gave.
        """
        self.correct(start, 0)
        if start.is_recent:
            start.is_recent = False
            for starts in (self._recent, self._recent_requests, self._recent_spenders):
                if start in starts:
                    starts.remove(start)
        self.end(start)

    def correct(self, start: Start, tokens: int) -> None:
        """Replace the estimate of a request by its actual usage.

        Args:
            start: The start that `begin` gave.
            tokens: All tokens that it used.
        """
        if start.is_recent and start.limits.tokens_per_minute is not None:
            self._tokens += tokens - start.tokens
        start.tokens = tokens

    def forget_before_minute(self, now: float) -> None:
        """Forget requests that are a minute old.

        Args:
            now: The present time, in seconds.
        """
        while self._recent and self._recent[0].at + _WINDOW_SECONDS <= now:
            start = self._recent.popleft()
            start.is_recent = False
            if start.limits.requests_per_minute is not None:
                self._recent_requests.popleft()
            if start.limits.tokens_per_minute is not None:
                self._recent_spenders.popleft()
                self._tokens -= start.tokens

    def blocking(self, demand: Demand) -> Mapping[LimitName, float]:
        """The limits that block a request, each with the time at which it no longer does.

        That time is infinity if another request must end first.

        Args:
            demand: The demand of the request.
        """
        limits = demand.limits
        found: dict[LimitName, float] = {}
        if limits.max_concurrent_requests is not None and self._in_flight >= limits.max_concurrent_requests:
            found["max_concurrent_requests"] = _UNTIL_ONE_ENDS
        if limits.requests_per_minute is not None:
            surplus = len(self._recent_requests) - limits.requests_per_minute
            if surplus >= 0:
                found["requests_per_minute"] = self._recent_requests[surplus].at + _WINDOW_SECONDS
        if limits.tokens_per_minute is not None:
            last = self._last_that_must_expire(demand.tokens, limits.tokens_per_minute)
            if last is not None:
                found["tokens_per_minute"] = last.at + _WINDOW_SECONDS
        return found

    def _last_that_must_expire(self, needed: int, most: int) -> Start | None:
        """The start that must be a minute old before enough tokens are free; None when they are.

        A request that needs more than the whole limit goes when nothing else is counted.
        """
        taken = self._tokens
        last: Start | None = None
        for start in self._recent_spenders:
            if taken == 0 or taken + needed <= most:
                break
            taken -= start.tokens
            last = start
        return last


def names_of_limits(limits: PacingLimits) -> frozenset[LimitName]:
    """The limits that are set.

    Args:
        limits: The limits of the configuration.
    """
    values: Mapping[LimitName, int | None] = {
        "max_concurrent_requests": limits.max_concurrent_requests,
        "requests_per_minute": limits.requests_per_minute,
        "tokens_per_minute": limits.tokens_per_minute,
    }
    return frozenset(name for name, value in values.items() if value is not None)


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

    @property
    def has_waiting(self) -> bool:
        """Whether a request waits for its turn, so that there is something to decide."""
        return self._waiting > 0

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
        if not self._state.has_waiting:
            self._timekeeper, self._wake_at = None, _NEVER
            return
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


PACER_MAKER = Feature[Callable[[Hashable], Pacer] | None](None)
"""Makes the pacers of a run whose first request is sent in this context; None for those of this process."""


class CallLimit(Protocol):
    """A limit of the calls that begin within a minute, and of their tokens."""

    @property
    def limits(self) -> PacingLimits:
        """The numbers."""
        ...

    def enter_nowait(self, tokens: int | None) -> Start | None:
        """Begin a call, or return None when it has to wait, or to ask."""
        ...

    async def enter(self, tokens: int | None, *, goes_first: bool = False) -> Start:
        """Begin a call when it is its turn."""
        ...

    def settle(self, start: Start, tokens: int | None) -> None:
        """Record the end of a call, and the tokens that it used."""
        ...


LimitFinder: TypeAlias = Callable[[str, PacingLimits], CallLimit]
"""Finds the limit of a name, with the numbers that it has."""

LIMIT_FINDER = Feature[LimitFinder | None](None)
"""On workers: finds the limits of `rate_limit` that are shared; None for those of this process."""

"""Counts against the limits of the configuration. Pure.

A limit counts the requests that have it, to whichever model they go. Requests without it neither count nor
wait, so that nobody waits for somebody who pays it no heed.
"""

from collections import deque
from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from .pacing_lane import Demand, PacingLimits

__all__ = ["LimitCounts", "LimitName", "Start", "names_of_limits"]

LimitName: TypeAlias = Literal["max_concurrent_requests", "requests_per_minute", "tokens_per_minute"]
"""The name of a limit, which is that of the model setting."""

_WINDOW_SECONDS = 60.0
_UNTIL_ONE_ENDS = float("inf")


class Start(Struct, eq=False):
    """A request that began.

    Args:
        at: When it began, in seconds.
        tokens: The tokens it takes.
        limits: What its configuration limits.
        is_recent: Whether it began within the last minute.
    """

    at: float
    tokens: int
    limits: PacingLimits
    is_recent: bool = True


class LimitCounts:
    """The requests in flight, and those that began within the last minute, as far as a limit counts them."""

    def __init__(self) -> None:
        self._in_flight = 0
        self._recent: deque[Start] = deque()
        self._recent_requests: deque[Start] = deque()
        self._recent_spenders: deque[Start] = deque()
        self._tokens = 0

    def begin(self, demand: Demand, now: float) -> Start:
        """Count a request that begins.

        Args:
            demand: What it needs.
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
        """Take note that a request is over.

        Args:
            start: What `begin` gave.
        """
        if start.limits.max_concurrent_requests is not None:
            self._in_flight -= 1

    def correct(self, start: Start, tokens: int) -> None:
        """Count what a request really took in place of the estimate.

        Args:
            start: What `begin` gave.
            tokens: All tokens it took.
        """
        if start.is_recent and start.limits.tokens_per_minute is not None:
            self._tokens += tokens - start.tokens
        start.tokens = tokens

    def forget_before_minute(self, now: float) -> None:
        """Forget what is a minute old.

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
        """The limits that hold a request up, each with the moment when it does no more.

        That moment is infinity where another request must end first.

        Args:
            demand: What the request needs.
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

        A request that needs more than there ever is goes when nothing else is counted.
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
        limits: What the configuration limits.
    """
    values: Mapping[LimitName, int | None] = {
        "max_concurrent_requests": limits.max_concurrent_requests,
        "requests_per_minute": limits.requests_per_minute,
        "tokens_per_minute": limits.tokens_per_minute,
    }
    return frozenset(name for name, value in values.items() if value is not None)

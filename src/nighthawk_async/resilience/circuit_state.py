"""Whether a circuit breaker lets calls through. Pure: nothing here waits, locks or reads a clock.

    closed ── `fail_threshold` failures in a row ──► open ── `reset_timeout` seconds ──► half_open
      ▲                                               ▲                                      │
      │                                               └── the probe fails ───────────────────┤
      └── the probe succeeds ────────────────────────────────────────────────────────────────┘

A probe is the one call that is let through half-open. A call that began before the state last changed says
nothing about the present any more.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["CircuitChange", "CircuitState", "CircuitStatus", "Passage"]

CircuitStatus: TypeAlias = Literal["closed", "open", "half_open"]
"""What a circuit breaker does: lets all calls through, none, or one at a time."""

CircuitChange: TypeAlias = Literal["opened", "half_opened", "closed"]
"""What has just become of a circuit breaker."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Passage:
    """A call that was let through.

    Args:
        period: Which stay in a state it began in.
        change: What letting it through changed, if anything.
    """

    period: int
    change: CircuitChange | None = None


class CircuitState:
    """The state of one circuit breaker.

    Args:
        fail_threshold: How many failures in a row open it.
        reset_timeout: For how many seconds it stays open.
    """

    def __init__(self, *, fail_threshold: int, reset_timeout: float) -> None:
        self._fail_threshold = fail_threshold
        self._reset_timeout = reset_timeout
        self._is_closed = True
        self._failures = 0
        self._opened_at = 0.0
        self._probe: Passage | None = None
        self._period = 0

    @property
    def failures(self) -> int:
        """Failures in a row, while closed."""
        return self._failures

    def status(self, now: float) -> CircuitStatus:
        """Return its state at a moment.

        Args:
            now: The moment, in seconds.
        """
        if self._is_closed:
            return "closed"
        return "open" if self._remaining(now) > 0 else "half_open"

    def retry_in(self, now: float) -> float | None:
        """Seconds until a call is let through; None while a probe is in progress.

        Args:
            now: The present time, in seconds.
        """
        return None if self._probe is not None else max(self._remaining(now), 0.0)

    def enter(self, now: float) -> Passage | None:
        """Let a call through; None when it is refused.

        Args:
            now: The present time, in seconds.
        """
        if self._is_closed:
            return Passage(period=self._period)
        if self._probe is not None or self._remaining(now) > 0:
            return None
        self._probe = Passage(period=self._period, change="half_opened")
        return self._probe

    def leave(self, passage: Passage, *, is_failure: bool | None, now: float) -> CircuitChange | None:
        """Take note that a call has ended.

        Args:
            passage: The call.
            is_failure: Whether it failed; None when it says nothing, because it was cancelled for example.
            now: The present time, in seconds.

        Returns:
            What that changed, if anything.
        """
        if passage.period != self._period:
            return None
        if passage is self._probe:
            self._probe = None
            if is_failure is None:
                return None
            return self._open(now) if is_failure else self.close()
        if is_failure is not None:
            self._failures = self._failures + 1 if is_failure else 0
        return self._open(now) if self._failures >= self._fail_threshold else None

    def close(self) -> CircuitChange | None:
        """Let all calls through again.

        Returns:
            What that changed, if anything.
        """
        was_closed = self._is_closed
        self._begin_period(is_closed=True)
        return None if was_closed else "closed"

    def _open(self, now: float) -> CircuitChange:
        self._begin_period(is_closed=False)
        self._opened_at = now
        return "opened"

    def _begin_period(self, *, is_closed: bool) -> None:
        self._is_closed = is_closed
        self._failures = 0
        self._probe = None
        self._period += 1

    def _remaining(self, now: float) -> float:
        if self._is_closed:
            return 0.0
        # Rounded: whoever has waited for exactly this long is not refused for the last bit of a float.
        return round(self._opened_at + self._reset_timeout - now, 6)

"""`circuit_breaker`: call nothing for a while that keeps failing.

`CircuitState` says whether it lets calls through. It neither waits nor locks nor reads a clock:

    closed ── `fail_threshold` failures in a row ──► open ── `reset_timeout` seconds ──► half_open
      ▲                                               ▲                                      │
      │                                               └── the probe fails ───────────────────┤
      └── the probe succeeds ────────────────────────────────────────────────────────────────┘

A probe is the one call that is let through half-open. A call that began before the state last changed says
nothing about the present any more.
"""

import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec, TypeAlias, TypeVar, overload

from ..parallel.clocks import shared_time
from ..parallel.deadlines import find_deadline_error
from ..policies.attempts.resilience import leaves_of, may_be_retried
from ..tracing import note_named_event
from .errors import CircuitOpenError
from .transforming import (
    Call,
    Errors,
    Transformer,
    checked_count,
    checked_errors,
    checked_seconds,
    function_name,
)

CircuitStatus: TypeAlias = Literal["closed", "open", "half_open"]
"""What a circuit breaker does: lets all calls through, none, or one at a time."""

CircuitChange: TypeAlias = Literal["opened", "half_opened", "closed"]
"""What has just become of a circuit breaker."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Passage:
    """A call that was let through.

    Args:
        period: The number of the state's beginning in which it began.
        change: The change that letting it through made, if any.
    """

    period: int
    change: CircuitChange | None = None


class CircuitState:
    """The state of one circuit breaker.

    Args:
        fail_threshold: The number of failures in a row that opens it.
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


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitStatistics:
    """Statistics of a circuit breaker at one moment.

    Args:
        state: The state of the circuit.
        consecutive_failures: Failures in a row, while it is closed.
        succeeded: Calls that succeeded so far.
        failed: Calls that failed so far.
        refused: Calls that it did not let through.
        in_progress: Calls that have not ended.
        retry_in: Seconds until it lets a call through; 0 while it does, None while a probe is in progress.
    """

    state: CircuitStatus
    consecutive_failures: int
    succeeded: int
    failed: int
    refused: int
    in_progress: int
    retry_in: float | None


@overload
def circuit_breaker(
    function: Callable[Parameters, Result],
    /,
    *,
    fail_threshold: int = 5,
    reset_timeout: float = 30.0,
    on: Errors | None = None,
    name: str | None = None,
) -> Callable[Parameters, Result]: ...


@overload
def circuit_breaker(
    *,
    fail_threshold: int = 5,
    reset_timeout: float = 30.0,
    on: Errors | None = None,
    name: str | None = None,
) -> "CircuitBreaker": ...


def circuit_breaker(
    function: Callable[..., Any] | None = None,
    /,
    *,
    fail_threshold: int = 5,
    reset_timeout: float = 30.0,
    on: Errors | None = None,
    name: str | None = None,
) -> Any:
    """Stop calling what keeps failing, and see from time to time whether it works again.

        search_service = circuit_breaker(fail_threshold=3)

        @search_service
        async def search(text: str) -> list[str]: ...

        @search_service
        async def suggest(text: str) -> list[str]: ...

    After `fail_threshold` failures in a row the circuit is open: calls raise `CircuitOpenError` at once.
    After `reset_timeout` seconds one call at a time is let through. When it succeeds, the circuit is closed;
    when it fails, it is open again. A call that is cancelled, or ends with another error, says nothing.

    All functions of one circuit breaker share it, in all threads and on all event loops of the process.

    Args:
        function: The function; None gives a circuit breaker for any number of functions.
        fail_threshold: The number of failures in a row that opens the circuit.
        reset_timeout: For how many seconds it stays open.
        on: The errors that are failures: by default all but those that somebody's decision stands behind, as
            for `retrying`. An exception group counts when one of its errors does.
        name: The name of the circuit in errors and traces; by default that of its first function.

    Returns:
        The function with the same signature, or a decorator.

    Raises:
        InvalidPolicyError: An argument makes no sense.
        TypeError: The function cannot be called, or is a generator.
    """
    breaker = CircuitBreaker(
        CircuitState(
            fail_threshold=checked_count("fail_threshold", fail_threshold),
            reset_timeout=checked_seconds("reset_timeout", reset_timeout),
        ),
        on=checked_errors("on", on) or (Exception,),
        name=name,
    )
    return breaker if function is None else breaker(function)


class CircuitBreaker(Transformer):
    """Keeps calls from what keeps failing. Made by `circuit_breaker`.

    Args:
        state: Whether it lets calls through.
        on: The errors that are failures.
        name: Its name; None for that of its first function.
    """

    title = "circuit_breaker"

    def __init__(self, state: CircuitState, *, on: tuple[type[Exception], ...], name: str | None) -> None:
        self._circuit = state
        self._on = on
        self._name = name
        self._lock = threading.Lock()
        self._succeeded = self._failed = self._refused = self._in_progress = 0

    @property
    def name(self) -> str:
        """Its name in errors and traces."""
        return self._name or self.title

    @property
    def state(self) -> CircuitStatus:
        """Its present state. It is half-open as soon as the next call would be admitted."""
        return self.statistics().state

    def statistics(self) -> CircuitStatistics:
        """Return its present statistics."""
        now = shared_time()
        with self._lock:
            return CircuitStatistics(
                state=self._circuit.status(now),
                consecutive_failures=self._circuit.failures,
                succeeded=self._succeeded,
                failed=self._failed,
                refused=self._refused,
                in_progress=self._in_progress,
                retry_in=self._circuit.retry_in(now),
            )

    def reset(self) -> None:
        """Close the circuit, because somebody knows that things are better."""
        with self._lock:
            change = self._circuit.close()
        self._report(change)

    def check(self, function: object) -> None:
        """Refuse what cannot be called; the first function gives its name."""
        super().check(function)
        if self._name is None:
            self._name = function_name(function)

    def run(self, call: Call[Any]) -> Any:
        """Call the function, if the circuit lets calls through."""
        with self._passing():
            return call()

    async def run_async(self, call: Call[Awaitable[Any]]) -> Any:
        """Call the function, if the circuit lets calls through."""
        with self._passing():
            return await call()

    @contextmanager
    def _passing(self) -> Generator[None, None, None]:
        passage = self._enter()
        is_failure: bool | None = None
        try:
            yield
            is_failure = False
        except Exception as error:
            is_failure = self._is_failure(error) or None
            raise
        finally:
            self._leave(passage, is_failure=is_failure)

    def _enter(self) -> Passage:
        now = shared_time()
        with self._lock:
            passage = self._circuit.enter(now)
            if passage is None:
                self._refused += 1
                raise CircuitOpenError(self.name, retry_in=self._circuit.retry_in(now))
            self._in_progress += 1
        self._report(passage.change)
        return passage

    def _leave(self, passage: Passage, *, is_failure: bool | None) -> None:
        now = shared_time()
        with self._lock:
            self._in_progress -= 1
            self._succeeded += is_failure is False
            self._failed += is_failure is True
            change = self._circuit.leave(passage, is_failure=is_failure, now=now)
        self._report(change)

    def _is_failure(self, error: Exception) -> bool:
        if not may_be_retried(error) or find_deadline_error() is not None:
            return False
        return isinstance(error, self._on) or any(isinstance(each, self._on) for each in leaves_of(error))

    def _report(self, change: CircuitChange | None) -> None:
        if change is not None:
            note_named_event(f"nighthawk.circuit.{change}", {"nighthawk.circuit.name": self.name})

"""`circuit_breaker`: stop calling functions that keep failing, for a while.

`CircuitState` decides whether calls go through. It neither waits nor locks nor reads a clock:

    closed ── `fail_threshold` failures in a row ──► open ── `reset_timeout` seconds ──► half_open
      ▲                                               ▲                                      │
      │                                               └── the probe fails ───────────────────┤
      └── the probe succeeds ────────────────────────────────────────────────────────────────┘

A probe is the one call that is let through while half-open. The result of a call that began before the last
change of state is ignored.
"""

import math
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec, TypeAlias, TypeVar, overload

from ..causes import leaves_of
from ..kernel.calls import skips_waits
from ..parallel.deadlines import find_deadline_error
from ..parallel.event_loop import shared_time
from ..parallel.task_current import find_positions
from ..parallel.task_node import get_task_hooks
from ..policies.attempts.resilience import may_be_retried
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
"""The state of a circuit breaker: it lets all calls through, none, or one at a time."""

CircuitChange: TypeAlias = Literal["opened", "half_opened", "closed"]
"""A change of the state of a circuit breaker."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Passage:
    """A call that was let through.

    Args:
        period: The number of the period between two changes of state in which the call began.
        change: The change of state that the call caused when it was let through, if any.
    """

    period: int
    change: CircuitChange | None = None


class CircuitState:
    """The state of one circuit breaker.

    Args:
        fail_threshold: The number of consecutive failures that opens it.
        reset_timeout: The number of seconds for which it stays open.
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
        """The number of consecutive failures while closed."""
        return self._failures

    def status(self, now: float) -> CircuitStatus:
        """Return the state at a time.

        Args:
            now: The present time, in seconds.
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
        """Let a call through; return None when it is refused.

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
        """Record the end of a call.

        Args:
            passage: The call.
            is_failure: Whether it failed; None when it does not count, because it was cancelled for example.
            now: The present time, in seconds.

        Returns:
            The resulting change of state, if any.
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
            The resulting change of state, if any.
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
        # Rounded: a caller that waited for exactly this long is not refused for the last bit of a float.
        return round(self._opened_at + self._reset_timeout - now, 6)


_REFUSED, _PASSED = 0, 1
_UNKNOWN_TIME = -1


class KeptPassage:
    """Whether one call was let through, as a run with a journal keeps it: the times of calls decide that.

    Tasks that were started by hand keep nothing.
    """

    __slots__ = ("_decisions", "_kept", "_place")

    def __init__(self) -> None:
        self._kept: tuple[int, ...] | None = None
        self._decisions = get_task_hooks().find_decisions()
        if self._decisions is None:
            return
        positions = find_positions()
        if not positions.is_owned:
            self._decisions = None
            return
        skips = skips_waits()  # before it is reached
        self._place = positions.take("circuit")
        self._kept = self._decisions.find(self._place)
        if self._kept is None and skips:  # an earlier version has kept nothing
            self._kept = (_PASSED,)

    @property
    def is_known(self) -> bool:
        """Whether an earlier life has decided."""
        return self._kept is not None

    def enter(self, name: str) -> None:
        """Go through, or raise, as the earlier life did.

        Raises:
            CircuitOpenError: The circuit of this name was open.
        """
        if self._kept is not None and self._kept[0] == _REFUSED:
            raise _refusal(name, self._kept[1])

    def keep(self) -> None:
        """Keep that the call was let through."""
        if self._decisions is not None:
            self._decisions.keep(self._place, (_PASSED,))

    def keep_refusal(self, error: CircuitOpenError) -> CircuitOpenError:
        """Keep that the call was refused; return the error, with whole milliseconds where they are kept."""
        if self._decisions is None:
            return error
        milliseconds = _UNKNOWN_TIME if error.retry_in is None else math.ceil(error.retry_in * 1000)
        self._decisions.keep(self._place, (_REFUSED, milliseconds))
        return _refusal(error.name, milliseconds)


def _refusal(name: str, milliseconds: int) -> CircuitOpenError:
    return CircuitOpenError(name, retry_in=None if milliseconds == _UNKNOWN_TIME else milliseconds / 1000)


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitStatistics:
    """A snapshot of the statistics of a circuit breaker.

    Args:
        state: The state of the circuit.
        consecutive_failures: Consecutive failures while it is closed.
        succeeded: Calls that succeeded so far.
        failed: Calls that failed so far.
        refused: Calls that it did not let through.
        in_progress: Calls that have not ended.
        retry_in: Seconds until it lets a call through; 0 while it lets calls through, None while a probe is
            in progress.
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
    """Stop calling functions that keep failing, and probe from time to time whether they work again.

        search_service = circuit_breaker(fail_threshold=3)

        @search_service
        async def search(text: str) -> list[str]: ...

        @search_service
        async def suggest(text: str) -> list[str]: ...

    After `fail_threshold` consecutive failures the circuit is open: calls raise `CircuitOpenError` at once.
    After `reset_timeout` seconds one call at a time is let through. When it succeeds, the circuit closes;
    when it fails, the circuit opens again. A call that is cancelled, or ends with another error, does not
    count.

    All functions of one circuit breaker share it, in all threads and on all event loops of the process.

    Args:
        function: The function; None returns a circuit breaker for any number of functions.
        fail_threshold: The number of consecutive failures that opens the circuit.
        reset_timeout: The number of seconds for which it stays open.
        on: The errors that count as failures: by default all but those that express a decision, as for
            `retrying`. An exception group counts when one of its errors does.
        name: The name of the circuit in errors and traces; by default the name of its first function.

    Returns:
        The function with the same signature, or a decorator.

    Raises:
        InvalidPolicyError: An argument is invalid.
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
    """Refuses calls of functions that keep failing. Made by `circuit_breaker`.

    Args:
        state: The state, which decides whether calls go through.
        on: The errors that count as failures.
        name: Its name; None for the name of its first function.
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
        """The name in errors and traces."""
        return self._name or self.title

    @property
    def state(self) -> CircuitStatus:
        """The present state. It is half-open as soon as the next call would be admitted."""
        return self.statistics().state

    def statistics(self) -> CircuitStatistics:
        """Return a snapshot of the statistics."""
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
        """Close the circuit, for example because the service is known to work again."""
        with self._lock:
            change = self._circuit.close()
        self._report(change)

    def check(self, function: object) -> None:
        """Refuse an object that cannot be called; take the name of the first function."""
        super().check(function)
        if self._name is None:
            self._name = function_name(function)

    def run(self, call: Call[Any]) -> Any:
        """Call the function if the circuit lets calls through."""
        with self._passing():
            return call()

    async def run_async(self, call: Call[Awaitable[Any]]) -> Any:
        """Call the function if the circuit lets calls through."""
        with self._passing():
            return await call()

    @contextmanager
    def _passing(self) -> Generator[None, None, None]:
        kept = KeptPassage()
        if kept.is_known:  # it says nothing about the service now, so it does not count
            kept.enter(self.name)
            yield
            return
        try:
            passage = self._enter()
        except CircuitOpenError as error:
            raise kept.keep_refusal(error) from None
        is_failure: bool | None = None
        try:
            kept.keep()
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

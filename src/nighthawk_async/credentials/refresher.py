"""Refreshes a value that expires: one refresh at a time, for any number of requests, loops and threads.

    get ─┬─ valid for long ──────────────────────────────────────────► the value
         ├─ valid, but soon over ── nobody refreshes it ── refresh ──► the value
         └─ over, or none ─────────┬─ nobody refreshes it ── refresh ┐
                                   └─ wait for that refresh ─────────┴► the new value

A blocking function is called in a thread of its own, which no cancellation of a request interrupts. An async
function is called by the task of one of the requests. If that is cancelled, another request begins anew.

Decisions are made under a lock that is held only briefly, and no object of an event loop outlives a wait.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import anyio
from anyio.lowlevel import EventLoopToken, current_token

from .errors import CredentialError, credential_error, error_of_function

_LOGGER = logging.getLogger("nighthawk")
_EARLY_SECONDS = 300.0
_SPARE_SECONDS = 10.0
_SECONDS_BETWEEN_EARLY_REFRESHES = 30.0  # some sources keep their token until the last minutes
_MOST_SECONDS_OF_EARLY_REFRESH = 10.0  # of a request whose value is still valid
_SECONDS_BETWEEN_REFUSALS = 5.0  # for an account that may never use the endpoint
_KEPT_SECRETS = 8

Value = TypeVar("Value")


def never(seconds: float) -> bool:
    """The answer for a value that does not expire."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease(Generic[Value]):
    """A value and its expiry.

    Args:
        value: The value.
        expires_within: Whether it expires within a number of seconds.
        early_seconds: Seconds before its expiry from which on it is refreshed.
        spare_seconds: Seconds before its expiry from which on it is not used any more.
        secrets: The secrets in it.
    """

    value: Value = field(repr=False)
    expires_within: Callable[[float], bool] = never
    early_seconds: float = _EARLY_SECONDS
    spare_seconds: float = _SPARE_SECONDS
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def is_due(self) -> bool:
        """Whether it should be refreshed."""
        return self.expires_within(self.early_seconds)

    @property
    def is_over(self) -> bool:
        """Whether it is not to be used any more."""
        return self.expires_within(self.spare_seconds)


def lease_until(value: Value, expires_at: float | None, *, secrets: tuple[str, ...]) -> Lease[Value]:
    """The lease of a value that has just been fetched. One that lives for minutes is refreshed later.

    Args:
        value: The value.
        expires_at: Its expiry in seconds since 1970; None for one that does not expire.
        secrets: The secrets in it.
    """
    if expires_at is None:
        return Lease(value=value, secrets=secrets)
    lifetime = max(0.0, expires_at - time.time())
    return Lease(
        value=value,
        expires_within=lambda seconds: time.time() + seconds >= expires_at,
        early_seconds=min(_EARLY_SECONDS, lifetime / 4),
        spare_seconds=min(_SPARE_SECONDS, lifetime / 20),
        secrets=secrets,
    )


BlockingFetch: TypeAlias = Callable[[bool], Lease[Value]]
"""Fetches a value, blocking; called with whether an endpoint refused the former one."""

AsyncFetch: TypeAlias = Callable[[bool], Awaitable[Lease[Value]]]
"""Fetches a value; called with whether an endpoint refused the former one."""

_Outcome: TypeAlias = Lease[Value] | CredentialError | Literal["left"]
_Role: TypeAlias = Literal["use", "lead", "start", "wait"]


class _Flight(Generic[Value]):
    """One refresh in progress."""

    __slots__ = ("begun_at", "is_forced", "number", "outcome", "waiting")

    def __init__(self, number: int, *, is_forced: bool) -> None:
        self.number = number
        self.is_forced = is_forced
        self.begun_at = time.monotonic()
        self.outcome: _Outcome[Value] | None = None
        self.waiting: list[tuple[EventLoopToken, anyio.Event]] = []


class Refresher(Generic[Value]):
    """Holds a value that expires, and refreshes it.

    Args:
        name: The name of the credential, for errors.
        fetch: Fetches the value, blocking; None when `fetch_async` does.
        fetch_async: Fetches the value; None when `fetch` does.
        timeout: Seconds that a refresh may take.
    """

    def __init__(
        self,
        name: str,
        *,
        fetch: BlockingFetch[Value] | None = None,
        fetch_async: AsyncFetch[Value] | None = None,
        timeout: float,
    ) -> None:
        self._name = name
        self._fetch = fetch
        self._fetch_async = fetch_async
        self._timeout = timeout
        self._lock = threading.Lock()
        self._lease: Lease[Value] | None = None
        self._lease_of: _Flight[Value] | None = None
        self._leased_at = 0.0
        self._flight: _Flight[Value] | None = None
        self._flights = 0
        self._is_refused = False
        self._quiet_until = 0.0
        self._secrets: deque[str] = deque(maxlen=_KEPT_SECRETS)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets of the present value and of those before it."""
        with self._lock:
            return tuple(self._secrets)

    async def get(self) -> Value:
        """Return the value, refreshed when it is due.

        Raises:
            CredentialError: It could not be fetched, or not in time, and the former one is over.
        """
        while True:
            with self._lock:
                lease, flight, role = self._decide()
            if role == "start" and flight is not None:
                self._start_thread(flight)
            if lease is not None and role != "lead":
                return lease.value
            assert flight is not None
            outcome = await (self._lead(flight, lease) if role == "lead" else self._wait(flight))
            if isinstance(outcome, Lease):
                return outcome.value
            if outcome != "left":
                raise credential_error(self._name, outcome)

    def refused(self, is_same: Callable[[Value], bool]) -> bool:
        """Note that an endpoint refused a value; returns whether the next one may be accepted.

        Args:
            is_same: Whether a value is the refused one.
        """
        with self._lock:
            if self._lease is None or self._lease_of is None or not is_same(self._lease.value):
                return True  # it has been, or is being, replaced
            age = time.monotonic() - self._leased_at
            if self._lease_of.is_forced and age < _SECONDS_BETWEEN_REFUSALS:
                return False
            self._lease, self._is_refused = None, True
            if self._flight is not None and not self._flight.is_forced:  # it may bring the same one
                self._flight = None
            return True

    def _decide(self) -> tuple[Lease[Value] | None, _Flight[Value] | None, _Role]:
        """The value to use, or the refresh to wait for or to make. Called under the lock."""
        lease = self._lease
        if lease is not None and not lease.is_due:
            return lease, None, "use"
        if self._flight is not None and self._age(self._flight) >= self._timeout:
            self._flight = None  # its thread hangs
        if lease is not None and lease.is_over:
            lease = None
        if lease is not None and (self._flight is not None or time.monotonic() < self._quiet_until):
            return lease, None, "use"
        if self._flight is not None:
            return None, self._flight, "wait"
        self._flights += 1
        flight = self._flight = _Flight[Value](self._flights, is_forced=self._is_refused)
        return lease, flight, "lead" if self._fetch is None else "start"

    def _start_thread(self, flight: _Flight[Value]) -> None:
        thread = threading.Thread(
            target=copy_context().run,
            args=(self._fetch_in_thread, flight),
            name=f"refresh of the credential {self._name}",
            daemon=True,  # a library that hangs must not keep the process from ending
        )
        try:
            thread.start()
        except RuntimeError as error:  # the system has no more threads
            self._end(flight, credential_error(self._name, error))

    def _fetch_in_thread(self, flight: _Flight[Value]) -> None:
        try:
            assert self._fetch is not None
            outcome: _Outcome[Value] = self._fetch(flight.is_forced)
        except BaseException as error:  # those who wait get it
            outcome = error_of_function(self._name, error)
        self._end(flight, outcome)

    async def _lead(self, flight: _Flight[Value], lease: Lease[Value] | None) -> _Outcome[Value]:
        """Refresh the value in the present task; a valid one is the fallback."""
        outcome: _Outcome[Value] = "left"
        seconds = self._timeout
        if lease is not None:
            seconds = min(seconds, _MOST_SECONDS_OF_EARLY_REFRESH)
        try:
            assert self._fetch_async is not None
            with anyio.move_on_after(seconds) as scope:
                outcome = await self._fetch_async(flight.is_forced)
            if scope.cancelled_caught:
                outcome = self._too_late(seconds)
        except Exception as error:  # those who wait get it as well
            outcome = error_of_function(self._name, error)
        finally:
            self._end(flight, outcome)
        return lease if lease is not None and not isinstance(outcome, Lease) else outcome

    async def _wait(self, flight: _Flight[Value]) -> _Outcome[Value]:
        """Wait for a refresh that a thread or another task makes."""
        event = anyio.Event()
        with self._lock:
            if flight.outcome is not None:
                return flight.outcome
            flight.waiting.append((current_token(), event))
        with anyio.move_on_after(self._timeout - self._age(flight)):
            await event.wait()
        with self._lock:
            if flight.outcome is not None:
                return flight.outcome
            if self._flight is flight:  # the next request begins anew
                self._flight = None
        return self._too_late(self._timeout)

    def _end(self, flight: _Flight[Value], outcome: _Outcome[Value]) -> None:
        """Keep the result of a refresh, and wake those who wait for it."""
        with self._lock:
            flight.outcome = outcome
            waiting = flight.waiting
            if self._flight is flight:
                self._flight = None
            if isinstance(outcome, Lease):
                self._adopt(flight, outcome)
            elif outcome != "left":
                self._quiet_until = time.monotonic() + _SECONDS_BETWEEN_EARLY_REFRESHES
            is_early_failure = isinstance(outcome, CredentialError) and self._lease is not None
        if is_early_failure:
            _LOGGER.warning("%s; the present one is used until it expires", outcome)
        for loop, event in waiting:
            _set_soon(loop, event)

    def _adopt(self, flight: _Flight[Value], lease: Lease[Value]) -> None:
        """Use a new value, unless a later refresh was faster. Called under the lock."""
        self._secrets.extend(each for each in lease.secrets if each not in self._secrets)
        if self._is_refused and not flight.is_forced:
            return  # it was begun before the refusal
        if self._lease is not None and self._lease_of is not None and flight.number < self._lease_of.number:
            return
        self._lease, self._lease_of = lease, flight
        self._leased_at = time.monotonic()
        self._is_refused = False
        if lease.is_due:  # it is no newer than the former one
            self._quiet_until = self._leased_at + _SECONDS_BETWEEN_EARLY_REFRESHES

    def _age(self, flight: _Flight[Value]) -> float:
        return time.monotonic() - flight.begun_at

    def _too_late(self, seconds: float) -> CredentialError:
        return CredentialError(
            f"the credential {self._name} could not be obtained within {seconds:g} seconds (timeout)",
            is_transient=True,
        )


def _set_soon(loop: EventLoopToken, event: anyio.Event) -> None:
    """Set an event of an event loop from any thread; a loop that has ended needs none."""
    native: Any = loop.native_token
    call_soon = getattr(native, "run_sync_soon", None) or native.call_soon_threadsafe
    with suppress(RuntimeError):
        call_soon(event.set)

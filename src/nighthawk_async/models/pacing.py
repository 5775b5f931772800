"""Waits until a request may be sent, fairly and cancellable at every point.

The pacer is shared by the requests of a run that go to one endpoint with one key, on one event loop. It holds
no task: of the requests that wait, the oldest one keeps the time.
"""

from collections.abc import AsyncGenerator, Callable, Hashable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias

import anyio

from ..wire.rate_limits import read_rate_limits
from .pacing_lane import Demand, Ticket
from .pacing_state import PacerStatistics, PacingState

__all__ = ["Pacer", "PacerSource", "Permit", "pacer_of_request"]

_NEVER = float("inf")

PacerSource: TypeAlias = Callable[[Hashable], AbstractAsyncContextManager["Pacer"]]
"""Gives the pacer for requests to one endpoint with one key; the argument tells them from others."""


@asynccontextmanager
async def pacer_of_request(key: Hashable) -> AsyncGenerator["Pacer", None]:
    """A pacer for one request alone, which waits for nobody else.

    Args:
        key: What tells the endpoint and the key from others.
    """
    yield Pacer()


class Permit:
    """A request's permission to be in flight. Made by `Pacer.admit`; `release` ends it."""

    def __init__(self, pacer: "Pacer", ticket: Ticket) -> None:
        self._pacer = pacer
        self._ticket = ticket

    @property
    def turn(self) -> int:
        """The request's place among all that ask."""
        return self._ticket.turn

    def answered(self, headers: Mapping[str, str]) -> None:
        """Learn from the head of the response.

        Args:
            headers: Its headers, names in lower case; none when there was no response.
        """
        self._pacer.answered(self._ticket, headers)

    def accepted(self) -> None:
        """Learn that the server accepted the request, which makes room for others when it is over."""
        self._pacer.accepted(self._ticket)

    def refused(self, seconds: float) -> None:
        """Let nobody send a request for a while, and fewer at once afterwards, because the server wants it.

        Args:
            seconds: How long, in seconds.
        """
        self._pacer.refused(self._ticket, seconds)

    def correct(self, tokens: int) -> None:
        """Count what the request really took.

        Args:
            tokens: All its tokens.
        """
        self._pacer.correct(self._ticket, tokens)

    def release(self) -> None:
        """Say that the response is over, or never came. Doing so twice does nothing."""
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
            demand: What it needs.
            turn: The turn of the permit it had before, when it is sent again.
        """
        ticket = self._state.join(demand, turn=turn)
        self._settle()
        if ticket.is_in_flight:
            return Permit(self, ticket)
        self._state.withdraw(ticket)
        self._settle()  # it may have become the one that keeps the time
        return None

    async def admit(self, demand: Demand, *, turn: int | None = None) -> Permit:
        """Wait until a request may be sent.

        Whoever is cancelled while waiting leaves the queue and takes nothing.

        Args:
            demand: What it needs.
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

    def answered(self, ticket: Ticket, headers: Mapping[str, str]) -> None:
        """Learn from the head of a response; see `Permit.answered`."""
        self._state.answered(ticket, read_rate_limits(headers), anyio.current_time())
        self._settle()

    def accepted(self, ticket: Ticket) -> None:
        """Learn that the server accepted a request; see `Permit.accepted`."""
        self._state.accepted(ticket)

    def refused(self, ticket: Ticket, seconds: float) -> None:
        """Learn that the server refused a request; see `Permit.refused`."""
        self._state.refused(ticket, anyio.current_time() + seconds)
        self._settle()

    def correct(self, ticket: Ticket, tokens: int) -> None:
        """Count what a request really took; see `Permit.correct`."""
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
        """Admit whoever may go, and see to it that somebody keeps the time."""
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

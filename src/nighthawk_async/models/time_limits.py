"""The time limits of one request, each with its own error.

    queue_timeout_seconds        |---|                               each wait for a turn
    timeout_seconds                  |---------- from the first turn on: attempts, backoff, later waits ---|
    connect_timeout_seconds          |--|                         (kept by `http_transport`)
    first_event_timeout_seconds      |-------------|              from connecting to the first output event
    idle_timeout_seconds                           |----|----|----|    from one sign of life to the next

A request whose turn has not come yet costs nobody anything, and says nothing about the endpoint: of ten
thousand requests that come together under a limit per minute, most wait longer than any answer should take.

No cancel scope is open while the caller holds the stream, only while it waits for something.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from ..errors import FirstEventTimeoutError, IdleTimeoutError, ModelTimeoutError, RequestTimeoutError
from .settings import TransportSettings

__all__ = ["TimeLimits"]

_FOREVER = float("inf")
_Result = TypeVar("_Result")


class TimeLimits:
    """Watches over the waits of one request. The whole request's time begins with its first turn.

    Args:
        settings: The limits.
        place: What to call the endpoint in errors.
    """

    def __init__(self, settings: TransportSettings, place: str) -> None:
        self._settings = settings
        self._place = place
        self._has_begun = False
        self._deadline = _FOREVER
        self._first_event_deadline = _FOREVER
        self._has_output = False

    @property
    def deadline(self) -> float:
        """The time limit of the whole request, on the event loop's clock; infinity before its first turn."""
        return self._deadline

    def begin_attempt(self) -> None:
        """Note that the request is sent now."""
        self._first_event_deadline = _deadline_after(self._settings.first_event_timeout_seconds)
        self._has_output = False

    def note_output(self) -> None:
        """Note that the first output event is there."""
        self._has_output = True

    async def keep_turn(self, wait: Callable[[], Awaitable[_Result]]) -> _Result:
        """Wait for the request's turn, under the limit of that wait and, once it has begun, of the whole.

        Args:
            wait: Begins the wait.

        Raises:
            RequestTimeoutError: Its turn did not come in time.
        """
        queue_deadline = _deadline_after(self._settings.queue_timeout_seconds)
        with anyio.CancelScope(deadline=min(queue_deadline, self._deadline)):
            result = await wait()
            self.begin()
            return result
        if queue_deadline < self._deadline:
            limit = f"{self._settings.queue_timeout_seconds:g} seconds (queue_timeout_seconds)"
        else:
            limit = f"{self._settings.timeout_seconds:g} seconds (timeout_seconds)"
        raise RequestTimeoutError(f"still waiting for its turn after {limit}")

    def begin(self) -> None:
        """Note that the request has its first turn, or another one."""
        if not self._has_begun:
            self._has_begun = True
            self._deadline = _deadline_after(self._settings.timeout_seconds)

    async def keep(self, wait: Callable[[], Awaitable[_Result]]) -> _Result:
        """Wait for a piece of the response under the limit that holds at this point.

        Args:
            wait: Begins the wait.

        Raises:
            FirstEventTimeoutError: The response did not begin in time.
            IdleTimeoutError: The response was silent for too long.
            RequestTimeoutError: The request's time is over.
        """
        idle_deadline = _deadline_after(self._settings.idle_timeout_seconds)
        own_deadline = idle_deadline if self._has_output else self._first_event_deadline
        with anyio.CancelScope(deadline=min(own_deadline, self._deadline)):
            return await wait()
        raise self._too_late() if own_deadline < self._deadline else self._too_long()

    def _too_late(self) -> ModelTimeoutError:
        if self._has_output:
            return IdleTimeoutError(
                f"no sign of life from {self._place} for {self._settings.idle_timeout_seconds:g} seconds"
                " (idle_timeout_seconds)",
                is_transient=True,
            )
        return FirstEventTimeoutError(
            f"no response from {self._place} within {self._settings.first_event_timeout_seconds:g} seconds"
            " (first_event_timeout_seconds)",
            is_transient=True,
        )

    def _too_long(self) -> RequestTimeoutError:
        return RequestTimeoutError(
            f"no complete response from {self._place} within {self._settings.timeout_seconds:g} seconds"
            " (timeout_seconds)"
        )


def _deadline_after(seconds: float | None) -> float:
    return _FOREVER if seconds is None else anyio.current_time() + seconds

"""The time limits of one request, each with its own error. Floor 4.

    timeout_seconds              |----------------- the whole request: waits, attempts, backoff ----------|
    connect_timeout_seconds          |--|                         (kept by `http_transport`)
    first_event_timeout_seconds      |-------------|              from sending to the first output event
    idle_timeout_seconds                           |----|----|----|    from one sign of life to the next

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
    """Watches over the waits of one request. The whole request's time begins when this is made.

    Args:
        settings: The limits.
        place: What to call the endpoint in errors.
    """

    def __init__(self, settings: TransportSettings, place: str) -> None:
        self._settings = settings
        self._place = place
        self._deadline = _deadline_after(settings.timeout_seconds)
        self._first_event_deadline = _FOREVER
        self._has_output = False

    @property
    def deadline(self) -> float:
        """When the whole request must be over, on the event loop's clock."""
        return self._deadline

    def begin_attempt(self) -> None:
        """Note that the request is sent now."""
        self._first_event_deadline = _deadline_after(self._settings.first_event_timeout_seconds)
        self._has_output = False

    def note_output(self) -> None:
        """Note that the first output event is there."""
        self._has_output = True

    async def keep_whole(self, wait: Callable[[], Awaitable[_Result]], what: str) -> _Result:
        """Wait for something under the limit of the whole request alone.

        Args:
            wait: Begins the wait.
            what: What the request waits for, for the error.

        Raises:
            RequestTimeoutError: The request's time is over.
        """
        with anyio.CancelScope(deadline=self._deadline):
            return await wait()
        raise RequestTimeoutError(
            f"still {what} after {self._settings.timeout_seconds:g} seconds (timeout_seconds)"
        )

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

"""A model's response over HTTP, event by event, with usage made up over all attempts.

Not a generator: no cancel scope is open while the caller holds the stream, only while it waits for something.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from time import perf_counter
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

from ..errors import ModelError
from ..ports import ResendCheck, ResponseStream
from ..types.model import ModelEvent, UsageReported
from ..types.usage import Usage
from .http_attempts import BegunResponse, HttpAttempts, raise_failure
from .http_plan import HttpRequestPlan
from .http_pool import HttpPool
from .pacing import PacerSource
from .time_limits import TimeLimits

__all__ = ["HttpResponseStream", "PoolSource"]

Resource = TypeVar("Resource")

PoolSource: TypeAlias = Callable[[], AbstractAsyncContextManager[HttpPool]]
"""Gives the pool for one request; leaving the context manager says that the request is over."""


class HttpResponseStream(ResponseStream):
    """The events of one response. Entering it waits for the first output; see `ports.Model.stream`.

    Args:
        plan: The request.
        pool_source: Gives the pool.
        pacer_source: Gives the pacer.
    """

    def __init__(self, plan: HttpRequestPlan, *, pool_source: PoolSource, pacer_source: PacerSource) -> None:
        self._plan = plan
        self._pool_source = pool_source
        self._pacer_source = pacer_source
        self._attempts: HttpAttempts | None = None
        self._response: BegunResponse | None = None
        self._events: Iterator[ModelEvent] = iter(())
        self._arrived_at = 0.0
        self._resend_check: ResendCheck | None = None
        self._entered: list[AbstractAsyncContextManager[Any]] = []

    @property
    def usage(self) -> Usage | None:
        """The usage of the request so far, over all attempts; None when nothing was sent."""
        return None if self._attempts is None else self._attempts.tally.usage

    @property
    def may_have_consumed(self) -> bool:
        """Whether the provider may have worked on the request; see `ports.ResponseStream`."""
        return self._attempts is not None and self._attempts.may_have_consumed

    @property
    def arrived_at(self) -> float:
        """The arrival of the last piece of the response, by `time.perf_counter`."""
        return self._arrived_at

    def check_resends(self, check: ResendCheck) -> None:
        """Ask before the request is sent again."""
        self._resend_check = check

    async def __aenter__(self) -> Self:
        limits = TimeLimits(self._plan.settings, self._plan.endpoint.base_url.netloc)
        try:
            pool = await self._enter(self._pool_source())
            pacer = await self._enter(self._pacer_source(self._plan.pacing_key))
            attempts = HttpAttempts(
                self._plan, pool=pool, pacer=pacer, limits=limits, resend_check=self._resend_check
            )
            self._attempts = await self._enter(attempts)
            self._response = await attempts.begin()
            self._arrived_at = perf_counter()
            self._events = iter(_with_usage_first(self._response, attempts))
        except BaseException as error:
            await self._leave(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._response = None
        self._events = iter(())
        await self._leave(exception_type, exception, traceback)

    # Every step in flight has an open stream, and an exit stack alone would take a kilobyte of it.
    async def _enter(self, resource: AbstractAsyncContextManager[Resource]) -> Resource:
        entered = await resource.__aenter__()
        self._entered.append(resource)
        return entered

    async def _leave(self, *exc_details: Any) -> None:
        """Leave what was entered, the last first, and each of it whatever becomes of the others."""
        if self._entered:
            try:
                await self._entered.pop().__aexit__(*exc_details)
            finally:
                await self._leave(*exc_details)

    async def __anext__(self) -> ModelEvent:
        if self._attempts is not None and self._response is not None:
            try:
                if self._attempts.turns.is_due:
                    await self._attempts.give_turn(self._response.attempt)
                event = next(self._events, None)
                if event is None:
                    self._events = iter(await self._next_events(self._attempts, self._response))
                    self._arrived_at = perf_counter()
                    event = next(self._events, None)
                if event is not None:
                    return raise_failure(event)
            except ModelError as error:
                is_new = error is not self._response.failure
                self._response = None
                if is_new:
                    self._attempts.failed(error)
                raise
        self._response = None
        raise StopAsyncIteration

    async def _next_events(self, attempts: HttpAttempts, response: BegunResponse) -> list[ModelEvent]:
        if response.failure is not None:
            raise response.failure
        return [] if response.attempt is None else await attempts.next_events(response.attempt)


def _with_usage_first(response: BegunResponse, attempts: HttpAttempts) -> list[ModelEvent]:
    """The events; when the request was sent again, the first one says so, however the response goes on."""
    is_told = any(isinstance(event, UsageReported) for event in response.events)
    if attempts.tally.retries == 0 or is_told:
        return response.events
    return [UsageReported(usage=attempts.tally.unreported()), *response.events]

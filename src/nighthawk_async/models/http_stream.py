"""A model's response over HTTP, event by event, with usage made up over all attempts. Floor 4.

Not a generator: no cancel scope is open while the caller holds the stream, only while it waits for something.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Self, TypeAlias

from ..errors import ModelError
from ..types.model import ModelEvent, UsageReported
from ..types.usage import Usage
from .http_attempts import BegunResponse, HttpAttempts, raise_failure
from .http_plan import HttpRequestPlan
from .http_pool import HttpPool
from .pacing import PacerSource
from .time_limits import TimeLimits

__all__ = ["HttpResponseStream", "PoolSource"]

PoolSource: TypeAlias = Callable[[], AbstractAsyncContextManager[HttpPool]]
"""Gives the pool for one request; leaving the context manager says that the request is over."""


class HttpResponseStream(AbstractAsyncContextManager["HttpResponseStream"], AsyncIterator[ModelEvent]):
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
        self._events: deque[ModelEvent] = deque()
        self._resources = AsyncExitStack()

    @property
    def usage(self) -> Usage | None:
        """What the request consumed so far, over all attempts; None when nothing was sent."""
        return None if self._attempts is None else self._attempts.tally.usage

    @property
    def may_have_consumed(self) -> bool:
        """Whether the provider may have worked on the request; see `runtime.budgets.told_usage`."""
        return self._attempts is not None and self._attempts.may_have_consumed

    async def __aenter__(self) -> Self:
        limits = TimeLimits(self._plan.settings, self._plan.endpoint.base_url.netloc)
        async with AsyncExitStack() as stack:
            pool = await stack.enter_async_context(self._pool_source())
            pacer = await stack.enter_async_context(self._pacer_source(self._plan.pacing_key))
            self._attempts = HttpAttempts(self._plan, pool=pool, pacer=pacer, limits=limits)
            self._response = await self._attempts.begin(stack)
            self._events.extend(_with_usage_first(self._response, self._attempts))
            self._resources = stack.pop_all()
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._response = None
        self._events.clear()
        await self._resources.__aexit__(exception_type, exception, traceback)

    async def __anext__(self) -> ModelEvent:
        if self._attempts is not None and self._response is not None:
            try:
                if not self._events:
                    self._events.extend(await self._next_events(self._attempts, self._response))
                if self._events:
                    return raise_failure(self._events.popleft())
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

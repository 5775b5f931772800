"""A model's response over HTTP: retries until the first event, time limits throughout. Floor 4.

Not a generator: no cancel scope is open while the caller holds the stream, only while it waits for something.
"""

import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Self, TypeAlias, TypeVar

import anyio

from ..errors import ModelError, ModelProviderError, ModelTimeoutError
from ..types.model import ModelEvent, ResponseFailed
from ..wire.codec import Codec, EncodedRequest
from .endpoint import Endpoint, name_error
from .http_attempt import HttpAttempt
from .http_pool import HttpPool
from .retry import retry_delay
from .settings import TransportSettings

__all__ = ["HttpResponseStream", "PoolSource"]

PoolSource: TypeAlias = Callable[[], AbstractAsyncContextManager[HttpPool]]
"""Gives the pool for one request; leaving the context manager says that the request is over."""

_Result = TypeVar("_Result")
_logger = logging.getLogger("nighthawk")


class HttpResponseStream(AbstractAsyncContextManager["HttpResponseStream"], AsyncIterator[ModelEvent]):
    """The events of one response. Entering it waits for the first event; see `ports.Model.stream`.

    Args:
        endpoint: Where the request goes.
        codec: Speaks the endpoint's protocol.
        encoded: The request.
        settings: Time limits and retries.
        pool_source: Gives the pool.
    """

    def __init__(
        self,
        *,
        endpoint: Endpoint,
        codec: Codec,
        encoded: EncodedRequest,
        settings: TransportSettings,
        pool_source: PoolSource,
    ) -> None:
        self._endpoint = endpoint
        self._codec = codec
        self._encoded = encoded
        self._settings = settings
        self._pool_source = pool_source
        self._deadline = float("inf")
        self._attempt: HttpAttempt | None = None
        self._resources = AsyncExitStack()
        self._events: deque[ModelEvent] = deque()

    async def __aenter__(self) -> Self:
        if self._settings.timeout_seconds is not None:
            self._deadline = anyio.current_time() + self._settings.timeout_seconds
        async with AsyncExitStack() as stack:
            pool = await stack.enter_async_context(self._pool_source())
            self._attempt = await self._try_until_first_event(pool, stack)
            self._resources = stack.pop_all()
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._attempt = None
        self._events.clear()
        await self._resources.__aexit__(exception_type, exception, traceback)

    async def __anext__(self) -> ModelEvent:
        try:
            if not self._events and self._attempt is not None:
                self._events.extend(await self._next_events(self._attempt))
            if self._events:
                return _raise_failure(self._events.popleft())
        except ModelError as error:
            self._attempt = None
            name_error(error, self._endpoint)
            raise
        self._attempt = None
        raise StopAsyncIteration

    async def _try_until_first_event(self, pool: HttpPool, stack: AsyncExitStack) -> HttpAttempt:
        retries = 0
        while True:
            try:
                async with AsyncExitStack() as attempt_stack:
                    attempt = await self._begin(pool, attempt_stack)
                    await stack.enter_async_context(attempt_stack.pop_all())
                    return attempt
            except ModelError as error:
                name_error(error, self._endpoint)
                delay = retry_delay(error, retries=retries, max_retries=self._settings.max_retries)
                if delay is None or anyio.current_time() + delay >= self._deadline:
                    raise
                _logger.info("retrying a model request in %.1f seconds: %s", delay, error)
            await anyio.sleep(delay)
            retries += 1

    async def _begin(self, pool: HttpPool, stack: AsyncExitStack) -> HttpAttempt:
        """Send the request and wait for the first event, which stays to be handed on."""
        attempt = HttpAttempt(
            pool=pool,
            endpoint=self._endpoint,
            codec=self._codec,
            encoded=self._encoded,
            connect_timeout_seconds=self._settings.connect_timeout_seconds,
        )
        await self._in_time(lambda: stack.enter_async_context(attempt))
        events = await self._next_events(attempt)
        for event in events[:1]:
            _raise_failure(event)
        self._events.extend(events)
        return attempt

    async def _next_events(self, attempt: HttpAttempt) -> list[ModelEvent]:
        """The next events, one or more; none when all were given. Every piece is a sign of life."""
        while not attempt.is_complete:
            if events := await self._in_time(attempt.read_events):
                return events
        return []

    async def _in_time(self, wait: Callable[[], Awaitable[_Result]]) -> _Result:
        idle_seconds = self._settings.idle_timeout_seconds
        idle_deadline = float("inf") if idle_seconds is None else anyio.current_time() + idle_seconds
        with anyio.CancelScope(deadline=min(idle_deadline, self._deadline)):
            return await wait()
        if idle_deadline < self._deadline:
            raise ModelTimeoutError(
                f"no sign of life from {self._endpoint.base_url.netloc} for {idle_seconds:g} seconds"
                " (idle_timeout_seconds)",
                is_transient=True,
            )
        raise ModelTimeoutError(
            f"no complete response from {self._endpoint.base_url.netloc} within "
            f"{self._settings.timeout_seconds:g} seconds (timeout_seconds)"
        )


def _raise_failure(event: ModelEvent) -> ModelEvent:
    if isinstance(event, ResponseFailed):
        raise ModelProviderError(
            f"the provider reported an error: {event.message}",
            error_type=event.error_type,
            is_transient=event.is_transient,
        )
    return event

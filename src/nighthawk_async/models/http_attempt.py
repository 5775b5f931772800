"""One attempt at a request: its response as model events.

Decides whether the response is a stream, a whole answer or an error, and runs the codec over it. It waits
without limits and tries once; `http_attempts` handles time limits and retries.

`LoopTurns` yields to the event loop while a response is decoded and passed on. A burst of bytes may hold
thousands of events. Decoding them all at once would block every other task, and no time limit or cancellation
would reach the request meanwhile.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from time import perf_counter
from types import MappingProxyType, TracebackType
from typing import Self, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from ..catalog.models import suggest_model
from ..catalog.providers import RetryRules
from ..errors import ModelConnectionError, ModelError, ModelProtocolError, ModelProviderError
from ..tracing import find_trace_context
from ..types.model import ModelEvent
from ..wire.codec import Codec, EncodedRequest, ResponseDecoder
from ..wire.provider_errors import find_bare_error, status_error
from ..wire.redaction import excerpt
from ..wire.sse import DEFAULT_MAX_EVENT_BYTES, ServerSentEvent, ServerSentEventDecoder
from .endpoint import Endpoint
from .http_pool import HttpExchange, HttpPool, too_long
from .pacing import Demand
from .time_limits import TransportSettings

_SECONDS_BETWEEN = 0.005
_SECONDS_OF_A_WAIT = 0.001
_NOT_FOUND = 404

_Result = TypeVar("_Result")


class LoopTurns:
    """Detects when a response has kept the event loop for so long that other tasks should run.

    Args:
        now: The clock, in seconds.
    """

    __slots__ = ("_due_at", "_now")

    def __init__(self, now: Callable[[], float] = perf_counter) -> None:
        self._now = now
        self._due_at = now() + _SECONDS_BETWEEN

    @property
    def is_due(self) -> bool:
        """Whether other tasks should run now."""
        return self._now() >= self._due_at

    async def give(self) -> None:
        """Let other tasks run, and let a cancellation arrive."""
        await checkpoint()
        self._begin()

    async def wait_for(self, wait: Callable[[], Awaitable[_Result]]) -> _Result:
        """Wait for something; other tasks run unless it is available at once.

        Args:
            wait: Begins the wait.
        """
        since = self._now()
        result = await wait()
        if self._now() - since >= _SECONDS_OF_A_WAIT:  # buffered decrypted bytes need no wait
            self._begin()
        return result

    def _begin(self) -> None:
        self._due_at = self._now() + _SECONDS_BETWEEN


async def in_thread(function: Callable[..., _Result], *arguments: object) -> _Result:
    """Run a function in a thread that would block the event loop for too long, and return its result.

    When the caller is cancelled, the function continues and its result is lost. It does not wait for a free
    worker thread: those of the program may be busy for long.

    Args:
        function: The function; it must own the data that it changes.
        arguments: Its arguments.
    """
    return await anyio.to_thread.run_sync(
        partial(function, *arguments), abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
    )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HttpRequestPlan:
    """One request: its content, its endpoint and its rules.

    Args:
        endpoint: The endpoint of the request.
        codec: Speaks the endpoint's protocol.
        encoded: The encoded request.
        settings: Time limits and retries.
        retry_rules: The provider's rules of retries.
        demand: The demand on the limits.
        pacing_key: Tells the requests that share limits from others.
    """

    endpoint: Endpoint
    codec: Codec
    encoded: EncodedRequest
    settings: TransportSettings
    retry_rules: RetryRules
    demand: Demand
    pacing_key: Hashable


_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


def trace_headers() -> Mapping[str, str]:
    """The headers by which a server can continue the trace of the current span; none where there is no trace.

    For a trace that is not recorded, by decision of a sampler or a client, they say so. By default these are
    those of W3C Trace Context; `opentelemetry.propagate` can be configured otherwise.
    """
    if find_trace_context() is None:
        return _NO_HEADERS
    from opentelemetry import (  # here, because it searches all installed packages for propagators
        baggage,
        propagate,
    )

    from ..telemetry_settings import get_settings  # here, because most requests belong to no trace

    if not get_settings().propagates:
        return _NO_HEADERS
    carrier: dict[str, str] = {}
    propagate.inject(carrier, baggage.clear())  # its content is not meant for a provider
    return {name.lower(): value for name, value in carrier.items()}


# Without a user agent, some gateways refuse a request; compression would delay the events of a stream.
_HEADERS = {"accept-encoding": "identity", "user-agent": "nighthawk-async"}
_MAX_ERROR_BYTES = 64 * 1024
_ERROR_BODY_SECONDS = 5.0
_DRAIN_SECONDS = 0.5
_STREAM_TYPES = ("", "application/octet-stream", "text/event-stream", "text/plain")
_MOST_BYTES_ON_THE_LOOP = 8 * 1024
"""An event or a document with more bytes may take many milliseconds to decode, and is decoded in a thread."""

_LONG_RESPONSE_BYTES = 256 * 1024
"""In a longer response, the end may take as long, since all earlier parts are then put together."""


class HttpAttempt:
    """One exchange with an endpoint, decoded.

    Args:
        plan: The request.
        endpoint: The endpoint of the request, with the headers that authenticate this attempt.
        pool: The pool of the connection.
        turns: Detects when other tasks should run.
    """

    def __init__(self, plan: HttpRequestPlan, endpoint: Endpoint, pool: HttpPool, turns: LoopTurns) -> None:
        self._endpoint = endpoint
        self._codec = plan.codec
        self._turns = turns
        self._max_bytes = plan.settings.max_response_bytes
        self.url = endpoint.url(plan.encoded.path)
        """The endpoint of the request."""
        self._exchange: HttpExchange = pool.request(
            self.url,
            {**_HEADERS, **plan.encoded.headers, **trace_headers(), **endpoint.headers},
            plan.encoded.body,
            connect_timeout_seconds=plan.settings.connect_timeout_seconds,
        )
        self._failure: ModelError | None = None
        self._broken: ModelConnectionError | None = None
        self._undecoded: deque[ServerSentEvent] | None = None  # None when there are none
        self._received_bytes = 0
        self._is_whole = False
        self._is_at_end = False
        self.is_complete = False
        """Whether all events were returned."""

    @property
    def status(self) -> int:
        """The HTTP status code; 0 when there was no response."""
        return self._exchange.status

    @property
    def may_have_consumed(self) -> bool:
        """Whether the provider may have worked on the request: it was sent, and not turned away."""
        return self._exchange.was_sent and self.status in (0, 200)

    @property
    def headers(self) -> Mapping[str, str]:
        """The response's headers, names in lower case; none when there was no response."""
        return self._exchange.headers

    async def __aenter__(self) -> Self:
        """Send the request and read the head of the response.

        Raises:
            ModelError: There is no connection, or the response is an error, or not what the protocol
                promises.
        """
        await self._exchange.__aenter__()
        try:
            await self._check_head()
        except BaseException:
            await self._exchange.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if exception_type is None and self._decoder.is_ended:
                await self._drain()
        finally:
            await self._exchange.__aexit__(None, None, None)

    # Made when the response begins: of many requests in flight, most wait for that.
    @cached_property
    def _lines(self) -> ServerSentEventDecoder:
        return ServerSentEventDecoder(max_event_bytes=self._most_bytes(DEFAULT_MAX_EVENT_BYTES))

    @cached_property
    def _decoder(self) -> ResponseDecoder:
        return self._codec.decoder()

    async def read_events(self) -> list[ModelEvent]:
        """Wait for the next chunk of the response and return its events, possibly none.

        When decoding takes long, it returns the events so far; the next call lets other tasks run first.

        Raises:
            ModelError: The response broke off, or is not what the protocol promises. Earlier events were
                returned.
        """
        if self._failure is not None:
            raise self._failure
        if self._is_whole:
            return await self._read_whole()
        events: list[ModelEvent] = []
        try:
            if self._undecoded is None:
                await self._read_chunk()
            elif self._turns.is_due:
                await self._turns.give()
            await self._decode(events)
        except ModelProtocolError as error:  # kept until the events before it are passed on
            self._failure = self._broken or self._explain(error, self._lines.stray)
        if self._failure is not None and not events:
            raise self._failure
        is_decoded = self._is_at_end and self._undecoded is None
        self.is_complete = self._failure is None and (self._decoder.is_ended or is_decoded)
        return events

    async def _check_head(self) -> None:
        status, headers = self._exchange.status, self._exchange.headers
        if status != 200:
            body = await self._read_error_body()
            advice = suggest_model(self._endpoint.model_id) if status == _NOT_FOUND else ""
            raise status_error(status, headers, body, secrets=self._endpoint.secrets(), advice=advice)
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if encoding != "identity":
            raise ModelProtocolError(f"the response is compressed ({encoding}), which was not asked for")
        content_type = _media_type(headers)
        self._is_whole = content_type == "application/json"
        if not self._is_whole and content_type not in _STREAM_TYPES:
            body = await self._read_error_body()
            quoted = excerpt(body, self._endpoint.secrets())
            raise ModelProtocolError(f"the response is {content_type} and no event stream: {quoted}")

    async def _read_whole(self) -> list[ModelEvent]:
        body = await self._exchange.read_body(max_bytes=self._max_bytes)
        self.is_complete = True
        try:
            if len(body) > _MOST_BYTES_ON_THE_LOOP:
                return await in_thread(self._codec.decode_response, body)
            return self._codec.decode_response(body)
        except ModelProtocolError as error:
            error.is_transient = error.is_transient or self._exchange.was_cut
            raise

    async def _read_error_body(self) -> bytes:
        """Read the body of an error response, within limits of time and size."""
        chunks: list[bytes] = []
        size = 0
        with anyio.move_on_after(_ERROR_BODY_SECONDS), suppress(ModelConnectionError):
            while size < _MAX_ERROR_BYTES and (chunk := await self._exchange.read_chunk()):
                chunks.append(chunk)
                size += len(chunk)
        return b"".join(chunks)[:_MAX_ERROR_BYTES]

    async def _read_chunk(self) -> None:
        """Wait for the next chunk of the stream, and split it into server-sent events."""
        chunk = b""
        try:
            chunk = await self._turns.wait_for(self._exchange.read_chunk)
        except ModelConnectionError as error:
            # If the end of the stream ends the response, it may be complete nevertheless.
            self._broken = error
        self._received_bytes += len(chunk)
        if self._max_bytes is not None and self._received_bytes > self._max_bytes:
            raise ModelProtocolError(too_long(self._max_bytes))
        self._is_at_end = not chunk
        # The end of the stream needs processing even if it holds no more events.
        events = self._lines.feed(chunk) if chunk else self._lines.finish()
        self._undecoded = deque(events) if events or self._is_at_end else None

    async def _decode(self, events: list[ModelEvent]) -> None:
        """Decode the data that was read, until other tasks should run.

        Args:
            events: The list of events.

        Raises:
            ModelProtocolError: The response is not what the protocol promises.
        """
        while self._undecoded and not self._decoder.is_ended:
            event = self._undecoded.popleft()
            try:
                if self._is_heavy(event):
                    if events:  # they need not wait for it
                        self._undecoded.appendleft(event)
                        return
                    events += await in_thread(self._decoder.feed, event)
                else:
                    events += self._decoder.feed(event)
            except ModelProtocolError:
                if not self._is_at_end:
                    raise
                # No blank line follows this event: it may be cut off, like the stream.
            if self._turns.is_due:
                return
        if self._is_at_end and self._undecoded is not None:
            is_long = self._received_bytes > _LONG_RESPONSE_BYTES
            events += await in_thread(self._decoder.finish) if is_long else self._decoder.finish()
        self._undecoded = None

    def _is_heavy(self, event: ServerSentEvent) -> bool:
        """Whether an event may take long to decode."""
        if len(event.data) > _MOST_BYTES_ON_THE_LOOP:
            return True
        return self._received_bytes > _LONG_RESPONSE_BYTES and self._decoder.may_take_long(event)

    def _most_bytes(self, bound: int) -> int:
        return bound if self._max_bytes is None else min(bound, self._max_bytes)

    def _explain(self, error: ModelProtocolError, stray: bytes) -> ModelError:
        """The error together with data that arrived outside the event stream, often the actual reason."""
        if not stray:
            return error
        reason = find_bare_error(stray, self._endpoint.secrets())
        if reason is None:
            quoted = excerpt(stray, self._endpoint.secrets())
            return ModelProtocolError(f"{error.message} It held: {quoted}", is_transient=error.is_transient)
        return ModelProviderError(
            f"the provider reported an error: {reason.message}",
            error_type=reason.error_type,
            is_transient=reason.is_transient,
        )

    async def _drain(self) -> None:
        """Read the rest after the last event, so that the connection can be reused."""
        with anyio.move_on_after(_DRAIN_SECONDS):
            try:
                while await self._exchange.read_chunk():
                    pass
            except ModelError:
                return  # the response was complete; the broken connection is closed


def _media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()

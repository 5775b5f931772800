"""The events in the body of one response, or the error that its head or its body reports.

`LoopTurns` yields to the event loop while a response is decoded and passed on. A burst of bytes may hold
thousands of events. Decoding them all at once would block every other task, and no time limit or cancellation
would reach the request meanwhile.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cached_property
from time import perf_counter
from typing import TypeVar

import anyio
from anyio.lowlevel import checkpoint

from ..catalog.models import suggest_model
from ..errors import ModelConnectionError, ModelError, ModelProtocolError, ModelProviderError
from ..types.model import ModelEvent
from ..wire.codec import ResponseDecoder
from ..wire.provider_errors import find_bare_error, status_error
from ..wire.redaction import excerpt
from ..wire.sse import DEFAULT_MAX_EVENT_BYTES, ServerSentEvent, ServerSentEventDecoder
from .byte_exchange import ByteExchange, too_long
from .endpoint import Endpoint
from .prepared_settings import HttpRequestPlan

_NOT_FOUND = 404
_DRAIN_SECONDS = 0.5
_MAX_ERROR_BYTES = 64 * 1024
_ERROR_BODY_SECONDS = 5.0
_STREAM_TYPES = ("", "application/octet-stream", "text/event-stream", "text/plain")


async def check_head(raw: ByteExchange, endpoint: Endpoint) -> bool:
    """Whether the response is one document, and no event stream.

    Args:
        raw: The exchange, whose head was read.
        endpoint: The endpoint.

    Raises:
        ModelError: It is an error, or not what the protocol promises.
    """
    status, headers = raw.status, raw.headers
    if status != 200:
        body = await _read_error_body(raw)
        advice = suggest_model(endpoint.model_id) if status == _NOT_FOUND else ""
        raise status_error(status, headers, body, secrets=endpoint.secrets(), advice=advice)
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise ModelProtocolError(f"the response is compressed ({encoding}), which was not asked for")
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type == "application/json":
        return True
    if content_type not in _STREAM_TYPES:
        body = await _read_error_body(raw)
        quoted = excerpt(body, endpoint.secrets())
        raise ModelProtocolError(f"the response is {content_type} and no event stream: {quoted}")
    return False


async def _read_error_body(raw: ByteExchange) -> bytes:
    """Read the body of an error response, within limits of time and size."""
    chunks: list[bytes] = []
    size = 0
    with anyio.move_on_after(_ERROR_BODY_SECONDS), suppress(ModelConnectionError):
        while size < _MAX_ERROR_BYTES and (chunk := await raw.read_chunk()):
            chunks.append(chunk)
            size += len(chunk)
    return b"".join(chunks)[:_MAX_ERROR_BYTES]


_SECONDS_BETWEEN = 0.005
_SECONDS_OF_A_WAIT = 0.001

_Result = TypeVar("_Result")


class LoopTurns:
    """Detects when a response has kept the event loop for so long that other tasks should run.

    Args:
        now: The clock, in seconds.
    """

    __slots__ = ("due_at", "now")

    def __init__(self, now: Callable[[], float] = perf_counter) -> None:
        self.now = now
        """The clock."""
        self.due_at = now() + _SECONDS_BETWEEN
        """The time from which on other tasks should run."""

    async def give(self) -> None:
        """Let other tasks run, and let a cancellation arrive."""
        await checkpoint()
        self._begin()

    async def wait_for(self, wait: Callable[[], Awaitable[_Result]]) -> _Result:
        """Wait for something; other tasks run unless it is available at once.

        Args:
            wait: Begins the wait.
        """
        since = self.now()
        result = await wait()
        if self.now() - since >= _SECONDS_OF_A_WAIT:  # buffered decrypted bytes need no wait
            self._begin()
        return result

    def _begin(self) -> None:
        self.due_at = self.now() + _SECONDS_BETWEEN


async def in_thread(function: Callable[..., _Result], *arguments: object) -> _Result:
    """Run a function in a thread that would block the event loop for too long, and return its result.

    When the caller is cancelled, the function continues and its result is lost. It does not wait for a free
    worker thread: those of the program may be busy for long.

    Args:
        function: The function; it must own the data that it changes.
        arguments: Its arguments.
    """
    limiter = anyio.CapacityLimiter(1)
    return await anyio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True, limiter=limiter)


_MOST_BYTES_ON_THE_LOOP = 8 * 1024
"""An event or a document with more bytes may take many milliseconds to decode, and is decoded in a thread."""

_LONG_RESPONSE_BYTES = 256 * 1024
"""In a longer response, the end may take as long, since all earlier parts are then put together."""


class ResponseBody:
    """The events in the body of a response that has begun.

    Args:
        raw: The exchange of bytes, whose head was read.
        plan: The request.
        endpoint: The endpoint; its secrets are kept out of errors.
        turns: Detects when other tasks should run.
        is_whole: Whether the body is one document, and no event stream.
    """

    def __init__(
        self,
        raw: ByteExchange,
        plan: HttpRequestPlan,
        endpoint: Endpoint,
        turns: LoopTurns,
        *,
        is_whole: bool,
    ) -> None:
        self._raw = raw
        self._codec = plan.codec
        self._request = plan.encoded
        self._max_bytes = plan.settings.max_response_bytes
        self._endpoint = endpoint
        self._turns = turns
        self._is_whole = is_whole
        self._failure: ModelError | None = None
        self._broken: ModelConnectionError | None = None
        self._undecoded: deque[ServerSentEvent] | None = None  # None when there are none
        self._received_bytes = 0
        self._is_at_end = False
        self.is_complete = False
        """Whether all events were returned."""

    # Made with the first chunk: of many requests in flight, most wait for that.
    @cached_property
    def _lines(self) -> ServerSentEventDecoder:
        most = DEFAULT_MAX_EVENT_BYTES if self._max_bytes is None else self._max_bytes
        return ServerSentEventDecoder(max_event_bytes=min(most, DEFAULT_MAX_EVENT_BYTES))

    @cached_property
    def _decoder(self) -> ResponseDecoder:
        return self._codec.decoder(self._request)

    @property
    def is_ended(self) -> bool:
        """Whether the last event of the stream was decoded; the stream may go on."""
        return not self._is_whole and self._decoder.is_ended

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
            elif self._turns.now() >= self._turns.due_at:
                await self._turns.give()
            await self._decode(events)
        except ModelProtocolError as error:  # kept until the events before it are passed on
            self._failure = self._broken or self._explain(error, self._lines.stray)
        if self._failure is not None and not events:
            raise self._failure
        is_decoded = self._is_at_end and self._undecoded is None
        self.is_complete = self._failure is None and (is_decoded or self._decoder.is_ended)
        return events

    async def drain(self) -> None:
        """Read the rest after the last event, so that the connection can be reused."""
        if self._raw.is_at_end:  # as mostly: a cancel scope costs more than everything else here
            await self._raw.read_chunk()
            return
        with anyio.move_on_after(_DRAIN_SECONDS):
            try:
                while await self._raw.read_chunk():
                    pass
            except ModelError:
                return  # the response was complete; the broken connection is closed

    async def _read_whole(self) -> list[ModelEvent]:
        body = await self._raw.read_body(max_bytes=self._max_bytes)
        self.is_complete = True
        try:
            if len(body) > _MOST_BYTES_ON_THE_LOOP:
                return await in_thread(self._codec.decode_response, body, self._request)
            return self._codec.decode_response(body, self._request)
        except ModelProtocolError as error:
            error.is_transient = error.is_transient or self._raw.was_cut
            raise

    async def _read_chunk(self) -> None:
        """Wait for the next chunk of the stream, and split it into server-sent events."""
        chunk = b""
        try:
            chunk = await self._turns.wait_for(self._raw.read_chunk)
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
        decoder, is_long = self._decoder, self._received_bytes > _LONG_RESPONSE_BYTES
        while self._undecoded and not decoder.is_ended:
            event = self._undecoded.popleft()
            try:
                if len(event.data) > _MOST_BYTES_ON_THE_LOOP or (is_long and decoder.may_take_long(event)):
                    if events:  # they need not wait for it
                        self._undecoded.appendleft(event)
                        return
                    events += await in_thread(decoder.feed, event)
                else:
                    events += decoder.feed(event)
            except ModelProtocolError:
                if not self._is_at_end:
                    raise
                # No blank line follows this event: it may be cut off, like the stream.
            if self._turns.now() >= self._turns.due_at:
                return
        if self._is_at_end and self._undecoded is not None:
            events += await in_thread(decoder.finish) if is_long else decoder.finish()
        self._undecoded = None

    def _explain(self, error: ModelProtocolError, stray: bytes) -> ModelError:
        """The error together with data that arrived outside the event stream, often the actual reason."""
        if not stray:
            return error
        reason = find_bare_error(stray, self._endpoint.secrets())
        if reason is None:
            quoted = excerpt(stray, self._endpoint.secrets())
            return ModelProtocolError(f"{error.message} It held: {quoted}", is_transient=error.is_transient)
        return ModelProviderError.in_kind(reason.kind)(
            f"the provider reported an error: {reason.message}",
            error_type=reason.error_type,
            is_transient=reason.is_transient,
        )

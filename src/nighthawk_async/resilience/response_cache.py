"""Response caches: equal requests wait for the first of them, and later ones get its response.

One of several equal requests asks the model; the others wait for its response. When it is cancelled or
broken off, the next of them asks; when it fails, all that wait fail with the same error.
"""

import hashlib
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar, TypeVarTuple

import msgspec
from anyio.lowlevel import checkpoint

from ..errors import ConfigurationError, ModelError
from ..kernel.environment import find_journal
from ..kernel.fold import Events, ModelCall, OpenRequest
from ..kernel.policy import Policy, Position
from ..parallel.event_loop import LoopEvent
from ..ports import Model, ResponseStream
from ..recording.exchange import (
    RecordedError,
    RecordedExchange,
    record_error,
    record_events,
    replay_error,
    replay_events,
    with_texts,
)
from ..recording.redaction import Redactor
from ..threads import call_in_thread
from ..types.model import ModelEvent, ModelRequest, ResponseFinished, UsageReported
from ..types.usage import Usage
from .request_digests import digest_of
from .response_stores import ResponseStore

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

_CACHED_USAGE = Usage(cached_requests=1)
_WHOLE_REASONS = ("stop", "tool_calls")
_CHECK_BYTES = 16


class _Flight:
    """A request in progress, and the equal requests that wait for it.

    Attributes:
        waiting: Those that wait.
        exchange: Its response.
        error: Its error.
    """

    __slots__ = ("error", "exchange", "waiting")

    def __init__(self) -> None:
        self.waiting: list[LoopEvent] = []
        self.exchange: RecordedExchange | None = None
        self.error: RecordedError | None = None


class NoResponses(Policy):
    """No response cache, whatever is active outside."""

    position = Position.RESPONSES


class StoredResponses(Policy):
    """The response cache of a store: answers equal requests with the response to the first of them.

    Any thread may use it.

    Args:
        store: The store.
    """

    position = Position.RESPONSES

    def __init__(self, store: ResponseStore) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._flights: dict[bytes, _Flight] = {}
        self._redactor = Redactor()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle its store: equal requests meet in one process, and find each other's responses there."""
        return StoredResponses, (self.store,)

    @property
    def requests_in_progress(self) -> int:
        """The number of requests that have no response yet."""
        return len(self._flights)

    def around_request(self, call: ModelCall, open_request: OpenRequest) -> Events:
        """Give the response that the journal of a run has, the cache, or the model, which is kept."""
        return _Lookup(self, call, open_request)

    async def look_up(self, model: Model, request: ModelRequest) -> "StoredEntry | None":
        """Return the entry of a request, as soon as no equal request is in progress."""
        try:
            digest = digest_of(model, request)
        except ConfigurationError:  # sending the request raises it as well
            return None
        if digest is None:
            return None
        while True:
            ended = LoopEvent()
            with self._lock:
                flight = self._flights.get(digest)
                is_first = flight is None
                if flight is None:
                    flight = self._flights[digest] = _Flight()
                else:
                    flight.waiting.append(ended)
            if is_first:
                return await self._first(digest, flight, model, request)
            await ended.wait()
            if flight.exchange is not None or flight.error is not None:
                return StoredEntry(self, digest, flight, model.name)

    async def _first(
        self, digest: bytes, flight: _Flight, model: Model, request: ModelRequest
    ) -> "StoredEntry":
        try:
            body = await self._call(self.store.find, digest)
            if body is not None:
                flight.exchange = self._decoded(body)
                if flight.exchange is None:
                    await self._call(self.store.remove, digest)
        except BaseException:
            self.end(digest, flight)
            raise
        if flight.exchange is not None:
            self.end(digest, flight)
        else:
            with self._lock:
                self._redactor.learn(request.settings)
        return StoredEntry(self, digest, flight, model.name)

    async def arrived(
        self, digest: bytes, flight: _Flight, model_name: str, events: list[ModelEvent]
    ) -> None:
        """Keep a whole response, and hand it to the requests that wait for it."""
        recorded = RecordedExchange(step=(), model=model_name, digest="", request={}, **record_events(events))
        with self._lock:
            exchange = with_texts(recorded, self._redactor.redact)
        flight.exchange = exchange
        self._wake(flight)
        try:
            await self._call(self.store.keep, digest, _encoded(exchange))
        finally:
            self.end(digest, flight)

    def end(self, digest: bytes, flight: _Flight) -> None:
        """Let the requests that wait go on. Ending a flight again has no effect."""
        with self._lock:
            if self._flights.get(digest) is flight:
                del self._flights[digest]
        self._wake(flight)

    def _wake(self, flight: _Flight) -> None:
        with self._lock:
            waiting, flight.waiting = flight.waiting, []
        for event in waiting:
            event.set()

    async def _call(self, function: Callable[[*Arguments], Result], *args: *Arguments) -> Result:
        if self.store.blocks:
            return await call_in_thread(function, *args)
        return function(*args)

    def _decoded(self, body: bytes) -> RecordedExchange | None:
        """The response in a body; None, with a warning, for a damaged one."""
        check, content = body[:_CHECK_BYTES], body[_CHECK_BYTES:]
        try:
            if check != _check_of(content):
                raise ValueError("it was changed")
            exchange = msgspec.msgpack.decode(content, type=RecordedExchange)
            replay_events(exchange)
        except ValueError as error:  # msgspec's errors are such
            self.store.warn(f"a response is damaged: {error}")
            return None
        return exchange


def _encoded(exchange: RecordedExchange) -> bytes:
    content = msgspec.msgpack.encode(exchange)
    return _check_of(content) + content


def _check_of(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()[:_CHECK_BYTES]


class StoredEntry:
    """The entry of one request.

    Args:
        cache: The cache.
        digest: The digest of the request.
        flight: The request in progress, or its response.
        model_name: The model.

    Attributes:
        is_hit: Whether no model is asked, because an equal request has a response, or has just failed.
            Otherwise equal requests wait until this one has ended or is released.
    """

    __slots__ = ("_cache", "_digest", "_flight", "_model_name", "is_hit")

    def __init__(self, cache: StoredResponses, digest: bytes, flight: _Flight, model_name: str) -> None:
        self._cache = cache
        self._digest = digest
        self._flight = flight
        self._model_name = model_name
        self.is_hit = flight.exchange is not None or flight.error is not None

    def open(self) -> Events:
        """Return the response, or fail, as the equal request did."""
        return _CachedStream(self._flight)

    async def arrived(self, events: list[ModelEvent]) -> None:
        """Keep the response, if it is a whole one."""
        finish = events[-1]
        if isinstance(finish, ResponseFinished) and finish.reason in _WHOLE_REASONS:
            await self._cache.arrived(self._digest, self._flight, self._model_name, events)
        else:
            self.release()

    def failed(self, error: BaseException) -> None:
        """Let the requests that wait fail, too, if each would meet the same error."""
        if isinstance(error, ModelError | ConfigurationError) and self._flight.exchange is None:
            self._flight.error = record_error(error)
        self.release()

    def release(self) -> None:
        """Let one of the requests that wait ask the model."""
        if not self.is_hit:
            self._cache.end(self._digest, self._flight)


class _Lookup(AbstractAsyncContextManager[AsyncIterator[ModelEvent]]):
    """The response to a request, from the cache or on its way there.

    Args:
        responses: The cache.
        call: The request.
        open_request: Sends it.
    """

    __slots__ = ("_call", "_open_request", "_response", "_responses")

    def __init__(self, responses: StoredResponses, call: ModelCall, open_request: OpenRequest) -> None:
        self._responses = responses
        self._call = call
        self._open_request = open_request

    async def __aenter__(self) -> AsyncIterator[ModelEvent]:
        self._response = await self._find()
        return await self._response.__aenter__()

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._response.__aexit__(exception_type, exception, traceback)

    async def _find(self) -> Events:
        call, journal = self._call, find_journal()
        is_cached = None if journal is None or call.place is None else journal.find_cached(call.place)
        if is_cached is not None:  # the journal has it, and gives it
            if not is_cached:
                return self._open_request()
            return self._open_request.answer(lambda: call.model.stream(call.request))
        entry = await self._responses.look_up(call.model, call.request)
        if entry is None:
            return self._open_request()
        return (
            self._open_request.answer(entry.open)
            if entry.is_hit
            else _Storing(entry, call, self._open_request)
        )


class _Storing(AbstractAsyncContextManager[AsyncIterator[ModelEvent]], AsyncIterator[ModelEvent]):
    """A response on its way into the cache.

    Args:
        entry: The entry of its request.
        call: The request.
        open_request: Sends it.
    """

    __slots__ = ("_call", "_entry", "_given", "_open_request", "_received", "_response")

    def __init__(self, entry: StoredEntry, call: ModelCall, open_request: OpenRequest) -> None:
        self._entry = entry
        self._call = call
        self._open_request = open_request
        self._received: list[ModelEvent] = []

    async def __aenter__(self) -> AsyncIterator[ModelEvent]:
        call, request = self._call, self._call.request
        try:
            self._response = self._open_request()
            self._given = await self._response.__aenter__()
        except BaseException as error:
            if call.was_sent:
                self._entry.failed(error)
            else:  # a budget that refused it, which others may not have
                self._entry.release()
            raise
        if call.request is request or replace(call.request, settings=request.settings) == request:
            return self  # a limit of the output, which a budget has set, is nothing to a whole response
        self._entry.release()  # a budget has it conclude
        return self._given

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        self._entry.release()
        return await self._response.__aexit__(exception_type, exception, traceback)

    async def __anext__(self) -> ModelEvent:
        try:
            event = await self._given.__anext__()
        except BaseException as error:
            self._entry.failed(error)
            raise
        self._received.append(event)
        if isinstance(event, ResponseFinished):
            await self._entry.arrived(self._received)
        return event


class _CachedStream(ResponseStream):
    """The response to an equal request, event by event, or its error.

    Args:
        flight: The equal request, which has ended.
    """

    def __init__(self, flight: _Flight) -> None:
        self._error = flight.error
        self._events = deque(() if flight.exchange is None else _without_usage(flight.exchange))

    @property
    def usage(self) -> Usage:
        """One cached request, if it has a response."""
        return _CACHED_USAGE if self._error is None else Usage()

    @property
    def may_have_consumed(self) -> bool:
        """False: nothing was sent."""
        return False

    async def __aenter__(self) -> Self:
        await checkpoint()
        if self._error is not None:
            raise replay_error(self._error)
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._events.clear()

    async def __anext__(self) -> ModelEvent:
        await checkpoint()
        if not self._events:
            raise StopAsyncIteration
        return self._events.popleft()


def _without_usage(exchange: RecordedExchange) -> Iterator[ModelEvent]:
    for event in replay_events(exchange):
        if isinstance(event, ResponseFinished):
            yield UsageReported(usage=_CACHED_USAGE)
        if not isinstance(event, UsageReported):
            yield event

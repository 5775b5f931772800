"""Connections of one run, in use and free.

Each request in flight owns a connection. Finished ones go to a last-in-first-out free list; a connection
whose request was cancelled or failed is closed and thrown away, so nothing can leak. The pool has no limit:
the caller limits the number of concurrent requests.

A pool belongs to one event loop.

The requests of a run share a pool, and the pacers of its models.
"""

from collections import deque
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias
from urllib.parse import SplitResult

import anyio
from msgspec import Struct

from ..kernel.environment import shared_in_run
from .byte_exchange import BodyReader
from .pacing import PACER_MAKER, Pacer

if TYPE_CHECKING:
    from .http_transport import HttpConnection, RequestHeads

_CLOSE_SECONDS = 2.0
_IDLE_SECONDS = 30.0  # the least that providers and gateways keep
# Uvicorn, and so most servers without TLS, close after 5 seconds. What is sent at that moment is lost.
_IDLE_SECONDS_WITHOUT_TLS = 4.0
# Thousands of steps that begin together occupy the event loop for seconds. If they all opened connections,
# these would be ready at once, but would time out before a task could use them.
_CONNECTING_AT_ONCE = 512
# Closing takes iterations of the event loop, and the request that finds expired connections waits for it.
_MOST_CLOSED_AT_ONCE = 3

_Origin: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpPoolStatistics:
    """Numbers of a pool's connections at one moment.

    Args:
        idle: Connections waiting for a request.
        in_flight: Connections that a request owns.
    """

    idle: int
    in_flight: int

    @property
    def open(self) -> int:
        """All connections."""
        return self.idle + self.in_flight


class _Idle(Struct, frozen=True):
    connection: "HttpConnection"
    since: float
    scheme: str


def open_http_pool(*, max_idle: int = 10_000) -> "HttpPool":
    """A pool, to be entered with `async with`; leaving it closes its idle connections.

    Args:
        max_idle: Connections kept for later requests.
    """
    return HttpPool(max_idle=max_idle)


class HttpPool:
    """The connections of one run. Made by `open_http_pool`."""

    def __init__(self, *, max_idle: int) -> None:
        self._max_idle = max_idle
        self._idle: dict[_Origin, deque[_Idle]] = {}
        self._connecting: dict[_Origin, anyio.Semaphore] = {}
        self._heads: RequestHeads | None = None
        self._idle_count = 0
        self._in_flight = 0
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def statistics(self) -> HttpPoolStatistics:
        """Return the current numbers of connections."""
        return HttpPoolStatistics(idle=self._idle_count, in_flight=self._in_flight)

    def request(
        self,
        url: SplitResult,
        headers: Mapping[str, str],
        body: bytes,
        *,
        connect_timeout: float,
        method: str = "POST",
    ) -> "RawExchange":
        """A request, sent when the exchange is entered.

        Args:
            url: The URL.
            headers: The headers.
            body: The body.
            connect_timeout: Seconds to wait for a new connection.
            method: The HTTP method, another one for requests about batches and files.
        """
        return RawExchange(self, url, headers, body, connect_timeout, method)

    async def aclose(self) -> None:
        """Close the idle connections, shielded; those in flight are closed by their requests."""
        self._is_closed = True
        idle = [each.connection for free in self._idle.values() for each in free]
        self._idle.clear()
        self._idle_count = 0
        await _close(idle)

    def take_nowait(self, url: SplitResult) -> tuple["HttpConnection", list["HttpConnection"]]:
        """A connection to the URL's origin, and the expired ones, which the caller has to close.

        Args:
            url: The URL; the connection is the idle one used last, or a new one.

        Raises:
            RuntimeError: The pool is closed.
            ConfigurationError: The machine's settings name a proxy that cannot be used.
        """
        if self._is_closed:
            raise RuntimeError("the HTTP pool is closed")
        now = anyio.current_time()
        expired = self._expired(now)
        free = self._idle.get(_origin(url))
        if free and not _is_expired(free[-1], now):
            connection = free.pop().connection
            self._idle_count -= 1
        else:
            connection = self._new_connection(url)
        self._in_flight += 1
        return connection, expired

    def give_back_nowait(self, url: SplitResult, connection: "HttpConnection") -> list["HttpConnection"]:
        """Return a connection to the pool; returns those that the caller has to close.

        Args:
            url: The URL it was taken for.
            connection: The connection.
        """
        self._in_flight -= 1
        now = anyio.current_time()
        expired = self._expired(now)
        if self._is_closed or not connection.is_reusable or self._idle_count >= self._max_idle:
            return [connection, *expired]
        free = self._idle.setdefault(_origin(url), deque())
        free.append(_Idle(connection, now, url.scheme))
        self._idle_count += 1
        return expired

    def _new_connection(self, url: SplitResult) -> "HttpConnection":
        from .http_transport import HttpConnection, RequestHeads  # httpx is loaded on first use

        if self._heads is None:
            self._heads = RequestHeads()
        return HttpConnection(
            url,
            connecting=self._connecting.setdefault(_origin(url), anyio.Semaphore(_CONNECTING_AT_ONCE)),
            keepalive_seconds=_idle_seconds(url.scheme),
            heads=self._heads,
        )

    def _expired(self, now: float) -> list["HttpConnection"]:
        """Remove a few of the connections, to any origin, that were idle for too long."""
        expired: list[HttpConnection] = []
        for free in self._idle.values():
            while free and len(expired) < _MOST_CLOSED_AT_ONCE and _is_expired(free[0], now):
                expired.append(free.popleft().connection)
        self._idle_count -= len(expired)
        return expired


class RawExchange(BodyReader):
    """The bytes of one request and of its response. Made by `HttpPool.request`.

    Entering it sends the request and waits for the head of the response. Leaving it returns the connection to
    the pool if the response was read to its end, and closes it otherwise.

    A request is sent once: if a kept connection breaks, the fate of the request is unknown, so the retry
    rules decide whether to send it again. A connection that the server closed while it was idle is replaced
    before anything is written.
    """

    def __init__(
        self,
        pool: HttpPool,
        url: SplitResult,
        headers: Mapping[str, str],
        body: bytes,
        connect_timeout: float,
        method: str,
    ) -> None:
        self._pool = pool
        self._method = method
        self._url = url
        self._request_headers = headers
        self._body = body
        self._connect_timeout = connect_timeout
        self._connection: HttpConnection | None = None
        self._was_sent = False
        self.status = 0
        """The response's HTTP status code."""
        self.headers: Mapping[str, str] = {}
        """The response's headers; names in lower case."""

    @property
    def was_sent(self) -> bool:
        """Whether the server may have received the request: there was a connection to send it on."""
        return self._was_sent

    @property
    def was_cut(self) -> bool:
        """Whether the server broke off the response's body before its end."""
        return self._connection is not None and self._connection.was_cut

    @property
    def is_at_end(self) -> bool:
        """Whether the response has arrived as a whole, so that reading on waits for nothing."""
        return self._connection is None or self._connection.is_at_end

    async def steer(self, said: Sequence[str]) -> None:
        """Nothing: the response of a request over HTTP cannot be steered."""

    @property
    def steered(self) -> int | None:
        """None: the server never goes on by itself."""
        return None

    async def __aenter__(self) -> Self:
        connection, expired = self._pool.take_nowait(self._url)
        try:
            await _close(expired)
            try:
                head = await connection.send(
                    self._url,
                    self._request_headers,
                    self._body,
                    connect_timeout=self._connect_timeout,
                    method=self._method,
                )
            finally:
                self._was_sent = connection.was_sent
        except BaseException:
            await self._give_back(connection)
            raise
        self.status = head.status
        self.headers = head.headers
        self._connection = connection
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await self._give_back(connection)

    async def read_chunk(self) -> bytes:
        """More of the response's body, as it arrives; empty at its end.

        Raises:
            ModelConnectionError: The connection broke.
        """
        return b"" if self._connection is None else await self._connection.receive()

    async def _give_back(self, connection: "HttpConnection") -> None:
        await _close(self._pool.give_back_nowait(self._url, connection))


def _idle_seconds(scheme: str) -> float:
    """The longest idle time after which a connection is used again."""
    return _IDLE_SECONDS if scheme == "https" else min(_IDLE_SECONDS, _IDLE_SECONDS_WITHOUT_TLS)


def _is_expired(idle: _Idle, now: float) -> bool:
    return idle.since <= now - _idle_seconds(idle.scheme)


def _origin(url: SplitResult) -> _Origin:
    return url.scheme, url.netloc


async def _close(connections: list["HttpConnection"]) -> None:
    if not connections:
        return
    with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
        if len(connections) == 1:
            await connections[0].aclose()
            return
        async with anyio.create_task_group() as task_group:
            for connection in connections:
                task_group.start_soon(connection.aclose)


class _Shelved(Struct, eq=False):
    pacer: Pacer
    users: int = 0


class PacerShelf:
    """Keeps pacers by key. Belongs to one event loop.

    Args:
        make: Makes the pacer of a key; None for a pacer of this event loop.
        most_idle: The number of idle ones that are kept; those that were used last.
    """

    def __init__(self, *, make: Callable[[Hashable], Pacer] | None = None, most_idle: int = 100) -> None:
        self._make = make
        self._most_idle = most_idle
        self._used: dict[Hashable, _Shelved] = {}
        self._idle: dict[Hashable, _Shelved] = {}  # in the order of their last use

    def __len__(self) -> int:
        """Return the number of pacers."""
        return len(self._used) + len(self._idle)

    def take(self, key: Hashable) -> Pacer:
        """The pacer of that key; it stays until all its users have released it.

        Args:
            key: The identity of the endpoint and the key.
        """
        shelved = self._used.get(key) or self._idle.pop(key, None)
        if shelved is None:
            shelved = _Shelved(Pacer() if self._make is None else self._make(key))
        self._used[key] = shelved
        shelved.users += 1
        return shelved.pacer

    def give_back(self, key: Hashable) -> None:
        """Release the pacer of that key by one user.

        Args:
            key: The identity of the endpoint and the key.
        """
        shelved = self._used[key]
        shelved.users -= 1
        if shelved.users == 0:
            self._idle[key] = self._used.pop(key)
            while len(self._idle) > self._most_idle:
                del self._idle[next(iter(self._idle))]


def pool_of_run() -> AbstractAsyncContextManager[HttpPool]:
    """The pool of the active run; without a run, one for the request alone."""
    return shared_in_run("http pool", open_http_pool)


def pacer_of_run(key: Hashable) -> AbstractAsyncContextManager[Pacer]:
    """The pacer that the active run keeps for an endpoint and a key; without a run, one for the request.

    Args:
        key: The identity of the endpoint and the key.
    """
    return _PacerOfRun(key)


async def shelf_of_run() -> PacerShelf:
    """Return the shelf that the active run keeps; without a run, a new one."""
    return await shared_in_run("pacers", _open_shelf).__aenter__()


class _PacerOfRun(AbstractAsyncContextManager[Pacer]):
    """A context manager; not a generator, because every request enters one."""

    __slots__ = ("_key", "_shared", "_shelf")

    def __init__(self, key: Hashable) -> None:
        self._key = key
        self._shared = shared_in_run("pacers", _open_shelf)

    async def __aenter__(self) -> Pacer:
        self._shelf = await self._shared.__aenter__()
        return self._shelf.take(self._key)

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._shelf.give_back(self._key)
        await self._shared.__aexit__(exception_type, exception, traceback)


@asynccontextmanager
async def _open_shelf() -> AsyncGenerator[PacerShelf, None]:
    yield PacerShelf(make=PACER_MAKER.get())

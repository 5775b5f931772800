"""The connections of the pool, their errors, and httpx's transports. Imported on first use.

httpx's own pool is not used: its bookkeeping is quadratic in the requests in flight, and it loses a slot when
a request is cancelled while it connects. A connection here may be one of our own (`http_socket`) or, through
a proxy, httpx's; `http_pool` assigns them to requests.

httpx's holds a pool of connections, even of one: a request through it passes five generators, four cancel
scopes and two writes. That was a third of the cost of a step apart from its model.
"""

import functools
import math
import socket
import ssl
from collections.abc import AsyncIterator, Hashable, Iterator, Mapping
from typing import cast
from urllib.parse import SplitResult

import anyio

from ..errors import ConfigurationError, ConnectTimeoutError, ModelConnectionError
from .endpoint import Proxy, proxy_for
from .http_library import httpx
from .http_plain import write_head
from .http_socket import HttpSocket, RequestHead, ResponseHead

_MOST_HEADS = 64


class SingleConnectionTransport(httpx.AsyncBaseTransport):
    """One connection as a transport of httpx; see `HttpSocket`. It serves requests of one origin.

    Args:
        ssl_context: The context that verifies the server; None for a plain connection.
        connecting: The limit of connections that are being opened; a request waits for it before its
            timeout `connect` begins.
    """

    def __init__(self, *, ssl_context: ssl.SSLContext | None, connecting: anyio.Semaphore) -> None:
        self._ssl_context = ssl_context
        self._connecting = connecting
        self._connection: HttpSocket | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and wait for the head of the response.

        Args:
            request: The request. The extension `timeout` may hold `connect`, in seconds. The extension
                `sni_hostname` is the name that the server's certificate must have, for a URL with an address.

        Raises:
            httpx.TransportError: There is no connection, or it broke, or the answer was no HTTP.
        """
        body = b"".join([chunk async for chunk in cast("AsyncIterator[bytes]", request.stream)])
        connection = self._connection
        if connection is None:
            connection = self._connection = HttpSocket(
                request.url.raw_host.decode("ascii"),
                request.url.port or (80 if self._ssl_context is None else 443),
                ssl_context=self._ssl_context,
                connecting=self._connecting,
                server_name=request.extensions.get("sni_hostname"),
            )
        headers = {name: value for name, value in request.headers.items() if name != "content-length"}
        head = request_head(request.method, request.url.raw_path, headers, has_length=bool(body))
        timeout = request.extensions.get("timeout", {}).get("connect")
        response = await connection.send(head, body, connect_timeout=timeout)
        return httpx.Response(
            response.status,
            headers=[(name.encode(), value.encode()) for name, value in response.headers.items()],
            stream=_ResponseBody(connection),
        )

    async def aclose(self) -> None:
        """Close the connection, whatever is going on."""
        if self._connection is not None:
            await self._connection.aclose()


class _ResponseBody(httpx.AsyncByteStream):
    """The body of the response that a connection is about to receive; no generator."""

    def __init__(self, connection: HttpSocket) -> None:
        self._connection = connection

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        data = await self._connection.receive()
        if not data:
            raise StopAsyncIteration
        return data

    async def aclose(self) -> None:
        await self._connection.end_response()


class HttpConnection:
    """One connection, used by one request at a time.

    Args:
        url: Any URL of the origin to connect to.
        connecting: The limit of connections that are being opened; each waits for its turn.
        keepalive_seconds: The longest idle time after which it is still reused, in seconds.
        heads: The heads of requests that were made so far, shared by connections.

    Raises:
        ConfigurationError: The URL cannot be requested, or the machine's settings name a proxy that cannot be
            used.
    """

    def __init__(
        self,
        url: SplitResult,
        *,
        connecting: anyio.Semaphore,
        keepalive_seconds: float,
        heads: "RequestHeads",
    ) -> None:
        proxy = proxy_for(url)
        self._wire: HttpSocket | _ProxiedConnection
        if proxy is None:
            ssl_context = verifying_context() if url.scheme == "https" else None
            parsed = _parsed(url)
            port = parsed.port or (80 if ssl_context is None else 443)
            host = parsed.raw_host.decode("ascii")
            self._wire = HttpSocket(host, port, ssl_context=ssl_context, connecting=connecting)
        else:
            self._wire = _ProxiedConnection(url, proxied_transport(proxy, keepalive_seconds))
        self._heads = heads
        self._is_receiving = False
        self._is_kept = False
        self._place = url.netloc if proxy is None else f"{url.netloc} through {proxy}"
        self.was_cut = False
        """Whether the server broke off the last response's body before its end."""
        self.is_reusable = False
        """Whether the last response was read to its end and the server keeps the connection open."""

    @property
    def was_sent(self) -> bool:
        """Whether the server may have received the last request."""
        return self._wire.was_sent

    @property
    def is_at_end(self) -> bool:
        """Whether the response has arrived as a whole, so that reading on waits for nothing."""
        return not self._is_receiving or self._wire.is_kept

    async def send(
        self,
        url: SplitResult,
        headers: Mapping[str, str],
        body: bytes,
        *,
        connect_timeout: float,
        method: str = "POST",
    ) -> ResponseHead:
        """Send a request and wait for the head of the response.

        Args:
            url: The URL.
            headers: The headers.
            body: The body.
            connect_timeout: Seconds to wait for the connection, from its turn on.
            method: The HTTP method.

        Raises:
            ModelConnectionError: There is no connection, or it broke.
            ConnectTimeoutError: The connection was not made in time.
            ConfigurationError: The URL cannot be requested.
        """
        self.is_reusable = self._is_receiving = self._wire.was_sent = False
        request = self._heads.of(method, url, headers)
        try:
            head = await self._wire.send(request, body, connect_timeout=connect_timeout)
        except httpx.ConnectTimeout as error:
            raise ConnectTimeoutError(
                f"no connection to {self._place} within {connect_timeout:g} seconds (connect_timeout)",
                is_transient=True,
            ) from error
        except (httpx.ConnectError, httpx.ProxyError) as error:
            raise connect_error(error, self._place) from error
        except httpx.TransportError as error:
            raise self._broken(error) from error
        # llama.cpp's server closes after a stream although it promises to keep; a request sent before that
        # arrives would be lost.
        self._is_kept = not head.is_last and head.headers.get("server") != "llama.cpp"
        self._is_receiving = True
        return head

    async def receive(self) -> bytes:
        """More of the response's body, as it arrives; empty at its end.

        A body that the server broke off ends like a complete one, but leaves the connection unusable: the
        protocol decides whether the response is complete.

        Raises:
            ModelConnectionError: The connection broke.
        """
        if not self._is_receiving:
            return b""
        self._is_receiving = False  # if it fails or is cancelled: nothing more comes, and it is not reusable
        try:
            chunk = await self._wire.receive()
        except httpx.RemoteProtocolError:
            self.was_cut = True
            return b""
        except httpx.TransportError as error:
            raise self._broken(error) from error
        if chunk:
            self._is_receiving = True
        else:
            await self._wire.end_response()
            self.is_reusable = self._is_kept
        return chunk

    async def aclose(self) -> None:
        """Close the connection, whatever is going on."""
        self._is_receiving = self.is_reusable = False
        await self._wire.aclose()

    def _broken(self, error: httpx.TransportError) -> ModelConnectionError:
        reason = str(error) or type(error).__name__
        return ModelConnectionError(f"the connection to {self._place} broke: {reason}", is_transient=True)


class RequestHeads:
    """Makes the heads of requests, and caches the last ones: those of an endpoint are mostly the same.

    It belongs to a pool, so that credentials in headers are dropped with it.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, RequestHead] = {}

    def of(self, method: str, url: SplitResult, headers: Mapping[str, str]) -> RequestHead:
        """The head of a request.

        Args:
            method: The HTTP method.
            url: The URL.
            headers: The headers; names in lower case.

        Raises:
            ConfigurationError: The URL cannot be requested.
        """
        key = (method, url, *headers.items())
        head = self._known.get(key)
        if head is None:
            if len(self._known) >= _MOST_HEADS:
                self._known.clear()
            head = self._known[key] = self._make(method, url, headers)
        return head

    def _make(self, method: str, url: SplitResult, headers: Mapping[str, str]) -> RequestHead:
        sized = {"host": url.netloc, **headers}
        sized.pop("content-length", None)
        try:
            return request_head(method, _parsed(url).raw_path, sized)
        except UnicodeError:  # its message may quote a key
            pass
        raise _unusable(url)


def request_head(
    method: str, target: bytes, headers: Mapping[str, str], *, has_length: bool = True
) -> RequestHead:
    """The head of a request, written in advance if it is plain.

    Args:
        method: The HTTP method, in capitals.
        target: The path and query.
        headers: The headers without the length; names in lower case.
        has_length: Whether it gives the length of the body.

    Raises:
        UnicodeError: A header is not in ASCII.
    """
    return RequestHead(method, target, headers, write_head(method, target, headers), has_length)


class _ProxiedConnection:
    """One connection through a proxy, by httpx, as `HttpSocket` is one without."""

    def __init__(self, url: SplitResult, transport: httpx.AsyncHTTPTransport) -> None:
        self._origin = f"{url.scheme}://{url.netloc}"
        self._transport = transport
        self._chunks: AsyncIterator[bytes] | None = None
        self._response: httpx.Response | None = None
        self.is_kept = False
        self.was_sent = False

    async def send(self, request: RequestHead, body: bytes, *, connect_timeout: float) -> ResponseHead:
        connecting = anyio.CancelScope(deadline=anyio.current_time() + connect_timeout)
        content = _RequestBody(body, connecting)
        sent = httpx.Request(
            request.method,
            httpx.URL(self._origin).copy_with(raw_path=request.target),
            headers={**request.headers, "content-length": str(len(body))},
            stream=content,
        )
        sent.extensions["timeout"] = {
            "connect": connect_timeout,
            "read": None,
            "write": None,
            "pool": None,
        }
        self._response = None
        try:
            with connecting:
                self._response = await self._transport.handle_async_request(sent)
        finally:
            self.was_sent = content.was_taken
        if (response := self._response) is None:  # httpx waits without end for the proxy's answer to CONNECT
            raise httpx.ConnectTimeout("the proxy did not make the connection in time")
        is_last = "close" in response.headers.get("connection", "").lower()
        is_last = is_last or response.http_version != "HTTP/1.1"
        return ResponseHead(response.status_code, dict(response.headers.items()), is_last)

    async def receive(self) -> bytes:
        if self._response is None:
            return b""
        if self._chunks is None:
            self._chunks = aiter(cast("httpx.AsyncByteStream", self._response.stream))
        try:
            return await anext(self._chunks, b"")
        except httpx.RemoteProtocolError:
            self._chunks = self._response = None
            raise
        except BaseException:
            self._response = None
            raise

    async def end_response(self) -> None:
        if self._response is not None:
            await self._response.aclose()
        self._chunks = self._response = None

    async def aclose(self) -> None:
        await self._transport.aclose()
        # The rest of the response is a chain of suspended generators. On the closed connection each of them
        # ends with an exception; if they were left to the garbage collector, Trio would warn about them.
        while self._chunks is not None:
            try:
                await anext(self._chunks)
            except (httpx.TransportError, StopAsyncIteration):
                self._chunks = None
        self._response = None


class _RequestBody(httpx.AsyncByteStream):
    """A request's body. httpx's own is a generator, which a cancelled request would leave suspended.

    Args:
        content: The body.
        connecting: Loses its deadline when the body is taken, since there is a connection then.
    """

    def __init__(self, content: bytes, connecting: anyio.CancelScope) -> None:
        self._content = [content]
        self._connecting = connecting

    @property
    def was_taken(self) -> bool:
        """Whether there was a connection to send it on."""
        return not self._content

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._content:
            raise StopAsyncIteration
        self._connecting.deadline = math.inf
        return self._content.pop()


def proxied_transport(proxy: Proxy, keepalive_seconds: float) -> httpx.AsyncHTTPTransport:
    """One connection of httpx through a proxy.

    Args:
        proxy: The proxy.
        keepalive_seconds: The longest idle time after which it is still reused, in seconds.

    Raises:
        ConfigurationError: The proxy cannot be used.
    """
    try:
        return httpx.AsyncHTTPTransport(
            verify=verifying_context(),
            limits=httpx.Limits(
                max_connections=1, max_keepalive_connections=1, keepalive_expiry=keepalive_seconds
            ),
            proxy=proxy.url,
        )
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        reason = (
            "SOCKS needs the package socksio" if isinstance(error, ImportError) else "its URL is malformed"
        )
    raise ConfigurationError(f"{proxy} cannot be used: {reason}.")


def _unusable(url: SplitResult) -> ConfigurationError:
    return ConfigurationError(f"No request can be sent to {url.netloc!r}: the URL is malformed or too long.")


def wire_url(url: SplitResult) -> str:
    """The URL as its request is sent: with the path and query in the form of the request line.

    Args:
        url: The URL.

    Raises:
        ConfigurationError: No request can be sent there.
    """
    return f"{url.scheme}://{url.netloc}{_parsed(url).raw_path.decode('ascii')}"


def _parsed(url: SplitResult) -> httpx.URL:
    try:
        return _url(url)
    except (httpx.InvalidURL, UnicodeError):  # the message of either may quote a key
        pass
    raise _unusable(url)


# A program has few endpoints, and parsing takes longer than everything else.
@functools.lru_cache(maxsize=256)
def _url(url: SplitResult) -> httpx.URL:
    return httpx.URL(url.geturl())


_WANTS = (ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""Exceptions that a handshake raises in progress; they are then the context of the error that ends it."""


def connect_error(error: BaseException, place: str) -> ModelConnectionError:
    """The error of a connection that could not be made.

    Args:
        error: The error, with its causes.
        place: The name of the server, and of the proxy before it.
    """
    reason, is_transient = "", True
    for each in _chain(error):
        if isinstance(each, socket.gaierror):
            reason = "the host name cannot be resolved"
            is_transient = each.errno == socket.EAI_AGAIN
        elif isinstance(each, ConnectionRefusedError):
            reason = "connection refused"
        elif isinstance(each, ssl.SSLError) and not isinstance(each, _WANTS):
            reason = f"no secure connection: {each.reason or each}"
            is_transient = isinstance(each, ssl.SSLEOFError)  # it broke, for no other known reason
    reason = reason or str(error) or type(error).__name__
    return ModelConnectionError(f"cannot connect to {place}: {reason}", is_transient=is_transient)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, its causes, and the members of exception groups among them."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for member in cast("BaseExceptionGroup[BaseException]", error).exceptions:
                yield from _chain(member)
        error = error.__cause__ or error.__context__


@functools.cache
def verifying_context() -> ssl.SSLContext:
    """The SSL context of every secure connection, shared because it takes longer to load than a handshake."""
    context = httpx.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context

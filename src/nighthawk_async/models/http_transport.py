"""One HTTP connection over httpx, and the translation of its errors. Imported on first use.

httpx's own pool is not used: its bookkeeping is quadratic in the requests in flight, and it loses a slot when
a request is cancelled while it connects. A connection here is a transport that may hold one connection, one
of our own or, through a proxy, httpx's; `http_pool` assigns them to requests.

Our own transport is one HTTP/1.1 connection on AnyIO and h11. httpx's holds a pool of connections, even of
one: a request through it passes five generators, four cancel scopes and two writes. That was a third of the
cost of a step apart from its model. This one serves requests one at a time, writes each at once, and manages
only its own connection.
"""

import functools
import select
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import cast
from urllib.parse import SplitResult

import anyio
import h11
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSAttribute

from ..errors import ConfigurationError, ConnectTimeoutError, ModelConnectionError
from .endpoint import Proxy, proxy_for
from .http_library import httpx

_MOST_BYTES_AT_ONCE = 65_536
_MOST_HEAD_BYTES = 100 * 1024


class SingleConnectionTransport(httpx.AsyncBaseTransport):
    """Connects with the first request, and again when the server has closed the connection meanwhile.

    A request that failed or was cancelled leaves it closed; such a response does once it is closed. It raises
    httpx's errors.

    Args:
        ssl_context: The context that verifies the server; None for a plain connection.
        connecting: The limit of connections that are being opened; a request waits for it before its
            timeout `connect` begins.
    """

    def __init__(self, *, ssl_context: ssl.SSLContext | None, connecting: anyio.Semaphore) -> None:
        self._ssl_context = ssl_context
        self._connecting = connecting
        self._stream: ByteStream | None = None
        self._socket: socket.socket | None = None
        self._secure: ssl.SSLObject | None = None
        self._protocol = _client()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and wait for the head of the response.

        Args:
            request: The request. The extension `timeout` may hold `connect`, in seconds. The extension
                `sni_hostname` is the name that the server's certificate must have, for a URL with an address.

        Raises:
            httpx.TransportError: There is no connection, or it broke, or the answer was no HTTP.
        """
        try:
            stream = await self._connected(request)
            await self._send(stream, request)
            head = await self._receive_head()
        except BaseException:
            await self.aclose()
            raise
        return httpx.Response(
            head.status_code,
            headers=list(head.headers),
            stream=_ResponseBody(self),
            extensions={"http_version": b"HTTP/" + head.http_version},
        )

    async def aclose(self) -> None:
        """Close the connection, whatever is going on."""
        stream, self._stream = self._stream, None
        if stream is not None:
            await anyio.aclose_forcefully(stream)

    async def next_data(self) -> bytes:
        """Wait for more of the response's body and return all that has arrived; empty at its end.

        Raises:
            httpx.TransportError: The connection broke.
        """
        if self._protocol.their_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED):
            return b""
        while True:
            event: h11.Event | type[h11.NEED_DATA] = await self._next_event()
            data = bytearray()
            with suppress(httpx.RemoteProtocolError):  # raised again when more is read than arrived before it
                while isinstance(event, h11.Data):
                    data += event.data
                    event = self._event_nowait()
            if data or event is not h11.NEED_DATA:
                return bytes(data)

    async def end_response(self) -> None:
        """Keep the connection for another request if nothing came after the response; otherwise close it."""
        protocol = self._protocol
        is_over = protocol.our_state is h11.DONE and protocol.their_state is h11.DONE
        if is_over and protocol.trailing_data == (b"", False):
            protocol.start_next_cycle()
        else:
            await self.aclose()

    async def _connected(self, request: httpx.Request) -> ByteStream:
        if self._stream is not None and not (_has_news(self._socket) or _has_secure_news(self._secure)):
            return self._stream
        await self.aclose()
        self._protocol = _client()
        url = request.url
        port = url.port or (80 if self._ssl_context is None else 443)
        async with self._connecting:  # entering it lets other tasks run first
            stream = self._stream = await self._connect(url.raw_host.decode("ascii"), port, request)
        self._socket = stream.extra(SocketAttribute.raw_socket)
        self._secure = None if self._ssl_context is None else stream.extra(TLSAttribute.ssl_object)
        return stream

    async def _connect(self, host: str, port: int, request: httpx.Request) -> ByteStream:
        try:
            with anyio.fail_after(request.extensions.get("timeout", {}).get("connect")):
                if self._ssl_context is None:
                    return await anyio.connect_tcp(host, port)
                return await anyio.connect_tcp(
                    host,
                    port,
                    ssl_context=self._ssl_context,
                    tls_standard_compatible=False,
                    tls_hostname=request.extensions.get("sni_hostname", host),
                )
        except TimeoutError as error:
            raise httpx.ConnectTimeout(str(error)) from error
        except (anyio.BrokenResourceError, anyio.EndOfStream) as error:
            raise httpx.ConnectError("the server broke off the TLS handshake") from error
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error

    async def _send(self, stream: ByteStream, request: httpx.Request) -> None:
        """Write a request, in one piece unless it is a long one, which would be held in memory twice."""
        target, headers = request.url.raw_path, request.headers.raw
        try:
            parts = [self._protocol.send(h11.Request(method=request.method, target=target, headers=headers))]
            async for chunk in cast("AsyncIterator[bytes]", request.stream):
                parts.append(self._protocol.send(h11.Data(data=chunk)))
            parts.append(self._protocol.send(h11.EndOfMessage()))
        except h11.LocalProtocolError as error:
            raise httpx.LocalProtocolError(str(error)) from error
        pieces = [part for part in parts if part]
        if sum(map(len, pieces)) <= _MOST_BYTES_AT_ONCE:
            pieces = [b"".join(pieces)]
        try:
            for piece in pieces:
                await stream.send(piece)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError):
            return  # a server may refuse a request before it has read it; its answer gives the reason

    async def _receive_head(self) -> h11.Response:
        while True:
            event = await self._next_event()
            if type(event) is h11.Response:
                return event

    def _event_nowait(self) -> h11.Event | type[h11.NEED_DATA]:
        try:
            event = self._protocol.next_event()
        except h11.RemoteProtocolError as error:
            raise httpx.RemoteProtocolError(str(error)) from error
        if event is h11.PAUSED:
            raise httpx.RemoteProtocolError("More arrived than the response.")
        return cast("h11.Event | type[h11.NEED_DATA]", event)

    async def _next_event(self) -> h11.Event:
        while True:
            event = self._event_nowait()
            if event is not h11.NEED_DATA:
                return cast("h11.Event", event)
            data = await self._receive()
            if not data and self._protocol.their_state is h11.SEND_RESPONSE:
                raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
            self._protocol.receive_data(data)

    async def _receive(self) -> bytes:
        """Receive bytes; empty at the end."""
        if self._stream is None:
            raise httpx.ReadError("The connection is closed.")
        try:
            return await self._stream.receive(_MOST_BYTES_AT_ONCE)
        except anyio.EndOfStream:
            return b""
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            raise httpx.ReadError(str(error.__cause__ or error)) from error


class _ResponseBody(httpx.AsyncByteStream):
    """The body of the response that a connection is about to receive; no generator."""

    def __init__(self, transport: SingleConnectionTransport) -> None:
        self._transport = transport

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        data = await self._transport.next_data()
        if not data:
            raise StopAsyncIteration
        return data

    async def aclose(self) -> None:
        await self._transport.end_response()


def _client() -> h11.Connection:
    return h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEAD_BYTES)


def _has_news(raw_socket: socket.socket | None) -> bool:
    """Whether something arrived on an idle connection: usually its end, and never anything useful."""
    if raw_socket is None or raw_socket.fileno() < 0:
        return True
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([raw_socket], [], [], 0)[0])
    poll = select.poll()
    poll.register(raw_socket, select.POLLIN)
    return bool(poll.poll(0))


def _has_secure_news(secure: ssl.SSLObject | None) -> bool:
    """Whether something arrived together with the last response, for example the end of the connection."""
    if secure is None:
        return False
    try:
        secure.read(1)
    except ssl.SSLWantReadError:
        return False
    except ssl.SSLError:
        return True
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHead:
    """The status line and the headers of a response.

    Args:
        status: The HTTP status code.
        headers: The headers; names in lower case.
    """

    status: int
    headers: Mapping[str, str]


class _RequestBody(httpx.AsyncByteStream):
    """A request's body. httpx's own is a generator, which a cancelled request would leave suspended."""

    def __init__(self, content: bytes) -> None:
        self._content = [content]

    @property
    def was_taken(self) -> bool:
        """Whether there was a connection to send it on."""
        return not self._content

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._content:
            raise StopAsyncIteration
        return self._content.pop()


class HttpConnection:
    """One connection, used by one request at a time.

    Args:
        url: Any URL of the origin to connect to.
        connecting: The limit of connections that are being opened; each waits for its turn.
        keepalive_seconds: The longest idle time after which it is still reused, in seconds.

    Raises:
        ConfigurationError: The machine's settings name a proxy that cannot be used.
    """

    def __init__(self, url: SplitResult, *, connecting: anyio.Semaphore, keepalive_seconds: float) -> None:
        proxy = proxy_for(url)
        if proxy is None:
            ssl_context = verifying_context() if url.scheme == "https" else None
            self._transport = SingleConnectionTransport(ssl_context=ssl_context, connecting=connecting)
        else:
            self._transport = _proxied_transport(proxy, keepalive_seconds)
        self._chunks: AsyncIterator[bytes] | None = None
        self._response: httpx.Response | None = None
        self._place = url.netloc if proxy is None else f"{url.netloc} through {proxy}"
        self.was_sent = False
        """Whether the server may have received the last request."""
        self.was_cut = False
        """Whether the server broke off the last response's body before its end."""
        self.is_reusable = False
        """Whether the last response was read to its end and the server keeps the connection open."""

    async def send(
        self,
        url: SplitResult,
        headers: Mapping[str, str],
        body: bytes,
        *,
        connect_timeout_seconds: float,
        method: str = "POST",
    ) -> ResponseHead:
        """Send a request and wait for the head of the response.

        Args:
            url: The URL.
            headers: The headers.
            body: The body.
            connect_timeout_seconds: Seconds to wait for the connection, from its turn on.
            method: The HTTP method.

        Raises:
            ModelConnectionError: There is no connection, or it broke.
            ConnectTimeoutError: The connection was not made in time.
            ConfigurationError: The URL cannot be requested.
        """
        self.is_reusable = self.was_sent = False
        timeout = {"connect": connect_timeout_seconds, "read": None, "write": None, "pool": None}
        content = _RequestBody(body)
        request = _request(method, url, headers, len(body), content)
        request.extensions["timeout"] = timeout
        try:
            response = await self._transport.handle_async_request(request)
        except httpx.ConnectTimeout as error:
            raise ConnectTimeoutError(
                f"no connection to {self._place} within {connect_timeout_seconds:g} seconds"
                " (connect_timeout_seconds)",
                is_transient=True,
            ) from error
        except (httpx.ConnectError, httpx.ProxyError) as error:
            raise _connect_error(error, self._place) from error
        except httpx.TransportError as error:
            raise self._broken(error) from error
        finally:
            self.was_sent = content.was_taken
        self._response = response
        return ResponseHead(status=response.status_code, headers=dict(response.headers.items()))

    async def receive(self) -> bytes:
        """More of the response's body, as it arrives; empty at its end.

        A body that the server broke off ends like a complete one, but leaves the connection unusable: the
        protocol decides whether the response is complete.

        Raises:
            ModelConnectionError: The connection broke.
        """
        if self._response is None:
            return b""
        if self._chunks is None:
            self._chunks = aiter(cast("httpx.AsyncByteStream", self._response.stream))
        try:
            chunk = await anext(self._chunks, b"")
        except httpx.RemoteProtocolError:
            self._chunks = self._response = None
            self.was_cut = True
            return b""
        except httpx.TransportError as error:
            self._response = None
            raise self._broken(error) from error
        except BaseException:
            self._response = None  # cancelled: nothing more comes, and the connection is not reusable
            raise
        if not chunk:
            await self._end_response(self._response)
        return chunk

    async def aclose(self) -> None:
        """Close the connection, whatever is going on."""
        await self._transport.aclose()
        # The rest of the response is a chain of suspended generators. On the closed connection each of them
        # ends with an exception; if they were left to the garbage collector, Trio would warn about them.
        while self._chunks is not None:
            try:
                await anext(self._chunks)
            except (httpx.TransportError, StopAsyncIteration):
                self._chunks = None
        self._response = None
        self.is_reusable = False

    async def _end_response(self, response: httpx.Response) -> None:
        await response.aclose()
        self._chunks = self._response = None
        is_kept = "close" not in response.headers.get("connection", "").lower()
        # llama.cpp's server closes after a stream although it promises to keep; a request sent before that
        # arrives would be lost.
        is_kept = is_kept and response.headers.get("server") != "llama.cpp"
        self.is_reusable = is_kept and response.http_version == "HTTP/1.1"

    def _broken(self, error: httpx.TransportError) -> ModelConnectionError:
        reason = str(error) or type(error).__name__
        return ModelConnectionError(f"the connection to {self._place} broke: {reason}", is_transient=True)


def _proxied_transport(proxy: Proxy, keepalive_seconds: float) -> httpx.AsyncHTTPTransport:
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


def _request(
    method: str, url: SplitResult, headers: Mapping[str, str], length: int, content: _RequestBody
) -> httpx.Request:
    all_headers = {"host": url.netloc, **headers, "content-length": str(length)}
    try:
        return httpx.Request(method, _url(url), headers=all_headers, stream=content)
    except (httpx.InvalidURL, UnicodeError):  # the message of either may quote a key
        pass
    raise _unusable(url)


def _unusable(url: SplitResult) -> ConfigurationError:
    return ConfigurationError(f"No request can be sent to {url.netloc!r}: the URL is malformed or too long.")


def wire_url(url: SplitResult) -> str:
    """The URL as its request is sent: with the path and query in the form of the request line.

    Args:
        url: The URL.

    Raises:
        ConfigurationError: No request can be sent there.
    """
    try:
        return f"{url.scheme}://{url.netloc}{_url(url).raw_path.decode('ascii')}"
    except (httpx.InvalidURL, UnicodeError):  # the message of either may quote a key
        pass
    raise _unusable(url)


# A program has few endpoints, and parsing takes longer than everything else.
@functools.lru_cache(maxsize=256)
def _url(url: SplitResult) -> httpx.URL:
    return httpx.URL(url.geturl())


_WANTS = (ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""Exceptions that a handshake raises in progress; they are then the context of the error that ends it."""


def _connect_error(error: httpx.TransportError, place: str) -> ModelConnectionError:
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

"""One HTTP/1.1 connection as an httpx transport, on AnyIO and h11.

httpx's own transport holds a pool of connections, even where there is one: a request through it passes five
generators, four cancel scopes and two writes. Of what a step costs beside its model, that was a third. This
one serves requests one at a time, writes each at once, and looks at nothing but its own connection.
"""

import select
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from socket import socket
from typing import cast

import anyio
import h11
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSAttribute

from .http_library import httpx

__all__ = ["SingleConnectionTransport"]

_MOST_BYTES_AT_ONCE = 65_536
_MOST_HEAD_BYTES = 100 * 1024


class SingleConnectionTransport(httpx.AsyncBaseTransport):
    """Connects with the first request, and again when the server has closed the connection meanwhile.

    A request that failed or was cancelled leaves it closed; a response that did, once it is closed. What it
    raises are httpx's errors.

    Args:
        ssl_context: What the server is verified with; None for a plain connection.
        connecting: How many connections may be on their way at once; a request waits for it before its
            timeout `connect` begins.
    """

    def __init__(self, *, ssl_context: ssl.SSLContext | None, connecting: anyio.Semaphore) -> None:
        self._ssl_context = ssl_context
        self._connecting = connecting
        self._stream: ByteStream | None = None
        self._socket: socket | None = None
        self._secure: ssl.SSLObject | None = None
        self._protocol = _client()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and wait for the head of the response.

        Args:
            request: The request. The extension `timeout` may hold `connect`, in seconds.

        Raises:
            httpx.TransportError: There is no connection, or it broke, or what came was no HTTP.
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
        """All that has arrived of the response's body, after waiting for some of it; empty at its end.

        Raises:
            httpx.TransportError: The connection broke.
        """
        if self._protocol.their_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED):
            return b""
        while True:
            event: h11.Event | type[h11.NEED_DATA] = await self._next_event()
            data = bytearray()
            with suppress(httpx.RemoteProtocolError):  # raised again when more is wanted than came before it
                while isinstance(event, h11.Data):
                    data += event.data
                    event = self._event_nowait()
            if data or event is not h11.NEED_DATA:
                return bytes(data)

    async def end_response(self) -> None:
        """Be ready for another request when the response and nothing more came; otherwise close."""
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
                    host, port, ssl_context=self._ssl_context, tls_standard_compatible=False
                )
        except TimeoutError as error:
            raise httpx.ConnectTimeout(str(error)) from error
        except (anyio.BrokenResourceError, anyio.EndOfStream) as error:
            raise httpx.ConnectError("the server broke off the TLS handshake") from error
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error

    async def _send(self, stream: ByteStream, request: httpx.Request) -> None:
        """Write a request, in one piece unless it is a long one, which would be held twice."""
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
            return  # a server that refuses a request may close before it has read it; its answer says why

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


def _has_news(raw_socket: socket | None) -> bool:
    """Whether something arrived on an idle connection: as a rule its end, and nothing of use in any case."""
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

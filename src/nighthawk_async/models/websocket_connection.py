"""One WebSocket connection: opened like a connection for HTTP, with its TLS and its proxies. Loaded on use.

The protocol is `wsproto`, which does no input and output. Several tasks may send at once, and one receives.
"""

import base64
import os
import select
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import SplitResult

import anyio
import h11
import httpcore
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSAttribute

from ..errors import (
    ConfigurationError,
    ConnectTimeoutError,
    ModelConnectionError,
    ModelError,
    ModelProtocolError,
)
from ..wire.sse import DEFAULT_MAX_EVENT_BYTES
from .endpoint import Proxy, proxy_for
from .http_library import httpx
from .http_transport import connect_error, proxied_transport, verifying_context

try:
    from wsproto.connection import Connection, ConnectionState, ConnectionType
    from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage
    from wsproto.utilities import LocalProtocolError, generate_accept_token
except ImportError as error:
    raise ConfigurationError(
        "The model setting transport needs the extra 'websocket' for 'websocket' and 'auto'. Install it "
        "with: pip install 'nighthawk-async[websocket]'"
    ) from error

_RECEIVE_BYTES = 65_536
_MOST_REFUSAL_BYTES = 64 * 1024
_REFUSAL_SECONDS = 5.0
_CLOSE_SECONDS = 0.5
_DRAIN_SECONDS = 0.05
_SENT_AT_ONCE = 65_536
_FINISH_SENDING_SECONDS = 10.0
_BROKEN = (
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    httpcore.NetworkError,
    httpcore.TimeoutException,
    OSError,
)

_CLOSED_FOR_GOOD: Mapping[int, str] = {
    1002: "because of a breach of its rules",
    1003: "which it does not use for this",
    1007: "because of what a message held",
    1008: "because of its policy",
    1009: "because the request is longer than it takes this way (transport='http' sends it another way)",
    1010: "because an extension is missing",
}
"""Close codes after which the same request would not succeed."""


class _Stream(Protocol):
    """The bytes of a connection, whichever way it was opened."""

    async def send(self, data: bytes) -> None: ...

    async def receive(self) -> bytes: ...

    async def aclose(self) -> None: ...

    def has_news(self) -> bool: ...


class _OwnStream:
    """A connection of AnyIO."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._socket: socket.socket = stream.extra(SocketAttribute.raw_socket)
        self._secure: ssl.SSLObject | None = stream.extra(TLSAttribute.ssl_object, None)

    async def send(self, data: bytes) -> None:
        await self._stream.send(data)

    async def receive(self) -> bytes:
        try:
            return await self._stream.receive(_RECEIVE_BYTES)
        except anyio.EndOfStream:
            return b""

    async def aclose(self) -> None:
        await anyio.aclose_forcefully(self._stream)

    def has_news(self) -> bool:
        is_pending = self._secure is not None and self._secure.pending() > 0
        return is_pending or _is_readable(self._socket)


class _ProxiedStream:
    """A connection that httpx has opened through a proxy."""

    def __init__(self, response: httpx.Response, transport: httpx.AsyncHTTPTransport) -> None:
        self._stream: Any = response.extensions["network_stream"]
        self._transport = transport

    async def send(self, data: bytes) -> None:
        await self._stream.write(data)

    async def receive(self) -> bytes:
        return await self._stream.read(_RECEIVE_BYTES)

    async def aclose(self) -> None:
        with suppress(Exception):  # it is broken already
            await self._stream.aclose()
        await self._transport.aclose()

    def has_news(self) -> bool:
        return bool(self._stream.get_extra_info("is_readable"))


def _is_readable(connection: socket.socket) -> bool:
    if connection.fileno() < 0:
        return True
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([connection], [], [], 0)[0])
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The answer of a server that opened no WebSocket.

    Args:
        status: The HTTP status code.
        headers: The headers; names in lower case.
        body: The beginning of the body.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class WebSocketConnection:
    """An open connection. Made by `open_websocket`.

    Args:
        stream: Its bytes.
        received: Bytes that came together with the answer that opened it.
        place: The name of the server in errors.
        max_message_bytes: Bytes that a message of the server may have.
    """

    def __init__(
        self,
        stream: _Stream,
        received: bytes,
        place: str,
        *,
        max_message_bytes: int = DEFAULT_MAX_EVENT_BYTES,
    ) -> None:
        self._stream = stream
        self._protocol = Connection(ConnectionType.CLIENT, trailing_data=received)
        self._events: Iterator[Event] = self._protocol.events()
        self._place = place
        self._max_message_bytes = max_message_bytes
        self._parts: list[str] = []
        self._part_characters = 0
        self._sending = anyio.Lock()
        self._answers: list[bytes] = []  # to pings
        self._is_closed = False

    async def send(self, message: bytes, *, is_shared: bool) -> None:
        """Send a message.

        Args:
            message: The message.
            is_shared: Whether others use the connection: then a cancelled message is sent to its end, for
                some seconds, since half a message would end their responses.

        Raises:
            ModelConnectionError: The connection is broken; half of the message may have been sent.
        """
        async with self._sending:
            try:
                data = self._protocol.send(TextMessage(data=message.decode()))
            except LocalProtocolError as error:
                raise self._broken("it is closed") from error
            await self._write(data, is_shared=is_shared)
        await self._answer_pings()

    async def receive(self) -> bytes | None:
        """Wait for the next message; None for a ping or a pong, which only shows that the server is there.

        Raises:
            ModelConnectionError: The connection broke, or the server has closed it.
            ModelProtocolError: The server sent what no WebSocket, or no server of this protocol, may send.
        """
        while True:
            event = next(self._events, None)
            if event is None:
                await self._receive_bytes()
            elif isinstance(event, TextMessage):
                if (message := self._collect(event)) is not None:
                    return message
            elif isinstance(event, Ping):
                self._answers.append(self._protocol.send(event.response()))
                await self._answer_pings()
                return None
            elif isinstance(event, Pong):
                return None
            elif isinstance(event, CloseConnection):
                raise self._ended(event)
            elif isinstance(event, BytesMessage):
                raise ModelProtocolError(f"{self._place} sent a binary message over the WebSocket")

    async def drain_news(self) -> list[bytes]:
        """Read what has arrived while nobody waited: pings, usually, or the end.

        Raises:
            ModelError: As `receive` raises it.
        """
        messages: list[bytes] = []
        with anyio.move_on_after(_DRAIN_SECONDS):
            while self._stream.has_news():
                if (message := await self.receive()) is not None:
                    messages.append(message)
        return messages

    async def aclose(self, *, is_polite: bool = False) -> None:
        """Close the connection.

        Args:
            is_polite: Whether the server is told.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if is_polite and self._protocol.state in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
                data = self._protocol.send(CloseConnection(code=1000))
                with anyio.move_on_after(_CLOSE_SECONDS, shield=True), suppress(*_BROKEN):
                    await self._stream.send(data)
        finally:
            with anyio.CancelScope(shield=True):
                await self._stream.aclose()

    async def _answer_pings(self) -> None:
        # While another task sends, it answers afterwards: waiting for it would keep this one from receiving,
        # and a server may read nothing until its own messages are received.
        while self._answers and not self._sending.locked():
            async with self._sending:
                data = b"".join(self._answers)
                self._answers.clear()
                await self._write(data, is_shared=True)

    async def _write(self, data: bytes, *, is_shared: bool) -> None:
        try:
            if not is_shared:
                await self._stream.send(data)
                return
            cancelled_at = None
            for start in range(0, len(data), _SENT_AT_ONCE):
                if cancelled_at is None and anyio.current_effective_deadline() <= anyio.current_time():
                    cancelled_at = anyio.current_time()
                since = anyio.current_time() if cancelled_at is None else cancelled_at
                with anyio.CancelScope(shield=True, deadline=since + _FINISH_SENDING_SECONDS) as scope:
                    await self._stream.send(data[start : start + _SENT_AT_ONCE])
                if scope.cancelled_caught:
                    raise self._broken("the server does not read what is sent")
        except _BROKEN as error:
            raise self._broken(str(error.__cause__ or error) or type(error).__name__) from error

    async def _receive_bytes(self) -> None:
        try:
            data = await self._stream.receive()
        except _BROKEN as error:
            raise self._broken(str(error.__cause__ or error) or type(error).__name__) from error
        if not data:
            raise self._broken("the server broke it off")
        self._protocol.receive_data(data)
        self._events = self._protocol.events()

    def _collect(self, event: TextMessage) -> bytes | None:
        self._parts.append(event.data)
        self._part_characters += len(event.data)
        if self._part_characters > self._max_message_bytes:
            raise ModelProtocolError(
                f"{self._place} sent a message of over {self._max_message_bytes:,} bytes over the WebSocket"
            )
        if not event.message_finished:
            return None
        message = "".join(self._parts)
        self._parts.clear()
        self._part_characters = 0
        return message.encode()

    def _broken(self, reason: str) -> ModelConnectionError:
        return ModelConnectionError(f"the WebSocket to {self._place} broke: {reason}", is_transient=True)

    def _ended(self, event: CloseConnection) -> ModelError:
        """The error of a connection that ends: the server closed it, or has sent what is not allowed."""
        reason = f": {event.reason}" if event.reason else ""
        if self._protocol.state is ConnectionState.OPEN:  # no frame of the server's
            return ModelProtocolError(f"{self._place} broke the rules of WebSockets{reason} ({event.code})")
        message = f"{self._place} closed the WebSocket with the code {int(event.code)}{reason}"
        if event.code in _CLOSED_FOR_GOOD:
            return ModelProtocolError(f"{message}, {_CLOSED_FOR_GOOD[event.code]}")
        return ModelConnectionError(message, is_transient=True)


async def open_websocket(
    url: SplitResult, headers: Mapping[str, str], *, connect_timeout: float
) -> WebSocketConnection | Refusal:
    """Open a connection, or return the reason why the server opens none.

    Args:
        url: The URL, as for HTTP.
        headers: The headers, credentials included.
        connect_timeout: Seconds to wait for the connection, up to the answer of the server.

    Raises:
        ModelConnectionError: There is no connection, or it broke.
        ConnectTimeoutError: The connection was not made in time.
        ModelProtocolError: The server's answer breaks the rules of WebSockets.
        ConfigurationError: The machine's settings name a proxy that cannot be used.
    """
    proxy = proxy_for(url)
    place = url.netloc if proxy is None else f"{url.netloc} through {proxy}"
    key = base64.b64encode(os.urandom(16))
    asked = {
        **headers,
        "host": url.netloc,
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": key.decode(),
    }
    try:
        with anyio.fail_after(connect_timeout):
            if proxy is None:
                return await _open_directly(url, asked, key, place)
            return await _open_through(proxy, url, asked, key, place)
    except (TimeoutError, httpx.TimeoutException) as error:
        raise ConnectTimeoutError(
            f"no WebSocket to {place} within {connect_timeout:g} seconds (connect_timeout)",
            is_transient=True,
        ) from error
    except (*_BROKEN, httpx.TransportError) as error:
        raise connect_error(error, place) from error


async def _open_directly(
    url: SplitResult, headers: Mapping[str, str], key: bytes, place: str
) -> WebSocketConnection | Refusal:
    stream = _OwnStream(await _connect(url))
    try:
        http = h11.Connection(h11.CLIENT)
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        await stream.send(http.send(h11.Request(method="GET", target=target, headers=list(headers.items()))))
        await stream.send(http.send(h11.EndOfMessage()))
        answer = await _next_event(http, stream)
        if isinstance(answer, h11.InformationalResponse) and answer.status_code == 101:
            _check_accepted(dict(answer.headers), key, place)
            return WebSocketConnection(stream, http.trailing_data[0], place)
        refusal = await _read_refusal(http, stream, answer)
    except h11.RemoteProtocolError as error:
        await stream.aclose()
        raise ModelProtocolError(f"{place} does not answer with HTTP: {error}", is_transient=True) from error
    except BaseException:
        await stream.aclose()
        raise
    await stream.aclose()
    return refusal


async def _connect(url: SplitResult) -> ByteStream:
    host = url.hostname or ""
    if url.scheme == "http":
        return await anyio.connect_tcp(host, url.port or 80)
    return await anyio.connect_tcp(
        host,
        url.port or 443,
        ssl_context=verifying_context(),
        tls_standard_compatible=False,
        tls_hostname=host,
    )


async def _next_event(http: h11.Connection, stream: _OwnStream) -> Any:
    while True:
        event = http.next_event()
        if isinstance(event, h11.InformationalResponse) and event.status_code != 101:
            continue
        if event is not h11.NEED_DATA:
            return event
        data = await stream.receive()
        if not data and http.their_state is h11.SEND_RESPONSE:
            raise ConnectionResetError("the server broke it off before it was open")
        http.receive_data(data)


async def _read_refusal(http: h11.Connection, stream: _OwnStream, head: Any) -> Refusal:
    if not isinstance(head, h11.Response):
        raise h11.RemoteProtocolError("no response")
    body = bytearray()
    with anyio.move_on_after(_REFUSAL_SECONDS), suppress(h11.RemoteProtocolError, *_BROKEN):
        while len(body) < _MOST_REFUSAL_BYTES:
            event = await _next_event(http, stream)
            if not isinstance(event, h11.Data):
                break
            body += event.data
    headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
    return Refusal(status=head.status_code, headers=headers, body=bytes(body))


def _check_accepted(headers: Mapping[bytes, bytes], key: bytes, place: str) -> None:
    if headers.get(b"sec-websocket-accept") != generate_accept_token(key):
        raise ModelProtocolError(f"{place} does not answer as a server of WebSockets")
    if b"sec-websocket-extensions" in headers or b"sec-websocket-protocol" in headers:
        raise ModelProtocolError(f"{place} uses an extension of WebSockets that nobody asked for")


async def _open_through(
    proxy: Proxy, url: SplitResult, headers: Mapping[str, str], key: bytes, place: str
) -> WebSocketConnection | Refusal:
    transport = proxied_transport(proxy, 0.0)  # it is never used again
    try:
        response = await transport.handle_async_request(
            httpx.Request("GET", url.geturl(), headers=dict(headers))
        )
        if response.status_code == 101:
            answered = {name.lower(): value for name, value in response.headers.raw}
            _check_accepted(answered, key, place)
            return WebSocketConnection(_ProxiedStream(response, transport), b"", place)
        with anyio.move_on_after(_REFUSAL_SECONDS):
            await response.aread()
    except BaseException:
        with anyio.CancelScope(shield=True):
            await transport.aclose()
        raise
    await transport.aclose()
    body = response.content[:_MOST_REFUSAL_BYTES] if response.is_closed else b""
    return Refusal(status=response.status_code, headers=dict(response.headers.items()), body=body)

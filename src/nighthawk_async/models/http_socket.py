"""One HTTP/1.1 connection, over AnyIO.

It serves requests one at a time, writes each at once, and manages only its own connection. What is plain, as
nearly every request and response of a model is, is read and written by `http_plain`; everything else by h11.
"""

import select
import socket
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSAttribute
from msgspec import Struct

from ..lazy_exports import LazyModule
from .http_library import httpx
from .http_plain import PlainBody, end_head, parse_head

if TYPE_CHECKING:
    from . import http_h11
else:
    http_h11 = LazyModule(f"{__package__}.http_h11")  # most connections never need it

_MOST_BYTES_AT_ONCE = 65_536


class RequestHead(Struct, frozen=True):
    """The request line and the headers of a request.

    Args:
        method: The HTTP method, in capitals.
        target: The path and query.
        headers: The headers without the length, which follows from the body; names in lower case.
        written: The head up to the length when the request is plain; see `http_plain.write_head`.
        has_length: Whether it gives the length of the body.
    """

    method: str
    target: bytes
    headers: Mapping[str, str]
    written: bytes | None
    has_length: bool = True

    def __repr__(self) -> str:
        return f"RequestHead({self.method!r})"  # the headers hold credentials


class ResponseHead(Struct, frozen=True):
    """The status line and the headers of a response.

    Args:
        status: The HTTP status code.
        headers: The headers; names in lower case.
        is_last: Whether the server closes the connection after the response.
    """

    status: int
    headers: Mapping[str, str]
    is_last: bool


class HttpSocket:
    """Connects with the first request, and again when the server has closed the connection meanwhile.

    A request that failed or was cancelled leaves it closed; such a response does once it is closed. It raises
    httpx's errors.

    Args:
        host: The host name or address to connect to.
        port: The port.
        ssl_context: The context that verifies the server; None for a plain connection.
        connecting: The limit of connections that are being opened; a request waits for it before its
            timeout begins.
        server_name: The name that the server's certificate must have; None for the host.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        ssl_context: ssl.SSLContext | None,
        connecting: anyio.Semaphore,
        server_name: str | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self._ssl_context = ssl_context
        self._connecting = connecting
        self._server_name = server_name
        self._stream: ByteStream | None = None
        self._socket: socket.socket | None = None
        self._secure: ssl.SSLObject | None = None
        self._body: PlainBody | None = None
        self._unread = b""  # bytes of a plain body that arrived with the head
        self._exchange: http_h11.AnyExchange | None = None
        self._is_last = False
        self.was_sent = False
        """Whether the server may have received the last request."""

    async def send(self, request: RequestHead, body: bytes, *, connect_timeout: float | None) -> ResponseHead:
        """Send a request and wait for the head of the response.

        Args:
            request: The head of the request.
            body: Its body.
            connect_timeout: Seconds to wait for the connection, from its turn on; None for no limit.

        Raises:
            httpx.TransportError: There is no connection, or it broke, or the answer was no HTTP.
        """
        self.was_sent = False
        try:
            stream = await self._connected(connect_timeout)
            await self._write(stream, self._pieces(request, body))
            head = await self._receive_head(request)
        except BaseException:
            await self.aclose()
            raise
        self._is_last = head.is_last
        return head

    async def receive(self) -> bytes:
        """Wait for more of the response's body and return all that has arrived; empty at its end.

        Raises:
            httpx.TransportError: The connection broke.
        """
        while (body := self._body) is not None:
            if body.failure is not None:
                raise httpx.RemoteProtocolError(body.failure)
            if (received := self._unread) or body.is_ended:
                self._unread = b""
            elif not (received := await self._receive()):
                raise httpx.RemoteProtocolError(body.break_off())
            data = body.feed(received) if received else b""
            if body.odd is not None:
                self._exchange, self._body = http_h11.AnyExchange.of_chunks(body.odd), None
            if data or body.is_ended:
                return data
        return b"" if self._exchange is None else await self._receive_any(self._exchange)

    async def end_response(self) -> None:
        """Keep the connection for another request if nothing came after the response; otherwise close it."""
        if not self.is_kept:
            await self.aclose()
        self._body = self._exchange = None

    @property
    def is_kept(self) -> bool:
        """Whether the response was read to its end, and the connection can be used again."""
        if self._is_last or self._unread:
            return False
        if self._body is not None:
            return self._body.is_ended and not self._body.rest
        return self._exchange is not None and self._exchange.is_over

    async def aclose(self) -> None:
        """Close the connection, whatever is going on."""
        stream, self._stream = self._stream, None
        if stream is not None:
            await anyio.aclose_forcefully(stream)

    async def _connected(self, seconds: float | None) -> ByteStream:
        if self._stream is not None and not (_has_news(self._socket) or _has_secure_news(self._secure)):
            return self._stream
        await self.aclose()
        async with self._connecting:  # entering it lets other tasks run first
            stream = self._stream = await self._connect(seconds)
        self._socket = stream.extra(SocketAttribute.raw_socket)
        self._secure = None if self._ssl_context is None else stream.extra(TLSAttribute.ssl_object)
        return stream

    async def _connect(self, seconds: float | None) -> ByteStream:
        try:
            with anyio.fail_after(seconds):
                if self._ssl_context is None:
                    return await anyio.connect_tcp(self._host, self._port)
                return await anyio.connect_tcp(
                    self._host,
                    self._port,
                    ssl_context=self._ssl_context,
                    tls_standard_compatible=False,
                    tls_hostname=self._server_name or self._host,
                )
        except TimeoutError as error:
            raise httpx.ConnectTimeout(str(error)) from error
        except (anyio.BrokenResourceError, anyio.EndOfStream) as error:
            raise httpx.ConnectError("the server broke off the TLS handshake") from error
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error

    def _pieces(self, request: RequestHead, body: bytes) -> list[bytes]:
        """The bytes of a request, in one piece unless it is a long one, which would be held twice."""
        self._body, self._unread = None, b""
        if request.written is not None:
            self._exchange = None
            pieces = [end_head(request.written, len(body) if request.has_length else None), body]
        else:
            self._exchange = http_h11.AnyExchange()
            headers = [
                (name.encode("ascii"), value.encode("ascii")) for name, value in request.headers.items()
            ]
            if request.has_length:
                headers.append((b"content-length", b"%d" % len(body)))
            pieces = self._exchange.write(request.method, request.target, headers, body)
        if sum(map(len, pieces)) <= _MOST_BYTES_AT_ONCE:
            return [b"".join(pieces)]
        return pieces

    async def _write(self, stream: ByteStream, pieces: list[bytes]) -> None:
        self.was_sent = True
        try:
            for piece in pieces:
                await stream.send(piece)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError):
            return  # a server may refuse a request before it has read it; its answer gives the reason

    async def _receive_head(self, request: RequestHead) -> ResponseHead:
        exchange = self._exchange
        if exchange is None:
            received = await self._receive()
            if (plain := parse_head(received)) is not None:
                self._body, self._unread = plain.body, plain.rest
                is_last = "close" in plain.headers.get("connection", "").lower()
                return ResponseHead(plain.status, plain.headers, is_last)
            exchange = self._exchange = http_h11.AnyExchange.of_plain_request(request.method)
            exchange.feed(received)
        while (head := exchange.read_head()) is None:
            exchange.feed(await self._receive())
        return ResponseHead(head.status, head.headers, head.is_last)

    async def _receive_any(self, exchange: "http_h11.AnyExchange") -> bytes:
        while (data := exchange.read_data()) is None:
            exchange.feed(await self._receive())
        return data

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

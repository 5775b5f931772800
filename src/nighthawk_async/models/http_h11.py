"""HTTP/1.1 in any form, read and checked by h11: for what is not plain. No I/O. Imported on first use."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import cast

import h11
from msgspec import Struct

from .http_library import httpx

_MOST_HEAD_BYTES = 100 * 1024
_CHUNKED_HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class AnyHead(Struct, frozen=True):
    """The head of a response."""

    status: int
    headers: Mapping[str, str]
    is_last: bool


class AnyExchange:
    """One request and its response, in any form that h11 knows. It raises httpx's errors."""

    def __init__(self) -> None:
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEAD_BYTES)

    @classmethod
    def of_plain_request(cls, method: str) -> "AnyExchange":
        """Return the exchange whose request was plain, and was sent.

        Args:
            method: The HTTP method.
        """
        exchange = cls()
        exchange.write(method, b"/", [(b"host", b"any")], b"")
        return exchange

    @classmethod
    def of_chunks(cls, data: bytes) -> "AnyExchange":
        """Return the exchange whose response is in chunks, and was read up to one of them.

        Args:
            data: The bytes that have arrived from that chunk on.
        """
        exchange = cls.of_plain_request("POST")
        exchange.feed(_CHUNKED_HEAD)
        exchange.read_head()
        exchange.feed(data)
        return exchange

    @property
    def is_ended(self) -> bool:
        """Whether the response was read to its end."""
        return self._protocol.their_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED)

    @property
    def is_over(self) -> bool:
        """Whether the connection can be used again: both sides keep it, and nothing followed the response."""
        protocol = self._protocol
        is_done = protocol.our_state is h11.DONE and protocol.their_state is h11.DONE
        return is_done and protocol.trailing_data == (b"", False)

    def write(
        self, method: str, target: bytes, headers: Sequence[tuple[bytes, bytes]], body: bytes
    ) -> list[bytes]:
        """The bytes of a request, in pieces.

        Args:
            method: The HTTP method.
            target: The path and query.
            headers: The headers.
            body: The body.

        Raises:
            httpx.LocalProtocolError: The request cannot be sent.
        """
        protocol = self._protocol
        try:
            pieces = [protocol.send(h11.Request(method=method, target=target, headers=list(headers)))]
            if body:
                pieces.append(protocol.send(h11.Data(data=body)))
            pieces.append(protocol.send(h11.EndOfMessage()))
        except h11.LocalProtocolError as error:
            raise httpx.LocalProtocolError(str(error)) from error
        return [piece for piece in pieces if piece]

    def feed(self, data: bytes) -> None:
        """Take bytes as they arrived; empty at the end of the connection.

        Raises:
            httpx.RemoteProtocolError: It ended, and no response had begun.
        """
        if not data and self._protocol.their_state is h11.SEND_RESPONSE:
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
        self._protocol.receive_data(data)

    def read_head(self) -> AnyHead | None:
        """The head of the response; None as long as it needs more bytes.

        Raises:
            httpx.RemoteProtocolError: What arrived is no HTTP.
        """
        while True:
            event = self._event()
            if event is h11.NEED_DATA:
                return None
            if isinstance(event, h11.Response):
                headers = httpx.Headers(list(event.headers))
                is_last = event.http_version != b"1.1" or "close" in headers.get("connection", "").lower()
                return AnyHead(event.status_code, dict(headers.items()), is_last)

    def read_data(self) -> bytes | None:
        """The bytes of the body that have arrived; empty at its end, None as long as it needs more bytes.

        Raises:
            httpx.RemoteProtocolError: What arrived is no HTTP, or ends too early.
        """
        if self.is_ended:
            return b""
        event = self._event()
        data = bytearray()
        with suppress(httpx.RemoteProtocolError):  # raised again when more is read than arrived before it
            while isinstance(event, h11.Data):
                data += event.data
                event = self._event()
        return None if event is h11.NEED_DATA and not data else bytes(data)

    def _event(self) -> h11.Event | type[h11.NEED_DATA]:
        try:
            event = self._protocol.next_event()
        except h11.RemoteProtocolError as error:
            raise httpx.RemoteProtocolError(str(error)) from error
        if event is h11.PAUSED:
            raise httpx.RemoteProtocolError("More arrived than the response.")
        return cast("h11.Event | type[h11.NEED_DATA]", event)

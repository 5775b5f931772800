"""One client that reads an event stream over one HTTP response: its request, and the delivery."""

import math
from collections.abc import Callable, Sequence
from http import HTTPStatus

import anyio
from anyio.lowlevel import checkpoint
from msgspec import Struct

from ..actors import BareTaskGroup
from .event_stream_encoding import HEARTBEAT
from .event_stream_live import LiveStream, find_seen
from .protocol import AsgiScope, Message, Receive, Send
from .work import ActiveRequest

HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
    "x-content-type-options": "nosniff",
}

_FIRST_BYTE_SECONDS = 1.0
"""Time for which an error that comes before anything has begun can still become a status."""

_GIVE_WAY_SECONDS = 1.0
"""Time to end the response."""


class Delivery:
    """Sends new events as fast as the client takes them.

    Args:
        stream: The stream.
        receive: Receives the next message of the server.
        send: Sends messages to the server.
        start: The message that begins the response.
        heartbeat_seconds: The number of seconds without an event after which a comment is sent; None for
            never.
    """

    def __init__(
        self,
        stream: LiveStream,
        receive: Receive,
        send: Send,
        *,
        start: Message,
        heartbeat_seconds: float | None,
    ) -> None:
        self._stream = stream
        self._receive = receive
        self._send = send
        self._start = start
        self._heartbeat_seconds = math.inf if heartbeat_seconds is None else heartbeat_seconds
        self.on_disconnect: Callable[[], bool] = bool
        """Called when the server reports that the client has left; returns whether the delivery continues."""
        self.is_started = False
        """Whether anything was sent."""
        self._is_at_end = False

    async def carry_out(self, has_failed: Callable[[], bool] | None = None) -> None:
        """Send until all events were sent, the client leaves, or another client takes over.

        Args:
            has_failed: Returns whether there is an error that the caller reports. It is called before
                anything is sent; if it returns True, nothing is sent. None when the caller reports none.
        """
        try:
            async with BareTaskGroup() as helpers:
                helpers.start_soon(self._listen, helpers.cancel_scope)
                helpers.start_soon(self._give_way, helpers.cancel_scope)
                if has_failed is None or not await self._has_soon(has_failed):
                    await self._send_news()
                helpers.cancel_scope.cancel()
        finally:
            self._stream.detach(self)

    async def _listen(self, scope: anyio.CancelScope) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            await checkpoint()
        if self.on_disconnect():
            return
        if self._is_at_end:  # servers report it once they have everything, maybe before they are done
            await anyio.sleep(_GIVE_WAY_SECONDS)
        scope.cancel()

    async def _give_way(self, scope: anyio.CancelScope) -> None:
        """End when another reader takes over. A dead connection takes nothing, not even the end."""
        while self._stream.reader is self:
            await self._stream.wait_for_change()
        await anyio.sleep(_GIVE_WAY_SECONDS)
        scope.cancel()

    async def _has_soon(self, has_failed: Callable[[], bool]) -> bool:
        """Wait for the first events, and return whether there was an error instead."""
        with anyio.move_on_after(_FIRST_BYTE_SECONDS):
            while not self._stream.has_begun:
                await self._stream.wait_for_change()
        return has_failed()

    async def _send_news(self) -> None:
        try:
            self.is_started = True
            await self._send(self._start)
            while self._stream.reader is self and not self._stream.is_sent:
                await self._send_body(self._stream.take() or await self._wait_for_news())
            self._is_at_end = True
            await self._send_body(b"", is_last=True)
        except OSError:  # the client has left; servers raise it from version 2.4 of ASGI on
            await checkpoint()

    async def _wait_for_news(self) -> bytes:
        """Wait for new events; return the bytes to send when there are none."""
        with anyio.move_on_after(self._heartbeat_seconds) as quiet:
            await self._stream.wait_for_change()
        return HEARTBEAT if quiet.cancelled_caught else b""

    async def _send_body(self, body: bytes, *, is_last: bool = False) -> None:
        await checkpoint()  # servers do not yield while their buffer has room
        if body or is_last:
            await self._send({"type": "http.response.body", "body": body, "more_body": not is_last})


class StreamClient(Struct, frozen=True, kw_only=True, eq=False):
    """The client of an event stream.

    Args:
        asgi_scope: The request.
        receive: Receives the next message of the server.
        send: Sends messages to the server.
        request: The request as the middleware knows it; None outside a middleware.
        headers: The headers of a response that is an event stream.
        heartbeat_seconds: The number of seconds without an event after which a comment is sent; None for
            never.
    """

    asgi_scope: AsgiScope
    receive: Receive
    send: Send
    request: ActiveRequest | None
    headers: Sequence[tuple[bytes, bytes]]
    heartbeat_seconds: float | None

    @property
    def path(self) -> str:
        """The path of the request."""
        return str(self.asgi_scope.get("path", ""))

    @property
    def seen(self) -> str:
        """The id of the last event that it has received; empty when it does not resume a stream."""
        return find_seen(self.asgi_scope)

    @property
    def request_id(self) -> str | None:
        """The id of the request, when it has one."""
        return None if self.request is None else self.request.request_id

    @property
    def has_left(self) -> bool:
        """Whether the client has left, and the request was asked to end for that reason."""
        return self.request is not None and self.request.work.end_reason == "disconnected"

    def delivery(self, stream: LiveStream) -> Delivery:
        """Return a delivery of the stream to this client; run it to send the response.

        Args:
            stream: The stream.
        """
        return Delivery(
            stream,
            self.receive,
            self.send,
            start=_start(HTTPStatus.OK, self.headers),
            heartbeat_seconds=self.heartbeat_seconds,
        )

    async def answer(self, status: HTTPStatus, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        """Answer without a body.

        Args:
            status: The status.
            headers: The headers.
        """
        await self.send(_start(status, headers))
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})


def _start(status: HTTPStatus, headers: Sequence[tuple[bytes, bytes]]) -> Message:
    return {"type": "http.response.start", "status": status.value, "headers": list(headers)}

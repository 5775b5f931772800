"""One request for an event stream: what its client wants, and how it is answered."""

from collections.abc import Sequence
from http import HTTPStatus

from msgspec import Struct

from .event_stream_delivery import Delivery
from .event_stream_live import LiveStream, find_seen
from .protocol import AsgiScope, Message, Receive, Send
from .request_in_force import RequestInForce

__all__ = ["StreamClient"]


class StreamClient(Struct, frozen=True, kw_only=True, eq=False):
    """The client of an event stream.

    Args:
        asgi_scope: The request.
        receive: Gives the next message of the server.
        send: Takes the messages for the server.
        request: The request as the middleware knows it; None outside one.
        headers: The headers of a response that is an event stream.
        heartbeat_seconds: After how many seconds without an event a comment is sent; None for never.
    """

    asgi_scope: AsgiScope
    receive: Receive
    send: Send
    request: RequestInForce | None
    headers: Sequence[tuple[bytes, bytes]]
    heartbeat_seconds: float | None

    @property
    def path(self) -> str:
        """The path that it asks for."""
        return str(self.asgi_scope.get("path", ""))

    @property
    def seen(self) -> str:
        """The id of the last event that it has received; empty when it does not come back."""
        return find_seen(self.asgi_scope)

    @property
    def request_id(self) -> str | None:
        """The id of the request, when it has one."""
        return None if self.request is None else self.request.request_id

    @property
    def has_left(self) -> bool:
        """Whether the client has left, and the request was asked to end for that."""
        return self.request is not None and self.request.work.end_reason == "disconnected"

    def delivery(self, stream: LiveStream) -> Delivery:
        """Answers with a stream, once it is carried out.

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

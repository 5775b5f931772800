"""One connection of a `ModelServer`: reads requests, writes replies, and breaks off as told. Floor 5."""

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

import anyio
import h11
from anyio.abc import SocketStream

from .model_reply import ModelReply, RecordedRequest, ReplyPacing
from .model_server_chat import ChatReplies

__all__ = ["ServerConnection"]

_RECEIVE_BYTES = 65_536


class ServerConnection:
    """Serves one client until it leaves or a reply ends the connection.

    Args:
        stream: The connection; it is closed at the end.
        protocol: Writes replies.
        decide: Decides the reply to a request.
    """

    def __init__(
        self,
        stream: SocketStream,
        protocol: ChatReplies,
        decide: Callable[[RecordedRequest], Awaitable[ModelReply]],
    ) -> None:
        self._stream = stream
        self._protocol = protocol
        self._decide = decide
        self._http = h11.Connection(h11.SERVER)

    async def serve(self) -> None:
        """Serve the client."""
        async with self._stream:
            try:
                while (request := await self._read_request()) is not None:
                    if not await self._reply_unless_left(request):
                        return
                    self._http.start_next_cycle()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, h11.ProtocolError):
                return  # the client left, or speaks no HTTP

    async def _read_request(self) -> RecordedRequest | None:
        head: h11.Request | None = None
        content: list[bytes] = []
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._receive())
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                content.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                return _record(head, b"".join(content))
            else:
                return None

    async def _receive(self) -> bytes:
        try:
            return await self._stream.receive(_RECEIVE_BYTES)
        except anyio.EndOfStream:
            return b""

    async def _reply_unless_left(self, request: RecordedRequest) -> bool:
        """Reply, but stop at once when the client leaves; returns whether the connection goes on."""
        goes_on = False
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(self._wait_until_left, task_group.cancel_scope)
            reply = await self._decide(request)
            with suppress(anyio.BrokenResourceError):  # the client left
                goes_on = await self._write_reply(reply, request)
            task_group.cancel_scope.cancel()
        return goes_on

    async def _wait_until_left(self, scope: anyio.CancelScope) -> None:
        with suppress(anyio.BrokenResourceError):
            while data := await self._receive():
                self._http.receive_data(data)
        scope.cancel()

    async def _write_reply(self, reply: ModelReply, request: RecordedRequest) -> bool:
        pieces, content_type = self._render(reply, request)
        headers = {
            "content-type": content_type,
            **{name.lower(): value for name, value in reply.headers.items()},
        }
        if reply.ending == "hang" and reply.ending_after == 0:
            await anyio.sleep_forever()
        await anyio.sleep(reply.pacing.first_byte_seconds)
        await self._send(h11.Response(status_code=reply.status, headers=list(headers.items())))
        for number, piece in enumerate(pieces):
            if number:
                await anyio.sleep(reply.pacing.between_writes_seconds)
            await self._send(h11.Data(data=piece))
        return await self._end(reply)

    def _render(self, reply: ModelReply, request: RecordedRequest) -> tuple[list[bytes], str]:
        """The writes of the body, and its type."""
        body = cast("dict[str, Any]", request.body)  # anything else has got an error status
        is_streamed = reply.status == 200 and body.get("stream") is True
        if reply.body is not None:
            events = [reply.body]
        elif reply.status != 200:
            events = [self._protocol.error(reply)]
        elif is_streamed:
            events = self._protocol.stream(reply, body)
        else:
            events = [self._protocol.whole(reply, body)]
        events = events[: reply.ending_after]
        return _writes(events, reply.pacing), "text/event-stream" if is_streamed else "application/json"

    async def _end(self, reply: ModelReply) -> bool:
        if reply.ending == "hang":
            await anyio.sleep_forever()
        if reply.ending == "close":
            return False
        await self._send(h11.EndOfMessage())
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            await self._stream.send(data)


def _writes(events: list[bytes], pacing: ReplyPacing) -> list[bytes]:
    """The events cut into the writes that the pacing wants."""
    if pacing.write_bytes is None and pacing.between_writes_seconds > 0:
        return events
    content = b"".join(events)
    size = pacing.write_bytes or len(content) or 1
    return [content[start : start + size] for start in range(0, len(content), size)]


def _record(head: h11.Request, content: bytes) -> RecordedRequest:
    try:
        body: Any = json.loads(content)
    except ValueError:
        body = None
    return RecordedRequest(
        method=head.method.decode(),
        path=head.target.decode(),
        headers={name.decode(): value.decode("latin-1") for name, value in head.headers},
        content=content,
        body=body,
    )

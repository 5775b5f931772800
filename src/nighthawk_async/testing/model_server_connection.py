"""One connection of a `ModelServer`: reads requests, writes replies, and breaks off as told."""

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import h11

from .model_reply import ModelReply, RecordedRequest
from .model_server_http import HttpResponse
from .model_server_socket import ServerSocket

__all__ = ["ServerConnection"]


class ServerConnection:
    """Serves one client until it leaves or a reply ends the connection.

    Args:
        connection: The connection; whoever made it closes it.
        answer: Gives the reply to a request, and the response that it stands for.
    """

    def __init__(
        self,
        connection: ServerSocket,
        answer: Callable[[RecordedRequest], Awaitable[tuple[ModelReply, HttpResponse]]],
    ) -> None:
        self._connection = connection
        self._answer = answer
        self._http = h11.Connection(h11.SERVER)
        self._client_keeps = True

    async def serve(self) -> None:
        """Serve the client."""
        with suppress(ConnectionError, h11.ProtocolError):  # the client left, or speaks no HTTP
            while (request := await self._read_request()) is not None:
                if not await self._reply_unless_left(request):
                    return
                self._start_next_request()

    async def _read_request(self) -> RecordedRequest | None:
        head: h11.Request | None = None
        content: list[bytes] = []
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._connection.receive())
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                content.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                self._client_keeps = self._http.their_state is h11.DONE
                return _record(head, b"".join(content))
            else:
                return None

    def _start_next_request(self) -> None:
        """Only requests go through the HTTP library: it would not write what is wrong on purpose."""
        received, is_closed = self._http.trailing_data
        self._http = h11.Connection(h11.SERVER)
        if received:
            self._http.receive_data(received)
        if is_closed:
            self._http.receive_data(b"")

    async def _reply_unless_left(self, request: RecordedRequest) -> bool:
        """Reply, but stop at once when the client leaves; returns whether the connection goes on."""
        goes_on = False
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(self._wait_until_left, task_group.cancel_scope)
            reply, response = await self._answer(request)
            with suppress(ConnectionError):  # the client left
                await self._write(reply, response)
                goes_on = await self._end(reply, response)
            task_group.cancel_scope.cancel()
        return goes_on

    async def _wait_until_left(self, scope: anyio.CancelScope) -> None:
        while data := await self._connection.receive():
            self._http.receive_data(data)
        scope.cancel()

    async def _write(self, reply: ModelReply, response: HttpResponse) -> None:
        await anyio.sleep(reply.pacing.first_byte_seconds)
        if reply.ending_after == "request":
            return
        await self._connection.send(response.head)
        for number, data in enumerate(response.writes):
            if number:
                await anyio.sleep(reply.pacing.between_writes_seconds)
            await self._connection.send(data)

    async def _end(self, reply: ModelReply, response: HttpResponse) -> bool:
        if reply.ending == "hang":
            await anyio.sleep_forever()
        if reply.ending == "reset":
            self._connection.reset_at_end()
        if reply.ending != "complete":
            return False
        await self._connection.send(response.end)
        return response.is_kept and self._client_keeps


def _record(head: h11.Request, content: bytes) -> RecordedRequest:
    try:
        body: Any = json.loads(content)
    except (ValueError, RecursionError):  # no JSON, or too deep
        body = None
    return RecordedRequest(
        method=head.method.decode(),
        path=head.target.decode(),
        headers={name.decode(): value.decode("latin-1") for name, value in head.headers},
        content=content,
        body=body,
    )

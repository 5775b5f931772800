"""One WebSocket: let in, and carried out in a scope of its own.

The application itself learns that its client has left: from the next message that it asks for or, where the
server says so, when it sends something. That it lets this out is how most applications end. What else it
raises goes to the server.
"""

from functools import partial

from ..observation import NodeWriter
from .admission import RefusedError
from .problem_log import is_cancellation
from .protocol import Application, AsgiScope, Message, Receive, Send, says_client_left
from .request_ids import choose_request_id
from .service import Service
from .serving import Connection
from .work import Work

__all__ = ["SocketConnection"]

_TRY_AGAIN_LATER = 1013
_GOING_AWAY = 1001


class SocketConnection(Connection):
    """A WebSocket.

    Args:
        service: What the application serves with.
        asgi_scope: The connection.
        receive: Gives the next message of the server.
        send: Takes the messages for the server.
    """

    def __init__(self, service: Service, asgi_scope: AsgiScope, receive: Receive, send: Send) -> None:
        super().__init__(
            service,
            asgi_scope,
            receive,
            method="WEBSOCKET",
            request_id=choose_request_id(asgi_scope),
            work=Work({"type": "websocket.disconnect", "code": _GOING_AWAY}),
        )
        self._server_send = send
        self._is_called = False
        self._is_accepted = False
        self._is_closed = False
        self._has_left = False
        self._refusal: ConnectionError | None = None
        """How the application was told that the server takes nothing more, because the client has left."""

    async def _answer(self, app: Application, node: NodeWriter | None) -> None:
        await self._carry_out(app)
        if node is not None and self._work.end_reason is not None:
            node.end("cancelled")

    async def _carry_out(self, app: Application) -> None:
        try:
            with self._work.scope:
                await self._serve(partial(self._call, app))
        except RefusedError:
            await self._close(_TRY_AGAIN_LATER)
        except Exception as error:
            is_ended = await self._end()
            is_left = says_client_left(error) or error is self._refusal
            if not is_left and not (is_ended and is_cancellation(error)):
                raise
        else:
            await self._end()

    async def _end(self) -> bool:
        """Tell the client when the application was ended; gives whether it was."""
        is_ended = self._work.end_reason in ("shut_down", "cancelled")
        if is_ended:
            await self._close(_GOING_AWAY)
        return is_ended

    async def _call(self, app: Application) -> None:
        self._is_called = True
        await app(self._asgi_scope, self._inbox.receive, self._send)

    async def _note_disconnect(self) -> None:
        self._is_closed = self._has_left = True
        if not self._is_called:  # it waits for its turn
            self._work.ask_to_end("disconnected")

    async def _send(self, message: Message) -> None:
        match message["type"]:
            case "websocket.accept":
                self._is_accepted = True
            case "websocket.close" | "websocket.http.response.start":
                self._is_closed = True
            case _:
                pass
        try:
            await self._server_send(message)
        except Exception as error:
            if not self._has_left and not isinstance(error, OSError):
                raise
            self._refusal = ConnectionError("the client has left")
            raise self._refusal from error

    async def _close(self, code: int) -> None:
        """Close it so that the client learns the code: before it is accepted, it would get a status alone."""
        if self._is_closed:
            return
        if not self._is_accepted:
            subprotocol = next(iter(self._asgi_scope.get("subprotocols") or ()), None)
            await self._send({"type": "websocket.accept", "subprotocol": subprotocol, "headers": []})
        await self._send({"type": "websocket.close", "code": code, "reason": ""})

"""One WebSocket: let in, and carried out in a scope of its own. Floor 5.

The application itself learns that its client has left, and what it raises goes to the server.
"""

from functools import partial

from ..actors import BareTaskGroup
from ..observation import observed
from .admission import RefusedError
from .inbox import Inbox
from .protocol import Application, AsgiScope, Message, Receive, Send
from .request_ids import choose_request_id
from .service import Service
from .serving import serve, shown_path
from .settings import Settings
from .trace_context import continued_trace
from .work import Work

__all__ = ["SocketConnection"]

_TRY_AGAIN_LATER = 1013
_GOING_AWAY = 1001


class SocketConnection:
    """A WebSocket.

    Args:
        service: What the application serves with.
        settings: What the middleware was told.
        asgi_scope: The connection.
        receive: Gives the next message of the server.
        send: Takes the messages for the server.
    """

    def __init__(
        self, service: Service, settings: Settings, asgi_scope: AsgiScope, receive: Receive, send: Send
    ) -> None:
        self._service = service
        self._settings = settings
        self._asgi_scope = asgi_scope
        self._server_send = send
        self._request_id = choose_request_id(asgi_scope)
        self._is_called = False
        self._is_accepted = False
        self._is_closed = False
        self._work = Work({"type": "websocket.disconnect", "code": _GOING_AWAY})
        self._inbox = Inbox(asgi_scope, receive, on_disconnect=self._note_disconnect)
        self._work.inbox = self._inbox

    async def carry_out(self, app: Application) -> None:
        """Let the application talk with the client.

        Args:
            app: The application.

        Raises:
            Exception: What the application raises.
        """
        name = f"WEBSOCKET {shown_path(self._asgi_scope)}"
        with (
            self._service.recording(),
            observed("request", name, control=self._work) as node,
            continued_trace(self._asgi_scope),
        ):
            async with BareTaskGroup() as helpers:
                helpers.start_soon(self._inbox.read_ahead)
                try:
                    await self._carry_out(app)
                finally:
                    helpers.cancel_scope.cancel()
            if node is not None and self._work.end_reason is not None:
                node.end("cancelled")

    async def _carry_out(self, app: Application) -> None:
        try:
            with self._work.scope:
                await serve(
                    self._service,
                    self._settings,
                    self._asgi_scope,
                    request_id=self._request_id,
                    work=self._work,
                    call=partial(self._call, app),
                )
        except RefusedError:
            await self._close(_TRY_AGAIN_LATER)
            return
        if self._work.end_reason in ("shut_down", "cancelled"):
            await self._close(_GOING_AWAY)

    async def _call(self, app: Application) -> None:
        self._is_called = True
        await app(self._asgi_scope, self._inbox.receive, self._send)

    def _note_disconnect(self) -> None:
        self._is_closed = True
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
        await self._server_send(message)

    async def _close(self, code: int) -> None:
        """Close it so that the client learns the code: before it is accepted, it would get a status alone."""
        if self._is_closed:
            return
        if not self._is_accepted:
            subprotocol = next(iter(self._asgi_scope.get("subprotocols") or ()), None)
            await self._send({"type": "websocket.accept", "subprotocol": subprotocol, "headers": []})
        await self._send({"type": "websocket.close", "code": code, "reason": ""})

"""HTTP requests of clients: their calls end when they leave, and their streams when the server ends."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from ..actors import BareTaskGroup
from ..asgi.exchange import Inbox
from ..asgi.protocol import Application, AsgiScope, Message, Receive, Send, choose_request_id
from ..asgi.work import Work

_KEY = "nighthawk_async.mcp.request"
_DISCONNECT: Message = {"type": "http.disconnect"}


class HttpRequest:
    """A request of a client, and its response.

    Args:
        asgi_scope: The connection.
        receive: Receives the next message of the server.
        send: Sends messages to the server.
    """

    def __init__(self, asgi_scope: AsgiScope, receive: Receive, send: Send) -> None:
        self.asgi_scope = asgi_scope
        self.id = choose_request_id(asgi_scope)
        self._server_send = send
        self._inbox = Inbox(asgi_scope, receive, on_disconnect=self._end_calls)
        self._works: set[Work] = set()
        self._is_started = False
        self._is_complete = False
        self._has_left = False

    @property
    def is_listening(self) -> bool:
        """Whether it is no call but a stream of messages, which ends only when somebody ends it."""
        return self.asgi_scope["method"] == "GET"

    async def carry_out(self, app: Application) -> None:
        """Let an application answer it.

        Args:
            app: The application.
        """
        async with BareTaskGroup() as helpers:
            helpers.start_soon(self._inbox.read_ahead)
            try:
                await app({**self.asgi_scope, _KEY: self}, self._inbox.receive, self._send)
                if self._is_started and not self._is_complete:
                    await self._send({"type": "http.response.body", "body": b"", "more_body": False})
            finally:
                helpers.cancel_scope.cancel()
                self._end_works()  # nobody gets their results any more

    @contextmanager
    def making(self, work: Work) -> Generator[None, None, None]:
        """End a call when the client leaves during the `with` statement.

        Args:
            work: The call.
        """
        if self._has_left:
            work.ask_to_end("disconnected")
        self._works.add(work)
        try:
            yield
        finally:
            self._works.discard(work)

    def end(self) -> None:
        """Let the application end the response."""
        self._inbox.end(_DISCONNECT)

    async def _end_calls(self) -> None:
        self._has_left = True
        self._end_works()

    def _end_works(self) -> None:
        for work in tuple(self._works):
            work.ask_to_end("disconnected")

    async def _send(self, message: Message) -> None:
        self._is_started = True
        is_body = message["type"] == "http.response.body"
        self._is_complete = is_body and not message.get("more_body", False)
        await self._server_send(message)


def find_http_request(request: Any) -> HttpRequest | None:
    """Return the HTTP request that brought a message; None for another transport.

    Args:
        request: The request as the package `mcp` hands it on; None for another transport.
    """
    asgi_scope: Mapping[str, Any] = getattr(request, "scope", None) or {}
    return asgi_scope.get(_KEY)

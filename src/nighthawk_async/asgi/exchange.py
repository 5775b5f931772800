"""Messages that a service receives and sends for one request.

Messages of the client are read ahead, to notice when it leaves. A server reports that a client has left only
when it is asked for the next message. Applications seldom do that while they work, so it is done here, and
the messages are kept for the application: no more than servers keep themselves, so that an application that
reads slowly slows the client down. When only the end can come, reading continues.

Messages of the application show its progress, and get the id of the request. Some frameworks respond to an
error with a page of their own and raise the error afterwards. So a short response of status 500 that is only
text is held for a moment, or until the application has ended, and can be replaced by a better one.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias

import anyio
from anyio.lowlevel import checkpoint

from .protocol import AsgiScope, Message, Receive, Send, header_values

_DISCONNECTS = ("http.disconnect", "websocket.disconnect")

_MOST_BYTES = 65_536
"""The maximum size of an unread body."""
_BYTES_OF_MESSAGE = 512
"""The size that a message counts besides its body."""


class Inbox:
    """The messages of one connection.

    Args:
        asgi_scope: The connection.
        receive: Receives the next message of the server.
        on_disconnect: Called when the client has left, before the application is notified.
    """

    def __init__(
        self, asgi_scope: AsgiScope, receive: Receive, *, on_disconnect: Callable[[], Awaitable[None]]
    ) -> None:
        self._server_receive = receive
        self._on_disconnect = on_disconnect
        self._bytes_to_come = _content_length(asgi_scope)
        self._held: deque[Message] = deque()
        self._held_bytes = 0
        self._end: Message | None = None
        self._error: Exception | None = None
        self._waiting = 0
        self._changed = anyio.Event()
        self._is_wanted = anyio.Event()
        # A server asks the client for the body when the first message is asked for, so an application that
        # refuses a body must not be asked whether it wants it.
        if not header_values(asgi_scope, b"expect"):
            self._is_wanted.set()

    @property
    def is_awaited(self) -> bool:
        """Whether the application is currently waiting for a message."""
        return self._waiting > 0

    async def receive(self) -> Message:
        """Return the next message, for the application.

        It does not yield when a message is there: frameworks ask in a cancelled scope whether there is one.
        """
        self._is_wanted.set()
        while not self._held and self._end is None:
            if self._error is not None:
                raise self._error
            await self._wait()
        if self._held:
            message = self._held.popleft()
            self._held_bytes -= _size(message)
            self._change()
            return message
        return dict(self._end or {})

    def end(self, message: Message) -> None:
        """Report the end of the messages to the application, after the messages that are held for it.

        Args:
            message: The message that it then receives, each time it asks.
        """
        if self._end is None:
            self._end = message
            self._change()

    async def read_ahead(self) -> None:
        """Read until the client has left."""
        await self._is_wanted.wait()
        while True:
            while not self._may_read:
                await self._changed.wait()
            try:
                message = await self._server_receive()
            except Exception as error:
                self._error = error  # raised to the application when it asks for messages
                self._change()
                return
            if message["type"] in _DISCONNECTS:
                await self._on_disconnect()
                self.end(message)
                return
            self._keep(message)

    @property
    def _may_read(self) -> bool:
        if not self._held:
            return True
        last = self._held[-1]
        if last["type"] == "http.request":
            is_whole = not last.get("more_body", False) or self._bytes_to_come == 0
            return is_whole or self._held_bytes < _MOST_BYTES
        return last["type"] == "websocket.connect"

    def _keep(self, message: Message) -> None:
        if self._bytes_to_come is not None:
            self._bytes_to_come = max(self._bytes_to_come - len(message.get("body", b"")), 0)
        self._held.append(message)
        self._held_bytes += _size(message)
        self._change()

    def _change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def _wait(self) -> None:
        self._waiting += 1
        try:
            await self._changed.wait()
        finally:
            self._waiting -= 1


def _size(message: Message) -> int:
    return len(message.get("body", b"")) + _BYTES_OF_MESSAGE


def _content_length(asgi_scope: AsgiScope) -> int | None:
    """Return the length of the body in bytes; None when it is unknown."""
    values = header_values(asgi_scope, b"content-length")
    return int(values[0]) if len(values) == 1 and values[0].isdecimal() else None


LastingFunction: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
"""A helper that runs beside the application."""

_TEXTS = (b"text/plain", b"text/html")

_PAGE_SECONDS = 0.1
"""Time for the error behind an error page to arrive. An application that has not raised by then continues."""
_TAKING_SECONDS = 5.0
"""Time for a server whose client has left to take the last of a response."""


class Outbox:
    """The response to one request.

    Args:
        send: Sends messages to the server.
        request_id: The id to add to the response.
        start_soon: Starts a function that ends with the request.
    """

    def __init__(
        self, send: Send, request_id: str, *, start_soon: Callable[[LastingFunction], object]
    ) -> None:
        self._server_send = send
        self._request_id = request_id.encode("latin-1")
        self._start_soon = start_soon
        self._held: list[Message] = []
        self._has_trailers = False
        self.status: int | None = None
        """The status of the response, when there is one."""
        self.is_started = False
        """Whether any part of the response itself was sent."""
        self.is_complete = False
        """Whether the application has sent the last of the response."""
        self.refusal: OSError | None = None
        """The error with which the server refused further messages, because the client has left."""
        self._taken = anyio.Event()
        self._is_closed = False

    def close(self) -> None:
        """Ignore further messages of an application that has sent nothing so far."""
        self._is_closed = not self.is_started

    async def send(self, message: Message) -> None:
        """Send the next message of the application."""
        if message.get("more_body", False):
            await checkpoint()  # a server that never blocks would keep the disconnect unnoticed
        if self._is_closed:
            return
        if message["type"] == "http.response.start":
            message = self._begin(message)
            is_text = _content_type(message).startswith(_TEXTS)
            if message["status"] == 500 and is_text and not self._has_trailers:
                self._held = [message]
                return
        elif len(self._held) == 1 and _is_whole(message):
            self._held.append(message)
            self.is_complete = True
            self._start_soon(self._release_soon)
            return
        await self._release()
        await self._pass_on(message)

    async def _release(self) -> None:
        """Send the held messages."""
        held, self._held = self._held, []
        for message in held if not self._is_closed else ():
            await self._pass_on(message)

    async def replace(self, *messages: Message) -> None:
        """Send another response. Nothing may have been sent before.

        Args:
            messages: The whole response.
        """
        self._held = []
        self.status = messages[0]["status"]
        for message in messages:
            await self._pass_on(message)

    async def wait_until_taken(self) -> None:
        """Wait until the server has taken the last of the response, when the application has sent it.

        Servers report a disconnect as soon as they have everything, and some are not done then.
        """
        if not self.is_complete:
            return
        with anyio.move_on_after(_TAKING_SECONDS):
            await self._taken.wait()
            return
        self.is_complete = False

    async def end(self) -> None:
        """Send the held messages, or wait until they are sent; the application has ended."""
        await self._release()
        if self.is_started and self.is_complete and not self._taken.is_set():
            await self._taken.wait()

    async def _release_soon(self) -> None:
        await anyio.sleep(_PAGE_SECONDS)
        try:
            await self._release()
        except OSError:  # the client has left; servers raise it from version 2.4 of ASGI on
            await checkpoint()
        finally:
            self._taken.set()

    async def _pass_on(self, message: Message) -> None:
        self.is_started = self.is_started or message["type"] == "http.response.start"
        is_last = self._is_last(message)
        self.is_complete = self.is_complete or is_last
        try:
            await self._server_send(message)
        except OSError as error:
            self.refusal = error
            raise
        finally:
            if is_last:
                self._taken.set()

    def _begin(self, message: Message) -> Message:
        self.status = message["status"]
        self._has_trailers = bool(message.get("trailers", False))
        headers = [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
        if not any(name.lower() == b"x-request-id" for name, _ in headers):
            headers.append((b"x-request-id", self._request_id))
        return {**message, "headers": headers}

    def _is_last(self, message: Message) -> bool:
        match message["type"]:
            case "http.response.body" | "http.response.zerocopysend":
                return not message.get("more_body", False) and not self._has_trailers
            case "http.response.pathsend":
                return not self._has_trailers
            case "http.response.trailers":
                return not message.get("more_trailers", False)
            case _:
                return False


def _is_whole(message: Message) -> bool:
    return message["type"] == "http.response.body" and not message.get("more_body", False)


def _content_type(start: Message) -> bytes:
    return next((value for name, value in start["headers"] if name.lower() == b"content-type"), b"").lower()

"""Messages of a client, read ahead to notice when the client leaves.

A server says that a client has left to whoever asks for its next message. Applications seldom do that while
they work, so it is done here, and what is read is kept for the application: no more than servers keep
themselves, so that an application that reads slowly slows the client down. When only the end can come,
reading goes on.
"""

from collections import deque
from collections.abc import Awaitable, Callable

import anyio

from .protocol import AsgiScope, Message, Receive, header_values

__all__ = ["Inbox"]

_DISCONNECTS = ("http.disconnect", "websocket.disconnect")

_MOST_BYTES = 65_536
"""Of a body that nobody has read."""
_BYTES_OF_MESSAGE = 512
"""What a message takes besides its body."""


class Inbox:
    """The messages of one connection.

    Args:
        asgi_scope: The connection.
        receive: Gives the next message of the server.
        on_disconnect: Is called when the client has left; then the application is told.
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
        """Whether the application waits for a message at present."""
        return self._waiting > 0

    async def receive(self) -> Message:
        """The next message, for the application.

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
        """Let the application know that nothing comes any more, after what is held for it.

        Args:
            message: What it gets then, each time it asks.
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
                self._error = error  # belongs to the application, which asks for messages
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

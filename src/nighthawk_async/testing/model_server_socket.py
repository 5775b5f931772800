"""The sockets of a `ModelServer`.

AnyIO's own streams close in good order, whatever one asks of them; a server that misbehaves must also be able
to reset a connection.
"""

import errno
import socket
import struct
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup

__all__ = ["ServerListener", "ServerSocket"]

_BACKLOG = 65_535
_RECEIVE_BYTES = 65_536
_ACCEPT_PAUSE_SECONDS = 0.05
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_NO_LINGERING = struct.pack("ii", 1, 0)


class ServerSocket:
    """A connection. One task may receive while another sends.

    Args:
        connection: The socket; it is closed when the context ends.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._connection.close()

    async def receive(self) -> bytes:
        """Wait for bytes; empty when the client sends no more, or is gone."""
        while True:
            try:
                return self._connection.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                await anyio.wait_readable(self._connection)
            except ConnectionError:
                return b""

    async def send(self, data: bytes) -> None:
        """Send bytes; waits while the client does not take them.

        Raises:
            ConnectionError: The client is gone.
        """
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._connection.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._connection)

    def reset_at_end(self) -> None:
        """Reset the connection when it is closed: what is under way is lost."""
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGERING)


class ServerListener:
    """A port on loopback; it is open from the beginning, and closed when the context ends."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self._listener.setblocking(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._listener.close()

    @property
    def port(self) -> int:
        """The port's number."""
        return self._listener.getsockname()[1]

    async def serve(
        self, handle: Callable[[ServerSocket], Coroutine[Any, Any, None]], task_group: TaskGroup
    ) -> None:
        """Accept connections until cancelled.

        Args:
            handle: Serves one connection and closes it.
            task_group: Where connections are served.
        """
        while True:
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, ConnectionError):
                await anyio.wait_readable(self._listener)
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                # The client waits in the backlog until descriptors or memory are free again.
                await anyio.sleep(_ACCEPT_PAUSE_SECONDS)
            else:
                task_group.start_soon(handle, ServerSocket(connection))

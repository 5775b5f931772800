"""A worker's end of a socket, which can also be used while the worker's event loop is blocked."""

import select
import socket
from collections.abc import Sequence

import anyio

from .frames import MOST_BYTES, ReceivedFrames, frame_header


class SocketEndpoint:
    """Sends and receives messages on a socket, in the frames of `FramedStream`. It belongs to one event loop.

    Synchronous code on the event loop's own thread may exchange messages, too: the loop is blocked meanwhile,
    and goes on with what is left.

    Args:
        connection: The socket.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._to_send = bytearray()
        self._received = ReceivedFrames()

    async def send(self, messages: Sequence[bytes]) -> None:
        """Send messages, in order.

        Raises:
            BrokenResourceError: The other side has ended.
        """
        self._put(messages)
        while not self._send_some():
            await anyio.wait_writable(self._socket)

    async def receive(self) -> bytes:
        """Wait for the next message.

        Raises:
            EndOfStream: The other side has ended.
        """
        while not self._received.ready:
            if not self._read_some():
                await anyio.wait_readable(self._socket)
        return self._received.ready.popleft()

    def exchange(self, messages: Sequence[bytes]) -> list[bytes]:
        """Send messages, and return the next ones that are received, one at least; blocks the thread.

        Args:
            messages: The messages to send.

        Raises:
            EndOfStream: The other side has ended.
            BrokenResourceError: The other side has ended.
        """
        self._put(messages)
        while not self._send_some() or not self._received.ready:
            if not self._read_some():
                select.select([self._socket], [self._socket] if self._to_send else [], [])
        received = list(self._received.ready)
        self._received.ready.clear()
        return received

    async def aclose(self) -> None:
        """Close this side."""
        self._socket.close()
        await anyio.lowlevel.checkpoint()

    def _put(self, messages: Sequence[bytes]) -> None:
        for each in messages:
            self._to_send += frame_header(each)
            self._to_send += each

    def _send_some(self) -> bool:
        """Send what can be sent now; return whether that is everything."""
        try:
            while self._to_send:
                sent = self._socket.send(self._to_send)
                del self._to_send[:sent]
        except BlockingIOError:
            return False
        except OSError as error:
            raise anyio.BrokenResourceError from error
        return True

    def _read_some(self) -> bool:
        """Read what is there now; return whether there was anything."""
        try:
            read = self._socket.recv(MOST_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            read = b""
        if not read:
            raise anyio.EndOfStream
        self._received.feed(read)
        return True

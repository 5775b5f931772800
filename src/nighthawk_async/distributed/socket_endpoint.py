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

    def exchange(self, messages: Sequence[bytes], seconds: float) -> list[bytes]:
        """Send messages, and return those that are received in time; blocks the thread.

        Args:
            messages: The messages to send.
            seconds: The longest wait for a message, in seconds.

        Raises:
            EndOfStream: The other side has ended.
            BrokenResourceError: The other side has ended.
        """
        self._put(messages)
        while not self._send_some():
            if not self._read_some():
                self._wait_for(select.POLLIN | select.POLLOUT, seconds)
        if not self._read_some() and not self._received.ready and self._wait_for(select.POLLIN, seconds):
            self._read_some()
        received = list(self._received.ready)
        self._received.ready.clear()
        return received

    async def aclose(self) -> None:
        """Close this side."""
        self._socket.close()
        await anyio.lowlevel.checkpoint()

    def _wait_for(self, events: int, seconds: float) -> bool:
        """Block until something can be done, for some seconds at most; return whether it can."""
        poll = select.poll()
        poll.register(self._socket, events)
        return bool(poll.poll(seconds * 1000))

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

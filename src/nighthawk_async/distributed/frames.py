"""Messages on a stream of bytes: each after a mark and its length, in four bytes each."""

from collections import deque
from collections.abc import Sequence
from struct import Struct

import anyio
import msgspec
from anyio.abc import ByteStream

_HEADER = Struct(">4sI")
_MARK = b"\xc1nh\xc1"  # 0xc1 is in no UTF-8 text, so that nothing printed is taken for a message
MOST_BYTES = 256 * 1024  # of one read, and of a message that is copied to be sent together with others


class BrokenFrameError(msgspec.DecodeError):
    """Bytes have arrived that are no message: something else than this library writes on the stream."""


def frame_header(message: bytes) -> bytes:
    """Return what stands before a message."""
    return _HEADER.pack(_MARK, len(message))


class ReceivedFrames:
    """Messages in the bytes that have arrived.

    Attributes:
        ready: The messages that are whole, in order.
    """

    def __init__(self) -> None:
        self.ready: deque[bytes] = deque()
        self._rest = bytearray()

    def feed(self, read: bytes) -> None:
        """Take bytes that have arrived.

        Raises:
            BrokenFrameError: They are no message.
        """
        self._rest += read
        begin, available = 0, len(self._rest)
        while available - begin >= _HEADER.size:
            mark, length = _HEADER.unpack_from(self._rest, begin)
            if mark != _MARK:
                raise BrokenFrameError("something else than messages was written on the connection")
            body, end = begin + _HEADER.size, begin + _HEADER.size + length
            if end > available:
                break
            with memoryview(self._rest) as rest:
                self.ready.append(bytes(rest[body:end]))
            begin = end
        if begin:
            del self._rest[:begin]


class FramedStream:
    """Sends and receives messages on a stream of bytes.

    Args:
        stream: The stream.
    """

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._received = ReceivedFrames()

    async def send(self, messages: Sequence[bytes]) -> None:
        """Send messages, in order.

        Raises:
            BrokenResourceError: The other side has ended.
            ClosedResourceError: This side is closed.
        """
        together: list[bytes] = []
        for message in messages:
            together.append(frame_header(message))
            if len(message) < MOST_BYTES:
                together.append(message)
            else:
                await self._stream.send(b"".join(together))
                await self._stream.send(message)
                together.clear()
        if together:
            await self._stream.send(b"".join(together))

    async def receive(self) -> bytes:
        """Wait for the next message.

        Raises:
            EndOfStream: The other side has ended, or this side is closed.
            BrokenFrameError: What arrives is no message.
        """
        received = self._received
        while not received.ready:
            try:
                received.feed(await self._stream.receive(MOST_BYTES))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                raise anyio.EndOfStream from None
        return received.ready.popleft()

    async def aclose(self) -> None:
        """Close this side."""
        await self._stream.aclose()

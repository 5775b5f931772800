"""Standard input and output as the wire of a server.

While it serves, descriptor 0 is at its end and descriptor 1 leads to standard error, so that whatever
functions and their child processes print cannot get among the messages. The messages travel over duplicates.
"""

import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any

import anyio
import anyio.to_thread
from anyio import RunFinishedError, from_thread
from anyio.lowlevel import EventLoopToken, current_token
from anyio.streams.memory import MemoryObjectSendStream
from msgspec import Struct

from ..errors import NighthawkError

_CHUNK_BYTES = 65_536
_claimed = threading.Lock()


class Wire(Struct, frozen=True):
    """Duplicates of the descriptors of standard input and output.

    Args:
        source: The descriptor to read from. Its reader closes it.
        sink: The descriptor to write to.
    """

    source: int
    sink: int


@contextmanager
def claimed_stdio() -> Generator[Wire, None, None]:
    """Claim standard input and output for the protocol during the `with` statement.

    Raises:
        NighthawkError: They are claimed already.
    """
    if not _claimed.acquire(blocking=False):
        raise NighthawkError("Another MCP server of this process serves standard input and output.")
    try:
        sys.stdout.flush()
        saved = os.dup(0), os.dup(1)
        wire = Wire(os.dup(0), saved[1])
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        try:
            with redirect_stdout(sys.stderr):
                yield wire
        finally:
            sys.stdout.flush()  # what was written past the redirection
            for number, descriptor in enumerate(saved):
                os.dup2(descriptor, number)
                os.close(descriptor)
    finally:
        _claimed.release()


class Lines:
    """The lines that a descriptor gives, for `async for`.

    A thread that waits for input cannot be interrupted. So it is one of its own, which does not keep the
    process alive, and holds no lock of Python's standard input.

    Args:
        source: The descriptor.
    """

    def __init__(self, source: int) -> None:
        send, self._received = anyio.create_memory_object_stream[str](0)
        thread = threading.Thread(
            target=_read, args=(source, send, current_token()), name="stdin of MCP", daemon=True
        )
        thread.start()

    def __aiter__(self) -> "Lines":
        return self

    async def __anext__(self) -> str:
        try:
            return await self._received.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            raise StopAsyncIteration from None

    def close(self) -> None:
        """Take no more lines."""
        self._received.close()


def _read(source: int, send: MemoryObjectSendStream[str], loop: EventLoopToken) -> None:
    rest = bytearray()
    with suppress(RunFinishedError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        while chunk := _read_chunk(source):
            *lines, last = (rest + chunk).split(b"\n") if b"\n" in chunk else (rest + chunk,)
            rest = bytearray(last)
            for line in lines:
                if line.strip():
                    from_thread.run(send.send, line.decode("utf-8", "replace"), token=loop)
        from_thread.run_sync(send.close, token=loop)
    os.close(source)


def _read_chunk(source: int) -> bytes:
    try:
        return os.read(source, _CHUNK_BYTES)
    except OSError:  # a terminal that has gone
        return b""


class Output:
    """Writes texts to a descriptor, for the package `mcp`.

    Args:
        sink: The descriptor.
    """

    def __init__(self, sink: int) -> None:
        self._sink = sink

    async def write(self, text: str) -> None:
        """Write a text, all of it."""
        await anyio.to_thread.run_sync(_write, self._sink, text.encode(), abandon_on_cancel=True)

    async def flush(self) -> None:
        """Do nothing: nothing is buffered."""


def _write(sink: int, data: bytes) -> None:
    while data:
        data = data[os.write(sink, data) :]


def as_files(wire: Wire) -> tuple[Lines, Any]:
    """Return standard input and output as the package `mcp` takes them.

    Args:
        wire: The descriptors.
    """
    return Lines(wire.source), Output(wire.sink)

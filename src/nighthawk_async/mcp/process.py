"""The process of a server: messages over its standard input and output, its standard error as a log.

The package `mcp` has such a transport too. This one ends every process of the server's group, also those
that it leaves behind; it bounds what it reads, and keeps the last lines of the standard error for errors.
"""

import logging
import os
import signal
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from .description import StdioDescription

Streams: TypeAlias = tuple[Any, Any]

_LOGGER = logging.getLogger("nighthawk.mcp")
_MAX_MESSAGE_BYTES = 256 * 1024 * 1024
_MAX_LINE_BYTES = 2_000
_MAX_LOGGED_LINES = 1_000
_KEPT_LINES = 8
_FLUSH_SECONDS = 0.5
_END_SECONDS = 2.0
_TERMINATE_SECONDS = 1.0
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


class ServerProcess:
    """The process of one connection.

    Args:
        server: The server.

    Attributes:
        last_lines: The last lines of its standard error.
        garbage: The beginning of the first line of its standard output that is no message; None for none.
    """

    def __init__(self, server: StdioDescription) -> None:
        self._server = server
        self.last_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self.garbage: str | None = None
        self._logged = 0
        self._process: Process | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended; known before its event loop has noticed."""
        process = self._process
        return process is not None and (process.returncode is not None or _is_zombie(process.pid))

    @asynccontextmanager
    async def transport(self) -> AsyncGenerator[Streams, None]:
        """Start the process, and end it with its group; the messages as the package `mcp` takes them.

        Raises:
            OSError: It cannot be started.
        """
        process = self._process = await self._start()
        to_client, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        sent, from_client = anyio.create_memory_object_stream[SessionMessage](0)
        is_written = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(self._read, process.stdout, to_client)
            group.start_soon(_write, process.stdin, from_client, to_client, is_written)
            group.start_soon(self._log, process.stderr)
            try:
                yield received, sent
            finally:
                with anyio.CancelScope(shield=True):  # every wait in it is bounded
                    received.close()
                    sent.close()
                    with anyio.move_on_after(_FLUSH_SECONDS):
                        await is_written.wait()
                    await _end(process)
                    for stream in (to_client, from_client):
                        stream.close()
                group.cancel_scope.cancel()
        await anyio.lowlevel.cancel_shielded_checkpoint()

    async def _start(self) -> Process:
        server = self._server
        with anyio.CancelScope(shield=True):  # a cancellation while it starts would leave it behind
            return await anyio.open_process(
                [server.command, *server.arguments],
                env={**get_default_environment(), **server.environment},
                cwd=server.folder,
                start_new_session=True,
            )
        raise AssertionError("unreachable")  # nothing cancels the scope

    async def _read(
        self, stdout: ByteReceiveStream | None, to_client: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        assert stdout is not None
        with suppress(*_GONE, anyio.EndOfStream), to_client:
            lines = _Lines(stdout, _MAX_MESSAGE_BYTES)
            async for line in lines:
                if (message := self._message(line)) is not None:
                    await to_client.send(message)
        with suppress(*_GONE, anyio.EndOfStream):  # so that it is never stuck writing, and reads its input
            while True:
                await stdout.receive()

    def _message(self, line: bytes) -> SessionMessage | None:
        """Return the message of a line; None for a line that is none, which servers should not write."""
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            text = _text(line)
            if self.garbage is None and text:
                self.garbage = text
                _LOGGER.warning("%s wrote a line that is no message: %s", self._server.name, text)
            return None

    async def _log(self, stderr: ByteReceiveStream | None) -> None:
        assert stderr is not None
        with suppress(*_GONE, anyio.EndOfStream):
            async for line in _Lines(stderr, _MAX_LINE_BYTES, cuts=True):
                if not (text := _text(line)):
                    continue
                self.last_lines.append(text)
                self._logged += 1
                if self._logged <= _MAX_LOGGED_LINES:
                    _LOGGER.info("%s: %s", self._server.name, text)
                elif self._logged == _MAX_LOGGED_LINES + 1:
                    _LOGGER.warning("%s: further lines are not logged", self._server.name)


class _Lines:
    """Reads lines.

    Args:
        stream: The stream.
        max_bytes: The greatest length of a line.
        cuts: Whether the rest of a longer line is left out; otherwise such a line ends the stream.
    """

    def __init__(self, stream: ByteReceiveStream, max_bytes: int, *, cuts: bool = False) -> None:
        self._stream = stream
        self._max_bytes = max_bytes
        self._cuts = cuts
        self._parts: list[bytes] = []
        self._size = 0
        self._ready: deque[bytes] = deque()

    def __aiter__(self) -> "_Lines":
        return self

    async def __anext__(self) -> bytes:
        while not self._ready:
            try:
                chunk = await self._stream.receive()
            except anyio.EndOfStream:
                if self._parts:
                    return self._line()
                raise StopAsyncIteration from None
            self._take(chunk)
            if self._size > self._max_bytes and not self._cuts and not self._ready:
                _LOGGER.warning("a server wrote a line of more than %d bytes", self._max_bytes)
                raise StopAsyncIteration
        return self._ready.popleft()

    def _take(self, chunk: bytes) -> None:
        *ended, rest = chunk.split(b"\n")
        for each in ended:
            self._keep(each)
            self._ready.append(self._line())
        self._keep(rest)

    def _keep(self, part: bytes) -> None:
        if part and not (self._cuts and self._size > self._max_bytes):
            self._parts.append(part)
            self._size += len(part)

    def _line(self) -> bytes:
        line = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return line


async def _write(
    stdin: Any,
    from_client: MemoryObjectReceiveStream[SessionMessage],
    to_client: MemoryObjectSendStream[SessionMessage | Exception],
    is_written: anyio.Event,
) -> None:
    try:
        with from_client:
            async for message in from_client:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await stdin.send(text.encode() + b"\n")
    except _GONE:
        to_client.close()  # no answer will come, although the process may still be there
    finally:
        is_written.set()


async def _end(process: Process) -> None:
    """Close its input, wait, then end its whole group; it has been reaped afterwards."""
    assert process.stdin is not None
    with suppress(*_GONE):
        await process.stdin.aclose()
    if not await _has_ended(process, _END_SECONDS):
        _signal(process, signal.SIGTERM)
        await _has_ended(process, _TERMINATE_SECONDS)
    _signal(process, signal.SIGKILL)  # also what it has left behind
    await _has_ended(process, _END_SECONDS)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            with suppress(*_GONE):
                await stream.aclose()
    transport: Any = getattr(getattr(process, "_process", None), "_transport", None)
    if callable(close := getattr(transport, "close", None)):  # asyncio warns of a transport that stays open
        close()


async def _has_ended(process: Process, seconds: float) -> bool:
    """Wait for its end. Not with `wait`, which on asyncio waits for the end of its pipes as well."""
    deadline = anyio.current_time() + seconds
    pause = 0.001
    while process.returncode is None:
        if anyio.current_time() >= deadline:
            return False
        await anyio.sleep(pause)
        pause = min(pause * 2, 0.02)
    return True


def _is_zombie(pid: int) -> bool:
    """Whether a child has ended. It is left for the event loop to reap."""
    if not hasattr(os, "waitid"):
        return False
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # it has been reaped
        return True


def _signal(process: Process, number: signal.Signals) -> None:
    """Send a signal to its group, whose number no other group gets while a process is in it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _text(line: bytes) -> str:
    return line[:_MAX_LINE_BYTES].decode(errors="replace").strip()

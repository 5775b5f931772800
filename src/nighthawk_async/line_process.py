"""A child process that writes lines: bounded reading, the end of its log, and the end of all that it started.

Every process is started in a session of its own, so that what it starts ends with it. What has left its group
is found by a mark in its environment.
"""

import logging
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream, Process

from .process_marks import new_mark, signal_marked

_MAX_LOG_LINE_BYTES = 2_000
_MAX_LOGGED_LINES = 1_000
_KEPT_LINES = 8
_END_SECONDS = 10.0
_MAX_ROUNDS = 20

GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
"""The errors of a stream to or from a process that has ended."""


class LineProcess:
    """A child process with pipes.

    Make one with `start`, run `read_log` in a task, and `end` it, shielded from cancellation.

    Args:
        name: The name in logs.
        process: The process.
        logger: Gets the lines of its standard error.
        mark: The mark of the process, and of what it starts.
        redacted: Returns a text without secrets, for logs and errors.

    Attributes:
        last_lines: The last lines of its standard error.
    """

    def __init__(
        self, name: str, process: Process, logger: logging.Logger, mark: str, redacted: Callable[[str], str]
    ) -> None:
        self.name = name
        self.redacted = redacted
        self._logger = logger
        self._mark = mark
        self.last_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._process = process
        self._logged = 0

    @classmethod
    async def start(
        cls,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: str | Path | None,
        logger: logging.Logger,
        redacted: Callable[[str], str] = str,
    ) -> "LineProcess":
        """Start a process. A cancellation waits until it has started.

        Args:
            name: The name in logs.
            command: The program and its arguments.
            environment: All its environment variables, but for its mark.
            folder: Its working directory; None for that of the current process.
            logger: Gets the lines of its standard error.
            redacted: Returns a text without secrets; its standard error passes through it.

        Raises:
            OSError: It cannot be started.
        """
        if sys.platform == "win32":
            raise OSError("programs that answer over pipes are started on Linux and macOS, not on Windows")
        with anyio.CancelScope(shield=True):  # a cancellation while it starts would leave it behind
            mark = new_mark()
            process = await anyio.open_process(
                [*command], env={**environment, mark: "1"}, cwd=folder, start_new_session=True
            )
            return cls(name, process, logger, mark, redacted)
        raise AssertionError("unreachable")  # nothing cancels the scope

    @property
    def pid(self) -> int:
        """The id of the process, and of its group."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended; known before its event loop has noticed."""
        return self._process.returncode is not None or _is_zombie(self._process.pid)

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while it is not known."""
        return self._process.returncode

    def lines(self, max_bytes: int) -> "BoundedLines":
        """Return the lines of its standard output.

        Args:
            max_bytes: The greatest length of a line; a longer one ends the iteration.
        """
        assert self._process.stdout is not None
        return BoundedLines(self._process.stdout, max_bytes, self._logger)

    async def drain(self) -> None:
        """Read the rest of its standard output, so that it is never stuck writing, and reads its input."""
        assert self._process.stdout is not None
        with suppress(*GONE, anyio.EndOfStream):
            while True:
                await self._process.stdout.receive()

    async def send(self, line: bytes) -> None:
        """Write a line to its standard input.

        Args:
            line: The line, without its end.

        Raises:
            BrokenResourceError: It does not read any more.
        """
        assert self._process.stdin is not None
        await self._process.stdin.send(line + b"\n")

    async def read_log(self) -> None:
        """Read its standard error until it ends, log its lines and keep the last ones."""
        assert self._process.stderr is not None
        with suppress(*GONE, anyio.EndOfStream):
            async for line in BoundedLines(
                self._process.stderr, _MAX_LOG_LINE_BYTES, self._logger, cuts=True
            ):
                if not (text := self.redacted(line.decode(errors="replace"))[:_MAX_LOG_LINE_BYTES].strip()):
                    continue
                self.last_lines.append(text)
                self._logged += 1
                if self._logged <= _MAX_LOGGED_LINES:
                    self._logger.info("%s: %s", self.name, text)
                elif self._logged == _MAX_LOGGED_LINES + 1:
                    self._logger.warning("%s: further lines are not logged", self.name)

    async def wait(self, seconds: float) -> bool:
        """Wait for its end. Not for that of its pipes, as the event loop of asyncio would.

        Args:
            seconds: The longest wait.

        Returns:
            Whether it has ended.
        """
        deadline = anyio.current_time() + seconds
        pause = 0.001
        while self._process.returncode is None:
            if anyio.current_time() >= deadline:
                return False
            await anyio.sleep(pause)
            pause = min(pause * 2, 0.02)
        return True

    async def end(self, *, close_seconds: float, terminate_seconds: float) -> None:
        """Close its input, wait, then end it and all that it started; it has been reaped afterwards.

        Args:
            close_seconds: Seconds that it has to end by itself, once its input is closed.
            terminate_seconds: Seconds that it then has to end after SIGTERM.
        """
        process = self._process
        assert process.stdin is not None
        with suppress(*GONE):
            await process.stdin.aclose()
        if not await self.wait(close_seconds):
            self._signal(signal.SIGTERM)
            signal_marked(self._mark, signal.SIGTERM)
            await self.wait(terminate_seconds)
        self._signal(signal.SIGKILL)  # also what it has left behind
        for _round in range(_MAX_ROUNDS):  # one may start another meanwhile
            if not signal_marked(self._mark, signal.SIGKILL):
                break
            await anyio.sleep(0.005)
        await self.wait(_END_SECONDS)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                with suppress(*GONE):
                    await stream.aclose()
        transport: Any = getattr(getattr(process, "_process", None), "_transport", None)
        if callable(close := getattr(transport, "close", None)):  # asyncio warns of one that stays open
            close()

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal to its group, whose number no other group gets while a process is in it."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


class BoundedLines:
    """Reads lines.

    Args:
        stream: The stream.
        max_bytes: The greatest length of a line.
        logger: Gets a warning of a line that ends the iteration.
        cuts: Whether the rest of a longer line is left out; otherwise such a line ends the iteration.

    Attributes:
        has_too_long: Whether a longer line has ended the iteration.
    """

    def __init__(
        self, stream: ByteReceiveStream, max_bytes: int, logger: logging.Logger, *, cuts: bool = False
    ) -> None:
        self.has_too_long = False
        self._stream = stream
        self._logger = logger
        self._max_bytes = max_bytes
        self._cuts = cuts
        self._parts: list[bytes] = []
        self._size = 0
        self._ready: deque[bytes] = deque()

    def __aiter__(self) -> "BoundedLines":
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
                self._logger.warning("a process wrote a line of more than %d bytes", self._max_bytes)
                self.has_too_long = True
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


def text_of(line: bytes) -> str:
    """Return the beginning of a line as text, for logs and errors."""
    return line[:_MAX_LOG_LINE_BYTES].decode(errors="replace").strip()


def _is_zombie(pid: int) -> bool:
    """Whether a child has ended. It is left for the event loop to reap."""
    if not hasattr(os, "waitid"):
        return False
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # it has been reaped
        return True

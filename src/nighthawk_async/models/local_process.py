"""The child process of an embedded model server, as its parent sees it: start, wait, stop.

Manages processes only; models and the sharing of the server are in `local`.
"""

import os
import secrets
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import anyio
import anyio.abc
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from ..errors import ConfigurationError

SERVER_PROGRAM = Path(__file__).with_name("local_server.py")
"""The program that the child runs."""

_PROCESSOR_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_KEY_BYTES = 32
_STOP_SECONDS = 3.0
_REPORT_BYTES = 1 << 16
_LAST_WORDS_BYTES = 4_096
_LAST_WORDS_LINES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalServerLaunch:
    """Parameters to start a server. Models with equal ones share one server in a run.

    Args:
        gguf: The GGUF file to serve.
        context_tokens: Tokens of context that each request gets.
        parallel_requests: Requests worked on at the same time.
        threads: Processor threads.
        start_timeout: Seconds that loading the model may take.
    """

    gguf: Path
    context_tokens: int
    parallel_requests: int
    threads: int
    start_timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAccess:
    """The address of a server, and its key.

    Args:
        address: The URL below which it answers.
        key: The bearer token that every request must carry.
    """

    address: str
    key: str = field(repr=False)


class _Report(msgspec.Struct, frozen=True):
    """The one line that the child writes."""

    address: str | None = None
    error: str | None = None


def available_processors(quota: Path = _PROCESSOR_QUOTA) -> int:
    """Return the number of processors that this process may use.

    In a container that may use two of sixty-four processors, sixty-four threads would wait for each other
    most of the time.

    Args:
        quota: The Linux file with the share of the processors that a control group may use.
    """
    present = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        allowed, period = quota.read_text(encoding="ascii").split()
        return max(1, min(present, int(allowed) // int(period)))
    except (OSError, ValueError):  # no such file, or the word `max`: no limit
        return present


class ServerProcess:
    """A child process that serves one GGUF file on loopback. Made by `ServerProcess.spawn`."""

    def __init__(self, launch: LocalServerLaunch, process: anyio.abc.Process, errors: IO[bytes]) -> None:
        assert process.stdout is not None, "the process was opened with a pipe"
        self._launch = launch
        self._process = process
        self._errors = errors
        self._key = secrets.token_urlsafe(_KEY_BYTES)
        self._reports = BufferedByteReceiveStream(process.stdout)
        self._deadline = anyio.current_time() + launch.start_timeout

    @classmethod
    async def spawn(cls, launch: LocalServerLaunch, program: Path = SERVER_PROGRAM) -> "ServerProcess":
        """Start the child. Never cancelled halfway: the result is a process or an error.

        Args:
            launch: The program to start.
            program: The program that the child runs.

        Raises:
            ConfigurationError: The system refuses to start a process.
        """
        errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed by `stop`)
        with anyio.CancelScope(shield=True):
            try:
                process = await anyio.open_process(_command(launch, program), stderr=errors)
            except OSError as error:
                errors.close()
                raise ConfigurationError(f"Cannot start a local model server: {error}") from error
            spawned = cls(launch, process, errors)
            await spawned._send_key()
            return spawned
        raise AssertionError("a shielded scope is never cancelled")

    @property
    def process_id(self) -> int:
        """The process id of the child."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the child has ended."""
        return self._process.returncode is not None

    async def wait_until_ready(self) -> ServerAccess:
        """Wait until the server is ready; return its address and key. May be cancelled and called again.

        Raises:
            ConfigurationError: The server ended, reported that it cannot serve the file, or took too long.
        """
        try:
            with anyio.fail_after(max(0.0, self._deadline - anyio.current_time())):
                line = await self._reports.receive_until(b"\n", _REPORT_BYTES)
        except TimeoutError as error:
            raise self._failure(
                f"was not ready within {self._launch.start_timeout:g} seconds; "
                "the setting `start_timeout` allows more"
            ) from error
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.DelimiterNotFound) as error:
            raise self._failure("ended before it was ready") from error
        try:
            report = msgspec.json.decode(line, type=_Report)
        except msgspec.DecodeError as error:
            raise self._failure(f"wrote {line[:200]!r} in place of its address") from error
        if report.address is None:
            raise self._failure(f"cannot serve the file: {report.error}")
        return ServerAccess(address=report.address, key=self._key)

    async def stop(self) -> None:
        """End the child within a few seconds, in any state. Never cancelled; may be called twice."""
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(_STOP_SECONDS):
                await self._close_standard_input()
                await self._process.wait()
            if not self.has_ended:
                self._process.kill()
            await self._process.aclose()
        self._errors.close()

    async def _send_key(self) -> None:
        """Send the child its key through a pipe: command lines and environments can be read by others."""
        assert self._process.stdin is not None, "the process was opened with a pipe"
        try:
            await self._process.stdin.send(f"{self._key}\n".encode())
        except (anyio.BrokenResourceError, ConnectionError):
            return  # it has ended already, which `wait_until_ready` reports

    async def _close_standard_input(self) -> None:
        """Ask the child to end."""
        if self._process.stdin is not None:
            try:
                await self._process.stdin.aclose()
            except (anyio.BrokenResourceError, ConnectionError):
                return  # it has ended already

    def _failure(self, what: str) -> ConfigurationError:
        words = self._last_words()
        said = f" It said: {words}" if words else ""
        return ConfigurationError(f"The local model server for {self._launch.gguf} {what}.{said}")

    def _last_words(self) -> str:
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _LAST_WORDS_BYTES))
        text = self._errors.read().decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return " / ".join(lines[-_LAST_WORDS_LINES:])


def _command(launch: LocalServerLaunch, program: Path) -> list[str]:
    """The child's command line; `-P` keeps the program's own directory out of its import path."""
    return [
        sys.executable,
        "-P",
        str(program),
        f"--model={launch.gguf}",
        f"--context-tokens={launch.context_tokens}",
        f"--parallel-requests={launch.parallel_requests}",
        f"--threads={launch.threads}",
        f"--parent={os.getpid()}",
    ]

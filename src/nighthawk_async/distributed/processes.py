"""`Processes`: worker processes on this machine as a placement."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import anyio
from anyio.abc import Process, SocketStream

from ..former_names import takes_former
from ..process_marks import new_mark, signal_marked
from .errors import WorkerStartError
from .frames import FramedStream
from .link import KilledFromOutside
from .messages import Begin
from .workers import Workers

_END_SECONDS = 2.0
"""The seconds that a process whose connection is closed has to end by itself."""

_KILLED = {
    -getattr(signal, name) for name in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)
}
"""The status of a process that somebody else has ended. A program that fails ends with others."""

_MODULE = f"{__package__}.process_worker"


class Processes(Workers):
    """Worker processes on this machine, for all its processors; a placement for `on=`.

        async with nh.distributed.Processes(4) as workers:
            stars = await parallel.map(rate, reviews, on=workers)

    Each process makes calls of its own: functions that are imported by their names, in one run for the life
    of the process. What a call may spend, its questions to people and its place in the live tree stay in the
    program. Processes have the environment variables of the program; keys that the program sets in other
    ways, such as `api_key`, reach them through a private socket.

    Leaving the block waits for the calls in progress, or cancels them if an exception leaves it; then the
    processes end, and whatever they have started. A process that is lost is replaced, and its calls are
    placed again: give functions with effects to a run with a journal. Windows lacks what it needs; entering
    the block raises a `WorkerStartError` there.

    Args:
        count: The number of processes; None for as many as there are processors.
        max_concurrent_per_worker: The greatest number of calls in one process at once. One is enough for
            functions that compute; those that wait for models need more.
        max_placements: The number of processes that a call may lose while it is alone there; then it raises
            `WorkerLostError`. With 1, a call is never placed again, whatever has ended its process.
        grace_seconds: The seconds within which a cancelled call must end, before its process is ended.
        start_timeout: The seconds within which a process must be ready.
        backend: The event loop of the processes.

    Raises:
        ValueError: An argument is invalid.
    """

    @takes_former(calls_per_worker="max_concurrent_per_worker", start_seconds="start_timeout")
    def __init__(
        self,
        count: int | None = None,
        *,
        max_concurrent_per_worker: int = 8,
        max_placements: int = 3,
        grace_seconds: float = 5.0,
        start_timeout: float = 60.0,
        backend: Literal["trio", "asyncio"] = "trio",
    ) -> None:
        if backend not in ("trio", "asyncio"):
            raise ValueError(f"backend must be 'trio' or 'asyncio', not {backend!r}")
        super().__init__(
            _processors() if count is None else count,
            max_concurrent_per_worker=max_concurrent_per_worker,
            max_placements=max_placements,
            grace_seconds=grace_seconds,
            start_timeout=start_timeout,
        )
        self._backend = backend

    async def open_link(self, name: str, begin: Begin) -> "_ProcessLink":
        """Start a process."""
        if sys.platform == "win32":
            raise WorkerStartError("worker processes need inherited sockets, which Windows lacks")
        with anyio.CancelScope(shield=True):  # a cancellation while it starts would leave it behind
            return await _ProcessLink.start(self._backend)
        raise AssertionError("unreachable")  # nothing cancels the scope


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _ProcessLink:
    """A worker process that is connected by a pair of sockets."""

    def __init__(self, process: Process, stream: FramedStream, mark: str) -> None:
        self._process = process
        self._stream = stream
        self._mark = mark

    @classmethod
    async def start(cls, backend: str) -> "_ProcessLink":
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise WorkerStartError(f"a worker process cannot be connected: {error}") from error
        try:
            mark = new_mark()
            command = [sys.executable, "-m", _MODULE, str(theirs.fileno()), backend, mark]
            try:
                process = await anyio.open_process(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=None,
                    stderr=None,
                    env={**os.environ, mark: "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                    start_new_session=True,
                    pass_fds=(theirs.fileno(),),
                )
            except OSError as error:
                ours.close()
                raise WorkerStartError(f"a worker process cannot be started: {error}") from error
        finally:
            theirs.close()
        stream = await SocketStream.from_socket(ours)
        return cls(process, FramedStream(stream), mark)

    async def send(self, messages: Sequence[bytes]) -> None:
        await self._stream.send(messages)

    async def receive(self) -> bytes:
        return await self._stream.receive()

    def is_suspended(self) -> bool:
        try:
            stat = Path(f"/proc/{self._process.pid}/stat").read_bytes()
        except OSError:  # it has ended, or the system has no such files
            return False
        return stat.rpartition(b") ")[2].startswith(b"T")  # a debugger's stop is a small one

    def kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def close(self) -> str:
        await self._stream.aclose()
        with anyio.move_on_after(_END_SECONDS):
            await self._process.wait()
        was_killed = self._process.returncode in _KILLED
        self.kill()
        signal_marked(self._mark, signal.SIGKILL)  # what it has started in sessions of its own
        code = await self._process.wait()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return KilledFromOutside(how) if was_killed else how

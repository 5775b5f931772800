"""One embedded model server for all steps of a run.

Decides who starts the server, who waits, and who is let in; the process itself is `local_process`'s business.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from copy import copy
from pathlib import Path

import anyio

from ..errors import ConfigurationError, ModelConnectionError, NighthawkError
from .local_process import SERVER_PROGRAM, LocalServerLaunch, ServerAccess, ServerProcess

__all__ = ["LocalServer", "open_local_server"]

_STARTS_PER_RUN = 4
_ADMITTED_PER_SLOT = 2


class LocalServer:
    """A server that is started when it is first needed and shared by everyone on one event loop.

    Made by `open_local_server`. Holds no task group and no cancel scope: whoever asks first starts the
    process and waits for it; when that asker is cancelled, the next one goes on waiting for the same process.
    """

    def __init__(self, launch: LocalServerLaunch, program: Path) -> None:
        self._launch = launch
        self._program = program
        self._starting = anyio.Lock()
        self._admission = anyio.Semaphore(launch.parallel_requests * _ADMITTED_PER_SLOT)
        self._process: ServerProcess | None = None
        self._access: ServerAccess | None = None
        self._failure: NighthawkError | None = None
        self._starts = 0
        self._is_closed = False

    @property
    def starts(self) -> int:
        """The number of processes started."""
        return self._starts

    @property
    def process_id(self) -> int | None:
        """The process id of the child; None while there is none."""
        return None if self._process is None else self._process.process_id

    @property
    def is_running(self) -> bool:
        """Whether the server answers requests now."""
        return self._access_nowait() is not None

    @asynccontextmanager
    async def admit(self) -> AsyncGenerator[ServerAccess]:
        """Wait for a turn at the server, started if it does not run, and give how to reach it.

        The server takes few connections at a time. A thousand requests queue here, in order, and one that is
        cancelled while it queues costs the server nothing.

        Raises:
            ConfigurationError: The server cannot be started; everyone who asks later gets the same answer at
                once.
            ModelConnectionError: The server crashed again and again, or the run it belonged to is over.
        """
        async with self._admission:
            yield await self._ensure_running()

    async def aclose(self) -> None:
        """End the process within a few seconds, whatever it does. Never cancelled."""
        self._is_closed = True
        await self._discard()

    async def _ensure_running(self) -> ServerAccess:
        if (access := self._access_nowait()) is not None:
            return access
        async with self._starting:
            if (access := self._access_nowait()) is not None:
                return access
            if self._failure is not None:
                raise copy(self._failure)
            try:
                return await self._start()
            except NighthawkError as error:
                self._failure = error
                await self._discard()
                raise

    def _access_nowait(self) -> ServerAccess | None:
        return None if self._process is None or self._process.has_ended else self._access

    async def _start(self) -> ServerAccess:
        """Start the process, or go on waiting for the one that a cancelled asker started."""
        if self._is_closed:
            raise ModelConnectionError(f"The run that served {self._launch.gguf} is over.")
        if self._access is not None:  # it had been serving, and crashed
            await self._discard()
        if self._process is None:
            if self._starts == _STARTS_PER_RUN:
                raise ModelConnectionError(
                    f"The model server for {self._launch.gguf} crashed {self._starts} times in this run."
                )
            self._process = await ServerProcess.spawn(self._launch, self._program)
            self._starts += 1
        self._access = await self._process.wait_until_ready()
        return self._access

    async def _discard(self) -> None:
        process, self._process, self._access = self._process, None, None
        if process is not None:
            await process.stop()


@asynccontextmanager
async def open_local_server(
    launch: LocalServerLaunch, *, program: Path = SERVER_PROGRAM
) -> AsyncGenerator[LocalServer]:
    """A server for the extent of a `with` block; nothing is started before somebody asks for it.

    Args:
        launch: How to start the server.
        program: The program that the child runs.
    """
    if not launch.gguf.is_file():
        raise ConfigurationError(f"There is no model file {launch.gguf}.")
    server = LocalServer(launch, program)
    try:
        yield server
    finally:
        await server.aclose()

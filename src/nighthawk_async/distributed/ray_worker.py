"""`RayWorker`: a worker as an actor of Ray.

The actor's own event loop only hands messages on. Calls run on an event loop in a thread, so that messages
pass while a call blocks it, and so that it may be Trio's.
"""

import os
import sys
import threading
from collections import deque
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import anyio

from . import messages
from .log_records import LogForwarder, apply_levels
from .main_module import load_main
from .message_queue import MessageQueue
from .messages import Begin, Ready
from .worker import Worker, find_call


def library_version() -> str:
    """Return the version of this library; empty if it is not installed as a package."""
    try:
        return version("nighthawk-async")
    except PackageNotFoundError:
        return ""


class RayWorker:
    """A worker as an actor: it takes the messages of the program, and gives its own when asked.

    Args:
        name: The name of the worker.
        backend: The event loop on which calls run.
        has_own_folder: Whether the actor has its own copy of the working directory.
    """

    def __init__(self, name: str, backend: Literal["trio", "asyncio"], has_own_folder: bool) -> None:
        self._name = name
        self._backend = backend
        self._has_own_folder = has_own_folder
        self._endpoint = _QueueEndpoint()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def __repr__(self) -> str:
        """The name in the logs of Ray."""
        return self._name

    async def describe(self) -> str:
        """Return the version of this library here, once the actor runs."""
        return library_version()

    async def take(self, messages: list[bytes]) -> None:
        """Take messages of the program."""
        self._endpoint.incoming.put(messages)

    async def take_large(self, message: bytes) -> None:
        """Take a message that comes from the object store."""
        self._endpoint.incoming.put([message])

    async def give(self) -> list[bytes]:
        """Wait for messages to the program, and return them; none at the end of the worker."""
        return await self._endpoint.outgoing.take()

    def _work(self) -> None:
        try:
            anyio.run(self._serve, backend=self._backend)
        finally:
            self._endpoint.outgoing.close()

    async def _serve(self) -> None:
        begin = messages.decode_to_worker(await self._endpoint.receive())
        if not isinstance(begin, Begin):
            return
        logs = LogForwarder(find_call)
        with logs.installed():
            try:
                self._prepare(begin)
            except Exception as error:
                await self._endpoint.send([messages.encode(Ready(process=0, host="", error=str(error)))])
                return
            worker = Worker(begin.worker, self._endpoint, logs)
            await self._endpoint.send([messages.encode(worker.ready_message())])
            await worker.serve()

    def _prepare(self, begin: Begin) -> None:
        """Import modules from the places of the program that are here too, and load its main module."""
        own_folder = Path.cwd()
        file = begin.main_file
        if self._has_own_folder:
            file = _own_copy(file, begin.folder, own_folder)
        elif Path(begin.folder).is_dir():
            os.chdir(begin.folder)
        sys.path += [each for each in begin.path if each not in sys.path and os.path.exists(each)]
        load_main(begin.main, file, begin.arguments)
        apply_levels(begin.log_levels)


def _own_copy(file: str | None, folder: str, own_folder: Path) -> str | None:
    """Return a file of the program in a copy of its working directory, if it is part of it."""
    if file is None or not Path(file).is_relative_to(folder):
        return file
    copy = own_folder / Path(file).relative_to(folder)
    return str(copy) if copy.exists() else file


class _QueueEndpoint:
    """The worker's end of the connection."""

    def __init__(self) -> None:
        self.incoming = MessageQueue()
        self.outgoing = MessageQueue()
        self._received: deque[bytes] = deque()

    async def send(self, messages: Sequence[bytes]) -> None:
        """Send messages, in order."""
        self.outgoing.put(messages)

    async def receive(self) -> bytes:
        """Wait for the next message."""
        while not self._received:
            self._received.extend(await self.incoming.take())
        return self._received.popleft()

    def exchange(self, messages: Sequence[bytes], seconds: float) -> list[bytes]:
        """Send messages, and return those that come in time; see `BlockingEndpoint`."""
        self.outgoing.put(messages)
        received = [*self._received] or self.incoming.take_blocking(seconds)
        self._received.clear()
        return received

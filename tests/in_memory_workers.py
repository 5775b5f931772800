"""Workers as tasks of the program's event loop, connected by streams in memory."""

import math
from collections.abc import Sequence
from contextlib import suppress
from contextvars import Context

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from nighthawk_async.distributed import Workers
from nighthawk_async.distributed.messages import Begin, Tell, decode_from_worker, encode
from nighthawk_async.distributed.worker import Worker


class InMemoryWorkers(Workers):
    """Workers as tasks of the program's event loop.

    Attributes:
        links: The links to the workers that were started, by their names.
        told: The reports of all workers.
        lost_after: The number of the message, of all workers, with which its sender is lost; None for none.
        received: The number of messages that workers have sent.
        can_be_suspended: Whether `InMemoryLink.suspend` is of use.
    """

    can_be_suspended = False

    def __init__(
        self,
        count: int = 2,
        *,
        max_concurrent_per_worker: int = 8,
        max_placements: int = 3,
        grace_seconds: float = 5.0,
        start_timeout: float = 60.0,
    ) -> None:
        super().__init__(
            count,
            max_concurrent_per_worker=max_concurrent_per_worker,
            max_placements=max_placements,
            grace_seconds=grace_seconds,
            start_timeout=start_timeout,
        )
        self.links: dict[str, InMemoryLink] = {}
        self.told: list[Tell] = []
        self.lost_after: int | None = None
        self.received = 0

    def note_received(self, link: "InMemoryLink") -> None:
        """Count a message, and lose the worker that sent it if it is its time."""
        self.received += 1
        if self.received == self.lost_after:
            link.lose()

    def lose(self, name: str) -> None:
        """End a worker at once, as if its machine had failed."""
        self.links[name].lose()

    async def open_link(self, name: str, begin: Begin) -> "InMemoryLink":
        assert self._group is not None
        link = self.links[name] = InMemoryLink(name, self)
        Context().run(self._group.start_soon, link.work)
        return link


class _End:
    """One end of a connection."""

    def __init__(
        self, outgoing: MemoryObjectSendStream[bytes], incoming: MemoryObjectReceiveStream[bytes]
    ) -> None:
        self.outgoing, self.incoming = outgoing, incoming

    async def send(self, messages: Sequence[bytes]) -> None:
        for each in messages:
            await self.outgoing.send(each)

    async def receive(self) -> bytes:
        try:
            return self.incoming.receive_nowait()  # as frames that have arrived together
        except anyio.WouldBlock:
            return await self.incoming.receive()

    def cut(self) -> None:
        self.outgoing.close()
        self.incoming.close()


class InMemoryLink(_End):
    """The program's end of the connection with a worker in memory.

    Attributes:
        sent: The number of bytes that were sent to the worker.
        worker: The worker.
    """

    worker: Worker

    def __init__(self, name: str, workers: InMemoryWorkers) -> None:
        to_worker = anyio.create_memory_object_stream[bytes](math.inf)
        from_worker = anyio.create_memory_object_stream[bytes](math.inf)
        super().__init__(to_worker[0], from_worker[1])
        self.sent = 0
        self._name = name
        self._workers = workers
        self._there = _End(from_worker[0], to_worker[1])
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._is_killed = False
        self._is_lost = False
        self._is_suspended = False

    async def send(self, messages: Sequence[bytes]) -> None:
        self.sent += sum(map(len, messages))
        await super().send(messages)

    async def receive(self) -> bytes:
        if self._is_lost:  # what it had sent meanwhile is lost with it
            raise anyio.EndOfStream
        body = await super().receive()
        message = decode_from_worker(body)
        if isinstance(message, Tell):
            self._workers.told.append(message)
        self._workers.note_received(self)
        return body

    async def work(self) -> None:
        """Run the worker."""
        ended = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)
        try:
            with self._scope, suppress(*ended):
                await self._there.receive()
                self.worker = Worker(self._name, self._there)
                await self._there.send([encode(self.worker.ready_message())])
                await self.worker.serve()
        finally:
            self._there.cut()
            self._ended.set()

    def lose(self) -> None:
        """End the worker; nothing that it does from now on, or has just sent, reaches the program."""
        self._is_lost = True
        self._there.cut()
        self._scope.cancel()

    def suspend(self) -> None:
        """Have the worker's process seem to be stopped by a signal."""
        self._is_suspended = True

    def is_suspended(self) -> bool | None:
        return self._is_suspended if self._workers.can_be_suspended else None

    def kill(self) -> None:
        self._is_killed = True
        self.lose()

    async def close(self) -> str:
        self.cut()
        self._scope.cancel()
        if not self._is_killed:  # a killed worker may have a call that does not end
            await self._ended.wait()
        return "it was lost"

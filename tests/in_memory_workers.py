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
    """

    def __init__(
        self,
        count: int = 2,
        *,
        calls_per_worker: int = 8,
        max_placements: int = 3,
        grace_seconds: float = 5.0,
        start_seconds: float = 60.0,
    ) -> None:
        super().__init__(
            count,
            calls_per_worker=calls_per_worker,
            max_placements=max_placements,
            grace_seconds=grace_seconds,
            start_seconds=start_seconds,
        )
        self.links: dict[str, InMemoryLink] = {}
        self.told: list[Tell] = []

    def lose(self, name: str) -> None:
        """End a worker at once, as if its machine had failed."""
        self.links[name].lose()

    async def open_link(self, name: str, begin: Begin) -> "InMemoryLink":
        assert self._group is not None
        link = self.links[name] = InMemoryLink(name, self.told)
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

    def __init__(self, name: str, told: list[Tell]) -> None:
        to_worker = anyio.create_memory_object_stream[bytes](math.inf)
        from_worker = anyio.create_memory_object_stream[bytes](math.inf)
        super().__init__(to_worker[0], from_worker[1])
        self.sent = 0
        self._name = name
        self._told = told
        self._there = _End(from_worker[0], to_worker[1])
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._is_killed = False

    async def send(self, messages: Sequence[bytes]) -> None:
        self.sent += sum(map(len, messages))
        await super().send(messages)

    async def receive(self) -> bytes:
        body = await super().receive()
        message = decode_from_worker(body)
        if isinstance(message, Tell):
            self._told.append(message)
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
        """End the worker; nothing that it does from now on reaches the program."""
        self._there.cut()
        self._scope.cancel()

    def kill(self) -> None:
        self._is_killed = True
        self.lose()

    async def close(self) -> str:
        self.cut()
        self._scope.cancel()
        if not self._is_killed:  # a killed worker may have a call that does not end
            await self._ended.wait()
        return "it was lost"

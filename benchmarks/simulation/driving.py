"""The whole program's side of workers, with calls through `parallel.map`: real code on a virtual clock.

Functions, arguments, scopes and messages are those of real workers; the workers are a model that answers
messages after their time.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import count

import anyio
import msgspec
from trio.testing import MockClock

from nighthawk_async import parallel
from nighthawk_async.distributed import Workers, messages as wire
from nighthawk_async.distributed.messages import Begin, Call, Ended, Ready, Withdraw

from .. import resident_memory
from .cluster import Cluster

__all__ = ["Drive", "drive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drive:
    """What a drive of simulated workers has taken.

    Args:
        cpu_seconds: The processor time, that of the model included.
        virtual_seconds: The virtual time that has passed.
        memory_growth: The memory that was taken for good, in bytes, the list of results included.
        lost_workers: The workers that were lost.
        right: The calls whose result arrived, in its place.
    """

    cpu_seconds: float
    virtual_seconds: float
    memory_growth: int
    lost_workers: int
    right: int


def drive(cluster: Cluster, calls: int) -> Drive:
    """Make calls on simulated workers."""
    clock = MockClock(autojump_threshold=0)
    return anyio.run(partial(_drive, cluster, calls), backend="trio", backend_options={"clock": clock})


async def double(number: int) -> int:
    """The function of the calls; the model of the workers knows its results."""
    return 2 * number


async def _drive(cluster: Cluster, calls: int) -> Drive:
    world, taken = _World(cluster), None
    async with anyio.create_task_group() as group:
        group.start_soon(world.run)
        async with _SimulatedWorkers(world) as workers:
            await parallel.map(double, range(min(calls, 1_000)), on=workers)  # fills caches
            before, began, started = resident_memory.now(), time.process_time(), anyio.current_time()
            results = await parallel.map(double, range(calls), on=workers)
            taken = Drive(
                cpu_seconds=time.process_time() - began,
                virtual_seconds=anyio.current_time() - started,
                memory_growth=resident_memory.now() - before,
                lost_workers=world.lost_workers,
                right=sum(result == 2 * number for number, result in enumerate(results)),
            )
        group.cancel_scope.cancel()
    assert taken is not None, "an error is raised by the group"
    return taken


class _World:
    """What happens on the simulated workers and on the way to them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.lost_workers = 0
        self.chance = random.Random(cluster.seed)
        self._events: list[tuple[float, int, _SimulatedLink, bytes | None]] = []
        self._order = count()
        self._changed = anyio.Event()

    async def run(self) -> None:
        """Deliver messages in time, and end workers."""
        while True:
            now = anyio.current_time()
            while self._events and self._events[0][0] <= now:
                _, _, link, message = heappop(self._events)
                self.lost_workers += message is None and not link.has_ended
                link.deliver(message)
            with anyio.move_on_at(self._events[0][0]) if self._events else anyio.CancelScope():
                await self._changed.wait()
            self._changed = anyio.Event()

    def later(self, seconds: float, link: "_SimulatedLink", message: bytes | None) -> None:
        """Deliver a message of a worker after a time; None for its end."""
        heappush(self._events, (anyio.current_time() + seconds, next(self._order), link, message))
        self._changed.set()

    def latency(self) -> float:
        """The time of a message on its way."""
        return self.chance.expovariate(1 / self.cluster.latency_seconds)


class _SimulatedLink:
    """The link to a worker that is a model."""

    def __init__(self, world: _World) -> None:
        self._world = world
        self._inbox: list[bytes] = []
        self._arrived = anyio.Event()
        self._values: dict[bytes, object] = {}
        self.has_ended = False

    async def send(self, messages: Sequence[bytes]) -> None:
        """Take messages, as the worker would."""
        for body in messages:
            match wire.decode_to_worker(body):
                case Begin():
                    self._answer(0.0, Ready(process=1, host="simulated"))
                case Call() as call:
                    number = msgspec.msgpack.decode(call.args[0].body)
                    seconds = self._world.chance.expovariate(1 / self._world.cluster.call_seconds)
                    value = msgspec.msgpack.encode(2 * number)
                    self._answer(seconds, Ended(number=call.number, value=value))
                case Withdraw(number=number):
                    self._answer(0.0, Ended(number=number, is_cancelled=True))
                case _:
                    pass

    async def receive(self) -> bytes:
        """Wait for the next message."""
        while not self._inbox:
            if self.has_ended:
                raise anyio.EndOfStream
            self._arrived = anyio.Event()
            await self._arrived.wait()
        return self._inbox.pop(0)

    def is_suspended(self) -> None:
        """Nothing suspends a model of a worker."""

    def kill(self) -> None:
        """End the worker."""
        self.deliver(None)

    async def close(self) -> str:
        """End the worker, and tell how."""
        self.kill()
        return "simulated"

    def deliver(self, message: bytes | None) -> None:
        """Let a message arrive; None for the end of the worker."""
        if message is None:
            self.has_ended = True
        elif not self.has_ended:
            self._inbox.append(message)
        self._arrived.set()

    def _answer(self, seconds: float, message: Ready | Ended) -> None:
        way = self._world.latency() + self._world.latency()
        self._world.later(way + seconds, self, wire.encode(message))


class _SimulatedWorkers(Workers):
    """Simulated workers as a placement."""

    def __init__(self, world: _World) -> None:
        cluster = world.cluster
        super().__init__(
            cluster.workers,
            max_concurrent_per_worker=cluster.max_concurrent_per_worker,
            max_placements=cluster.max_placements,
            grace_seconds=cluster.grace_seconds,
            start_timeout=1_000.0,
        )
        self._world = world

    async def open_link(self, name: str, begin: Begin) -> _SimulatedLink:
        """Start a simulated worker."""
        if "." in name:  # in place of a lost one
            await anyio.sleep(self._world.cluster.start_seconds)
        link = _SimulatedLink(self._world)
        self._world.later(self._world.chance.expovariate(1 / self._world.cluster.life_seconds), link, None)
        return link

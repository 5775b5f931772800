"""What it costs when many actors talk to each other."""

import random
import time
from collections.abc import Sequence

import anyio

from nighthawk_async.actors import Actor, ActorHandle, open_actor

from ..measure import Benchmark

__all__ = ["BENCHMARKS"]

ACTORS = 1_000


class Arrivals:
    """The messages that have made their last hop."""

    def __init__(self, expected: int) -> None:
        self.counts = bytearray(expected)
        self.all_there = anyio.Event()
        self._missing = expected

    def add(self, number: int) -> None:
        """A message has made its last hop."""
        self.counts[number] += 1
        self._missing -= 1
        if self._missing == 0:
            self.all_there.set()


class Player(Actor):
    """Passes on what it gets, each time to another actor, the same ones in every round."""

    def __init__(self, index: int, players: "Sequence[ActorHandle[Player]]", arrivals: Arrivals) -> None:
        self._random = random.Random(index)
        self._players = players
        self._arrivals = arrivals

    async def take(self, number: int, hops: int) -> None:
        """Pass a message on, or say that it has arrived."""
        if hops == 1:
            self._arrivals.add(number)
        else:
            await self._random.choice(self._players).tell(Player.take, number, hops - 1)


async def exchange(messages: int) -> float:
    """Send messages around among a thousand actors; every one must be handled once, and arrive."""
    in_flight = min(ACTORS, messages)
    hops = [len(range(number, messages, in_flight)) for number in range(in_flight)]
    arrivals = Arrivals(in_flight)
    players: list[ActorHandle[Player]] = []
    is_over = anyio.Event()

    async def own(index: int, *, task_status: anyio.abc.TaskStatus[ActorHandle[Player]]) -> None:
        async with open_actor(lambda: Player(index, players, arrivals)) as player:
            task_status.started(player)
            await is_over.wait()

    async with anyio.create_task_group() as owners:
        for index in range(ACTORS):
            players.append(await owners.start(own, index))
        began = time.perf_counter()
        for number, count in enumerate(hops):
            await players[number].tell(Player.take, number, count)
        await arrivals.all_there.wait()
        seconds = time.perf_counter() - began
        is_over.set()
    figures = [player.statistics() for player in players]
    assert all(count == 1 for count in arrivals.counts)
    assert sum(each.handled for each in figures) == messages
    assert not any(each.failed or each.refused or each.mailbox.depth for each in figures)
    return seconds


BENCHMARKS = tuple(
    Benchmark(
        name=f"actors-{backend}",
        what=f"one message among {ACTORS:,} actors on {backend}",
        run=lambda messages, backend=backend: anyio.run(exchange, messages, backend=backend),
        operations=100_000,
        quick_operations=2_000,
        rounds=3,
    )
    for backend in ("trio", "asyncio")
)

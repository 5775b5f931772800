"""Named locks under schedules nobody would think of: no permit is lost, doubled or handed out too early."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, strategies as st

from nighthawk_async.actors import (
    LockStatistics,
    acquire_semaphore,
    lock_statistics,
    open_namespace,
    semaphore,
)

pytestmark = pytest.mark.anyio

CAPACITY = 4


async def settle() -> None:
    """Let every task go on until it waits for something that only the test can give."""
    for _ in range(20):
        await checkpoint()


def figures() -> LockStatistics:
    """The figures of the only lock."""
    (statistics,) = (each for each in lock_statistics() if each.scope == "run")
    return statistics


@dataclass(slots=True, kw_only=True, eq=False)
class Client:
    """A task that wants some permits and keeps them until it may leave."""

    permits: int
    state: Literal["asked", "inside", "gone"] = "asked"
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    may_leave: anyio.Event = field(default_factory=anyio.Event)


class World:
    """One semaphore, its clients in the order of asking, and what must be true of them."""

    def __init__(self) -> None:
        self.clients: list[Client] = []
        self.in_use = 0
        self.entries = 0

    async def live(self, client: Client) -> None:
        self.clients.append(client)
        with client.scope:
            async with semaphore("permits", capacity=CAPACITY, permits=client.permits, scope="run"):
                client.state = "inside"
                self.entries += 1
                self.in_use += client.permits
                assert self.in_use <= CAPACITY
                try:
                    await client.may_leave.wait()
                finally:
                    self.in_use -= client.permits
        client.state = "gone"

    def in_state(self, state: str) -> list[Client]:
        return [client for client in self.clients if client.state == state]

    def check(self, inside_before: Sequence[Client]) -> None:
        """Check a moment in which every task waits.

        Args:
            inside_before: Who was inside when this was checked the last time.
        """
        waiting = self.in_state("asked")
        entered = [client for client in self.in_state("inside") if client not in inside_before]
        if waiting:
            first = self.clients.index(waiting[0])
            assert all(self.clients.index(client) < first for client in entered), "somebody was overtaken"
            assert waiting[0].permits > CAPACITY - self.in_use, "somebody waits for permits that are free"
        if self.clients:
            statistics = figures()
            assert (statistics.held, statistics.waiting) == (self.in_use, len(waiting))


PERMITS = st.integers(1, CAPACITY)
PLACE = st.integers(0, 50)
ACTIONS = st.one_of(
    st.tuples(st.just("ask"), PERMITS),
    st.tuples(st.just("leave"), PLACE),
    st.tuples(st.just("cancel"), PLACE),
    st.tuples(st.just("settle"), st.just(0)),
)


@given(schedule=st.lists(ACTIONS, max_size=40))
async def test_no_schedule_loses_a_permit_or_lets_anybody_overtake(schedule: list[tuple[str, int]]) -> None:
    world = World()
    inside: list[Client] = []
    with open_namespace("run"), anyio.fail_after(240):
        async with anyio.create_task_group() as task_group:
            for action, number in schedule:
                present = world.in_state("inside" if action == "leave" else "asked") or world.clients
                if action == "ask":
                    task_group.start_soon(world.live, Client(permits=number))
                elif action == "settle":
                    await settle()
                    world.check(inside)
                    inside = world.in_state("inside")
                elif present and action == "leave":
                    present[number % len(present)].may_leave.set()
                elif present:
                    present[number % len(present)].scope.cancel()
            await settle()
            for client in world.clients:
                client.may_leave.set()
        check_end(world, sum(action == "ask" for action, _ in schedule))


def check_end(world: World, asked: int) -> None:
    assert len(world.in_state("gone")) == asked
    assert world.in_use == 0
    if asked:
        statistics = figures()
        assert (statistics.held, statistics.waiting) == (0, 0)
        assert statistics.acquired == statistics.released == world.entries
        assert statistics.acquired + statistics.cancelled == asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """When a task asks, for how much, how long it waits and holds, and when it is cancelled. In seconds."""

    asks_after: int
    permits: int
    timeout: int | None
    holds: int
    cancelled_after: int


SECONDS = st.integers(0, 4)  # few values, so that much happens in the same moment
VISITS = st.builds(
    Visit,
    asks_after=SECONDS,
    permits=PERMITS,
    timeout=st.none() | SECONDS,
    holds=SECONDS,
    cancelled_after=st.integers(0, 20),
)


@given(visits=st.lists(VISITS, min_size=1, max_size=12))
@pytest.mark.virtual_time
async def test_timeouts_releases_and_cancellations_in_the_same_moment_keep_every_permit(
    visits: list[Visit],
) -> None:
    got: list[int] = []
    in_use = 0

    async def live(visit: Visit) -> None:
        nonlocal in_use
        with anyio.move_on_after(visit.cancelled_after):
            await anyio.sleep(visit.asks_after)
            permit = await acquire_semaphore(
                "permits", capacity=CAPACITY, permits=visit.permits, timeout=visit.timeout, scope="run"
            )
            if permit is not None:
                got.append(visit.permits)
                in_use += visit.permits
                assert in_use <= CAPACITY
                with permit:
                    try:
                        await anyio.sleep(visit.holds)
                    finally:
                        in_use -= visit.permits

    with open_namespace("run"):
        permit = await acquire_semaphore("permits", capacity=CAPACITY, scope="run")
        assert permit is not None
        assert permit.release()
        async with anyio.create_task_group() as task_group:
            for visit in visits:
                task_group.start_soon(live, visit)
        statistics = figures()
    assert (statistics.held, statistics.waiting, in_use) == (0, 0, 0)
    assert statistics.acquired == statistics.released == len(got) + 1
    assert statistics.acquired + statistics.timeouts + statistics.cancelled <= len(visits) + 1

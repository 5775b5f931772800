"""Whatever asyncio itself cancels, and when: messages and permits are conserved as with cancel scopes."""

import asyncio
from collections.abc import Sequence

from hypothesis import given, strategies as st

from nighthawk_async.actors import (
    Channel,
    LockStatistics,
    Mailbox,
    acquire_semaphore,
    gate,
    lock_statistics,
    mutex,
    semaphore,
)
from tests.property.message_schedules import (
    CancelNatively,
    Close,
    Drain,
    Event,
    Message,
    Receive,
    ReceiveNow,
    SelectAmong,
    Send,
    SendNow,
    Turns,
    World,
    let_run,
)

queues = st.integers(0, 2)
counts = st.integers(1, 3)
arms = st.lists(st.tuples(queues, st.booleans()), min_size=1, max_size=3, unique_by=lambda arm: arm[0])
cancellations = st.builds(CancelNatively, task=st.integers(0, 8))
events = st.one_of(
    st.builds(Send, queue=queues, count=counts),
    st.builds(Send, queue=queues, count=counts),
    st.builds(Receive, queue=queues, count=counts),
    st.builds(Receive, queue=queues, count=counts),
    st.builds(SelectAmong, arms=arms.map(tuple), count=counts),
    st.builds(SendNow, queue=queues),
    st.builds(ReceiveNow, queue=queues),
    st.builds(Drain, queue=queues),
    cancellations,
    cancellations,
    cancellations,
    st.builds(Turns, count=counts),
    st.builds(Turns, count=counts),
    st.builds(Close, queue=queues),
)


@given(schedule=st.lists(events, min_size=8, max_size=40))
def test_a_cancelled_send_has_sent_nothing_unless_its_message_was_received(schedule: list[Event]) -> None:
    queues = [Mailbox[Message](capacity=1), Mailbox[Message](capacity=2), Channel[Message]()]
    asyncio.run(World(queues, is_native=True).play(schedule))


PLACE = st.integers(0, 30)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["mutex", "gate", "semaphore", "acquire"]), st.integers(1, 3)),
        st.tuples(st.sampled_from(["cancel", "cancel", "leave"]), PLACE),
        st.tuples(st.just("turns"), st.integers(0, 2)),
    ),
    max_size=40,
)


class Visitors:
    """Tasks at a mutex, a gate and a semaphore, and how many permits they have in use."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self.may_leave: list[asyncio.Event] = []
        self.in_use = {"mutex": 0, "gate": 0, "semaphore": 0}
        self.entries = 0

    async def play(self, steps: Sequence[tuple[str, int]]) -> None:
        """Carry a schedule out, let everybody leave, and look at the figures."""
        for step, number in steps:
            if step == "turns":
                await let_run(number)
            elif step in ("cancel", "leave"):
                self._send_away(step, number)
            else:
                event = asyncio.Event()
                self.may_leave.append(event)
                self.tasks.append(asyncio.create_task(self._visit(step, number, event)))
        for event in self.may_leave:
            event.set()
        await let_run(10 * len(self.tasks))
        assert all(task.done() for task in self.tasks), "somebody waits for a lock that is free"
        for task in self.tasks:
            assert task.cancelled() or task.exception() is None
        self._check(lock_statistics())

    def _send_away(self, step: str, number: int) -> None:
        if self.tasks and step == "cancel":
            self.tasks[number % len(self.tasks)].cancel()
        elif self.tasks:
            self.may_leave[number % len(self.tasks)].set()

    async def _visit(self, kind: str, permits: int, may_leave: asyncio.Event) -> None:
        if kind == "mutex":
            async with mutex("key"):
                await self._stay("mutex", 1, 1, may_leave)
        elif kind == "gate":
            async with gate("key", limit=2):
                await self._stay("gate", 1, 2, may_leave)
        elif kind == "semaphore":
            async with semaphore("key", capacity=3, permits=permits):
                await self._stay("semaphore", permits, 3, may_leave)
        else:
            permit = await acquire_semaphore("key", capacity=3, permits=permits)
            assert permit is not None
            with permit:
                await self._stay("semaphore", permits, 3, may_leave)

    async def _stay(self, kind: str, permits: int, capacity: int, may_leave: asyncio.Event) -> None:
        self.entries += 1
        self.in_use[kind] += permits
        assert self.in_use[kind] <= capacity
        try:
            await may_leave.wait()
        finally:
            self.in_use[kind] -= permits

    def _check(self, figures: Sequence[LockStatistics]) -> None:
        assert all(each.held == each.waiting == 0 for each in figures)
        assert sum(each.acquired for each in figures) == self.entries
        assert sum(each.released for each in figures) == self.entries


@given(steps=STEPS)
def test_locks_get_every_permit_back(steps: list[tuple[str, int]]) -> None:
    asyncio.run(Visitors().play(steps))

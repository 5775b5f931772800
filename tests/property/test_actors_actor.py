"""Whatever actors ask and tell each other, nobody hangs, and nobody is told of a deadlock for nothing.

A cancelled tell has sent nothing, whoever asks its sender meanwhile.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, strategies as st

from nighthawk_async.actors import Actor, ActorDeadlockError, ActorHandle, open_actor

ACTORS = 3
OUTSIDE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A message of a schedule.

    Args:
        parent: Says which of the messages before it sends it, or whether it comes from outside.
        to: The actor that handles it.
        is_asked: Whether its sender waits for the reply.
        turns: How many turns of the loop its handler takes before it sends others.
        cancels: Which message is cancelled when this one is handled, if it is told and not sent by then.
    """

    parent: int
    to: int
    is_asked: bool
    turns: int
    cancels: int | None = None


class Caller(Actor):
    """Sends the messages of a schedule.

    Args:
        world: What there is to be sent, and to whom.
        number: Its own number.
    """

    answers = (ActorDeadlockError,)

    def __init__(self, world: "World", number: int) -> None:
        self.world = world
        self.number = number

    async def carry_out(self, index: int) -> None:
        """Handle a message: send those that it sends, one after the other."""
        self.world.begun.add(index)
        for _ in range(self.world.schedule[index].turns):
            await checkpoint()
        for sent in self.world.sent_by(index):
            await self.world.send(sent, by=self.number)
        cancelled = self.world.schedule[index].cancels
        if cancelled is not None:
            self.world.scopes[cancelled % len(self.world.scopes)].cancel()
        self.world.handled += 1


@dataclass(slots=True, kw_only=True)
class World:
    """Actors, what they send each other, and what came of it.

    Args:
        schedule: The messages.
        capacity: Of the mailboxes.
        is_upward: Whether actors ask only those with greater numbers, and tell the others instead.
    """

    schedule: Sequence[Call]
    capacity: int | None
    is_upward: bool
    actors: list[ActorHandle[Caller]] = field(default_factory=list)
    scopes: list[anyio.CancelScope] = field(default_factory=list)
    begun: set[int] = field(default_factory=set)
    handled: int = 0
    unsent: int = 0

    async def play(self) -> None:
        """Send what comes from outside, all at once, and wait until everything is handled."""
        self.scopes = [anyio.CancelScope() for _ in self.schedule]
        with anyio.fail_after(240):
            async with AsyncExitStack() as stack:
                for number in range(ACTORS):
                    opened = open_actor(lambda number=number: Caller(self, number), capacity=self.capacity)
                    self.actors.append(await stack.enter_async_context(opened))
                async with anyio.create_task_group() as task_group:
                    for index in self.sent_by(OUTSIDE):
                        task_group.start_soon(self.send, index)
                while self.handled + self.unsent < len(self.schedule):
                    await checkpoint()

    def sent_by(self, parent: int) -> list[int]:
        """The messages that a message sends, or that come from outside."""
        return [index for index, call in enumerate(self.schedule) if call.parent % (index + 1) - 1 == parent]

    async def send(self, index: int, by: int = OUTSIDE) -> None:
        """Send a message.

        When that would be a wait in vain, or is cancelled, it is never sent, nor is what it would send.
        """
        call = self.schedule[index]
        actor = self.actors[call.to]
        try:
            if call.is_asked and (not self.is_upward or by < call.to):
                await actor.ask(Caller.carry_out, index)
            else:
                with self.scopes[index] as scope:
                    await actor.tell(Caller.carry_out, index)
                if scope.cancelled_caught:
                    self.unsent += self.count_from(index)
        except ActorDeadlockError:
            self.unsent += self.count_from(index)

    def count_from(self, index: int) -> int:
        """How many messages a message brings, itself included."""
        return 1 + sum(self.count_from(sent) for sent in self.sent_by(index))


calls = st.builds(
    Call,
    parent=st.integers(0, 11),
    to=st.integers(0, ACTORS - 1),
    is_asked=st.booleans(),
    turns=st.integers(0, 3),
)
schedules = st.lists(calls, min_size=2, max_size=12)


def around_a_cancelled_teller(turns: list[int], others: list[Call]) -> list[Call]:
    """The first message cancels the fourth, a tell, while the fifth asks its sender; and some others."""
    return [
        Call(parent=0, to=0, is_asked=False, turns=turns[0], cancels=3),
        Call(parent=0, to=0, is_asked=False, turns=turns[1]),
        Call(parent=0, to=1, is_asked=False, turns=turns[2]),
        Call(parent=3, to=0, is_asked=False, turns=turns[3]),
        Call(parent=2, to=1, is_asked=True, turns=turns[4]),
        *others,
    ]


cancelling_schedules = st.builds(
    around_a_cancelled_teller,
    st.lists(st.integers(0, 8), min_size=5, max_size=5),
    st.lists(calls, max_size=3),
)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(schedule=schedules, capacity=st.sampled_from([1, 2, None]))
def test_no_actor_waits_for_ever(backend: str, schedule: list[Call], capacity: int | None) -> None:
    world = World(schedule=schedule, capacity=capacity, is_upward=False)
    anyio.run(world.play, backend=backend)
    assert world.handled + world.unsent == len(schedule)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(schedule=cancelling_schedules)
def test_a_cancelled_tell_has_sent_nothing(backend: str, schedule: list[Call]) -> None:
    world = World(schedule=schedule, capacity=1, is_upward=False)
    anyio.run(world.play, backend=backend)
    assert world.handled + world.unsent == len(schedule)
    cancelled = {index for index, scope in enumerate(world.scopes) if scope.cancelled_caught}
    assert not world.begun & cancelled


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(schedule=schedules)
def test_no_actor_is_told_of_a_deadlock_when_there_can_be_none(backend: str, schedule: list[Call]) -> None:
    world = World(schedule=schedule, capacity=None, is_upward=True)
    anyio.run(world.play, backend=backend)
    assert (world.handled, world.unsent) == (len(schedule), 0)

"""Handlers that would wait for themselves."""

from functools import partial

import anyio
import pytest

from nighthawk_async.actors import Actor, ActorDeadlockError, ActorHandle, open_actor
from tests.unit.actors.actor_examples import Counter

pytestmark = pytest.mark.anyio


class Asking(Actor):
    """Asks others, and itself."""

    answers = (ActorDeadlockError,)

    async def ask_itself(self) -> str:
        return await self.handle.ask(Asking.reply)

    async def reply(self) -> str:
        return "reply"

    async def ask_through(self, *others: "ActorHandle[Asking]") -> str:
        if not others:
            return "end"
        first, *rest = others
        return await first.ask(Asking.ask_through, *rest)

    async def tell_back(self, other: "ActorHandle[Asking]") -> None:
        await other.tell(Asking.reply)

    async def ask_to_tell_back(self, other: "ActorHandle[Asking]") -> None:
        await other.ask(Asking.tell_back, self.handle)

    async def fill_itself(self, count: int) -> None:
        for _ in range(count):
            await self.handle.tell(Asking.reply)

    async def fill_and_ask(self, other: "ActorHandle[Asking]") -> None:
        self.handle.tell_nowait(Asking.reply)
        await other.ask(Asking.tell_back, self.handle)

    async def ask_in_child_task(self, task_group: anyio.abc.TaskGroup, replies: list[str]) -> None:
        async def ask() -> None:
            replies.append(await self.handle.ask(Asking.reply))

        task_group.start_soon(ask)

    async def stop_itself(self) -> None:
        await self.handle.stop()


async def test_a_handler_that_asks_its_own_actor_is_told() -> None:
    async with open_actor(Asking) as asking:
        with pytest.raises(ActorDeadlockError, match=r"for ever: Asking -> Asking"):
            await asking.ask(Asking.ask_itself)
        assert await asking.ask(Asking.reply) == "reply"


async def test_actors_that_ask_each_other_in_a_circle_are_told() -> None:
    async with (
        open_actor(Asking, name="a") as a,
        open_actor(Asking, name="b") as b,
        open_actor(Asking, name="c") as c,
    ):
        assert await a.ask(Asking.ask_through, b, c) == "end"
        with pytest.raises(ActorDeadlockError, match="c -> a -> b -> c"):
            await a.ask(Asking.ask_through, b, c, a)
        assert await c.ask(Asking.ask_through, a, b) == "end"


async def test_telling_who_waits_is_no_deadlock_while_there_is_room() -> None:
    async with open_actor(Asking) as a, open_actor(Asking) as b:
        await a.ask(Asking.ask_to_tell_back, b)
        await a.ask(Asking.fill_itself, 3)


async def test_waiting_for_room_that_only_oneself_can_make_is_told() -> None:
    async with open_actor(Asking, capacity=1) as a, open_actor(Asking) as b:
        with pytest.raises(ActorDeadlockError, match="for ever: Asking -> Asking"):
            await a.ask(Asking.fill_itself, 2)
        with pytest.raises(ActorDeadlockError, match="Asking -> Asking -> Asking"):
            await a.ask(Asking.fill_and_ask, b)


async def test_a_task_that_outlives_the_handler_may_ask_its_actor() -> None:
    replies: list[str] = []
    async with open_actor(Asking) as asking, anyio.create_task_group() as task_group:
        await asking.ask(Asking.ask_in_child_task, task_group, replies)
    assert replies == ["reply"]


async def test_a_handler_that_waits_for_the_end_of_its_actor_is_told() -> None:
    async with open_actor(Asking) as asking:
        with pytest.raises(ActorDeadlockError, match="for ever: Asking -> Asking"):
            await asking.ask(Asking.stop_itself)
        assert await asking.ask(Asking.reply) == "reply"


async def test_asking_oneself_is_a_crash_unless_the_class_says_otherwise() -> None:
    async def ask_itself(counter: Counter) -> int:
        return await counter.handle.ask(Counter.add, 1)

    async with open_actor(partial(Counter, [])) as counter:
        with pytest.raises(ActorDeadlockError):
            await counter.ask(ask_itself)
        await counter.wait_ended()

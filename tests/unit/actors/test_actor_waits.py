"""Which waits between actors are a deadlock, and which only look like one for a moment."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TypeAlias

import anyio
import pytest
from anyio.lowlevel import checkpoint

from nighthawk_async.actors import (
    Actor,
    ActorDeadlockError,
    ActorEndedError,
    ActorHandle,
    MailboxFullError,
    open_actor,
)
from tests.unit.actors.waiting_tasks import start

pytestmark = pytest.mark.anyio

AsyncFunction: TypeAlias = Callable[..., Awaitable[object]]

REPEATS = {"trio": 20, "asyncio": 1}
"""How often a test is tried that hangs on who runs first: Trio draws that by lot."""


class Partner(Actor):
    """Does what it is given to do; being told of a deadlock does not end it."""

    answers = (ActorDeadlockError,)

    async def reply(self) -> str:
        return "reply"

    async def ask(self, other: "ActorHandle[Partner]") -> str:
        return await other.ask(Partner.reply)

    async def tell(self, other: "ActorHandle[Partner]") -> None:
        await other.tell(Partner.reply)

    async def stop(self, other: "ActorHandle[Partner]") -> None:
        await other.stop()

    async def wait_ended(self, other: "ActorHandle[Partner]") -> None:
        await other.wait_ended()

    async def when(
        self, gate: anyio.Event, function: Callable[..., Awaitable[object]], *args: object
    ) -> object:
        """Wait for the gate, and call a function of an actor."""
        await gate.wait()
        return await function(self, *args)


@asynccontextmanager
async def partners(
    *, capacity: int | None = 256
) -> AsyncIterator[tuple[ActorHandle[Partner], ActorHandle[Partner]]]:
    """Two actors; the second has a mailbox of that capacity. Whoever hangs fails the test."""
    with anyio.fail_after(240):
        async with open_actor(Partner, name="a") as a, open_actor(Partner, name="b", capacity=capacity) as b:
            yield a, b


@pytest.mark.parametrize("turns", range(5))
async def test_to_tell_is_no_wait_while_there_is_room(turns: int) -> None:
    gate = anyio.Event()
    async with partners() as (a, b), anyio.create_task_group() as task_group:
        asking = await start(task_group, partial(b.ask, Partner.when, gate, Partner.ask, a))
        task_group.start_soon(a.ask, Partner.tell, b)
        for _ in range(turns):
            await checkpoint()
        gate.set()
    assert asking.result == "reply"


async def test_room_that_is_taken_in_the_turn_before_it_is_used_is_waited_for(
    anyio_backend_name: str,
) -> None:
    for _ in range(REPEATS[anyio_backend_name]):
        await _tell_while_others_fill()


async def _tell_while_others_fill() -> None:
    gate, is_telling = anyio.Event(), anyio.Event()

    async def fill() -> None:
        await is_telling.wait()
        with suppress(MailboxFullError):  # the other one was faster
            b.tell_nowait(Partner.reply)

    async def tell(actor: Partner) -> None:
        is_telling.set()
        await b.tell(Partner.reply)

    async with partners(capacity=1) as (a, b), anyio.create_task_group() as task_group:
        telling = await start(task_group, partial(a.ask, Partner.when, gate, tell))
        asking = await start(task_group, partial(b.ask, Partner.ask, a))
        await start(task_group, fill)
        gate.set()
    assert telling.result is None or isinstance(telling.result, ActorDeadlockError)
    assert asking.result == "reply"


async def test_waiting_for_room_that_comes_only_when_the_asker_replies_is_told() -> None:
    gate = anyio.Event()
    async with partners(capacity=1) as (a, b), anyio.create_task_group() as task_group:
        telling = await start(task_group, partial(a.ask, Partner.when, gate, Partner.tell, b))
        asking = await start(task_group, partial(b.ask, Partner.ask, a))
        await b.tell(Partner.reply)
        gate.set()
    assert isinstance(telling.result, ActorDeadlockError)
    assert asking.result == "reply"


async def test_asking_someone_who_waits_for_room_in_ones_own_mailbox_is_told() -> None:
    gate = anyio.Event()
    async with partners(capacity=1) as (a, b), anyio.create_task_group() as task_group:
        asking = await start(task_group, partial(b.ask, Partner.when, gate, Partner.ask, a))
        await b.tell(Partner.reply)
        telling = await start(task_group, partial(a.ask, Partner.tell, b))
        gate.set()
    assert isinstance(asking.result, ActorDeadlockError)
    assert telling.result is None


async def test_asking_someone_whose_mailbox_is_full_closes_the_circle_too() -> None:
    gate = anyio.Event()
    async with partners(capacity=1) as (a, b), anyio.create_task_group() as task_group:
        asking = await start(task_group, partial(b.ask, Partner.when, gate, Partner.ask, a))
        await b.tell(Partner.reply)
        asking_back = await start(task_group, partial(a.ask, Partner.ask, b))
        gate.set()
    assert isinstance(asking.result, ActorDeadlockError)
    assert asking_back.result == "reply"


async def test_who_was_let_in_waits_no_more_although_it_has_not_run_since() -> None:
    gate = anyio.Event()
    async with partners(capacity=1) as (a, b), anyio.create_task_group() as task_group:
        await start(task_group, partial(b.ask, lambda actor: gate.wait()))
        asking = await start(task_group, partial(b.ask, Partner.ask, a))
        telling = await start(task_group, partial(a.ask, Partner.tell, b))
        gate.set()  # b takes the message that asks, which makes room for the one that a tells
    assert (asking.result, telling.result) == ("reply", None)


async def test_who_has_a_reply_waits_no_more_although_it_has_not_run_since(anyio_backend_name: str) -> None:
    for _ in range(REPEATS[anyio_backend_name]):
        await _ask_back_after_the_reply()


async def _ask_back_after_the_reply() -> None:
    gate = anyio.Event()

    async def ask_for_a_late_reply(actor: Partner) -> object:
        return await b.ask(Partner.when, gate, Partner.reply)

    async with partners() as (a, b), anyio.create_task_group() as task_group:
        asking = await start(task_group, partial(a.ask, ask_for_a_late_reply))
        asking_back = await start(task_group, partial(b.ask, Partner.ask, a))
        gate.set()
    assert (asking.result, asking_back.result) == ("reply", "reply")


async def test_who_is_cancelled_waits_no_more_although_it_has_not_run_since() -> None:
    gate = anyio.Event()
    scope = anyio.CancelScope()

    async def ask_and_give_up(actor: Partner) -> str:
        with scope:
            return await b.ask(Partner.reply)
        return "given up"

    async def cancel_and_ask(actor: Partner) -> str:
        scope.cancel()
        return await a.ask(Partner.reply)

    async with partners() as (a, b), anyio.create_task_group() as task_group:
        asking_back = await start(task_group, partial(b.ask, Partner.when, gate, cancel_and_ask))
        asking = await start(task_group, partial(a.ask, ask_and_give_up))
        gate.set()
    assert (asking.result, asking_back.result) == ("given up", "reply")


@pytest.mark.parametrize("turns", range(4))
async def test_asking_someone_whose_tell_is_cancelled_does_not_send_for_it(
    turns: int, anyio_backend_name: str
) -> None:
    for _ in range(REPEATS[anyio_backend_name]):
        await _ask_a_cancelled_teller(turns)


async def _ask_a_cancelled_teller(turns: int) -> None:
    gate, scope = anyio.Event(), anyio.CancelScope()
    handled: list[str] = []

    async def tell_or_give_up(actor: Partner) -> None:
        with scope:
            await b.tell(lambda actor: note("of the teller"))

    async def note(text: str) -> None:
        handled.append(text)

    async with partners(capacity=1) as (a, b), anyio.create_task_group() as task_group:
        await start(task_group, partial(b.ask, lambda actor: gate.wait()))
        await start(task_group, partial(b.ask, Partner.ask, a))
        await start(task_group, partial(a.ask, tell_or_give_up))
        gate.set()
        for _ in range(turns):
            await checkpoint()
        scope.cancel()
    assert handled == ([] if scope.cancelled_caught else ["of the teller"])
    figures = b.statistics().mailbox
    assert (figures.sent, figures.failed_sends) == (2 + len(handled), 0)


@pytest.mark.parametrize("send", [Partner.tell, Partner.ask])
async def test_who_is_refused_waits_no_more_although_it_has_not_run_since(send: AsyncFunction) -> None:
    gate = anyio.Event()

    async def close_and_ask(actor: Partner) -> str:
        actor.handle.close()
        return await a.ask(Partner.reply)

    async with partners(capacity=1) as (a, b), anyio.create_task_group() as task_group:
        asking = await start(task_group, partial(b.ask, Partner.when, gate, close_and_ask))
        await b.tell(Partner.reply)
        sending = await start(task_group, partial(a.ask, handing_on_the_end, send, b))
        gate.set()
    assert (sending.result, asking.result) == ("ended", "reply")
    assert b.statistics().mailbox.failed_sends == 1


async def handing_on_the_end(actor: Partner, send: AsyncFunction, other: ActorHandle[Partner]) -> str:
    """Send something to an actor that ends meanwhile."""
    with pytest.raises(ActorEndedError):
        await send(actor, other)
    return "ended"


@pytest.mark.virtual_time
async def test_a_wait_that_gives_up_in_time_closes_no_circle() -> None:
    async def ask_for_a_while(actor: Partner) -> str:
        with anyio.move_on_after(2):
            return await b.ask(Partner.reply)
        return "given up"

    gate = anyio.Event()
    async with partners() as (a, b), anyio.create_task_group() as task_group:
        asking_back = await start(task_group, partial(b.ask, Partner.when, gate, Partner.ask, a))
        asking = await start(task_group, partial(a.ask, ask_for_a_while))
        gate.set()
    assert (asking.result, asking_back.result) == ("given up", "reply")


async def test_a_wait_in_vain_is_told_at_once_although_it_would_give_up() -> None:
    async def ask_for_a_while(actor: Partner) -> str:
        with anyio.fail_after(1000):
            return await b.ask(Partner.reply)

    async with partners() as (a, b), anyio.create_task_group() as task_group:
        gate = anyio.Event()
        asking = await start(task_group, partial(a.ask, Partner.when, gate, ask_for_a_while))
        asking_back = await start(task_group, partial(b.ask, Partner.ask, a))
        gate.set()
    assert isinstance(asking.result, ActorDeadlockError)
    assert asking_back.result == "reply"


@pytest.mark.parametrize("wait", [Partner.stop, Partner.wait_ended])
async def test_asking_someone_who_waits_for_ones_own_end_is_told(
    wait: Callable[..., Awaitable[None]],
) -> None:
    gate = anyio.Event()
    async with partners() as (a, b), anyio.create_task_group() as task_group:
        asking = await start(task_group, partial(b.ask, Partner.when, gate, Partner.ask, a))
        stopping = await start(task_group, partial(a.ask, wait, b))
        gate.set()
        b.close()
    assert isinstance(asking.result, ActorDeadlockError)
    assert stopping.result is None


@pytest.mark.parametrize("wait", [Partner.stop, Partner.wait_ended])
async def test_waiting_for_the_end_of_someone_who_asks_is_told(wait: AsyncFunction) -> None:
    gate = anyio.Event()
    async with partners() as (a, b):
        async with anyio.create_task_group() as task_group:
            stopping = await start(task_group, partial(a.ask, Partner.when, gate, wait, b))
            asking = await start(task_group, partial(b.ask, Partner.ask, a))
            gate.set()
        assert await b.ask(Partner.reply) == "reply"
    assert isinstance(stopping.result, ActorDeadlockError)
    assert asking.result == "reply"


async def test_waiting_for_an_end_that_has_come_is_no_wait() -> None:
    async with partners() as (a, b):
        await b.stop()
        await a.ask(Partner.stop, b)
        await a.ask(Partner.wait_ended, b)

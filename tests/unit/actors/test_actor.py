"""Actors: one owner task, messages in order, and how an actor ends."""

import logging
from contextvars import ContextVar
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from nighthawk_async.actors import (
    Actor,
    ActorEndedError,
    ActorHandle,
    ActorInterruptedError,
    Mailbox,
    MailboxClosedError,
    MailboxFullError,
    open_actor,
)
from nighthawk_async.actors.actor_life import ActorFigures, ActorLife, ActorMessage
from tests.unit.actors.actor_examples import Counter
from tests.unit.actors.waiting_tasks import start

pytestmark = pytest.mark.anyio


async def test_messages_are_handled_one_at_a_time_and_in_order() -> None:
    log: list[str] = []
    async with open_actor(partial(Counter, log)) as counter, anyio.create_task_group() as task_group:
        for number in range(20):
            await start(task_group, partial(counter.ask, Counter.add, number))
    async with open_actor(partial(Counter)) as counter, anyio.create_task_group() as task_group:
        for _ in range(20):
            task_group.start_soon(counter.ask, Counter.add, 1)
        await anyio.wait_all_tasks_blocked()
        assert await counter.ask(Counter.add, 0) == 20
    assert [line for line in log if line.startswith("add")] == [f"add {number}" for number in range(20)]
    assert (log[0], log[-1]) == ("started", "stopping")


async def test_handlers_of_different_actors_interleave() -> None:
    class Player(Actor):
        async def play(self, game: int, side: int) -> None:
            for turn in range(3):
                if side or turn:
                    await balls[game, side].wait()
                    balls[game, side] = anyio.Event()
                log.append((game, side))
                balls[game, 1 - side].set()

    log: list[tuple[int, int]] = []
    balls = {(game, side): anyio.Event() for game in range(2) for side in range(2)}
    async with open_actor(Player) as one, open_actor(Player) as other:
        for game in range(2):
            await one.tell(Player.play, game, 0)
            await other.tell(Player.play, game, 1)
    for game in range(2):
        assert [side for played, side in log if played == game] == [0, 1, 0, 1, 0, 1]
    for player in range(2):
        assert [game for game, side in log if side == player] == [0, 0, 0, 1, 1, 1]


async def test_ask_gives_what_the_handler_gives_and_tell_does_not_wait() -> None:
    async with open_actor(Counter) as counter:
        await counter.tell(Counter.add, 1)
        counter.tell_nowait(Counter.add, number=2)
        assert await counter.ask(Counter.add, 3) == 6
        assert (counter.name, counter.status) == ("Counter", "running")
        assert repr(counter) == "<actor 'Counter', running>"
    assert counter.status == "ended"


async def test_an_error_goes_to_the_asker_and_ends_the_actor() -> None:
    log: list[str] = []
    async with open_actor(partial(Counter, log), name="sum") as counter:
        with pytest.raises(ValueError, match="crash"):
            await counter.ask(Counter.crash)
        await counter.wait_ended()
        assert log == ["started", "stopping"]
        with pytest.raises(ActorEndedError, match="the actor 'sum' takes no more messages") as caught:
            await counter.ask(Counter.add, 1)
        assert isinstance(caught.value.__cause__, ValueError)
        with pytest.raises(ActorEndedError):
            await counter.tell(Counter.add, 1)
        with pytest.raises(ActorEndedError):
            counter.tell_nowait(Counter.add, 1)


async def test_what_waits_when_the_actor_crashes_gets_a_typed_error() -> None:
    async with open_actor(Counter) as counter, anyio.create_task_group() as task_group:
        crashing = await start(task_group, partial(_caught, counter.ask(Counter.crash)))
        waiting = await start(task_group, partial(_caught, counter.ask(Counter.add, 1)))
        assert isinstance(crashing.result, ValueError)
        assert isinstance(waiting.result, ActorEndedError)


async def test_those_who_wait_for_room_when_the_actor_crashes_get_a_typed_error() -> None:
    gate = anyio.Event()
    results: list[object] = []

    async def ask(counter_method: object, *args: object) -> None:
        try:
            results.append(await counter.ask(counter_method, *args))  # type: ignore[arg-type]
        except (ValueError, ActorEndedError) as error:
            results.append(type(error))

    async with open_actor(lambda: Counter(gate=gate), capacity=1) as counter:
        async with anyio.create_task_group() as task_group:
            for method, *args in ((Counter.wait,), (Counter.crash,), (Counter.add, 1), (Counter.add, 2)):
                task_group.start_soon(ask, method, *args)
                await anyio.wait_all_tasks_blocked()
            assert counter.statistics().mailbox.waiting_senders == 2
            gate.set()
        assert results[0] == "wait"
        assert sorted(map(str, results[1:])) == sorted(
            map(str, [ValueError, ActorEndedError, ActorEndedError])
        )


async def test_an_exception_that_is_an_answer_does_not_end_the_actor() -> None:
    async with open_actor(Counter) as counter:
        with pytest.raises(KeyError, match="miss"):
            await counter.ask(Counter.miss)
        assert await counter.ask(Counter.add, 1) == 1
        figures = counter.statistics()
        assert (figures.handled, figures.failed, figures.lives) == (1, 1, 1)


async def test_an_answer_that_nobody_asked_for_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "nighthawk"):
        async with open_actor(Counter) as counter:
            await counter.tell(Counter.miss)
    assert [record.message for record in caplog.records] == [
        "actor Counter: Counter.miss failed, and no caller received the error"
    ]


async def test_a_crash_that_nobody_was_told_of_is_raised_from_the_block() -> None:
    async def run() -> None:
        async with open_actor(Counter) as counter:
            handles.append(counter)
            await counter.tell(Counter.crash)
            await anyio.sleep_forever()

    handles: list[ActorHandle[Counter]] = []
    with pytest.raises(ValueError, match="crash"):
        await run()
    assert handles[0].status == "ended"


async def test_the_error_of_an_abandoned_ask_is_raised_from_the_block() -> None:
    gate = anyio.Event()

    async def wait_and_fail(counter: Counter) -> None:
        await gate.wait()
        raise ValueError("late")

    async def run() -> None:
        async with open_actor(Counter) as counter:
            async with anyio.create_task_group() as task_group:
                asking = await start(task_group, lambda: counter.ask(wait_and_fail))
                asking.scope.cancel()
            gate.set()
            await anyio.sleep_forever()

    with pytest.raises(ValueError, match="late"):
        await run()


async def test_a_message_of_a_cancelled_asker_is_never_handled() -> None:
    gate = anyio.Event()
    log: list[str] = []
    actor = open_actor(partial(Counter, log, gate=gate))
    async with actor as counter, anyio.create_task_group() as task_group:
        taken = await start(task_group, partial(counter.ask, Counter.wait, "taken"))
        not_taken = await start(task_group, partial(counter.ask, Counter.add, 1))
        await start(task_group, partial(counter.ask, Counter.add, 2))
        taken.scope.cancel()
        not_taken.scope.cancel()
        await anyio.wait_all_tasks_blocked()
        gate.set()
    assert log == ["started", "taken", "add 2", "stopping"]
    figures = counter.statistics()
    assert (figures.handled, figures.abandoned, figures.failed) == (2, 1, 0)


async def test_stop_handles_what_was_sent_before_and_waits_for_the_end() -> None:
    log: list[str] = []
    async with open_actor(partial(Counter, log)) as counter:
        await counter.tell(Counter.add, 1)
        await counter.tell(Counter.add, 2)
        await counter.stop()
        assert log == ["started", "add 1", "add 2", "stopping"]
        assert counter.status == "ended"
        await counter.stop()
        with pytest.raises(ActorEndedError):
            await counter.ask(Counter.add, 3)


async def test_stop_now_interrupts_what_is_handled_and_refuses_what_waits() -> None:
    log: list[str] = []
    async with open_actor(partial(Counter, log, gate=anyio.Event())) as counter:
        async with anyio.create_task_group() as task_group:
            handled = await start(task_group, lambda: counter.ask(Counter.wait))
            waiting = await start(task_group, lambda: counter.ask(Counter.add, 1))
            counter.stop_now()
        assert isinstance(handled.result, ActorInterruptedError)
        assert str(handled.result) == "the actor 'Counter' was stopped while it handled the message"
        assert isinstance(waiting.result, ActorEndedError)
        assert log == ["started", "wait", "stopping"]
        assert counter.statistics().refused == 1
        counter.stop_now()


async def test_an_actor_that_is_stopped_before_it_began_never_lives() -> None:
    log: list[str] = []
    async with open_actor(partial(Counter, log)) as counter:
        counter.tell_nowait(Counter.add, 1)
        counter.stop_now()
        await counter.wait_ended()
    assert log == []
    assert counter.statistics().lives == 0


async def test_a_cancelled_block_cancels_the_actor_and_lets_it_clean_up() -> None:
    log: list[str] = []

    class Closing(Counter):
        async def stopping(self) -> None:
            await checkpoint()
            await super().stopping()

    with anyio.CancelScope() as scope:
        async with open_actor(lambda: Closing(log, gate=anyio.Event())) as counter:
            await counter.tell(Counter.wait)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            await checkpoint()
    assert scope.cancelled_caught
    assert log == ["started", "wait", "stopping"]
    assert counter.status == "ended"


async def test_a_block_cancelled_before_the_actor_began_ends_it() -> None:
    with anyio.CancelScope() as scope:
        async with open_actor(Counter) as counter:
            counter.tell_nowait(Counter.add, 1)
            scope.cancel()
            await checkpoint()
    assert counter.status == "ended"
    assert counter.statistics().refused == 1


async def test_an_error_in_the_block_comes_out_as_it_is_and_cancels_the_actor() -> None:
    async def run() -> None:
        async with open_actor(partial(Counter, log, gate=anyio.Event())) as counter:
            await counter.tell(Counter.wait)
            await anyio.wait_all_tasks_blocked()
            raise RuntimeError("block")

    log: list[str] = []
    with pytest.raises(RuntimeError, match="block"):
        await run()
    assert log == ["started", "wait", "stopping"]


async def test_an_actor_that_cannot_start_refuses_what_waits() -> None:
    class Broken(Counter):
        async def started(self) -> None:
            await checkpoint()
            raise OSError("no disk")

    log: list[str] = []
    results: list[object] = []

    async def run() -> None:
        async with open_actor(partial(Broken, log)) as broken:
            with anyio.CancelScope(shield=True):
                results.append(await _caught(broken.ask(Counter.add, 1)))
            await anyio.sleep_forever()

    with pytest.raises(OSError, match="no disk"):
        await run()
    assert isinstance(results[0], ActorEndedError)
    assert isinstance(results[0].__cause__, OSError)
    assert log == []


@pytest.mark.virtual_time
async def test_stopping_has_a_bounded_time(caplog: pytest.LogCaptureFixture) -> None:
    class Slow(Counter):
        stopping_seconds = 2.0

        async def stopping(self) -> None:
            await anyio.sleep_forever()

    begin = anyio.current_time()
    with caplog.at_level(logging.WARNING, "nighthawk"):
        async with open_actor(Slow):
            pass
    assert anyio.current_time() == begin + 2
    assert "`stopping` was cancelled after its time limit" in caplog.text


async def test_an_actor_may_end_itself_and_hand_its_handle_out() -> None:
    class Polite(Actor):
        async def leave(self) -> str:
            self.handle.close()
            return self.handle.name

    async with open_actor(Polite) as polite:
        assert await polite.ask(Polite.leave) == "Polite"
        await polite.wait_ended()

        async def own_handle(actor: Polite) -> object:
            return actor.handle

    async with open_actor(Polite) as polite:
        handle = await polite.ask(own_handle)
        assert handle == polite
        assert hash(handle) == hash(polite)
        assert handle != "Polite"


async def test_an_actor_has_the_context_of_its_opener_and_not_of_its_askers() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="none")

    async def read(counter: Counter) -> str:
        return variable.get()

    variable.set("opener")
    async with open_actor(Counter) as counter:
        variable.set("asker")
        assert await counter.ask(read) == "opener"


async def test_a_full_mailbox_makes_senders_wait() -> None:
    gate = anyio.Event()
    async with open_actor(lambda: Counter(gate=gate), capacity=1) as counter:
        await counter.tell(Counter.wait)
        await anyio.wait_all_tasks_blocked()
        await counter.tell(Counter.add, 1)
        with pytest.raises(MailboxFullError):
            counter.tell_nowait(Counter.add, 1)
        async with anyio.create_task_group() as task_group:
            telling = await start(task_group, lambda: counter.tell(Counter.add, 2))
            assert telling.result == "nothing"
            gate.set()
        assert await counter.ask(Counter.add, 0) == 3


async def test_errors_of_mailboxes_in_handlers_arrive_as_they_are() -> None:
    async def send_to_closed(counter: Counter) -> None:
        raise MailboxClosedError("another mailbox")

    async with open_actor(Counter) as counter:
        with pytest.raises(MailboxClosedError, match="another mailbox"):
            await counter.ask(send_to_closed)


@pytest.mark.parametrize("capacity", [0, -1, 2.5, True, "3", float("nan")])
async def test_a_bad_capacity_is_refused(capacity: Any) -> None:
    with pytest.raises(ValueError, match="capacity must be a whole number of at least 1"):
        open_actor(Counter, capacity=capacity)


async def test_what_makes_no_instance_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="an actor is made by its class or a function, not by <"):
        open_actor(Counter())  # type: ignore[arg-type]


async def _caught(awaitable: object) -> object:
    try:
        return await awaitable  # type: ignore[misc]
    except (ValueError, ActorEndedError) as error:
        return error


@pytest.mark.parametrize("turns", range(6))
async def test_a_life_that_is_paused_in_any_turn_ends_and_leaves_the_mailbox_open(turns: int) -> None:
    mailbox: Mailbox[ActorMessage] = Mailbox()
    life = ActorLife("counter", mailbox, ActorFigures())
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(life.run, Counter)
        for _ in range(turns):
            await checkpoint()
        life.pause()
    assert not mailbox.is_closed

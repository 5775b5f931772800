"""Waiting for several mailboxes and channels at once."""

import asyncio

import anyio
import pytest
from trio.testing import MockClock

from nighthawk_async.actors import (
    Channel,
    Mailbox,
    NothingReady,
    Received,
    Select,
    Sent,
    SourceClosed,
    TimedOut,
    select,
)
from tests.unit.actors.waiting_tasks import Waiting, start

pytestmark = pytest.mark.anyio


async def enter(selecting: Select[object]) -> object:
    """What fires."""
    async with selecting as fired:
        return fired


async def test_the_source_that_has_a_message_fires_and_the_others_keep_theirs() -> None:
    numbers: Mailbox[int] = Mailbox()
    words: Mailbox[str] = Mailbox()
    words.send_nowait("first")
    words.send_nowait("second")
    async with select(numbers.receiving(), words.receiving()) as fired:
        match fired:
            case Received(index=1, source=source, message=message):
                assert source is words
                assert message == "first"
            case _:
                pytest.fail(f"{fired} fired")
    assert words.drain() == ["second"]


async def test_of_several_ready_arms_the_first_listed_fires() -> None:
    stop: Mailbox[str] = Mailbox()
    work: Mailbox[str] = Mailbox()
    for mailbox, message in ((work, "work"), (stop, "stop")):
        mailbox.send_nowait(message)
    async with select(stop.receiving(), work.receiving()) as fired:
        assert fired == Received(index=0, source=stop, message="stop")
    async with select(stop.receiving(), work.receiving()) as fired:
        assert fired == Received(index=1, source=work, message="work")


async def test_a_waiting_select_fires_once_and_leaves_every_other_source_alone() -> None:
    first: Mailbox[int] = Mailbox()
    second: Mailbox[int] = Mailbox()
    async with anyio.create_task_group() as task_group:
        waiting = await start(task_group, lambda: enter(select(first.receiving(), second.receiving())))
        second.send_nowait(2)
        first.send_nowait(1)
    assert waiting.result == Received(index=1, source=second, message=2)
    assert first.receive_nowait() == 1
    assert first.statistics().waiting_receivers == second.statistics().waiting_receivers == 0


async def test_a_waiting_select_fires_for_what_came_first_however_its_arms_are_listed() -> None:
    stop: Mailbox[str] = Mailbox()
    work: Mailbox[str] = Mailbox()
    async with anyio.create_task_group() as task_group:
        waiting = await start(task_group, lambda: enter(select(stop.receiving(), work.receiving())))
        work.send_nowait("work")
        stop.send_nowait("stop")  # before the select runs
    assert waiting.result == Received(index=1, source=work, message="work")
    assert await enter(select(stop.receiving(), work.receiving())) == Received(
        index=0, source=stop, message="stop"
    )


async def test_a_select_takes_its_turn_among_receivers() -> None:
    mailbox: Mailbox[int] = Mailbox()
    async with anyio.create_task_group() as task_group:
        receiver = await start(task_group, mailbox.receive)
        selecting = await start(task_group, lambda: enter(select(mailbox.receiving())))
        last = await start(task_group, mailbox.receive)
        for message in range(3):
            mailbox.send_nowait(message)
            await anyio.wait_all_tasks_blocked()
    assert (receiver.result, last.result) == (0, 2)
    assert selecting.result == Received(index=0, source=mailbox, message=1)


async def test_a_cancelled_select_loses_nothing() -> None:
    mailbox: Mailbox[str] = Mailbox()
    channel: Channel[str] = Channel()
    async with anyio.create_task_group() as task_group:
        selecting = await start(task_group, lambda: enter(select(channel.receiving(), mailbox.receiving())))
        selecting.scope.cancel()
        mailbox.send_nowait("kept")  # before the select runs
        sender = await start(task_group, lambda: channel.send("kept too"))
        assert selecting.result == "cancelled"
        assert sender.result == "nothing"
        assert mailbox.receive_nowait() == "kept"
        assert channel.receive_nowait() == "kept too"


async def test_a_cancelled_select_passes_what_it_was_woken_for_to_the_next_in_turn() -> None:
    mailbox: Mailbox[str] = Mailbox()
    other: Mailbox[str] = Mailbox()
    async with anyio.create_task_group() as task_group:
        selecting = await start(task_group, lambda: enter(select(mailbox.receiving(), other.receiving())))
        receiver = await start(task_group, mailbox.receive)
        selecting.scope.cancel()
        mailbox.send_nowait("message")
    assert (selecting.result, receiver.result) == ("cancelled", "message")


async def test_a_select_cancelled_before_it_begins_takes_nothing() -> None:
    mailbox: Mailbox[str] = Mailbox()
    mailbox.send_nowait("kept")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await enter(select(mailbox.receiving(), default=True))
    assert scope.cancelled_caught
    assert mailbox.drain() == ["kept"]


def test_a_select_that_asyncio_cancels_after_it_was_woken_loses_nothing() -> None:
    async def main() -> list[object]:
        mailbox: Mailbox[str] = Mailbox()
        task = asyncio.create_task(enter(select(mailbox.receiving(), Mailbox[int]().receiving())))
        await anyio.wait_all_tasks_blocked()
        mailbox.send_nowait("kept")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return [task.cancelled(), mailbox.receive_nowait()]

    assert asyncio.run(main()) == [True, "kept"]


@pytest.mark.virtual_time
async def test_a_timeout_fires_when_no_arm_does(virtual_clock: MockClock) -> None:
    mailbox: Mailbox[str] = Mailbox()
    began = virtual_clock.current_time()
    async with select(mailbox.receiving(), timeout=5) as fired:
        assert fired == TimedOut()
    assert virtual_clock.current_time() - began == pytest.approx(5)
    assert mailbox.statistics().waiting_receivers == 0
    mailbox.send_nowait("late")
    assert mailbox.receive_nowait() == "late"


@pytest.mark.virtual_time
async def test_a_message_in_time_fires_before_the_timeout(virtual_clock: MockClock) -> None:
    mailbox: Mailbox[str] = Mailbox()

    async def send_later() -> None:
        await anyio.sleep(4)
        mailbox.send_nowait("message")

    began = virtual_clock.current_time()
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(send_later)
        async with select(mailbox.receiving(), timeout=5) as fired:
            assert fired == Received(index=0, source=mailbox, message="message")
    assert virtual_clock.current_time() - began == pytest.approx(4)


@pytest.mark.virtual_time
async def test_a_message_that_is_there_when_the_time_is_over_is_received() -> None:
    outcomes: set[bool] = set()
    for _ in range(30):  # Trio shuffles the tasks of a turn
        mailbox: Mailbox[str] = Mailbox()

        async def send_later(mailbox: Mailbox[str] = mailbox) -> None:
            await anyio.sleep(5)
            mailbox.send_nowait("message")

        async with anyio.create_task_group() as task_group:
            task_group.start_soon(send_later)
            async with select(mailbox.receiving(), timeout=5) as fired:
                was_there = mailbox.statistics().sent == 1
                assert isinstance(fired, Received if was_there else TimedOut)
        assert mailbox.drain() == ([] if was_there else ["message"])
        outcomes.add(was_there)
    assert outcomes == {True, False}


async def test_a_timeout_of_no_seconds_polls() -> None:
    mailbox: Mailbox[int] = Mailbox()
    assert await enter(select(mailbox.receiving(), timeout=0)) == TimedOut()
    mailbox.send_nowait(1)
    assert await enter(select(mailbox.receiving(), timeout=0)) == Received(index=0, source=mailbox, message=1)


async def test_the_default_fires_when_nothing_is_ready() -> None:
    mailbox: Mailbox[int] = Mailbox()
    channel: Channel[int] = Channel()
    arms = (channel.receiving(), mailbox.receiving())
    assert await enter(select(*arms, default=True)) == NothingReady()
    mailbox.send_nowait(1)
    assert await enter(select(*arms, default=True)) == Received(index=1, source=mailbox, message=1)


async def test_a_select_sends_when_there_is_room() -> None:
    full: Mailbox[int] = Mailbox(capacity=1)
    full.send_nowait(0)
    free: Mailbox[int] = Mailbox()
    async with select(full.sending(1), free.sending(2)) as fired:
        assert fired == Sent(index=1, source=free)
    assert (full.drain(), free.drain()) == ([0], [2])


async def test_a_waiting_select_sends_one_of_its_messages() -> None:
    mailbox: Mailbox[int] = Mailbox(capacity=1)
    mailbox.send_nowait(0)
    channel: Channel[int] = Channel()
    async with anyio.create_task_group() as task_group:
        selecting = await start(task_group, lambda: enter(select(channel.sending(1), mailbox.sending(2))))
        assert mailbox.receive_nowait() == 0
        assert channel.try_receive("nobody sends") == "nobody sends"
    assert selecting.result == Sent(index=1, source=mailbox)
    assert mailbox.drain() == [2]


async def test_two_selects_hand_a_message_over_a_channel() -> None:
    forth: Channel[str] = Channel()
    back: Channel[str] = Channel()
    async with anyio.create_task_group() as task_group:
        left = await start(task_group, lambda: enter(select(forth.sending("forth"), back.receiving())))
        right = await start(task_group, lambda: enter(select(back.sending("back"), forth.receiving())))
    assert (left.result, right.result) == (
        Sent(index=0, source=forth),
        Received(index=1, source=forth, message="forth"),
    )


async def test_a_receiver_woken_by_a_select_that_chose_otherwise_waits_on() -> None:
    channel: Channel[str] = Channel()
    mailbox: Mailbox[str] = Mailbox()
    async with anyio.create_task_group() as task_group:
        receiver = await start(task_group, channel.receive)
        mailbox.send_nowait("message")
        fired = await enter(select(mailbox.receiving(), channel.sending("never")))
        assert fired == Received(index=0, source=mailbox, message="message")
        assert receiver.result == "nothing"
        await channel.send("at last")
    assert receiver.result == "at last"


async def test_a_select_woken_for_what_was_drained_sees_what_came_to_another_source_meanwhile() -> None:
    first: Mailbox[str] = Mailbox()
    second: Mailbox[str] = Mailbox()
    async with anyio.create_task_group() as task_group:
        selecting = await start(task_group, lambda: enter(select(first.receiving(), second.receiving())))
        first.send_nowait("drained")
        assert first.drain() == ["drained"]
        second.send_nowait("message")
    assert selecting.result == Received(index=1, source=second, message="message")


async def test_a_select_woken_for_nothing_keeps_its_place_everywhere() -> None:
    drained: Mailbox[str] = Mailbox()
    full: Mailbox[int] = Mailbox(capacity=1)
    full.send_nowait(0)
    async with anyio.create_task_group() as task_group:
        first = await start(task_group, lambda: full.send(1))
        selecting = await start(task_group, lambda: enter(select(drained.receiving(), full.sending(2))))
        last = await start(task_group, lambda: full.send(3))
        drained.send_nowait("drained")
        assert drained.drain() == ["drained"]
        await anyio.wait_all_tasks_blocked()
        assert [full.receive_nowait() for _ in range(4)] == [0, 1, 2, 3]
    assert (first.result, selecting.result, last.result) == (None, Sent(index=1, source=full), None)


async def test_a_select_woken_for_nothing_keeps_its_place_among_receivers() -> None:
    drained: Mailbox[str] = Mailbox()
    mailbox: Mailbox[int] = Mailbox()
    async with anyio.create_task_group() as task_group:
        first = await start(task_group, mailbox.receive)
        selecting = await start(task_group, lambda: enter(select(drained.receiving(), mailbox.receiving())))
        last = await start(task_group, mailbox.receive)
        drained.send_nowait("drained")
        assert drained.drain() == ["drained"]
        for message in range(3):
            await anyio.wait_all_tasks_blocked()
            mailbox.send_nowait(message)
    assert (first.result, last.result) == (0, 2)
    assert selecting.result == Received(index=1, source=mailbox, message=1)


async def test_a_select_that_missed_its_turn_while_woken_for_nothing_is_next() -> None:
    drained: Mailbox[str] = Mailbox()
    full: Mailbox[int] = Mailbox(capacity=1)
    full.send_nowait(0)
    async with anyio.create_task_group() as task_group:
        await start(task_group, lambda: enter(select(drained.receiving(), full.sending(1))))
        for message in (2, 3):
            await start(task_group, lambda message=message: full.send(message))
        drained.send_nowait("drained")
        assert drained.drain() == ["drained"]
        received = [full.receive_nowait()]
        await anyio.wait_all_tasks_blocked()
        received += [full.receive_nowait() for _ in range(3)]
    assert received == [0, 2, 1, 3]


async def test_a_closed_source_fires_once_everything_was_received() -> None:
    mailbox: Mailbox[int] = Mailbox()
    mailbox.send_nowait(1)
    mailbox.close()
    other: Mailbox[int] = Mailbox()
    arms = (other.receiving(), mailbox.receiving())
    assert await enter(select(*arms)) == Received(index=1, source=mailbox, message=1)
    assert await enter(select(*arms)) == SourceClosed(index=1, source=mailbox)
    assert await enter(select(other.receiving(), mailbox.sending(2))) == SourceClosed(index=1, source=mailbox)


@pytest.mark.parametrize("is_sending", [False, True])
async def test_closing_a_source_fires_a_waiting_select(is_sending: bool) -> None:
    channel: Channel[int] = Channel()
    other: Mailbox[int] = Mailbox()
    arm = channel.sending(1) if is_sending else channel.receiving()
    async with anyio.create_task_group() as task_group:
        selecting = await start(task_group, lambda: enter(select(other.receiving(), arm)))
        channel.close()
        other.send_nowait(2)  # before the select runs: what came first fires
    assert selecting.result == SourceClosed(index=1, source=channel)
    assert other.drain() == [2]
    assert other.statistics().waiting_receivers == 0


async def test_one_select_may_be_entered_by_several_tasks_and_again() -> None:
    mailbox: Mailbox[int] = Mailbox()
    selecting = select(mailbox.receiving(), timeout=None)
    tasks = [Waiting(lambda: enter(selecting)) for _ in range(3)]
    async with anyio.create_task_group() as task_group:
        for task in tasks:
            task_group.start_soon(task.run)
        await anyio.wait_all_tasks_blocked()
        for message in range(3):
            mailbox.send_nowait(message)
    messages = [task.result.message for task in tasks if isinstance(task.result, Received)]
    assert sorted(messages) == [0, 1, 2]


async def test_a_select_over_no_arms_returns_its_default() -> None:
    async with select(default=True) as fired:
        assert fired == NothingReady()


@pytest.mark.virtual_time
async def test_a_select_over_no_arms_times_out() -> None:
    async with select(timeout=3600) as fired:
        assert fired == TimedOut()


def test_a_select_that_makes_no_sense_is_refused() -> None:
    mailbox: Mailbox[int] = Mailbox()
    channel: Channel[int] = Channel()
    with pytest.raises(ValueError, match="without arms waits for ever"):
        select()
    with pytest.raises(ValueError, match="a timeout or a default, not both"):
        select(mailbox.receiving(), timeout=1, default=True)
    for timeout in (-1, float("nan"), True, "3"):
        with pytest.raises(
            ValueError, match="timeout must be a number of seconds of at least 0 or None, not"
        ):
            select(mailbox.receiving(), timeout=timeout)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="cannot receive from what it sends to"):
        select(channel.receiving(), channel.sending(1))

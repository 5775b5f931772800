"""Mailboxes."""

import asyncio

import anyio
import pytest

from nighthawk_async.actors import Mailbox, MailboxClosedError, MailboxFullError, QueueStatistics
from tests.unit.actors.waiting_tasks import Waiting, start

pytestmark = pytest.mark.anyio


async def test_messages_arrive_in_the_order_of_sending_and_end_after_close() -> None:
    mailbox: Mailbox[int] = Mailbox()
    for message in range(3):
        mailbox.send_nowait(message)
    mailbox.close()
    mailbox.close()
    assert mailbox.is_closed
    assert [message async for message in mailbox] == [0, 1, 2]
    with pytest.raises(MailboxClosedError):
        await mailbox.receive()
    with pytest.raises(MailboxClosedError):
        mailbox.send_nowait(3)
    with pytest.raises(MailboxClosedError, match="the mailbox is closed"):
        await mailbox.send(3)


async def test_receive_waits_for_a_message_and_wakes_on_close() -> None:
    mailbox: Mailbox[str] = Mailbox()
    received: list[str] = []

    async def receive_all() -> None:
        received.extend([message async for message in mailbox])

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(receive_all)
        for message in ("first", "second"):
            await anyio.wait_all_tasks_blocked()
            mailbox.send_nowait(message)
        await anyio.wait_all_tasks_blocked()
        assert received == []
        mailbox.close()
    assert received == ["first", "second"]


async def test_receive_nowait_tells_empty_from_closed() -> None:
    mailbox: Mailbox[str] = Mailbox()
    with pytest.raises(anyio.WouldBlock):
        mailbox.receive_nowait()
    mailbox.send_nowait("message")
    mailbox.close()
    assert mailbox.receive_nowait() == "message"
    with pytest.raises(MailboxClosedError):
        mailbox.receive_nowait()


async def test_try_receive_gives_a_default_and_none_may_be_a_message() -> None:
    mailbox: Mailbox[str | None] = Mailbox()
    assert mailbox.try_receive() is None
    assert mailbox.try_receive("empty") == "empty"
    mailbox.send_nowait(None)
    assert mailbox.try_receive("empty") is None
    mailbox.close()
    assert mailbox.try_receive("closed") == "closed"


async def test_a_full_mailbox_refuses_and_says_how_full_it_is() -> None:
    mailbox: Mailbox[int] = Mailbox(capacity=1, name="inbox")
    mailbox.send_nowait(1)
    with pytest.raises(MailboxFullError, match="the mailbox 'inbox' holds 1 messages already"):
        mailbox.send_nowait(2)
    assert not mailbox.try_send(2)
    assert mailbox.drain() == [1]
    assert mailbox.drain() == []
    assert mailbox.try_send(3)
    mailbox.close()
    assert not mailbox.try_send(4)
    assert mailbox.receive_nowait() == 3


@pytest.mark.parametrize("capacity", [0, -1, 2.5, float("nan"), True, "3"])
def test_a_mailbox_needs_room_for_a_message(capacity: object) -> None:
    with pytest.raises(ValueError, match="capacity must be a whole number of at least 1 or None, not"):
        Mailbox[int](capacity=capacity)  # pyright: ignore[reportArgumentType]


def test_a_mailbox_holds_256_messages_unless_told_otherwise() -> None:
    assert (Mailbox[int]().capacity, Mailbox[int](capacity=None).capacity) == (256, None)


def test_a_mailbox_shows_its_name_and_state() -> None:
    mailbox: Mailbox[int] = Mailbox(name="inbox")
    mailbox.send_nowait(1)
    assert mailbox.name == "inbox"
    assert repr(mailbox) == "<mailbox 'inbox', open, 1 messages>"
    mailbox.close()
    assert repr(mailbox) == "<mailbox 'inbox', closed, 1 messages>"
    assert repr(Mailbox[int]()) == "<mailbox, open, 0 messages>"


async def test_senders_wait_for_room_and_get_in_in_the_order_of_waiting() -> None:
    mailbox: Mailbox[int] = Mailbox(capacity=2)
    async with anyio.create_task_group() as task_group:
        for message in range(6):
            task_group.start_soon(mailbox.send, message)
            await anyio.wait_all_tasks_blocked()
        assert mailbox.statistics().waiting_senders == 4
        with pytest.raises(MailboxFullError):
            mailbox.send_nowait(6)
        assert [mailbox.receive_nowait() for _ in range(6)] == list(range(6))
    assert mailbox.try_receive() is None


async def test_draining_lets_waiting_senders_in() -> None:
    mailbox: Mailbox[int] = Mailbox(capacity=1)
    async with anyio.create_task_group() as task_group:
        for message in range(3):
            await start(task_group, lambda message=message: mailbox.send(message))
        assert [mailbox.drain() for _ in range(4)] == [[0], [1], [2], []]


async def test_receivers_get_messages_in_the_order_of_waiting_each_exactly_once() -> None:
    mailbox: Mailbox[int] = Mailbox()
    async with anyio.create_task_group() as task_group:
        receivers = [await start(task_group, mailbox.receive) for _ in range(3)]
        for message in range(2):
            mailbox.send_nowait(message)
            await anyio.wait_all_tasks_blocked()
        assert [receiver.result for receiver in receivers] == [0, 1, "nothing"]
        mailbox.close()
        await anyio.wait_all_tasks_blocked()
        assert isinstance(receivers[2].result, MailboxClosedError)


async def test_what_a_waiting_receiver_was_woken_for_cannot_be_snatched() -> None:
    mailbox: Mailbox[str] = Mailbox()
    async with anyio.create_task_group() as task_group:
        receiver = await start(task_group, mailbox.receive)
        mailbox.send_nowait("for who waited")
        with pytest.raises(anyio.WouldBlock):
            mailbox.receive_nowait()
        mailbox.send_nowait("for anybody")
        assert mailbox.receive_nowait() == "for who waited", "the oldest goes to who runs first"
    assert receiver.result == "for anybody"


async def test_who_comes_later_does_not_receive_what_another_was_woken_for() -> None:
    mailbox: Mailbox[str] = Mailbox()
    async with anyio.create_task_group() as task_group:
        receiver = await start(task_group, mailbox.receive)
        newcomer = Waiting(mailbox.receive)
        task_group.start_soon(newcomer.run)
        mailbox.send_nowait("for who waited")
        await anyio.wait_all_tasks_blocked()
        assert (receiver.result, newcomer.result) == ("for who waited", "nothing")
        mailbox.close()


async def test_closing_delivers_what_was_sent_and_refuses_what_waits_to_be() -> None:
    mailbox: Mailbox[int] = Mailbox(capacity=1)
    mailbox.send_nowait(1)
    async with anyio.create_task_group() as task_group:
        sender = await start(task_group, lambda: mailbox.send(2))
        mailbox.close()
        await anyio.wait_all_tasks_blocked()
        assert isinstance(sender.result, MailboxClosedError)
    assert [message async for message in mailbox] == [1]
    assert mailbox.statistics().failed_sends == 1


async def test_a_receiver_behind_a_claim_gets_the_message_of_who_was_cancelled_even_after_close() -> None:
    mailbox: Mailbox[str] = Mailbox()
    async with anyio.create_task_group() as task_group:
        first = await start(task_group, mailbox.receive)
        second = await start(task_group, mailbox.receive)
        first.scope.cancel()
        mailbox.send_nowait("message")
        mailbox.close()
    assert [first.result, second.result] == ["cancelled", "message"]


async def test_who_waits_behind_the_last_message_ends_when_that_is_received() -> None:
    mailbox: Mailbox[str] = Mailbox()
    async with anyio.create_task_group() as task_group:
        first = await start(task_group, mailbox.receive)
        second = await start(task_group, mailbox.receive)
        mailbox.send_nowait("last")
        mailbox.close()
        await anyio.wait_all_tasks_blocked()
        assert first.result == "last"
        assert isinstance(second.result, MailboxClosedError)


async def test_who_waits_ends_when_the_last_message_is_drained() -> None:
    mailbox: Mailbox[str] = Mailbox()
    async with anyio.create_task_group() as task_group:
        receivers = [await start(task_group, mailbox.receive) for _ in range(2)]
        mailbox.send_nowait("last")
        mailbox.close()
        assert mailbox.drain() == ["last"]
        await anyio.wait_all_tasks_blocked()
        assert all(isinstance(receiver.result, MailboxClosedError) for receiver in receivers)


async def test_a_cancelled_wait_takes_nothing() -> None:
    mailbox: Mailbox[str] = Mailbox()
    async with anyio.create_task_group() as task_group:
        receiver = await start(task_group, mailbox.receive)
        receiver.scope.cancel()
        mailbox.send_nowait("kept")  # before the receiver runs
    assert receiver.result == "cancelled"
    assert mailbox.receive_nowait() == "kept"


async def test_a_cancelled_wait_sends_nothing() -> None:
    mailbox: Mailbox[str] = Mailbox(capacity=1)
    mailbox.send_nowait("first")
    async with anyio.create_task_group() as task_group:
        cancelled = await start(task_group, lambda: mailbox.send("cancelled"))
        other = await start(task_group, lambda: mailbox.send("other"))
        cancelled.scope.cancel()
        assert mailbox.receive_nowait() == "first"  # makes room before the cancelled sender runs
    assert (cancelled.result, other.result) == ("cancelled", None)
    assert mailbox.drain() == ["other"]


@pytest.mark.parametrize("verb", ["send", "receive"])
async def test_a_call_that_need_not_wait_is_cancelled_before_it_does_anything(verb: str) -> None:
    mailbox: Mailbox[str] = Mailbox()
    mailbox.send_nowait("message")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await (mailbox.send("more") if verb == "send" else mailbox.receive())
    assert scope.cancelled_caught
    assert mailbox.drain() == ["message"]


async def test_a_busy_receiver_lets_other_tasks_run() -> None:
    mailbox: Mailbox[int] = Mailbox()
    turns: list[int] = []

    async def count_turns() -> None:
        while not mailbox.is_closed or mailbox.statistics().depth:
            turns.append(mailbox.statistics().depth)
            await anyio.lowlevel.checkpoint()

    for message in range(20):
        mailbox.send_nowait(message)
    mailbox.close()
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(count_turns)
        assert [message async for message in mailbox] == list(range(20))
    assert len(set(turns)) > 10


async def test_a_receiver_woken_for_what_was_drained_waits_on_before_the_others() -> None:
    mailbox: Mailbox[str] = Mailbox()
    async with anyio.create_task_group() as task_group:
        first = await start(task_group, mailbox.receive)
        second = await start(task_group, mailbox.receive)
        mailbox.send_nowait("drained")
        assert mailbox.drain() == ["drained"]
        await anyio.wait_all_tasks_blocked()
        mailbox.send_nowait("message")
        await anyio.wait_all_tasks_blocked()
        assert [first.result, second.result] == ["message", "nothing"]
        mailbox.close()


async def test_the_statistics_account_for_every_message() -> None:
    mailbox: Mailbox[int] = Mailbox(capacity=2)
    for message in range(3):
        mailbox.try_send(message)
    mailbox.receive_nowait()
    async with anyio.create_task_group() as task_group:
        mailbox.send_nowait(3)
        await start(task_group, lambda: mailbox.send(4))
        assert mailbox.statistics() == QueueStatistics(
            depth=2,
            capacity=2,
            sent=3,
            received=1,
            failed_sends=1,
            waiting_senders=1,
            waiting_receivers=0,
            high_water_mark=2,
            is_closed=False,
        )
        assert mailbox.drain() == [1, 3]
        assert await mailbox.receive() == 4
        receiver = await start(task_group, mailbox.receive)
        assert mailbox.statistics().waiting_receivers == 1
        mailbox.close()
    assert isinstance(receiver.result, MailboxClosedError)
    statistics = mailbox.statistics()
    assert (statistics.sent, statistics.received, statistics.depth) == (4, 4, 0)
    assert (statistics.is_closed, statistics.waiting_receivers) == (True, 0)
    assert statistics.high_water_mark == 2


def test_a_task_that_asyncio_cancels_after_it_was_woken_passes_its_message_on() -> None:
    async def main() -> list[object]:
        mailbox: Mailbox[str] = Mailbox()
        first = asyncio.create_task(mailbox.receive())
        second = asyncio.create_task(mailbox.receive())
        await anyio.wait_all_tasks_blocked()
        mailbox.send_nowait("message")
        first.cancel()
        return await asyncio.gather(first, second, return_exceptions=True)

    first, second = asyncio.run(main())
    assert isinstance(first, asyncio.CancelledError)
    assert second == "message"

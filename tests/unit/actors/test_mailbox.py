"""Mailboxes."""

import anyio
import pytest

from nighthawk_async.actors import Mailbox, MailboxClosedError, MailboxFullError

pytestmark = pytest.mark.anyio


async def test_messages_arrive_in_the_order_of_sending_and_end_after_close() -> None:
    mailbox: Mailbox[int] = Mailbox()
    for message in range(3):
        mailbox.send_nowait(message)
    mailbox.close()
    mailbox.close()
    assert [message async for message in mailbox] == [0, 1, 2]
    with pytest.raises(MailboxClosedError):
        await mailbox.receive()
    with pytest.raises(MailboxClosedError):
        mailbox.send_nowait(3)


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


async def test_a_cancelled_wait_takes_nothing() -> None:
    mailbox: Mailbox[str] = Mailbox()
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(mailbox.receive)
        await anyio.wait_all_tasks_blocked()
        task_group.cancel_scope.cancel()
    mailbox.send_nowait("kept")
    assert await mailbox.receive() == "kept"


async def test_a_full_mailbox_refuses_and_says_how_full_it_is() -> None:
    mailbox: Mailbox[int] = Mailbox(capacity=1)
    mailbox.send_nowait(1)
    with pytest.raises(MailboxFullError, match="1 messages already"):
        mailbox.send_nowait(2)
    statistics = mailbox.statistics()
    assert (statistics.waiting, statistics.capacity, statistics.is_closed) == (1, 1, False)
    assert mailbox.drain() == [1]
    assert mailbox.drain() == []


@pytest.mark.parametrize("capacity", [0, -1])
def test_a_mailbox_needs_room_for_a_message(capacity: int) -> None:
    with pytest.raises(ValueError, match="capacity must be at least 1 or None"):
        Mailbox[int](capacity=capacity)

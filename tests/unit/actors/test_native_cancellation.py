"""Tasks that asyncio itself cancels, and no cancel scope, in the turn in which they were woken."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from nighthawk_async.actors import Channel, Mailbox, MailboxClosedError, select

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


async def start(work: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
    """Start a task and wait until it waits."""
    task = asyncio.create_task(work)
    await anyio.wait_all_tasks_blocked()
    return task


async def cancelled(task: asyncio.Task[object]) -> None:
    """Cancel a task that has not run since it was woken."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def full_mailbox() -> Mailbox[str]:
    mailbox: Mailbox[str] = Mailbox(capacity=1)
    mailbox.send_nowait("first")
    return mailbox


async def send_by_select(mailbox: Mailbox[str], message: str) -> None:
    async with select(Channel[str]().receiving(), mailbox.sending(message)):
        pass


@pytest.mark.parametrize("send", [Mailbox[str].send, send_by_select])
async def test_a_message_that_was_let_in_is_taken_back(
    send: Callable[[Mailbox[str], str], Coroutine[Any, Any, None]],
) -> None:
    mailbox = full_mailbox()
    sender = await start(send(mailbox, "taken back"))
    assert mailbox.receive_nowait() == "first"
    assert mailbox.statistics().depth == 1, "it is in, and its sender has not run"
    await cancelled(sender)
    figures = mailbox.statistics()
    assert (figures.depth, figures.sent, figures.received, figures.failed_sends) == (0, 1, 1, 0)


async def test_the_very_message_is_taken_back_and_not_one_that_equals_it() -> None:
    mailbox: Mailbox[str] = Mailbox(capacity=3)
    for _ in range(3):
        mailbox.send_nowait("old")
    first = await start(mailbox.send("same"))
    second = await start(mailbox.send("other"))
    third = await start(mailbox.send("same"))
    assert mailbox.drain() == ["old"] * 3
    await cancelled(first)
    await asyncio.gather(second, third)
    assert mailbox.drain() == ["other", "same"]


async def test_the_room_of_a_message_that_was_taken_back_goes_to_the_next_sender() -> None:
    mailbox = full_mailbox()
    sender = await start(mailbox.send("taken back"))
    next_sender = await start(mailbox.send("next"))
    mailbox.receive_nowait()
    await cancelled(sender)
    await next_sender
    assert mailbox.drain() == ["next"]


async def test_a_receiver_woken_for_a_message_that_was_taken_back_waits_on() -> None:
    mailbox: Mailbox[str] = Mailbox(capacity=1)
    first, second, third = [await start(mailbox.receive()) for _ in range(3)]
    sender = asyncio.create_task(mailbox.send("taken back"))
    mailbox.send_nowait("first")
    # In the next turn the sender waits, which wakes the second receiver, and the first lets it in. Then both
    # are cancelled, so that the third is woken for the message before that is taken back.
    for task in (second, sender):
        asyncio.get_running_loop().call_soon(task.cancel)
    assert await first == "first"
    await anyio.wait_all_tasks_blocked()
    assert (second.cancelled(), sender.cancelled(), third.done()) == (True, True, False)
    mailbox.send_nowait("message")
    assert await third == "message"


async def test_who_waits_at_a_closed_mailbox_ends_when_the_last_message_is_taken_back() -> None:
    mailbox: Mailbox[str] = Mailbox(capacity=1)
    first, second, *others = [await start(mailbox.receive()) for _ in range(4)]
    sender = asyncio.create_task(mailbox.send("taken back"))
    mailbox.send_nowait("first")
    for callback in (second.cancel, sender.cancel, mailbox.close):  # as above
        asyncio.get_running_loop().call_soon(callback)
    assert await first == "first"
    await anyio.wait_all_tasks_blocked()
    assert (second.cancelled(), sender.cancelled()) == (True, True)
    for receiver in others:
        with pytest.raises(MailboxClosedError):
            await receiver


async def test_what_a_receiver_has_cannot_be_taken_back() -> None:
    channel: Channel[str] = Channel()
    sender = await start(channel.send("received"))
    assert channel.receive_nowait() == "received"
    await cancelled(sender)
    figures = channel.statistics()
    assert (figures.sent, figures.received) == (1, 1)


async def receive_by_select(mailbox: Mailbox[str]) -> None:
    async with select(Channel[str]().receiving(), mailbox.receiving()):
        pass


@pytest.mark.parametrize("receive", [Mailbox[str].receive, receive_by_select])
async def test_what_a_receiver_was_woken_for_stays_first(
    receive: Callable[[Mailbox[str]], Coroutine[Any, Any, object]],
) -> None:
    mailbox: Mailbox[str] = Mailbox()
    receiver = await start(receive(mailbox))
    next_receiver = await start(mailbox.receive())
    mailbox.send_nowait("first")
    mailbox.send_nowait("second")
    await cancelled(receiver)
    assert await next_receiver == "first"
    assert mailbox.drain() == ["second"]


@pytest.mark.parametrize("wait", [Mailbox[str].receive, lambda mailbox: mailbox.send("never")])
async def test_a_cancelled_wait_leaves_no_place_in_the_queue(
    wait: Callable[[Mailbox[str]], Coroutine[Any, Any, object]],
) -> None:
    mailbox = full_mailbox()
    if wait is Mailbox[str].receive:
        mailbox.drain()
    task = await start(wait(mailbox))
    await cancelled(task)
    figures = mailbox.statistics()
    assert (figures.waiting_senders, figures.waiting_receivers) == (0, 0)

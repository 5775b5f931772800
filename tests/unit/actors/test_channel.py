"""Channels: from hand to hand."""

import anyio
import pytest

from nighthawk_async.actors import Channel, ChannelClosedError
from tests.unit.actors.waiting_tasks import start

pytestmark = pytest.mark.anyio


async def test_send_returns_when_a_receiver_has_the_message() -> None:
    channel: Channel[str] = Channel()
    async with anyio.create_task_group() as task_group:
        sender = await start(task_group, lambda: channel.send("message"))
        assert sender.result == "nothing"
        assert channel.statistics().waiting_senders == 1
        assert channel.receive_nowait() == "message"
        await anyio.wait_all_tasks_blocked()
        assert sender.result is None


@pytest.mark.parametrize("who_waits", ["senders", "receivers"])
async def test_messages_go_from_hand_to_hand_in_the_order_of_waiting(who_waits: str) -> None:
    channel: Channel[int] = Channel()
    received: list[int] = []

    async def receive() -> None:
        received.append(await channel.receive())

    async with anyio.create_task_group() as task_group:
        for message in range(3):
            if who_waits == "senders":
                task_group.start_soon(channel.send, message)
            else:
                task_group.start_soon(receive)
            await anyio.wait_all_tasks_blocked()
        for message in range(3):
            await (receive() if who_waits == "senders" else channel.send(message))
    assert received == [0, 1, 2]
    statistics = channel.statistics()
    assert (statistics.sent, statistics.received, statistics.depth, statistics.capacity) == (3, 3, 0, 0)


async def test_closing_fails_who_sends_and_ends_who_receives() -> None:
    channel: Channel[int] = Channel(name="results")
    async with anyio.create_task_group() as task_group:
        sender = await start(task_group, lambda: channel.send(1))
        channel.close()
    assert isinstance(sender.result, ChannelClosedError)
    assert [message async for message in channel] == []
    with pytest.raises(ChannelClosedError, match="the channel 'results' is closed"):
        await channel.send(2)
    other: Channel[int] = Channel()
    async with anyio.create_task_group() as task_group:
        receivers = [await start(task_group, other.receive) for _ in range(2)]
        other.close()
    assert all(isinstance(receiver.result, ChannelClosedError) for receiver in receivers)


async def test_nothing_is_received_while_nobody_sends() -> None:
    channel: Channel[int] = Channel()
    assert channel.try_receive("nobody") == "nobody"
    with pytest.raises(anyio.WouldBlock):
        channel.receive_nowait()


async def test_a_cancelled_sender_hands_nothing_over() -> None:
    channel: Channel[str] = Channel()
    async with anyio.create_task_group() as task_group:
        cancelled = await start(task_group, lambda: channel.send("cancelled"))
        cancelled.scope.cancel()
        assert channel.try_receive("nobody") == "nobody"  # before the sender runs
        other = await start(task_group, lambda: channel.send("other"))
        assert await channel.receive() == "other"
    assert (cancelled.result, other.result) == ("cancelled", None)


async def test_a_receiver_woken_for_a_sender_that_went_away_waits_on() -> None:
    channel: Channel[str] = Channel()
    async with anyio.create_task_group() as task_group:
        receiver = await start(task_group, channel.receive)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await channel.send("cancelled")
        await anyio.wait_all_tasks_blocked()
        assert receiver.result == "nothing"
        await channel.send("other")
    assert receiver.result == "other"


async def test_a_cancelled_receiver_leaves_the_message_to_the_next() -> None:
    channel: Channel[str] = Channel()
    async with anyio.create_task_group() as task_group:
        first = await start(task_group, channel.receive)
        second = await start(task_group, channel.receive)
        task_group.start_soon(channel.send, "message")
        first.scope.cancel()
    assert (first.result, second.result) == ("cancelled", "message")

"""Messages from one thread to another."""

import threading

import anyio
import pytest

from nighthawk_async.distributed.message_queue import MessageQueue

pytestmark = pytest.mark.anyio


async def test_messages_of_a_thread_arrive_in_order() -> None:
    queue = MessageQueue()
    thread = threading.Thread(target=lambda: [queue.put([b"%d" % each]) for each in range(100)])
    thread.start()
    received: list[bytes] = []
    while len(received) < 100:
        received += await queue.take()
    thread.join()
    assert received == [b"%d" % each for each in range(100)]
    queue.close()
    assert await queue.take() == []


async def test_a_thread_takes_while_the_loop_waits() -> None:
    queue, taken = MessageQueue(), list[bytes]()
    async with anyio.create_task_group() as group:

        async def take() -> None:
            taken.extend(await queue.take())

        group.start_soon(take)
        await anyio.wait_all_tasks_blocked()
        queue.put([b"1"])
        assert queue.take_blocking(60) == [b"1"]  # the waiting task has not run yet
        assert queue.take_blocking(0.001) == []
        queue.put([b"2"])
    assert taken == [b"2"]

"""What it costs to pass a message to an actor."""

import anyio
import anyio.lowlevel

from nighthawk_async.actors import Mailbox

from ..measure import Benchmark

__all__ = ["BENCHMARKS"]


async def pass_messages(messages: int) -> None:
    """Send messages from one task to another, one at a time, with a switch of tasks after each."""
    mailbox: Mailbox[int] = Mailbox(capacity=None)

    async def send() -> None:
        for number in range(messages):
            mailbox.send_nowait(number)
            await anyio.lowlevel.checkpoint()
        mailbox.close()

    async with anyio.create_task_group() as group:
        group.start_soon(send)
        received = sum([1 async for _ in mailbox])
    assert received == messages


BENCHMARKS = tuple(
    Benchmark(
        name=f"mailbox-{backend}",
        what=f"one message from task to task on {backend}",
        run=lambda messages, backend=backend: anyio.run(pass_messages, messages, backend=backend),
        operations=50_000,
        quick_operations=2_000,
    )
    for backend in ("trio", "asyncio")
)

"""A script whose steps wait for a model that never answers, until somebody presses Ctrl-C.

    python interrupted_script.py {asyncio,trio} {tasks,threads,sync}

It prints a line when every step is in flight.
"""

import sys
from collections.abc import Awaitable, Callable
from typing import Literal

import anyio
import anyio.to_thread

import nighthawk_async as nh
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest

STEPS = 50


@nh.natural_function
async def work(number: int) -> None:
    """natural
    Work on <number>.
    """


@nh.natural_function
def work_in_thread(number: int) -> None:
    """natural
    Work on <number>.
    """


async def in_tasks() -> None:
    """Start every step in a task with a handle."""
    async with nh.run(executor), nh.open_tasks() as tasks:
        for number in range(STEPS):
            tasks.start(work, number)


async def in_threads() -> None:
    """Call a synchronous natural function in as many threads."""
    limiter = anyio.CapacityLimiter(STEPS)

    async def call(number: int) -> None:
        await anyio.to_thread.run_sync(work_in_thread, number, limiter=limiter)

    async with nh.run(executor) as run:
        for number in range(STEPS):
            run.task_group.start_soon(call, number)


async def never_answer(request: RecordedRequest) -> ModelReply:
    """Wait for ever; say so when all steps have asked."""
    if len(server.requests) == (1 if style == "sync" else STEPS):
        print("all in flight", flush=True)
    await anyio.sleep_forever()
    raise AssertionError


backend: Literal["asyncio", "trio"] = "trio" if sys.argv[1] == "trio" else "asyncio"
style = sys.argv[2]
STYLES: dict[str, Callable[[], Awaitable[None]]] = {"tasks": in_tasks, "threads": in_threads}

with ModelServer.in_thread(never_answer) as server:
    executor = nh.AgentStepExecutor.from_configuration(
        configuration=nh.StepExecutorConfiguration(
            model="openai-chat:any", model_settings={"base_url": server.base_url}
        )
    )
    if style == "sync":
        with nh.run(executor, sync_backend=backend):
            work_in_thread(0)
    else:
        anyio.run(STYLES[style], backend=backend)

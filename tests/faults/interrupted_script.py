"""A script whose steps wait for a model that never answers, until somebody presses Ctrl-C.

    python interrupted_script.py {asyncio,trio} {tasks,threads,sync,busy,map}

It prints a line when every step is in flight. In the styles `busy` and `map` the model first calls a function
that holds the event loop, which prints the line itself.
"""

import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Literal

import anyio
import anyio.from_thread
import anyio.to_thread
from anyio.lowlevel import current_token

import nighthawk_async as nh
from nighthawk_async import parallel
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest

STEPS = 50
BUSY_SECONDS = 0.4  # less than what is warned of
WAKING_SECONDS = 0.2


def dawdle() -> None:
    """Hold the event loop."""
    print("all in flight", flush=True)
    time.sleep(BUSY_SECONDS)


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
    async with nh.run(executor), nh.open_tasks(at_end="wait") as tasks:
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


@nh.natural_function
async def work_busily() -> None:
    """natural
    Work with <dawdle>.
    """


@nh.natural_function
def work_busily_in_thread(number: int) -> None:
    """natural
    Work on <number> with <dawdle>.
    """


async def busily() -> None:
    """Do one step, whose tool holds the event loop."""
    async with nh.run(executor):
        await work_busily()


async def in_map() -> None:
    """Call a synchronous natural function of this kind for some items."""
    async with nh.run(executor):
        await parallel.map(work_busily_in_thread, range(3))


async def never_answer(request: RecordedRequest) -> ModelReply:
    """Wait for ever; say so when all steps have asked. Busy steps have a tool to call before."""
    if style in ("busy", "map") and b"tool_call_id" not in request.content:
        call = nh.models.ToolCall(id="call_0", name="nh_eval", arguments='{"expression": "dawdle()"}')
        return ModelReply(tool_calls=(call,))
    if len(server.requests) == (1 if style == "sync" else STEPS):
        print("all in flight", flush=True)
    await anyio.sleep_forever()
    raise AssertionError


async def woken(main: Callable[[], Awaitable[None]]) -> None:
    """Run a function on an event loop that wakes now and then.

    asyncio notices a signal that comes right before it begins to wait only when something else wakes it.
    """
    token = current_token()

    def wake() -> None:
        with suppress(anyio.RunFinishedError):
            while True:
                time.sleep(WAKING_SECONDS)
                anyio.from_thread.run_sync(int, token=token)

    threading.Thread(target=wake, daemon=True).start()
    await main()


backend: Literal["asyncio", "trio"] = "trio" if sys.argv[1] == "trio" else "asyncio"
style = sys.argv[2]
# Trio raises an interruption wherever a task happens to be, in its own `start_soon` for one, unless it is
# asked to do so at checkpoints; a busy tool has none.
is_at_checkpoints = backend == "trio" and style in ("tasks", "threads")
options = {"restrict_keyboard_interrupt_to_checkpoints": True} if is_at_checkpoints else {}
STYLES: dict[str, Callable[[], Awaitable[None]]] = {
    "tasks": in_tasks,
    "threads": in_threads,
    "busy": busily,
    "map": in_map,
}

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
        anyio.run(woken, STYLES[style], backend=backend, backend_options=options)

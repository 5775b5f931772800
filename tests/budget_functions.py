"""Functions that workers import, which ask models: for budgets, usage and rate limits."""

import os
import random
import threading
from pathlib import Path

import anyio

import nighthawk_async as nh


@nh.natural_function
async def act(number: int) -> None:
    """natural
    Do something with <number>.
    """


async def act_twice(number: int) -> int:
    await act(number)
    await act(number)
    return number


async def act_and_wait(number: int) -> None:
    await act(number)
    await anyio.sleep_forever()


async def act_or_name(number: int) -> str:
    """Act, and return the name of the budget that has no room."""
    try:
        await act(number)
    except nh.BudgetExceededError as error:
        return f"{error.budget}: {error.resource}"
    return "done"


async def act_in_own_budget(number: int) -> str:
    with nh.budget(turns=1, name="own"):
        return ", ".join([await act_or_name(number), await act_or_name(number)])


def act_in_thread(number: int) -> None:
    act_sync(number)


@nh.natural_function
def act_sync(number: int) -> None:
    """natural
    Do something with <number>.
    """


async def look() -> str:
    """Look."""
    return "seen"


async def act_looking(number: int) -> None:
    with nh.scope(tools=[look]):
        await act(number)


async def place_more(number: int) -> None:
    """Make calls on workers of this worker."""
    from tests.in_memory_workers import InMemoryWorkers

    async with InMemoryWorkers(1) as workers:
        await nh.parallel.map(act, [number, number], on=workers)


THRESHOLDS = nh.hooks.Hooks()
PASSED: list[float] = []
FINISHED: list[nh.hooks.StepFinished] = []


@THRESHOLDS.on(nh.hooks.BudgetThreshold)
async def note_threshold(event: nh.hooks.BudgetThreshold) -> None:
    PASSED.append(event.fraction)


async def act_or_die(call: tuple[int, str, str]) -> int:
    """Act; the first time, end the worker if told: soon, or when the server that has the request kills it."""
    number, folder, end = call
    mark = Path(folder) / str(number)
    if end == "soon" and not mark.exists():
        threading.Timer(random.Random(number).uniform(0.0, 0.05), os._exit, [9]).start()
    mark.write_text(str(os.getpid()), encoding="utf-8")
    await act(number)
    return number


@THRESHOLDS.on(nh.hooks.StepFinished)
def note_finished(event: nh.hooks.StepFinished) -> None:
    FINISHED.append(event)

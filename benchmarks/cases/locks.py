"""What it costs to acquire a named lock, free and wanted by many."""

from functools import partial

import anyio
import anyio.lowlevel

from nighthawk_async import actors

from ..measure import Benchmark

__all__ = ["BENCHMARKS"]

TASKS = 100


async def take_turns(tasks: int, acquisitions: int) -> None:
    """Let tasks share one mutex; none may come between the reading and the writing of another."""
    total = 0

    async def count(first: int) -> None:
        nonlocal total
        for _ in range(first, acquisitions, tasks):
            async with actors.mutex("total"):
                before = total
                if tasks > 1:
                    await anyio.lowlevel.checkpoint()
                total = before + 1

    async with anyio.create_task_group() as group:
        for first in range(tasks):
            group.start_soon(count, first)
    (figures,) = actors.lock_statistics("mutex", "total")
    assert total == figures.acquired == figures.released == acquisitions
    assert figures.held == figures.waiting == 0


async def share_permits(acquisitions: int) -> None:
    """Let a hundred tasks take one to four of sixteen permits; no more may be out than there are."""
    taken = 0

    async def take(first: int) -> None:
        nonlocal taken
        permits = first % 4 + 1
        for _ in range(first, acquisitions, TASKS):
            async with actors.semaphore("memory", capacity=16, permits=permits):
                taken += permits
                assert taken <= 16
                await anyio.lowlevel.checkpoint()
                taken -= permits

    async with anyio.create_task_group() as group:
        for first in range(TASKS):
            group.start_soon(take, first)
    (figures,) = actors.lock_statistics("semaphore", "memory")
    assert figures.acquired == figures.released == acquisitions
    assert figures.held == figures.waiting == 0


CASES = (
    ("mutex-free", "a mutex that is free", partial(take_turns, 1)),
    ("mutex-wanted", f"a mutex that {TASKS} tasks want", partial(take_turns, TASKS)),
    ("semaphore-wanted", f"permits of a semaphore that {TASKS} tasks want", share_permits),
)

BENCHMARKS = tuple(
    Benchmark(
        name=f"{name}-{backend}",
        what=f"acquiring and releasing {what}, on {backend}",
        run=lambda acquisitions, backend=backend, run=run: anyio.run(run, acquisitions, backend=backend),
        operations=10_000,
        quick_operations=1_000,
    )
    for backend in ("trio", "asyncio")
    for name, what, run in CASES
)

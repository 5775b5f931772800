"""What it costs to run jobs through a pool that many submitters share."""

import anyio
import anyio.lowlevel

from nighthawk_async.actors import JobHandle, Pool

from ..measure import Benchmark

__all__ = ["BENCHMARKS"]

WORKERS = 100
SUBMITTERS = 50


async def run_jobs(jobs: int) -> None:
    """Run jobs of one switch of tasks each through a hundred workers; every job must be accounted for."""
    runs = bytearray(jobs)
    handles: list[JobHandle[int]] = []

    async def work(number: int) -> int:
        await anyio.lowlevel.checkpoint()
        runs[number] += 1
        return number

    async def submit(first: int) -> None:
        for number in range(first, jobs, SUBMITTERS):
            handles.append(await pool.submit(work, number))

    async with Pool(max_concurrent=WORKERS) as pool, anyio.create_task_group() as submitters:
        for first in range(SUBMITTERS):
            submitters.start_soon(submit, first)
    figures = pool.statistics()
    assert figures.submitted == figures.completed == jobs
    assert all(count == 1 for count in runs)
    assert sorted([await handle for handle in handles]) == list(range(jobs))


BENCHMARKS = tuple(
    Benchmark(
        name=f"pool-{backend}",
        what=f"one job of many submitters through a pool of {WORKERS} on {backend}",
        run=lambda jobs, backend=backend: anyio.run(run_jobs, jobs, backend=backend),
        operations=10_000,
        quick_operations=1_000,
    )
    for backend in ("trio", "asyncio")
)

"""The program whose workers are killed, and which is killed itself."""

import os

import anyio

import nighthawk_async as nh
from nighthawk_async import parallel
from tests.faults.durable.service import AskedModel

from .work import work


async def _run(
    store: nh.journal.JournalStore, run_id: str, backend: str, jobs: list[tuple[str, int, str, int]]
) -> list[str]:
    executor = nh.AgentStepExecutor.from_model(AskedModel())
    async with (
        nh.distributed.Processes(2, calls_per_worker=4, max_placements=1_000, backend=backend) as workers,  # type: ignore[arg-type]
        nh.run(executor, journal=store, run_id=run_id),
    ):
        return await parallel.map(work, jobs, on=workers)


def main(
    *,
    folder: str,
    address: str,
    run_id: str,
    backend: str,
    life: int,
    items: int,
    kills: int,
    durability: str,
    writes: bool,
) -> list[str]:
    """Run one life.

    Args:
        folder: The folder of the program's files.
        address: The address of the store.
        run_id: The run.
        backend: The event loop, of the program and its workers.
        life: The number of the life.
        items: The number of items.
        kills: The greatest number of kills of workers, in all lives.
        durability: When the run waits for its records.
        writes: Whether workers append to the store themselves.
    """
    os.environ.pop("NIGHTHAWK_JOURNAL", None)
    if writes:
        os.environ["NIGHTHAWK_JOURNAL"] = address
    jobs = [(folder, life, f"item {number}", kills) for number in range(items)]
    with nh.journal.open(address, durability=durability) as store:  # type: ignore[arg-type]
        return anyio.run(_run, store, run_id, backend, jobs, backend=backend)

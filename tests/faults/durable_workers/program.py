"""The program whose workers are killed, and which is killed itself."""

import json
import os
from pathlib import Path

import anyio

import nighthawk_async as nh
from nighthawk_async import parallel
from tests.faults.durable.service import AskedModel

from .work import CHARGES, Job, work


async def _run(store: nh.journal.JournalStore, run_id: str, backend: str, jobs: list[Job]) -> list[str]:
    executor = nh.AgentStepExecutor.from_model(AskedModel())
    budget = nh.budget(turns=1_000_000, thresholds=())
    async with (
        nh.distributed.Processes(
            2, max_concurrent_per_worker=4, max_placements=1_000, backend=backend
        ) as workers,  # type: ignore[arg-type]
        nh.run(executor, journal=store, run_id=run_id, budget=budget) as run,
    ):
        results = await parallel.map(work, jobs, on=workers)
    folder, life, *_ = jobs[0]
    charges = {
        "life": life,
        "epoch": max(record.epoch for record in store.records(run_id)),
        "turns": budget.spent.turns,
        "reserved": budget.reserved.turns,
        "requests": run.usage_meter.usage.requests,
        "input_tokens": run.usage_meter.usage.input_tokens,
    }
    with (Path(folder) / CHARGES).open("a") as file:
        file.write(json.dumps(charges) + "\n")
    return results


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

"""A process that works on a run, waits, and then pays: see `test_two_processes`."""

import sys
from pathlib import Path

import anyio
import anyio.to_thread

import nighthawk_async as nh
from nighthawk_async.journal import RunTakenOverError, tables

from .durable_runs import live, shout, shouting

LEASE_SECONDS = 0.5


@nh.once
async def pay(folder: str, who: str) -> str:
    """Take effect: a line in a file."""
    with (Path(folder) / "paid.txt").open("a") as file:
        file.write(f"{who}\n")
    return who


async def work(url: str, folder: str) -> None:
    """Begin the run, wait for a line, and pay."""

    async def program() -> None:
        print(await shout("a"), flush=True)
        await anyio.to_thread.run_sync(sys.stdin.readline)
        await pay(folder, "contender")

    with nh.journal.open(url) as store:
        try:
            await live(store, shouting(), program)
        except RunTakenOverError:
            print("taken over", flush=True)


if __name__ == "__main__":
    tables.LEASE_SECONDS = LEASE_SECONDS
    anyio.run(work, sys.argv[2], sys.argv[3], backend=sys.argv[1])

"""The functions that the tests of queues enqueue, and their workers; also a worker as a process."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

import nighthawk_async as nh
from nighthawk_async.journal import JournalStore, Worker, tables

from .durable_runs import shout, shouting

LEASE_SECONDS = 0.5

made: list[object] = []
"""What `note` has noted; tests clear it."""
gates: dict[str, anyio.Event] = {}
"""What `pass_gate` waits for."""


@dataclass(frozen=True)
class Order:
    """An order."""

    number: int
    lines: tuple[str, ...]


async def note(value: int) -> int:
    """Note a value."""
    made.append(value)
    return value


async def ship(order: Order, *, to: str = "Ann") -> Order:
    """Return another order."""
    made.append(order)
    return Order(order.number + 1, (*order.lines, to))


async def ship_all(*orders: Order, **numbers: int) -> int:
    """Take any number of arguments."""
    assert all(type(order) is Order for order in orders)
    return sum(order.number for order in orders) + sum(numbers.values())


async def fail(number: int) -> None:
    """Fail."""
    made.append(number)
    raise LookupError("no order", number)


async def connect() -> str:
    """Fail at first as a network does."""
    made.append("connect")
    if len(made) < 3:
        raise nh.errors.ModelConnectionError("no route", is_transient=True)
    return "connected"


async def pass_gate(name: str) -> str:
    """Wait for a test."""
    made.append(name)
    await gates[name].wait()
    return name


async def shout_and_pass_gate(name: str) -> str:
    """Ask a model, and wait for a test."""
    loud = await shout(name)
    await pass_gate(name)
    return loud


class ParkError(Exception):
    """The run parks."""


async def wait_for_reply() -> str:
    """Park, and receive a message in the next life."""
    if not made:
        made.append("parked")
        raise ParkError
    reply: str = await nh.journal.receive("reply")
    return reply


@nh.once
async def pay(folder: str, who: str) -> str:
    """Take effect: a line in a file."""
    with (Path(folder) / "paid.txt").open("a") as file:
        file.write(f"{who}\n")
    return who


async def work_and_wait(folder: str) -> str:
    """Ask a model, say so, wait for a line, and pay."""
    loud = await shout("a")
    if _who != "successor":
        print(loud, flush=True)
        await anyio.to_thread.run_sync(sys.stdin.readline)
    return await pay(folder, _who)


_who = "successor"


def worker_of(
    store: JournalStore, *functions: Callable[..., Any], model: Any = None, **options: Any
) -> Worker:
    """A worker of some functions."""
    executor = nh.AgentStepExecutor.from_model(model or shouting())

    def make_run(run_id: str) -> Any:
        return nh.run(executor, journal=store, run_id=run_id)

    return Worker(store, functions, run=make_run, **options)


@asynccontextmanager
async def serving(*workers: Worker) -> AsyncIterator[None]:
    """Have workers serve meanwhile; they drain at the end."""
    with anyio.fail_after(240):
        async with anyio.create_task_group() as group:
            for worker in workers:
                await group.start(worker.serve)
            yield
            for worker in workers:
                worker.drain()


async def results(store: JournalStore, run_ids: list[str]) -> list[Any]:
    """The results of runs."""
    return [await store.result(run_id) for run_id in run_ids]


def status_of(store: JournalStore, run_id: str) -> str:
    """The status of an entry."""
    return next(entry.status for entry in store.queue_entries() if entry.run_id == run_id)


if __name__ == "__main__":
    # The function that is enqueued is that of the module, not of this script.
    from tests.unit.journal import queue_jobs

    queue_jobs._who = "contender"  # pyright: ignore[reportPrivateUsage]
    tables.LEASE_SECONDS = LEASE_SECONDS

    async def serve(url: str) -> None:
        """Serve the queue."""
        with nh.journal.open(url) as store:
            await queue_jobs.worker_of(store, queue_jobs.work_and_wait).serve()

    anyio.run(serve, sys.argv[2], backend=sys.argv[1])

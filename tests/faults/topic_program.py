"""A program that publishes to a topic and serves it until it is killed; see `test_topic_kills`."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

import nighthawk_async as nh
from nighthawk_async.journal import topic_starts, topic_table
from nighthawk_async.testing import ScriptedExecutor
from nighthawk_async.testing.killing import mark

MESSAGES = 4
CUSTOMERS = 2
LOG = "handled.txt"


def marking(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that passes marks before and after, in the middle of the transaction that it is part of."""

    def call(*args: Any, **keywords: Any) -> Any:
        mark(f"before {name}")
        result = function(*args, **keywords)
        mark(f"after {name}")
        return result

    return call


def find_line(folder: str, line: str) -> str | None:
    """Whether a message was handled, for the next life."""
    path = Path(folder) / LOG
    return line if path.exists() and line in path.read_text().splitlines() else None


@nh.once(reconcile=find_line)
async def handle_once(folder: str, line: str) -> str:
    """Take effect: a line in a file."""
    mark("handling")
    with (Path(folder) / LOG).open("a") as file:
        file.write(f"{line}\n")
    mark("handled")
    return line


async def alone(message: dict[str, Any]) -> int:
    """Handle a message."""
    await handle_once(message["folder"], f"alone {message['number']}")
    return message["number"]


async def in_turn(message: dict[str, Any]) -> int:
    """Handle a message after those of its customer."""
    await handle_once(message["folder"], f"in_turn {message['customer']} {message['number']}")
    return message["number"]


async def together(messages: list[dict[str, Any]]) -> int:
    """Handle two messages."""
    for message in messages:
        await handle_once(message["folder"], f"together {message['number']}")
    return len(messages)


async def _publish(store: nh.journal.JournalStore, folder: str) -> None:
    for number in range(MESSAGES):
        value = {"folder": folder, "number": number, "customer": number % CUSTOMERS}
        await store.publish("orders", value, id=str(number) if number % 3 else None)


async def _live(store: nh.journal.JournalStore, folder: str) -> list[str]:
    executor = ScriptedExecutor([])
    await store.subscribe("orders", alone, after=0)
    await store.subscribe("orders", in_turn, key="customer", after=0)
    await store.subscribe("orders", together, count=2, after=0)
    worker = nh.journal.Worker(
        store,
        [alone, in_turn, together],
        run=lambda run_id: nh.run(executor, journal=store, run_id=run_id),
    )
    async with anyio.create_task_group() as group:
        await group.start(worker.serve)
        async with nh.run(executor, journal=store, run_id="publishing"):
            await _publish(store, folder)
        while not _is_over(store):  # noqa: ASYNC110  (the workers of other processes may be about to end)
            await anyio.sleep(0.1)
        worker.drain()
    return [message.status for message in store.messages("orders")]


def _is_over(store: nh.journal.JournalStore) -> bool:
    return all(message.status in ("ended", "failed", "stuck") for message in store.messages("orders"))


def main(folder: str, address: str, backend: str) -> list[str]:
    """One life; return the statuses of all messages."""
    with nh.journal.open(address) as store:
        return anyio.run(_live, store, folder, backend=backend)


def _warm_up() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for backend in ("asyncio", "trio"):
            (Path(folder) / backend).mkdir()
            main(f"{folder}/{backend}", f"sqlite:///{folder}/{backend}.db", backend)


_warm_up()
topic_starts._start = marking("start", topic_starts._start)  # pyright: ignore[reportPrivateUsage]
topic_table._add_deliveries = marking("delivery", topic_table._add_deliveries)  # pyright: ignore[reportPrivateUsage]
topic_table.publish_message = marking("publication", topic_table.publish_message)

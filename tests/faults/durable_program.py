"""A program with every concurrent shape, whose runs are killed and continued: see `test_journal_kills`.

It books items with an outside service, a file of lines, and writes down what its model was asked.
"""

import os
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

import nighthawk_async as nh
from nighthawk_async.errors import ModelStatusError
from nighthawk_async.journal import effects, response
from nighthawk_async.journal.acknowledgement import Acknowledgement
from nighthawk_async.parallel import task_current
from nighthawk_async.resilience import fallback, vote
from nighthawk_async.testing import model_response, tool_call
from tests.unit.journal.durable_runs import ResponseEvents

SERVICE = "bookings.txt"
ASKED = "asked.txt"
ITEMS = (
    "map0",
    "map1",
    "map2",
    "hand0",
    "hand1",
    "hand2",
    "task0",
    "task1",
    "stream0",
    "stream1",
    "stream2",
    "last",
)
"""What is booked exactly once, whatever happens."""

_folder = Path()
_life = 0


def append_line(name: str, line: str) -> None:
    """Append a line to a file of the program, durably."""
    with (_folder / name).open("a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def lines_of(folder: Path, name: str) -> list[str]:
    """The lines of a file of the program."""
    path = folder / name
    return path.read_text().splitlines() if path.exists() else []


async def find_booking(item: str, *, idempotency_key: str) -> str | None:
    """Find out whether a booking took effect."""
    return f"booked {item}" if f"{item} {idempotency_key}" in lines_of(_folder, SERVICE) else None


@nh.once(reconcile=find_booking)
async def book(item: str, *, idempotency_key: str = "") -> str:
    """Book an item."""
    append_line(SERVICE, f"{item} {idempotency_key}")
    await anyio.sleep(random.random() / 500)
    return f"booked {item}"


class AskedModel:
    """Books what the prompt says, in two responses, and writes down each request with its place."""

    name = "asked:model"
    capabilities = nh.models.ModelCapabilities()

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        """Stream the next response."""
        turn = sum(1 for message in request.messages if isinstance(message, nh.models.AssistantMessage))
        append_line(ASKED, f"{_life} {task_current.find_positions().path}/turn[{turn}]")
        await anyio.sleep(random.random() / 200)
        if "primary" in str(request.messages[0]):
            raise ModelStatusError("no capacity", status=503, is_transient=True)
        yield ResponseEvents(
            model_response(
                tool_call("nh_exec", statements="history.append(item)"),
                tool_call("nh_assign", target_path="note", expression="book(item)"),
            )
            if turn == 0
            else model_response(tool_call("nh_outcome", kind="pass"))
        )


@nh.natural_function
async def remind(item: str, history: list[str]) -> str:
    """Book an item, and change an object in place."""
    note: str
    """natural
    Book <item> with <book>, append it to <history>, and set <:note>.
    """
    return note


async def booked(item: str) -> str:
    """Book an item with a history of its own, which has to hold it in every life."""
    history: list[str] = []
    note = await remind(item, history)
    return f"{note} {history}"


@nh.natural_function
async def ask_primary(item: str, history: list[str]) -> str:
    """Fail: the model has no capacity for it."""
    note: str
    """natural
    The primary way: book <item> with <book>, append it to <history>, and set <:note>.
    """
    return note


async def by_hand() -> dict[str, str]:
    """Three tasks that were started by hand."""
    results: dict[str, str] = {}

    async def one(item: str) -> None:
        await anyio.sleep(random.random() / 500)
        results[item] = await booked(item)

    async with anyio.create_task_group() as group:
        for item in ("hand0", "hand1", "hand2"):
            group.start_soon(one, item)
    return dict(sorted(results.items()))


async def work() -> dict[str, Any]:
    """Everything that a run does."""
    result: dict[str, Any] = {
        "map": await nh.parallel.map(booked, ["map0", "map1", "map2"], max_concurrent=2)
    }
    result["race"] = await nh.parallel.race(booked, ["race0", "race1", "race2"])
    result["hand"] = await by_hand()
    async with nh.open_tasks() as tasks:
        handles = [tasks.start(booked, item) for item in ("task0", "task1")]
        result["tasks"] = [await handle for handle in handles]
    async with nh.parallel.stream(booked, ["stream0", "stream1", "stream2"]) as stream:
        result["stream"] = [each async for each in stream]
    result["vote"] = await vote(count=3)(booked)("vote")
    result["fallback"] = await fallback(ask_primary, remind)("fallback", [])
    result["at"] = nh.journal.now().isoformat()
    result["random"] = nh.journal.random()
    await nh.journal.sleep(seconds=0.01)
    result["last"] = await booked("last")
    return result


async def _run(store: nh.journal.JournalStore) -> dict[str, Any]:
    async with nh.run(nh.AgentStepExecutor.from_model(AskedModel()), journal=store, run_id="night"):
        return await work()


def _done() -> Acknowledgement[None]:
    acknowledgement: Acknowledgement[None] = Acknowledgement()
    acknowledgement.succeed(None)
    return acknowledgement


def main(folder: str, backend: str, life: int, without: str = "") -> dict[str, Any]:
    """Run one life.

    Args:
        folder: The folder of the program's files.
        backend: The event loop.
        life: The number of the life.
        without: The part of the journal that is switched off, so that a test sees it missed.
    """
    global _folder, _life
    _folder, _life = Path(folder), life
    random.seed(os.urandom(8))
    if without == "responses":
        response.JournaledResponse._find_exchange = lambda self: None  # type: ignore[method-assign]
    elif without == "intents":
        effects.EffectCall._begin = lambda self: _done()  # type: ignore[method-assign]
    with nh.journal.open(f"sqlite:///{folder}/runs.db") as store:
        return anyio.run(_run, store, backend=backend)

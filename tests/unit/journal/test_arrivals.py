"""Recorded answers come in the order in which they came first, and what depends on that is the same."""

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import tables
from nighthawk_async.journal.records import Record
from nighthawk_async.journal.tables import RunRow

from .arriving_model import ArrivingModel
from .durable_runs import live, opened, shout, shout_synchronously

pytestmark = pytest.mark.anyio

WORDS = ("ann", "bob", "carl", "dora")
ORDER = ("carl", "ann", "dora", "bob")

made: list[tuple[str, int]] = []


async def find_note(text: str, number: int) -> str | None:
    """The result of a call that has taken effect."""
    return f"{text} {number}" if (text, number) in made else None


@nh.once(reconcile=find_note)
async def note(text: str, number: int) -> str:
    """An effect."""
    made.append((text, number))
    return f"{text} {number}"


async def in_map() -> list[Any]:
    seen: list[Any] = []

    async def one(word: str) -> None:
        seen.append(await shout(word))

    await nh.parallel.map(one, WORDS)
    return seen


async def in_group() -> list[Any]:
    seen: list[Any] = []
    numbers = count()

    async def one(word: str) -> None:
        loud = await shout(word)
        seen.append(await note(loud, next(numbers)))

    async with anyio.create_task_group() as group:
        for word in WORDS:
            group.start_soon(one, word)
    return sorted(seen)


async def in_tasks() -> list[Any]:
    lock, numbers = anyio.Lock(), count()

    async def one(word: str) -> str:
        loud = await shout(word)
        async with lock:
            return await note(loud, next(numbers))

    async with nh.open_tasks() as tasks:
        handles = [tasks.start(one, word) for word in WORDS]
        return [await handle for handle in handles]


async def in_channel() -> list[Any]:
    send, receive = anyio.create_memory_object_stream[str](4)

    async def one(word: str) -> None:
        await send.send(await shout(word))

    async with send, receive:
        await nh.parallel.map(one, WORDS)
        return [await note(receive.receive_nowait(), number) for number in range(4)]


async def first_wins() -> list[Any]:
    won: list[Any] = []

    async def one(word: str) -> None:
        won.append(await shout(word))
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for word in WORDS:
            group.start_soon(one, word)
    return [*won, await note(won[0], len(won))]


async def in_threads() -> list[Any]:
    seen: list[Any] = []

    def one(word: str) -> None:
        seen.append(shout_synchronously(word))

    await nh.parallel.map(one, WORDS)
    return sorted(seen)


async def in_lost_calls() -> list[Any]:
    """A map that fails: what its other calls had done in memory stays."""
    seen: list[Any] = []

    async def one(word: str) -> None:
        seen.append(await shout(word))
        if word == "dora":
            raise ValueError(word)
        await anyio.sleep_forever()

    try:
        await nh.parallel.map(one, WORDS)
    except ValueError:
        seen.append("failed")
    return [*seen, await note("failed", len(seen))]


async def in_lost_race() -> list[Any]:
    seen: list[Any] = []

    async def one(word: str) -> str:
        seen.append(await shout(word))
        if word != "dora":
            await anyio.sleep_forever()
        return word

    seen.append(await nh.parallel.race(one, WORDS))
    return [*seen, await note("won", len(seen))]


PROGRAMS: Sequence[Callable[[], Awaitable[list[Any]]]] = (
    in_map,
    in_group,
    in_tasks,
    in_channel,
    first_wins,
    in_lost_calls,
    in_lost_race,
)


def begun_again(store: nh.journal.JournalStore, run_id: str, records: Sequence[Record]) -> None:
    """Make a run of the first records of another one, as a kill would leave it."""
    now = time.time()
    row = RunRow(run_id=run_id, status="running", lives=1, created_at=now, updated_at=now, error="")

    def insert() -> None:
        database = store.thread.opened()
        with database.transaction():
            tables.insert_copy(database, row, list(records))

    store.thread.perform(insert).wait_in_thread()


@pytest.mark.parametrize("program", [*PROGRAMS, in_threads], ids=lambda each: each.__name__)
async def test_what_depends_on_the_order_of_answers_is_the_same_after_each_record(
    program: Callable[[], Awaitable[list[Any]]], tmp_path: Path
) -> None:
    made.clear()
    with opened(tmp_path, durability="effect") as store:
        model = ArrivingModel(WORDS)
        expected = await live(store, model, partial(model.in_order, ORDER, program))
        records = store.records("run-1")[:-1]
        order = ORDER[: sum(record.kind == "response" for record in records)]
        effects = list(made)
        for number in range(1, len(records) + 1):
            made.clear()
            begun_again(store, f"run-{number}-records", records[:number])
            kinds = [record.kind for record in records[:number]]
            rest = order[kinds.count("response") :]
            model = ArrivingModel(WORDS)
            again = partial(model.in_order, rest, program)
            assert await live(store, model, again, f"run-{number}-records") == expected
            assert set(rest) <= set(model.asked)
            assert sorted(made) == sorted(effects[kinds.count("result") :])

"""The cost of what a journal compares and keeps beside the answers: digests of arguments, and orders.

The arguments are those that calls typically have. The digests are those of inputs of recorded calls.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

import anyio
from pydantic import BaseModel

import nighthawk_async as nh
from nighthawk_async import actors
from nighthawk_async.values.stable_digest import stable_digests

from ..measure import Benchmark
from ..stopwatch import Stopwatch
from .journal import journal_file, open_journal
from .steps import canned_model, executor_of

__all__ = ["BENCHMARKS"]

WINDOWS = 5


@dataclass
class Order:
    """A dataclass of plain data."""

    number: int
    customer: str
    items: list[str]


class Mail(BaseModel):
    """A model of plain data."""

    sender: str
    text: str
    tags: list[str]


class Row:
    """An object of an ordinary class."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = f"row {number}"


ARGUMENTS: Mapping[str, object] = {
    "text": "Where is my lamp? I ordered it two weeks ago, and nobody answers. " * 8,
    "dataclass": Order(17, "ann", ["lamp", "desk"]),
    "model": Mail(sender="ann@example.com", text="Where is my lamp? " * 20, tags=["new", "angry"]),
    "object": Row(17),
    "list-1000": [{"number": number, "name": f"row {number}"} for number in range(1_000)],
    "dataclasses-200": [Order(number, "ann", ["lamp"]) for number in range(200)],
    "pairs-1000": [(number, f"row {number}") for number in range(1_000)],
}


def digest(value: object, calls: int) -> Mapping[str, float]:
    """The digest of an argument, as a recorded call takes it."""
    stopwatch = Stopwatch()
    for _ in range(calls):
        stable_digests({"value": value})
    return stopwatch.figures(calls)


async def _use_mutex() -> None:
    async with actors.mutex("seats"):
        pass


class Seats(actors.Actor):
    """Counts."""

    def __init__(self) -> None:
        self.given = 0

    async def take(self) -> int:
        """Take a seat."""
        self.given += 1
        return self.given


async def _both_ways(
    make_use: Callable[[], Callable[[], Awaitable[object]]], uses: int
) -> Mapping[str, float]:
    """The uses of something shared without and with a journal, in alternating windows."""
    executor = executor_of(canned_model(1))
    spent = {"wall": 0.0, "cpu": 0.0, "unrecorded": 0.0}
    in_window = max(1, uses // WINDOWS)
    with journal_file() as file, open_journal(file) as store:
        for window in range(WINDOWS):
            for run_id in (None, f"window-{window}"):
                async with nh.run(executor, journal=store if run_id else None, run_id=run_id):
                    figures = await _time(make_use, in_window)
                if run_id is None:
                    spent["unrecorded"] += figures["cpu"] / WINDOWS
                    continue
                for name, value in figures.items():
                    spent[name] += value / WINDOWS
    return {
        "wall": spent["wall"],
        "cpu": spent["cpu"],
        "journal_cpu": max(0.0, spent["cpu"] - spent["unrecorded"]),
    }


async def _time(make_use: Callable[[], Callable[[], Awaitable[object]]], uses: int) -> Mapping[str, float]:
    use = make_use()
    stopwatch = Stopwatch()
    for _ in range(uses):
        await use()
    return stopwatch.figures(uses)


async def use_mutex(uses: int) -> Mapping[str, float]:
    """Uses of a mutex."""
    return await _both_ways(lambda: _use_mutex, uses)


async def ask_actor(uses: int) -> Mapping[str, float]:
    """Messages to an actor, whose answers are waited for."""
    async with actors.open_actor(Seats) as seats:
        return await _both_ways(lambda: lambda: seats.ask(Seats.take), uses)


BENCHMARKS = (
    *(
        Benchmark(
            name=f"journal-digest-{name}",
            what=f"the digest of an argument of a recorded call: {name}",
            run=partial(digest, value),
            operations=20 if isinstance(value, list) else 2_000,
            quick_operations=10,
            smallest_suite="default",
        )
        for name, value in ARGUMENTS.items()
    ),
    Benchmark(
        name="journal-mutex-trio",
        what="a use of a mutex in a run with a journal, beside one without",
        run=partial(anyio.run, use_mutex, backend="trio"),
        operations=1_000,
        quick_operations=20,
        smallest_suite="default",
    ),
    Benchmark(
        name="journal-actor-trio",
        what="a message to an actor in a run with a journal, beside one without",
        run=partial(anyio.run, ask_actor, backend="trio"),
        operations=1_000,
        quick_operations=20,
        smallest_suite="default",
    ),
)

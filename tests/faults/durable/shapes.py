"""The concurrent shapes of the killed program: each does its work, and returns what its lives must agree on.

After each shape, its result is booked too (`seal`). So what the outside has seen of a decision is compared
between lives.
"""

import json
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from msgspec import Struct

import nighthawk_async as nh
from nighthawk_async import actors
from nighthawk_async.journal import CallInDoubtError
from nighthawk_async.resilience import fallback, retrying, vote

from .service import (
    book,
    book_blindly,
    book_in_thread,  # noqa: F401  (a block names it)
    find_booking,
    make_booking,
    read,
)


@nh.natural_function
async def remind(item: str, history: list[str]) -> str:
    """Book an item, and change an object in place."""
    note: str
    """natural
    Book <item> with <book>, append it to <history>, and set <:note>.
    """
    return note


@nh.natural_function
async def ask_primary(item: str, history: list[str]) -> str:
    """Fail: the model has no capacity for it."""
    note: str
    """natural
    The primary way: book <item> with <book>, append it to <history>, and set <:note>.
    """
    return note


@nh.natural_function
async def flaky(item: str, history: list[str]) -> str:
    """Fail at the first attempt."""
    note: str
    """natural
    The flaky way: book <item> with <book>, append it to <history>, and set <:note>.
    """
    return note


@nh.natural_function
async def remind_or_refuse(item: str, history: list[str]) -> str:
    """Book an item, or refuse it."""
    note: str
    """natural
    Book <item> with <book>, append it to <history>, and set <:note>. Raise ValueError where all is full.
    """
    return note


@nh.natural_function
def remind_in_thread(item: str, history: list[str]) -> str:
    """Book an item, in synchronous code."""
    note: str
    """natural
    Book <item> with <book_in_thread>, append it to <history>, and set <:note>.
    """
    return note


@nh.once(reconcile=find_booking)
async def reserve(item: str, *, idempotency_key: str = "") -> str:
    """Reserve an item.

    Args:
        item: The item.
    """
    return make_booking(item, idempotency_key)


@nh.natural_function(tools=[reserve])
async def use_tools(item: str, history: list[str]) -> str:
    """Have the model call two tools in one response."""
    note: str
    """natural
    With tools: reserve what <item> says, append it to <history>, and set <:note>.
    """
    return note


async def booked(item: str) -> str:
    """Book an item with a history of its own, which has to hold it in every life."""
    history: list[str] = []
    note = await remind(item, history)
    return f"{note} {history}"


async def booked_or_refused(item: str) -> str:
    """The same with an item that is refused."""
    history: list[str] = []
    note = await remind_or_refuse(item, history)
    return f"{note} {history}"


def booked_in_thread(item: str) -> str:
    """The same in synchronous code."""
    history: list[str] = []
    note = remind_in_thread(item, history)
    return f"{note} {history}"


def told(item: str) -> str:
    """The result of `booked`."""
    return f"booked {item} ['{item}']"


async def in_map() -> Any:
    """Items of a map, two at a time."""
    return await nh.parallel.map(booked, ["map0", "map1", "map2"], max_concurrent=2)


async def in_race() -> Any:
    """The first of three."""
    return await nh.parallel.race(booked, ["race0", "race1", "race2"])


async def by_hand() -> Any:
    """Three tasks that were started by hand."""
    results: dict[str, str] = {}

    async def one(item: str) -> None:
        await anyio.sleep(random.random() / 500)
        results[item] = await booked(item)

    async with anyio.create_task_group() as group:
        for item in ("hand0", "hand1", "hand2"):
            group.start_soon(one, item)
    return dict(sorted(results.items()))


async def in_tasks() -> Any:
    """Tasks with handles."""
    async with nh.open_tasks() as tasks:
        handles = [tasks.start(booked, item) for item in ("task0", "task1")]
        return [await handle for handle in handles]


async def in_stream() -> Any:
    """Results in the order of their ends."""
    async with nh.parallel.stream(booked, ["stream0", "stream1", "stream2"]) as stream:
        return [each async for each in stream]


async def by_vote() -> Any:
    """The result that two of three agree on."""
    return await vote(count=3)(booked)("vote")


async def with_fallback() -> Any:
    """Another way where the first one fails."""
    return await fallback(ask_primary, remind)("fallback", [])


async def with_retry() -> Any:
    """A second attempt where the first one fails."""
    history: list[str] = []
    note = await retrying(flaky, wait=0.001)("flaky", history)
    return f"{note} {history}"


async def settled() -> Any:
    """Items that end in different ways."""
    results = await nh.parallel.settle(booked_or_refused, ["settle0", "refused", "settle1"])
    return [
        each.value if isinstance(each, nh.parallel.Succeeded) else repr(each.error)
        for each in results.outcomes
    ]


async def gathered() -> Any:
    """Different calls side by side, one of them a combinator."""

    async def inner() -> list[str]:
        return await nh.parallel.map(booked, ["gather1", "gather2"])

    first, others = await nh.parallel.gather(booked("gather0"), inner())
    return [first, *others]


async def in_pool() -> Any:
    """Jobs of a pool."""
    async with actors.Pool(max_concurrent=2) as pool:
        jobs = [await pool.submit(booked, item) for item in ("pool0", "pool1", "pool2")]
        return [await job for job in jobs]


class Clerk(actors.Actor):
    """Books what it is told, one after the other, and remembers it."""

    def __init__(self) -> None:
        self.items: list[str] = []

    async def take(self, item: str) -> str:
        """Book one item."""
        result = await booked(item)
        self.items.append(item)
        return result


async def in_actors() -> Any:
    """Two actors, which two tasks ask at the same time."""
    async with actors.open_actor(Clerk) as one, actors.open_actor(Clerk) as other:

        async def ask(item: str) -> str:
            return await (one if item.endswith("0") else other).ask(Clerk.take, item)

        return await nh.parallel.map(ask, ["actor0", "actor1"])


async def in_threads() -> Any:
    """Synchronous natural functions in threads, across the bridge."""
    return await nh.parallel.map(booked_in_thread, ["thread0", "thread1"])


async def through_tools() -> Any:
    """Two tools in one response."""
    history: list[str] = []
    return [await use_tools("tools", history), history]


async def with_people() -> Any:
    """Two questions at once, and an approval."""
    answers = await nh.parallel.map(nh.ask_user, ["one?", "two?"])
    approval = await nh.request_approval("sell", arguments={"answers": answers})
    return [answers, approval.action, await booked("people")]


async def with_messages() -> Any:
    """Messages that were sent before, taken by three tasks."""
    return await nh.parallel.map(nh.journal.receive, ["post"] * 3)


async def in_nested_run() -> Any:
    """A run within the run, without a journal of its own."""
    async with nh.run(nh.get_step_executor()):
        return await nh.parallel.map(booked, ["nested0", "nested1"])


async def outside_values() -> Any:
    """Values that would be others in each life."""
    reading = await nh.parallel.map(read, ["page0", "page1"])
    await nh.journal.sleep(seconds=0.005)
    return [reading, nh.journal.now().isoformat(), nh.journal.random(), await booked("values")]


async def in_doubt() -> Any:
    """An effect that nobody can be asked about."""
    try:
        return await book_blindly("blind")
    except CallInDoubtError:
        return "in doubt"


class Shape(Struct, frozen=True, kw_only=True):
    """One shape.

    Args:
        work: Does its work.
        is_right: Whether that was its result.
        once: The items that have to be booked exactly once.
    """

    work: Callable[[], Awaitable[Any]]
    is_right: Callable[[Any], bool]
    once: tuple[str, ...] = ()


def _listing(*items: str) -> Callable[[Any], bool]:
    return lambda result: result == [told(item) for item in items]


SHAPES: Mapping[str, Shape] = {
    "map": Shape(work=in_map, is_right=_listing("map0", "map1", "map2"), once=("map0", "map1", "map2")),
    "race": Shape(work=in_race, is_right=lambda r: r in [told(f"race{number}") for number in range(3)]),
    "hand": Shape(
        work=by_hand,
        is_right=lambda r: r == {f"hand{number}": told(f"hand{number}") for number in range(3)},
        once=("hand0", "hand1", "hand2"),
    ),
    "tasks": Shape(work=in_tasks, is_right=_listing("task0", "task1"), once=("task0", "task1")),
    "stream": Shape(
        work=in_stream,
        is_right=lambda r: sorted(r) == [told(f"stream{number}") for number in range(3)],
        once=("stream0", "stream1", "stream2"),
    ),
    "vote": Shape(work=by_vote, is_right=lambda r: r == told("vote")),
    "fallback": Shape(work=with_fallback, is_right=lambda r: r == "booked fallback", once=("fallback",)),
    "retry": Shape(work=with_retry, is_right=lambda r: r == told("flaky"), once=("flaky",)),
    "settle": Shape(
        work=settled,
        is_right=lambda r: r == [told("settle0"), "ValueError('full')", told("settle1")],
        once=("settle0", "settle1"),
    ),
    "gather": Shape(
        work=gathered,
        is_right=_listing("gather0", "gather1", "gather2"),
        once=("gather0", "gather1", "gather2"),
    ),
    "pool": Shape(
        work=in_pool, is_right=_listing("pool0", "pool1", "pool2"), once=("pool0", "pool1", "pool2")
    ),
    "actors": Shape(work=in_actors, is_right=_listing("actor0", "actor1"), once=("actor0", "actor1")),
    "threads": Shape(work=in_threads, is_right=_listing("thread0", "thread1"), once=("thread0", "thread1")),
    "tools": Shape(
        work=through_tools,
        is_right=lambda r: r == ["reserved", ["tools"]],
        once=("first tool", "second tool"),
    ),
    "people": Shape(
        work=with_people,
        is_right=lambda r: r == [["yes, one?", "yes, two?"], "sell", told("people")],
        once=("people",),
    ),
    "messages": Shape(work=with_messages, is_right=lambda r: sorted(r) == [1, 2, 3]),
    "nested": Shape(work=in_nested_run, is_right=_listing("nested0", "nested1"), once=("nested0", "nested1")),
    "values": Shape(
        work=outside_values,
        is_right=lambda r: (
            [each.split()[0] for each in r[0]] == ["page0", "page1"] and r[3] == told("values")
        ),
        once=("values",),
    ),
    "doubt": Shape(work=in_doubt, is_right=lambda r: r in ("booked blind", "in doubt")),
}


async def work(names: list[str]) -> dict[str, Any]:
    """Do the work of some shapes, one after the other, and seal each result."""
    results: dict[str, Any] = {}
    for name in names:
        results[name] = await SHAPES[name].work()
        await book(seal(name, results[name]))
    return results


def seal(name: str, result: object) -> str:
    """The item that is booked with the result of a shape."""
    return f"seal of {name}: {json.dumps(result)}"

"""Runs generated programs, which are data."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import sniffio

import nighthawk_async as nh
from nighthawk_async import actors
from nighthawk_async.journal import JournalError
from nighthawk_async.parallel import AmbiguousPlaceError
from nighthawk_async.resilience import retrying, vote

from .calls import Clock, TruthfulModel, book_item, enter_clock, make_call
from .programs import Branch, Call, Node, Program, Shared
from .values import Session

REFUSALS = (JournalError, AmbiguousPlaceError, nh.journal.JournalIdentityWarning)
"""What the journal raises where it does not know."""


async def run_program(
    program: Program, life: int, store: nh.journal.JournalStore, run_id: str
) -> dict[str, Any]:
    """Live once.

    Returns:
        The result, as `ended`, or the names of the journal's errors, as `raised`, with a text.
    """
    enter_clock(Clock(program, life))
    nh.journal.register(Session, identity=lambda session: session._customer)
    executor = nh.AgentStepExecutor.from_model(TruthfulModel())
    try:
        async with nh.run(executor, journal=store, run_id=run_id):
            result = await run(program.root)
            await book_item(f"seal#{json.dumps(result)}")
            return {"ended": result}
    except Exception as error:
        leaves = list(_leaves(error))
        refusals = [each for each in leaves if isinstance(each, REFUSALS)]
        if not refusals or any(not isinstance(each, REFUSALS) for each in leaves):
            raise
        return {"raised": sorted({type(each).__name__ for each in refusals}), "text": str(refusals[0])}


def _leaves(error: BaseException) -> Any:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


async def run(node: Node) -> Any:
    """Run a part of a program."""
    if isinstance(node, Call):
        return await make_call(node)
    if isinstance(node, Shared):
        return await _FORMS[node.form](node)
    return await _BRANCHES[node.kind](node)


async def _one_by_one(parts: Sequence[Node]) -> list[Any]:
    return [await run(part) for part in parts]


async def _in_map(node: Branch) -> list[Any]:
    return await nh.parallel.map(run, node.parts, max_concurrent=node.room)


async def _in_settle(node: Branch) -> list[Any]:
    return _values_of(await nh.parallel.settle(run, node.parts, max_concurrent=node.room))


def _values_of(settled: Any) -> list[Any]:
    for each in settled.outcomes:
        if isinstance(each, nh.parallel.Failed):
            raise each.error
    return [each.value for each in settled.outcomes]


async def _in_race(node: Branch) -> list[Any]:
    return [await nh.parallel.race(run, node.parts, max_concurrent=node.room)]


async def _in_vote(node: Branch) -> list[Any]:
    async def opinion() -> str:
        return json.dumps(await run(node.parts[0]))

    return [await vote(count=3)(opinion)()]


async def _in_stream(node: Branch) -> list[Any]:
    async with nh.parallel.stream(run, node.parts, max_concurrent=node.room) as results:
        return [each async for each in results]


async def _nested(node: Branch) -> list[Any]:
    async with nh.run(nh.get_step_executor()):
        return await _one_by_one(node.parts)


@nh.journal.stage("part")
async def _in_stage(node: Branch) -> list[Any]:
    return await _one_by_one(node.parts)


async def _with_retry(node: Branch) -> list[Any]:
    attempts = 0

    @retrying(attempts=2, on=ValueError, wait=0)
    async def attempt() -> list[Any]:
        nonlocal attempts
        attempts += 1
        first = await run(node.parts[0])
        if attempts == 1:
            raise ValueError("again")
        return [first, *await _one_by_one(node.parts[1:])]

    return await attempt()


@nh.natural_function
async def around(node: Branch) -> list[Any]:
    """A natural function that runs parts, and has no block that is reached."""
    results = await _one_by_one(node.parts)
    if not results:
        """natural
        Nobody gets here with <node>.
        """
    return results


async def _before_deadline(node: Branch) -> list[Any]:
    async with nh.deadline(60):
        return await _one_by_one(node.parts)


async def side_by_side(spread: str, tasks: Sequence[Callable[[], Awaitable[Any]]]) -> list[Any]:
    """Run functions side by side, in one of the ways."""
    match spread:
        case "map":
            return await nh.parallel.map(_call, tasks)
        case "settle":
            return _values_of(await nh.parallel.settle(_call, tasks))
        case "gather":
            return list(await nh.parallel.gather(*(task() for task in tasks)))
        case "tasks":
            async with nh.open_tasks() as opened:
                handles = [opened.start(task) for task in tasks]
                return [await handle for handle in handles]
    if spread == "asyncio" and sniffio.current_async_library() == "asyncio":
        running = [asyncio.ensure_future(task()) for task in tasks]
        try:
            return list(await asyncio.gather(*running))
        finally:
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)
    results: dict[int, Any] = {}

    async def keep(index: int) -> None:
        results[index] = await tasks[index]()

    async with anyio.create_task_group() as group:
        for index in range(len(tasks)):
            group.start_soon(keep, index)
    return [results[index] for index in range(len(tasks))]


async def _call(task: Callable[[], Awaitable[Any]]) -> Any:
    return await task()


def _runner(part: Node) -> Callable[[], Awaitable[Any]]:
    async def run_part() -> Any:
        return await run(part)

    return run_part


def _spread(name: str) -> Callable[[Branch], Awaitable[list[Any]]]:
    async def run_parts(node: Branch) -> list[Any]:
        return await side_by_side(name, [_runner(part) for part in node.parts])

    return run_parts


_BRANCHES: dict[str, Callable[[Branch], Awaitable[list[Any]]]] = {
    "sequence": lambda node: _one_by_one(node.parts),
    "map": _in_map,
    "settle": _in_settle,
    "race": _in_race,
    "vote": _in_vote,
    "stream": _in_stream,
    "gather": _spread("gather"),
    "tasks": _spread("tasks"),
    "group": _spread("group"),
    "asyncio": _spread("asyncio"),
    "nested": _nested,
    "stage": _in_stage,
    "retry": _with_retry,
    "natural": around,
    "deadline": _before_deadline,
}

Draw = Callable[[], Awaitable[int]]


async def _with_seats(node: Shared, draw: Draw) -> list[Any]:
    """Each part gets the next seat, in the order in which they come, and pays for it."""

    def seat_of(index: int, part: Node) -> Callable[[], Awaitable[Any]]:
        async def take_seat() -> Any:
            await run(part)
            seat = await draw()
            return await book_item(f"seat {node.number}.{index}#{seat}")

        return take_seat

    return await side_by_side(node.spread, [seat_of(*each) for each in enumerate(node.parts)])


async def _locked(node: Shared, lock: Callable[[], Any]) -> list[Any]:
    seats = iter(range(100))

    async def draw() -> int:
        async with lock():
            return next(seats)

    return await _with_seats(node, draw)


class Seats(actors.Actor):
    """Gives seats away."""

    def __init__(self) -> None:
        self.given = 0

    async def take(self) -> int:
        """Take the next seat."""
        self.given += 1
        return self.given - 1


async def _of_actor(node: Shared) -> list[Any]:
    async with actors.open_actor(Seats) as seats:
        return await _with_seats(node, lambda: seats.ask(Seats.take))


async def _of_pool(node: Shared) -> list[Any]:
    seats = iter(range(100))

    async def take() -> int:
        return next(seats)

    async with actors.Pool(max_concurrent=1) as pool:

        async def draw() -> int:
            return await (await pool.submit(take))

        return await _with_seats(node, draw)


async def _of_cell(node: Shared) -> list[Any]:
    seats = actors.shared_cell(f"seats of {node.number}", initial=0)

    async def draw() -> int:
        return seats.update(lambda given: given + 1) - 1

    return await _with_seats(node, draw)


async def _of_lock(node: Shared) -> list[Any]:
    lock = anyio.Lock()
    return await _locked(node, lambda: lock)


async def _in_order(node: Shared, send: Callable[[Any], Awaitable[None]], more: Any = None) -> list[Any]:
    """Each part sends its number; who came in which order is paid for."""

    def sender(index: int, part: Node) -> Callable[[], Awaitable[Any]]:
        async def run_and_send() -> Any:
            result = await run(part)
            await send(index)
            return result

        return run_and_send

    tasks = [sender(*each) for each in enumerate(node.parts)]
    return await side_by_side(node.spread, [*tasks, more] if more else tasks)


async def _appended(node: Shared) -> list[Any]:
    order: list[int] = []

    async def send(index: int) -> None:
        order.append(index)

    await _in_order(node, send)
    return [await book_item(f"arrivals {node.number}#{order}")]


async def _received(node: Shared, queue: Any) -> list[Any]:
    async def receive() -> Any:
        return [await queue.receive() for _ in node.parts]

    results = await _in_order(node, queue.send, receive)
    return [await book_item(f"arrivals {node.number}#{results[-1]}")]


async def _in_mailbox(node: Shared) -> list[Any]:
    return await _received(node, actors.open_mailbox(f"mailbox {node.number}"))


async def _first_one(node: Shared) -> list[Any]:
    """The first one wins, by hand; the others are cancelled."""
    winner: list[int] = []

    async def run_and_win(index: int, part: Node) -> None:
        await run(part)
        winner.append(index)
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for index, part in enumerate(node.parts):
            group.start_soon(run_and_win, index, part)
    return [await book_item(f"arrivals {node.number}#{winner[0]}")]


async def _with_losers(node: Shared) -> list[Any]:
    """A race whose losers have changed something, too."""
    reached: list[int] = []

    async def run_and_note(index: int) -> None:
        part = node.parts[index]
        for step in part.parts if isinstance(part, Branch) else (part,):
            await run(step)
            reached.append(index)

    await nh.parallel.race(run_and_note, range(len(node.parts)))
    return [await book_item(f"arrivals {node.number}#{sorted(reached)}")]


_FORMS: dict[str, Callable[[Shared], Awaitable[list[Any]]]] = {
    "mutex": lambda node: _locked(node, lambda: actors.mutex(f"seats {node.number}")),
    "semaphore": lambda node: _locked(node, lambda: actors.semaphore(f"room {node.number}", capacity=1)),
    "actor": _of_actor,
    "pool": _of_pool,
    "cell": _of_cell,
    "mailbox": _in_mailbox,
    "channel": lambda node: _received(node, actors.Channel()),
    "lock of anyio": _of_lock,
    "append": _appended,
    "first": _first_one,
    "losers": _with_losers,
}

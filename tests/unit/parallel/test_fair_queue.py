"""Fair queues: order, overtaking, and giving up at the moment of being served."""

import threading
from collections.abc import Collection, Hashable
from functools import partial

import anyio
import pytest

from nighthawk_async.parallel.fair_queue import FairQueue, wake

pytestmark = pytest.mark.anyio


class Shelf:
    """Things that are taken and put back, some at a time."""

    def __init__(self, **things: int) -> None:
        self.things = things
        self.log: list[str] = []
        self._lock = threading.Lock()
        self._queue = FairQueue[tuple[str, ...]](self._lock)

    async def take(
        self,
        name: str,
        *things: str,
        needs: Collection[Hashable] | None = None,
        key: Hashable = None,
        goes_first: bool = False,
    ) -> None:
        """Wait for things, and note the name."""

        def decide() -> tuple[str, ...] | None:
            if not all(self.things[thing] for thing in things):
                return None
            for thing in things:
                self.things[thing] -= 1
            return things

        with self._lock:
            join = partial(self._queue.join, decide, key=key, goes_first=goes_first)
            joined = join() if needs is None else join(needs=needs)
        await self._queue.wait(joined, self.put)
        self.log.append(name)

    def put(self, things: tuple[str, ...]) -> None:
        """Put things back."""
        with self._lock:
            for thing in things:
                self.things[thing] += 1
            served = self._queue.move()
        wake(served)


async def test_who_came_first_is_served_first() -> None:
    shelf = Shelf(pen=0)
    async with anyio.create_task_group() as task_group:
        for name in "abc":
            task_group.start_soon(shelf.take, name, "pen")
            await anyio.wait_all_tasks_blocked()
        for _ in range(3):
            shelf.put(("pen",))
            await anyio.wait_all_tasks_blocked()
    assert shelf.log == ["a", "b", "c"]


async def test_nobody_overtakes_who_waits_although_there_is_something() -> None:
    shelf = Shelf(pen=1, ink=0)
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(shelf.take, "both", "pen", "ink")
        await anyio.wait_all_tasks_blocked()
        task_group.start_soon(shelf.take, "pen", "pen")
        await anyio.wait_all_tasks_blocked()
        assert shelf.log == []
        shelf.put(("ink",))
        await anyio.wait_all_tasks_blocked()
        assert shelf.log == ["both"]
        shelf.put(("pen",))
    assert shelf.log == ["both", "pen"]


async def test_who_needs_other_things_does_not_wait() -> None:
    shelf = Shelf(pen=0, ink=0)
    async with anyio.create_task_group() as task_group:
        for thing in ("pen", "ink"):
            task_group.start_soon(lambda name: shelf.take(name, name, needs=(name,)), thing)
            await anyio.wait_all_tasks_blocked()
        shelf.put(("ink",))
        await anyio.wait_all_tasks_blocked()
        assert shelf.log == ["ink"]
        shelf.put(("pen",))
    assert shelf.log == ["ink", "pen"]


async def test_who_gives_up_lets_those_behind_go_on() -> None:
    shelf = Shelf(pen=1, ink=0)
    scope = anyio.CancelScope()

    async def take_both() -> None:
        with scope:
            await shelf.take("both", "pen", "ink", needs=("pen", "ink"))

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(take_both)
        await anyio.wait_all_tasks_blocked()
        task_group.start_soon(lambda: shelf.take("pen", "pen", needs=("pen",)))
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
    assert shelf.log == ["pen"]
    assert shelf.things == {"pen": 0, "ink": 0}


@pytest.mark.parametrize("is_cancelled_first", [True, False])
async def test_what_comes_at_the_moment_of_a_cancellation_goes_to_the_next(is_cancelled_first: bool) -> None:
    shelf = Shelf(pen=0)
    scope = anyio.CancelScope()

    async def take_and_leave() -> None:
        with scope:
            await shelf.take("cancelled", "pen")

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(take_and_leave)
        await anyio.wait_all_tasks_blocked()
        task_group.start_soon(shelf.take, "next", "pen")
        await anyio.wait_all_tasks_blocked()
        if is_cancelled_first:
            scope.cancel()
        shelf.put(("pen",))
        scope.cancel()
    assert shelf.log == ["next"]
    assert shelf.things == {"pen": 0}


async def test_those_of_different_keys_alternate() -> None:
    shelf = Shelf(pen=0)
    async with anyio.create_task_group() as task_group:
        for name in ("a1", "a2", "a3", "b1", "c1", "b2"):
            task_group.start_soon(partial(shelf.take, name, "pen", key=name[0]))
            await anyio.wait_all_tasks_blocked()
        for _ in range(6):
            shelf.put(("pen",))
            await anyio.wait_all_tasks_blocked()
    assert shelf.log == ["a1", "b1", "c1", "a2", "b2", "a3"]


async def test_who_goes_first_is_served_before_those_who_wait() -> None:
    shelf = Shelf(pen=0)
    async with anyio.create_task_group() as task_group:
        for name in ("a", "b", "first"):
            task_group.start_soon(partial(shelf.take, name, "pen", key=name, goes_first=name == "first"))
            await anyio.wait_all_tasks_blocked()
        for _ in range(3):
            shelf.put(("pen",))
            await anyio.wait_all_tasks_blocked()
    assert shelf.log == ["first", "a", "b"]


async def test_who_is_withdrawn_gets_the_given_grant_and_those_behind_go_on() -> None:
    lock = threading.Lock()
    queue = FairQueue[str](lock)
    grants: list[str] = []
    is_open = False

    async def take(name: str) -> None:
        with lock:
            turn = queue.join(lambda: name if is_open and name == "next" else None)
        grants.append(await queue.wait(turn, lambda grant: None))

    async with anyio.create_task_group() as task_group:
        for name in ("refused", "next"):
            task_group.start_soon(take, name)
            await anyio.wait_all_tasks_blocked()
        is_open = True
        with lock:
            [first, _] = queue.lines[None]
            woken = queue.withdraw(first, "no")
            assert queue.withdraw(first, "again") == ()
        wake(woken)
    assert sorted(grants) == ["next", "no"]
    assert len(queue) == 0


@pytest.mark.virtual_time
async def test_the_first_one_keeps_the_time_and_hands_it_on() -> None:
    lock = threading.Lock()
    queue = FairQueue[float](lock)
    began_at = anyio.current_time()
    next_at = 10.0
    grants: list[tuple[str, float]] = []

    def now() -> float:
        return anyio.current_time() - began_at

    def decide() -> float | None:
        nonlocal next_at
        if now() < next_at:
            return None
        next_at += 10.0
        return now()

    async def take(name: str, patience: float) -> None:
        with anyio.move_on_after(patience):
            with lock:
                turn = queue.join(decide, pause=lambda: next_at - now())
            grants.append((name, await queue.wait(turn, lambda grant: None)))

    async with anyio.create_task_group() as task_group:
        for name, patience in (("a", 5.0), ("b", 60.0), ("c", 15.0), ("d", 60.0)):
            task_group.start_soon(take, name, patience)
            await anyio.wait_all_tasks_blocked()
    assert grants == [("b", 10.0), ("d", 20.0)]


async def test_an_exception_of_the_pause_ends_the_wait() -> None:
    lock = threading.Lock()
    queue = FairQueue[str](lock)

    def pause() -> float:
        raise ValueError("asked to end")

    with lock:
        turn = queue.join(lambda: None, pause=pause)
    with pytest.raises(ValueError, match="asked to end"):
        await queue.wait(turn, lambda grant: None)
    assert len(queue) == 0


async def test_it_serves_from_other_threads() -> None:
    shelf = Shelf(pen=0)
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(shelf.take, "a", "pen")
        await anyio.wait_all_tasks_blocked()
        await anyio.to_thread.run_sync(shelf.put, ("pen",))
    assert shelf.log == ["a"]


async def test_thousands_who_wait_are_served_one_by_one() -> None:
    shelf = Shelf(pen=0)
    async with anyio.create_task_group() as task_group:
        for number in range(2_000):
            task_group.start_soon(shelf.take, str(number), "pen")
        await anyio.wait_all_tasks_blocked()
        for _ in range(2_000):
            shelf.put(("pen",))
    assert sorted(map(int, shelf.log)) == list(range(2_000))

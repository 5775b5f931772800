"""What is counted about named locks, and for how long it is remembered."""

import anyio
import pytest

from nighthawk_async.actors import (
    LockStatistics,
    acquire_gate,
    gate,
    lock_statistics,
    mutex,
    open_namespace,
    semaphore,
)
from nighthawk_async.actors.locks_state import IDLE_LOCKS

pytestmark = pytest.mark.anyio


@pytest.mark.virtual_time
async def test_the_figures_tell_who_waited_and_who_held_for_how_long() -> None:
    async def take(permits: int, *, timeout_seconds: float, hold_seconds: float) -> None:
        block = semaphore("memory", capacity=4, permits=permits, timeout=timeout_seconds)
        try:
            async with block:
                await anyio.sleep(hold_seconds)
        except TimeoutError:
            pass

    async with anyio.create_task_group() as task_group:
        async with semaphore("memory", capacity=4, permits=3):
            task_group.start_soon(lambda: take(3, timeout_seconds=100, hold_seconds=5))  # waits for 10
            await anyio.wait_all_tasks_blocked()
            task_group.start_soon(lambda: take(1, timeout_seconds=4, hold_seconds=0))  # gives up after 4
            with anyio.move_on_after(7):  # is cancelled after 7
                await take(2, timeout_seconds=100, hold_seconds=0)
            await anyio.sleep(3)
        await anyio.wait_all_tasks_blocked()
        (while_held,) = lock_statistics("semaphore", "memory")
    (afterwards,) = lock_statistics("semaphore", "memory")
    assert (while_held.held, while_held.acquired, while_held.released) == (3, 2, 1)
    assert afterwards == LockStatistics(
        kind="semaphore",
        key="memory",
        scope="process",
        capacity=4,
        acquired=2,
        timeouts=1,
        cancelled=1,
        released=2,
        held=0,
        waiting=0,
        greatest_waiting=3,
        total_wait_seconds=10 + 4 + 7,
        total_held_seconds=10 + 5,
    )


async def test_the_greatest_number_of_waiting_requests_is_remembered() -> None:
    async def enter() -> None:
        async with mutex("crowded"):
            pass

    for crowd in (3, 1):
        async with anyio.create_task_group() as task_group, mutex("crowded"):
            for _ in range(crowd):
                task_group.start_soon(enter)
            await anyio.wait_all_tasks_blocked()
            (figures,) = lock_statistics("mutex", "crowded")
            assert (figures.waiting, figures.greatest_waiting) == (crowd, 3)


async def test_figures_are_found_by_kind_and_key() -> None:
    with open_namespace("run"):
        async with mutex("a", scope="run"), mutex("b", scope="run"), gate("a", limit=2, scope="run"):

            def found(*which: str | None) -> list[tuple[str, str, int]]:
                figures = lock_statistics(*which)  # pyright: ignore[reportArgumentType]
                return [(each.kind, each.key, each.capacity) for each in figures if each.scope == "run"]

            assert found("mutex", "a") == [("mutex", "a", 1)]
            assert found("mutex") == [("mutex", "a", 1), ("mutex", "b", 1)]
            assert found(None, "a") == [("mutex", "a", 1), ("gate", "a", 2)]
            assert found() == [("mutex", "a", 1), ("mutex", "b", 1), ("gate", "a", 2)]
            assert found("semaphore") == found(None, "c") == []


async def test_idle_locks_do_not_take_memory_for_ever_and_locks_in_use_are_never_forgotten() -> None:
    with open_namespace("run"):
        async with gate("in use", limit=1, scope="run"):
            async with gate("used first", limit=1, scope="run"), gate("used again", limit=1, scope="run"):
                pass
            for number in range(IDLE_LOCKS - 1):
                async with mutex(f"customer-{number}", scope="run"):
                    pass
                async with gate("used again", limit=1, scope="run"):
                    pass
            assert len(_keys_of_the_run()) == IDLE_LOCKS + 1
            assert {"in use", "used again", "customer-0"} <= _keys_of_the_run()
            assert "used first" not in _keys_of_the_run()
            assert await acquire_gate("in use", limit=1, scope="run", timeout=0) is None
        async with gate("used first", limit=7, scope="run"):
            (figures,) = lock_statistics("gate", "used first")
            assert (figures.capacity, figures.acquired) == (7, 1)


def _keys_of_the_run() -> set[str]:
    return {statistics.key for statistics in lock_statistics() if statistics.scope == "run"}

"""Calls that a run enqueues are effects of the run: recorded, and compared in later lives."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.causes import leaves_of
from nighthawk_async.journal import JournalDivergenceError
from nighthawk_async.journal.effect_call import idempotency_key

from .durable_runs import live, opened, places, query, shouting
from .queue_jobs import note

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]


Enqueueing: TypeAlias = Callable[[nh.journal.JournalStore, Sequence[int]], Awaitable[list[str]]]


class CrashError(Exception):
    """The end of a life."""


@nh.once
async def pay(amount: int) -> int:
    return amount


async def in_order(store: nh.journal.JournalStore, numbers: Sequence[int]) -> list[str]:
    """Enqueue calls one after the other."""
    return [await store.enqueue(note, number) for number in numbers]


async def side_by_side(store: nh.journal.JournalStore, numbers: Sequence[int]) -> list[str]:
    """Enqueue calls in tasks that are started by hand."""
    async with anyio.create_task_group() as tasks:
        for number in numbers:
            tasks.start_soon(store.enqueue, note, number)
    return []


async def with_keys(store: nh.journal.JournalStore, numbers: Sequence[int]) -> list[str]:
    """Enqueue calls with keys of their own, in tasks that are started by hand."""

    async def enqueue(number: int) -> None:
        await store.enqueue(note, number, key=f"note-{number}")

    async with anyio.create_task_group() as tasks:
        for number in numbers:
            tasks.start_soon(enqueue, number)
    return []


async def with_keys_in_order(store: nh.journal.JournalStore, numbers: Sequence[int]) -> list[str]:
    """Enqueue calls with keys of their own, one after the other."""
    return [await store.enqueue(note, number, key=f"note-{number}") for number in numbers]


async def life(
    store: nh.journal.JournalStore, enqueue: Enqueueing, numbers: Sequence[int], *, crashes: bool = False
) -> list[str]:
    """A life that enqueues calls, and makes an effect afterwards."""

    async def program() -> list[str]:
        ids = await enqueue(store, numbers)
        await pay(1)
        if crashes:
            raise CrashError
        return ids

    ids: list[str] = await live(store, shouting(), program)
    return ids


def count_jobs(store: nh.journal.JournalStore) -> int:
    """The number of calls in all queues."""
    return int(query(store, "SELECT count(*) FROM queue_entries")[0][0])


@pytest.mark.parametrize("enqueue", [in_order, side_by_side, with_keys, with_keys_in_order])
async def test_another_argument_is_refused_before_it_is_enqueued(tmp_path: Path, enqueue: Enqueueing) -> None:
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await life(store, enqueue, [1, 2], crashes=True)
        with pytest.raises((JournalDivergenceError, ExceptionGroup)) as error:
            await life(store, enqueue, [1, 3])
        assert all(isinstance(each, JournalDivergenceError) for each in leaves_of(error.value))
        assert count_jobs(store) == 2
        first = await life(store, enqueue, [1, 2])
        assert await life(store, enqueue, [1, 2]) == first
        assert count_jobs(store) == 2


async def test_one_more_call_before_recorded_ones_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await life(store, in_order, [1], crashes=True)
        with pytest.raises(JournalDivergenceError, match=r"enqueue\(\)\[1\] is not in the journal"):
            await life(store, in_order, [1, 2])
        assert count_jobs(store) == 1


async def test_nothing_is_enqueued_in_a_life_that_has_diverged(tmp_path: Path) -> None:
    async def program() -> None:
        with pytest.raises(JournalDivergenceError):
            await pay(2)
        await store.enqueue(note, 1)

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await life(store, in_order, [], crashes=True)
        with pytest.raises(JournalDivergenceError, match="nothing new begins"):
            await live(store, shouting(), program)
        assert count_jobs(store) == 0


async def test_a_replay_returns_the_id_and_enqueues_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        ids = await life(store, in_order, [1])
        with nh.journal.replay(store, "run-1"):
            assert await life(store, in_order, [1]) == ids
        assert count_jobs(store) == 1


async def test_what_an_earlier_version_enqueued_is_the_same_call(tmp_path: Path) -> None:
    """Earlier versions recorded nothing of such a call in the run."""
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await life(store, in_order, [], crashes=True)
        key = idempotency_key("run-1", "run/enqueue()[0]")
        assert await store.enqueue(note, 1, key=key) == key
        assert await life(store, in_order, [1]) == [key]
        assert count_jobs(store) == 1


async def test_what_an_earlier_version_enqueued_with_a_key_is_the_same_call(tmp_path: Path) -> None:
    async def both(store: nh.journal.JournalStore, numbers: Sequence[int]) -> list[str]:
        return [*await with_keys_in_order(store, numbers), *await in_order(store, numbers)]

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await life(store, in_order, [], crashes=True)
        await with_keys_in_order(store, [1])
        key = await store.enqueue(note, 1, key=idempotency_key("run-1", "run/enqueue()[0]"))
        assert await life(store, both, [1]) == ["note-1", key], "those with a key do not count among others"
        assert count_jobs(store) == 2


async def test_a_run_that_puts_itself_into_a_queue_records_nothing_of_that(tmp_path: Path) -> None:
    async def program() -> None:
        await pay(1)
        await store.enqueue(note, 2, key="run-1")

    with opened(tmp_path) as store:
        for _ in range(2):
            await live(store, shouting(), program)
        assert count_jobs(store) == 1
        assert places(store, "intent") == ["run/pay()[0]"]

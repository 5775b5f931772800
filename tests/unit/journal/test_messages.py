"""Messages to runs: in order, each once in all lives."""

from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalDivergenceError

from .durable_runs import AnsweringModel, assigning, change_tables, live, opened

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]


class CrashError(Exception):
    """The end of a life."""


def model() -> AnsweringModel:
    return AnsweringModel(lambda prompt, turn: assigning("x", "1"))


async def test_messages_are_received_in_order_and_once_in_all_lives(tmp_path: Path) -> None:
    async def crashing() -> None:
        assert await nh.journal.receive("reply") == "a"
        raise CrashError

    async def whole() -> list[object]:
        return [await nh.journal.receive("reply") for _ in range(3)]

    with opened(tmp_path) as store:
        for value, id in (("a", "1"), ("b", "2"), ("again", "1")):
            await store.send("run-1", "reply", value, id=id)
        await store.send("run-2", "reply", "of another run")
        with pytest.raises(CrashError):
            await live(store, model(), crashing)
        await store.send("run-1", "reply", ("c", 3))
        for _ in range(2):
            assert await live(store, model(), whole) == ["a", "b", ("c", 3)]


async def test_a_waiting_run_gets_messages_of_this_and_of_other_stores(tmp_path: Path) -> None:
    async def program() -> list[object]:
        return [await nh.journal.receive("reply"), await nh.journal.receive("reply")]

    with opened(tmp_path) as store, opened(tmp_path) as other, anyio.fail_after(240):
        results: list[object] = []
        async with anyio.create_task_group() as group:

            async def one_life() -> None:
                results.extend(await live(store, model(), program))

            group.start_soon(one_life)
            await store.send("run-1", "reply", "here")
            await other.send("run-1", "reply", "elsewhere")
    assert results == ["here", "elsewhere"]


async def test_tasks_never_get_the_same_message(tmp_path: Path) -> None:
    async def program() -> list[object]:
        return await nh.parallel.map(nh.journal.receive, ["reply"] * 5)

    with opened(tmp_path) as store:
        for number in range(5):
            await store.send("run-1", "reply", number)
        first = await live(store, model(), program)
        assert sorted(first) == list(range(5))
        assert await live(store, model(), program) == first


@pytest.mark.virtual_time
async def test_a_timeout_is_the_same_in_every_life(tmp_path: Path) -> None:
    async def program() -> None:
        await nh.journal.receive("reply", timeout=60)

    with opened(tmp_path) as store:
        begun = anyio.current_time()
        with pytest.raises(TimeoutError):
            await live(store, model(), program)
        assert anyio.current_time() >= begun + 60
        await store.send("run-1", "reply", "too late")
        with pytest.raises(TimeoutError):
            await live(store, model(), program)


async def test_a_cancelled_wait_takes_no_message(tmp_path: Path) -> None:
    async def program() -> object:
        with anyio.move_on_after(0):
            await nh.journal.receive("none")
        return await nh.journal.receive("reply", timeout=0)

    with opened(tmp_path) as store:
        await store.send("run-1", "reply", "a")
        assert await live(store, model(), program) == "a"


async def test_another_mailbox_at_the_same_place_is_a_change(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await store.send("run-1", "a", 1)
        await live(store, model(), lambda: nh.journal.receive("a"))
        with pytest.raises(JournalDivergenceError, match="'b'"):
            await live(store, model(), lambda: nh.journal.receive("b"))


async def test_without_a_journal_nothing_is_received() -> None:
    with pytest.raises(nh.NighthawkError, match="journal"):
        await nh.journal.receive("reply")


async def test_a_batch_ends_with_its_count(tmp_path: Path) -> None:
    async def program() -> list[list[object]]:
        batches = [await nh.journal.receive_batch("mail", count=2, window=3_600) for _ in range(2)]
        return [*batches, [await nh.journal.receive("mail")]]

    with opened(tmp_path) as store:
        for number in range(5):
            await store.send("run-1", "mail", number)
        for _ in range(2):
            assert await live(store, model(), program) == [[0, 1], [2, 3], [4]]


async def test_a_batch_ends_with_its_window_whenever_it_is_looked_for(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(3):
            await store.send("run-1", "mail", number)
        change_tables(tmp_path, "UPDATE messages SET at = at - 100 WHERE number < 3")  # 90 s before the third
        change_tables(tmp_path, "UPDATE messages SET at = at - 100")
        for _ in range(2):
            batch = await live(store, model(), lambda: nh.journal.receive_batch("mail", count=9, window=50))
            assert batch == [0, 1]


async def test_a_batch_is_completed_by_a_message_that_comes_while_it_is_waited_for(tmp_path: Path) -> None:
    with opened(tmp_path) as store, opened(tmp_path) as other, anyio.fail_after(240):
        results: list[object] = []
        await store.send("run-1", "mail", "first")
        async with anyio.create_task_group() as group:

            async def one_life() -> None:
                program = partial(nh.journal.receive_batch, "mail", count=2, window=3_600)
                results.extend(await live(store, model(), program))

            group.start_soon(one_life)
            await other.send("run-1", "mail", "second")
    assert results == ["first", "second"]


async def test_batches_by_key_leave_other_messages_where_they_are(tmp_path: Path) -> None:
    async def program() -> list[object]:
        batch = partial(nh.journal.receive_batch, "mail", window=3_600, key=lambda mail: mail[0])
        return [
            await batch(count=2),
            await batch(count=2),
            await nh.journal.receive("mail"),
            await batch(count=1),
        ]

    with opened(tmp_path) as store:
        for mail in ("a1", "b1", "c1", "b2", "a2", "b3"):
            await store.send("run-1", "mail", mail)
        for _ in range(2):
            assert await live(store, model(), program) == [["b1", "b2"], ["a1", "a2"], "c1", ["b3"]]


async def test_tasks_never_get_the_same_batch(tmp_path: Path) -> None:
    async def program() -> list[list[object]]:
        batch = partial(nh.journal.receive_batch, count=2, window=3_600, key=lambda number: number % 3)
        return await nh.parallel.map(batch, ["mail"] * 6)

    with opened(tmp_path) as store:
        for number in range(12):
            await store.send("run-1", "mail", number)
        first = await live(store, model(), program)
        assert sorted(number for batch in first for number in batch) == list(range(12))
        assert all(one % 3 == other % 3 for one, other in first)
        assert await live(store, model(), program) == first


@pytest.mark.virtual_time
async def test_a_batch_that_did_not_end_in_time_takes_no_message(tmp_path: Path) -> None:
    async def program() -> object:
        with pytest.raises(TimeoutError):
            await nh.journal.receive_batch("mail", count=2, window=3_600, timeout=60)
        return await nh.journal.receive("mail")

    with opened(tmp_path) as store:
        await store.send("run-1", "mail", "a")
        for _ in range(2):
            assert await live(store, model(), program) == "a"


@pytest.mark.parametrize(
    "bad", [{"count": 0}, {"count": True}, {"window": -1}, {"window": "1"}, {"timeout": -1}]
)
async def test_a_batch_with_a_bad_argument_is_refused(tmp_path: Path, bad: dict[str, object]) -> None:
    arguments: dict[str, Any] = {"count": 2, "window": 1, **bad}
    with opened(tmp_path) as store, pytest.raises(nh.NighthawkError, match=next(iter(bad))):
        await live(store, model(), lambda: nh.journal.receive_batch("mail", **arguments))

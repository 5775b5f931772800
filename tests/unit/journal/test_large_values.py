"""Large values: stored once, and refused above a limit."""

import threading
from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalValueError
from nighthawk_async.journal.blob_table import load_body, store_body
from nighthawk_async.journal.pruning import delete_blobs

from .durable_runs import live, opened, query, shout, shouting

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

LARGE = "large" * 40_000


@nh.once
async def fetch(size: int) -> str:
    """Return a large text."""
    return LARGE[:size]


async def program() -> list[int]:
    return [len(await fetch(len(LARGE))), len(await fetch(len(LARGE))), len(await fetch(10))]


async def test_equal_large_bodies_are_stored_once_and_read_in_later_lives(tmp_path: Path) -> None:
    for _ in range(2):
        with opened(tmp_path) as store:
            for run_id in ("run-1", "run-2"):
                assert await live(store, shouting(), program, run_id) == [len(LARGE), len(LARGE), 10]
            assert query(store, "SELECT count(*) FROM blobs") == [(1,)]
            assert query(store, "SELECT count(*) FROM records WHERE length(body) > 60000") == [(0,)]
            assert sum(len(each.body) for each in store.records("run-1")) > 2 * len(LARGE)
            assert store.verify()


async def test_a_value_above_the_limit_is_refused_before_it_is_stored(tmp_path: Path) -> None:
    with opened(tmp_path, max_value_bytes=100_000) as store:
        with pytest.raises(
            JournalValueError, match=r"run/fetch\(\)\[0\].* type str has 200,\d+ bytes.*100,000"
        ):
            await live(store, shouting(), program)
        with pytest.raises(JournalValueError, match=r"'reply' to run 'run-1': .* type str has 200,\d+ bytes"):
            await store.send("run-1", "reply", LARGE)
        assert query(store, "SELECT (SELECT count(*) FROM blobs), (SELECT count(*) FROM messages)") == [
            (0, 0)
        ]


async def test_a_response_above_the_limit_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path, max_value_bytes=100) as store:
        with pytest.raises(JournalValueError, match="the response has"):
            await live(store, shouting(), lambda: shout("a"))
        assert "response" not in {each.kind for each in store.records("run-1")}


def test_a_body_is_not_deleted_while_a_row_is_written_that_refers_to_it(tmp_path: Path) -> None:
    body, context = LARGE.encode(), ("messages", "run-1", "reply", "1")
    has_ended = threading.Event()
    deleted: list[int] = []

    def delete() -> None:
        with opened(tmp_path) as other:
            deleted.append(delete_blobs(other.thread))
        has_ended.set()

    def write() -> None:
        database = store.thread.opened()
        with database.transaction():
            store_body(database, body, *context)  # nothing refers to it yet
        thread = threading.Thread(target=delete)
        with database.transaction():
            stored = store_body(database, body, *context)
            thread.start()
            has_ended.wait(0.3)  # it waits for this transaction; without a lock it would be over now
            database.change(
                "INSERT INTO messages (run_id, name, number, message_id, at, body) "
                "VALUES ('run-1', 'reply', 1, '1', 0, ?)",
                stored,
            )
        thread.join()
        assert load_body(database, stored, *context) == body

    with opened(tmp_path) as store:
        store.thread.perform(write).wait_in_thread()
    assert deleted == [0]


@pytest.mark.parametrize("limit", [0, 2**40])
def test_a_limit_that_is_none_is_refused(limit: int) -> None:
    with pytest.raises(nh.ConfigurationError, match="max_value_bytes"):
        nh.journal.open("sqlite:///runs.db", max_value_bytes=limit)

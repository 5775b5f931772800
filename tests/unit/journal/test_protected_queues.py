"""Calls in queues in a store with keys: encrypted, stored apart when large, and written anew."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalAuditError, JournalKeyError, JournalValueError, RunStuckError
from tests.unit.journal.queue_jobs import made, serving, worker_of

from .durable_runs import change, change_tables, opened, query

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

SECRET = "my secret word"
LARGE = SECRET * 10_000
OLD, NEW = {"2026-05": b"o" * 32}, {"2026-11": b"n" * 32}
TABLES = ("runs", "queue_entries", "schedules", "records", "blobs")


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    made.clear()


async def repeat(word: str) -> str:
    """Return a word."""
    return word


async def refuse(word: str) -> None:
    """Fail with an error that has a word."""
    raise ValueError(word)


def stored(store: nh.journal.JournalStore) -> bytes:
    """Everything in the tables that may come from arguments and results."""
    rows = [row for table in TABLES for row in query(store, f"SELECT * FROM {table}")]
    return b"\n".join(each if isinstance(each, bytes) else str(each).encode() for row in rows for each in row)


def make_due(folder: Path) -> None:
    """Have all schedules be due."""
    change_tables(folder, f"UPDATE schedules SET next_at = {datetime.now(UTC).timestamp() - 86_400}")


async def enqueue_all(store: nh.journal.JournalStore, folder: Path, word: str) -> None:
    """Enqueue calls of all kinds with a word."""
    await store.enqueue(repeat, word, key="repeat")
    await store.enqueue(refuse, word=word, key="refuse")
    await store.schedule("nightly", repeat, word, cron="0 3 * * *")
    make_due(folder)


async def make_all(store: nh.journal.JournalStore, word: str) -> None:
    """Make these calls, and look at their results."""
    async with serving(worker_of(store, repeat, refuse)):
        assert await store.result("repeat") == word
        with pytest.raises(ValueError, match=word[:20]):
            await store.result("refuse")
        (nightly,) = (each.run_id for each in store.queue_entries() if each.run_id.startswith("nightly@"))
        assert await store.result(nightly) == word


@pytest.mark.parametrize("word", [SECRET, LARGE], ids=["small", "large"])
async def test_arguments_results_and_errors_are_encrypted(tmp_path: Path, word: str) -> None:
    with opened(tmp_path, keys=NEW) as store:
        await enqueue_all(store, tmp_path, word)
        assert SECRET.encode() not in stored(store)
        await make_all(store, word)
        assert SECRET.encode() not in stored(store)
        assert b"ValueError" in stored(store)
        await store.enqueue(repeat, word, key="repeat")
        with pytest.raises(nh.NighthawkError, match="other arguments"):
            await store.enqueue(repeat, "another", key="repeat")
    plain = tmp_path / "plain"
    plain.mkdir()
    with opened(plain) as store:
        await enqueue_all(store, plain, word)
        assert SECRET.encode() in stored(store)


async def test_equal_large_arguments_and_results_are_stored_once(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await enqueue_all(store, tmp_path, LARGE)
        assert query(store, "SELECT count(*) FROM blobs") == [(2,)]  # by position, and by name
        await make_all(store, LARGE)
        assert max(len(row[0]) for row in query(store, "SELECT arguments FROM queue_entries")) < 100
        blobs = query(store, "SELECT count(*) FROM blobs")
        assert blobs == [(4,)]  # a result, and an error
        assert store.prune(timedelta(0)).blobs == 1  # the schedule and the failed run use the others
        assert await store.unschedule("nightly")
        assert store.prune(timedelta(0), statuses=["failed"]).blobs == 3
        assert query(store, "SELECT count(*) FROM queue_entries") == [(0,)]


@pytest.mark.parametrize("keys", [None, {"2026-11": b"w" * 32}], ids=["none", "wrong"])
async def test_nothing_is_written_without_the_key_and_nothing_is_lost(
    tmp_path: Path, keys: dict[str, bytes] | None
) -> None:
    with opened(tmp_path, keys=NEW) as store:
        await store.enqueue(repeat, SECRET, key="repeat")
        await store.schedule("nightly", repeat, SECRET, cron="0 3 * * *")
    with opened(tmp_path, keys=keys) as store:
        with pytest.raises(JournalKeyError, match="2026-11"):
            await store.enqueue(repeat, "b", key="other")
        with pytest.raises(JournalKeyError, match="2026-11"):
            await store.schedule("weekly", repeat, "b", cron="0 3 * * 1")
        with pytest.raises(JournalKeyError, match="2026-11"):
            store.schedules()
        with pytest.raises(JournalKeyError, match="2026-11"):
            await worker_of(store, repeat).serve()
        assert [(each.run_id, each.status) for each in store.queue_entries()] == [("repeat", "queued")]
    with opened(tmp_path, keys=NEW) as store:
        async with serving(worker_of(store, repeat)):
            assert await store.result("repeat") == SECRET
    with opened(tmp_path, keys=keys) as store, pytest.raises(JournalKeyError, match="2026-11"):
        await store.result("repeat")


@pytest.mark.parametrize("options", [{"keys": NEW}, {"audit_key": b"a" * 32}], ids=["keys", "audit_key"])
async def test_arguments_cannot_be_exchanged(tmp_path: Path, options: dict[str, Any]) -> None:
    with opened(tmp_path, **options) as store:
        await store.enqueue(repeat, "a", key="one")
        await store.enqueue(repeat, "b", key="two")
        change(
            store,
            "UPDATE queue_entries SET arguments = (SELECT arguments FROM queue_entries WHERE run_id = 'two') "
            "WHERE run_id = 'one'",
        )
        worker = worker_of(store, repeat)
        async with serving(worker):
            assert await store.result("two") == "b"  # the entry that was changed fails, and no other one
            with pytest.raises(JournalAuditError, match=r"'one'.*(changed or moved|another row)"):
                await store.result("one")
            assert worker.statistics().failed == 1
        entries = {each.run_id: each.status for each in store.queue_entries()}
        assert entries == {"one": "failed", "two": "ended"}


async def test_large_arguments_that_are_missing_fail_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await store.enqueue(repeat, LARGE, key="one")
        await store.enqueue(repeat, "b", key="two")
        change(store, "DELETE FROM blobs")
        async with serving(worker_of(store, repeat)):
            assert await store.result("two") == "b"
            with pytest.raises(JournalAuditError, match="missing"):
                await store.result("one")


async def test_a_worker_with_another_audit_key_lets_nothing_fail(tmp_path: Path) -> None:
    with opened(tmp_path, audit_key=b"a" * 32) as store:
        await store.enqueue(repeat, "a", key="one")
    for options in ({}, {"audit_key": b"b" * 32}):
        with opened(tmp_path, **options) as store:
            with pytest.raises(JournalAuditError, match="audit key"):
                await worker_of(store, repeat).serve()
            assert [each.status for each in store.queue_entries()] == ["queued"]


@pytest.mark.parametrize("column", ["queue = 'fast'", "priority = 9", "max_lives = 99"])
async def test_an_entry_keeps_its_options(tmp_path: Path, column: str) -> None:
    with opened(tmp_path, audit_key=b"a" * 32) as store:
        await store.enqueue(repeat, "a", key="one", queue="default")
        change(store, f"UPDATE queue_entries SET {column}")
        with pytest.raises(JournalAuditError, match="another row"):
            store.verify()
        queue = "fast" if "queue" in column else "default"
        async with serving(worker_of(store, repeat, queue=queue)):
            with pytest.raises(JournalAuditError, match="another row"):
                await store.result("one")


@pytest.mark.parametrize(
    "column", ["name = 'weekly'", "cron = '* * * * *'", "queue = 'fast'", "timezone = 'Asia/Tokyo'"]
)
async def test_a_schedule_that_was_changed_enqueues_nothing(tmp_path: Path, column: str) -> None:
    queue = "fast" if "fast" in column else "default"
    with opened(tmp_path, audit_key=b"a" * 32) as store:
        await store.schedule("nightly", repeat, "a", cron="0 3 * * *")
        await store.schedule("other", repeat, "b", cron="0 3 * * *", queue=queue)
        store.verify()
        change(store, f"UPDATE schedules SET {column} WHERE name = 'nightly'")
        make_due(tmp_path)
        async with serving(worker_of(store, repeat, queue=queue)):
            (entry,) = store.queue_entries()
            assert entry.run_id.startswith("other@")
            assert await store.result(entry.run_id) == "b"
        for read in (store.schedules, store.verify):
            with pytest.raises(JournalAuditError, match="another row"):
                read()


@pytest.mark.parametrize("word", [SECRET, LARGE], ids=["small", "large"])
async def test_keys_are_exchanged(tmp_path: Path, word: str) -> None:
    with opened(tmp_path) as store:
        await store.enqueue(repeat, word, key="plain")
    with opened(tmp_path, keys=OLD) as store:
        await enqueue_all(store, tmp_path, word)
        await make_all(store, word)
        await store.enqueue(repeat, word, key="later")
    with opened(tmp_path, keys={**OLD, **NEW}, active_key="2026-11") as store:
        assert b"2026-05" in stored(store)
        store.reencrypt()
        assert b"2026-05" not in stored(store)
        assert SECRET.encode() not in stored(store)
    with opened(tmp_path, keys=NEW) as store:
        make_due(tmp_path)
        assert await store.result("plain") == word
        async with serving(worker_of(store, repeat, refuse)):
            assert await store.result("later") == word
        with pytest.raises(ValueError, match=SECRET):
            await store.result("refuse")
        assert [each.name for each in store.schedules()] == ["nightly"]


async def test_calls_above_the_limit_are_refused(tmp_path: Path) -> None:
    with opened(tmp_path, max_value_bytes=1_000) as store:
        with pytest.raises(JournalValueError, match=r"'word' of .*repeat: .* type str has"):
            await store.enqueue(repeat, LARGE)
        with pytest.raises(JournalValueError, match=r"the call of .*both: the record of the arguments has"):
            await store.enqueue(both, "a" * 900, "b" * 900)
        with pytest.raises(JournalValueError, match="type str has"):
            await store.schedule("nightly", repeat, LARGE, cron="0 3 * * *")
        assert (store.queue_entries(), store.schedules()) == ([], [])
        async with serving(worker_of(store, enlarge, fail_largely)):
            with pytest.raises(JournalValueError, match=r"the result of run .* type str has"):
                await store.result(await store.enqueue(enlarge))
            with pytest.raises(JournalValueError, match="ValueError: my secret"):
                await store.result(await store.enqueue(fail_largely))


async def both(first: str, second: str) -> None:
    """Take two words."""


async def enlarge() -> str:
    """Return a large word."""
    return LARGE


async def fail_largely() -> None:
    """Fail with a large word."""
    raise ValueError(LARGE)


async def test_a_run_that_got_stuck_before_it_began_continues_in_a_store_with_an_audit_key(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, audit_key=b"k" * 32) as store:
        await store.enqueue(repeat, "a", key="stuck", max_lives=1)
        change(
            store,
            "UPDATE queue_entries SET status = 'claimed', lives = 1, claim = 1, holder = 'dead', "
            "leased_until = 0",
        )
        async with serving(worker_of(store, repeat)):
            with pytest.raises(RunStuckError):
                await store.result("stuck")
            assert [(each.run_id, each.records) for each in store.verify()] == [("stuck", 0)]
            await store.requeue("stuck")
            assert await store.result("stuck") == "a"
        assert store.verify()

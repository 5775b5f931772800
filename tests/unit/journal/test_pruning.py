"""Pruning: runs that have ended lose their records, and all others keep them."""

from datetime import timedelta
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalAuditError, JournalError, PruneReport, RunPrunedError, pruning

from . import durable_runs
from .durable_runs import change, live, opened, query, shout, shouting

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

LARGE = "large" * 40_000
NOW = timedelta(0)


@nh.once
async def fetch() -> str:
    """Return a large text."""
    return LARGE


@nh.once
async def fetch_digits(number: int) -> str:
    """Return a text that is not large enough to be stored apart."""
    return str(number) * 10_000


async def program() -> str:
    await fetch()
    return await shout("a")


async def failing() -> None:
    await program()
    raise ValueError("no such order")


def counts(store: nh.journal.JournalStore) -> dict[str, int]:
    return {
        table: query(store, f"SELECT count(*) FROM {table}")[0][0]
        for table in ("runs", "records", "messages", "mailboxes", "blobs")
    }


async def test_runs_that_have_ended_lose_their_records(tmp_path: Path) -> None:
    with opened(tmp_path, audit_key=b"k" * 32) as store:
        await store.send("run-1", "reply", "x")
        await store.send("run-2", "reply", "x")
        for run_id in ("run-1", "run-2"):
            await live(store, shouting(), program, run_id)
        change(store, "UPDATE runs SET updated_at = updated_at - 100 WHERE run_id = 'run-1'")
        records, before = len(store.records("run-1")), counts(store)
        report = PruneReport(
            runs=("run-1",),
            records=records,
            messages=1,
            queue_entries=0,
            questions=0,
            blobs=0,
            releases_space=True,
        )
        assert store.prune(timedelta(seconds=50), dry_run=True) == report
        assert counts(store) == before
        assert store.prune(timedelta(seconds=50)) == report
        assert store.records("run-1") == []
        assert store.records("run-2")
        assert [(row.status, row.pruned_at is None) for row in store.runs()] == [
            ("ended", False),
            ("ended", True),
        ]
        assert [each.is_pruned for each in store.verify()] == [True, False]
        assert store.prune(NOW).blobs == 1
        assert counts(store) == {"runs": 2, "records": 0, "messages": 0, "mailboxes": 0, "blobs": 0}
        assert store.prune(NOW).runs == ()


async def test_a_pruned_run_is_not_run_again(tmp_path: Path) -> None:
    model = shouting()
    with opened(tmp_path) as store:
        await live(store, model, program)
        store.prune(NOW)
        with pytest.raises(RunPrunedError, match="'run-1' has ended"):
            await live(store, model, program)
        with pytest.raises(RunPrunedError, match="'run-1'"):
            await store.send("run-1", "reply", "x")
        assert store.runs()[0].status == "ended"
        assert await live(store, model, program, "run-2") == "A"
    assert len(model.prompts) == 2


async def test_runs_that_can_continue_keep_their_records(tmp_path: Path) -> None:
    async def pruning_others() -> str:
        loud = await program()
        assert (await anyio.to_thread.run_sync(store.prune, NOW)).runs == ()
        return loud

    with opened(tmp_path) as store:
        with pytest.raises(ValueError, match="no such order"):
            await live(store, shouting(), failing, "failed")
        await live(store, shouting(), program, "parked")
        change(store, "UPDATE runs SET status = 'parked', updated_at = 0 WHERE run_id = 'parked'")
        await live(store, shouting(), program, "killed")
        change(store, "UPDATE runs SET status = 'running', updated_at = 0 WHERE run_id = 'killed'")
        await live(store, shouting(), pruning_others, "in-progress")
        assert store.prune(NOW, statuses=["failed", "cancelled"]).runs == ("failed",)
        assert store.prune(NOW).runs == ("in-progress",)
        assert await live(store, shouting(), program, "parked") == "A"


async def test_records_are_deleted_piece_by_piece_and_the_rest_by_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "_PIECE", 2)
    delete, pieces = pruning._delete, list[int]()

    def failing_delete(*arguments: object) -> int:
        if len(pieces) == 1:
            raise nh.journal.JournalStoreError("killed")
        pieces.append(delete(*arguments))
        return pieces[-1]

    with opened(tmp_path) as store:
        await live(store, shouting(), program)
        await live(store, shouting(), program, "run-2")
        monkeypatch.setattr(pruning, "_delete", failing_delete)
        with pytest.raises(JournalError, match="killed"):
            store.prune(NOW)
        assert pieces == [2]
        monkeypatch.setattr(pruning, "_delete", delete)
        assert set(store.prune(NOW).runs) == {"run-1", "run-2"}
        assert counts(store) == {"runs": 2, "records": 0, "messages": 0, "mailboxes": 0, "blobs": 0}


async def test_records_that_somebody_else_deleted_do_not_pass_for_pruned(tmp_path: Path) -> None:
    with opened(tmp_path, audit_key=b"k" * 32) as store:
        await live(store, shouting(), program)
        change(store, "DELETE FROM records")
        change(store, "UPDATE runs SET pruned_at = 1")
        with pytest.raises(JournalAuditError, match="not deleted by prune"):
            store.verify()


async def test_a_run_with_an_audit_key_is_pruned_with_it_only(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await live(store, shouting(), program, "unkeyed")
    with opened(tmp_path, audit_key=b"k" * 32) as store:
        await live(store, shouting(), program)
    with opened(tmp_path) as store:
        with pytest.raises(JournalAuditError, match="another audit key"):
            store.prune(NOW)
        assert store.records("run-1")
    with opened(tmp_path, audit_key=b"k" * 32) as store:
        assert set(store.prune(NOW).runs) == {"run-1", "unkeyed"}
        assert store.verify("run-1")[0].is_pruned


async def test_the_file_shrinks(tmp_path: Path) -> None:
    async def many() -> None:
        for number in range(30):
            await fetch_digits(number)

    if durable_runs.server is not None:
        pytest.skip("a PostgreSQL server gives space back by itself")
    file = tmp_path / "runs.db"
    with opened(tmp_path) as store:
        await live(store, shouting(), many)
        await live(store, shouting(), program, "run-2")
        change(store, "UPDATE runs SET updated_at = 0 WHERE run_id = 'run-1'")
        store.thread.perform(lambda: store.thread.opened().release_space()).wait_in_thread()
        before = file.stat().st_size
        assert store.prune(timedelta(days=1)).releases_space
        assert file.stat().st_size < before - 100_000
        assert file.with_name("runs.db-wal").stat().st_size == 0
        assert await live(store, shouting(), program, "run-2") == "A"


@pytest.mark.parametrize(
    ("older_than", "statuses"), [(NOW, ["running"]), (NOW, []), (timedelta(seconds=-1), ["ended"])]
)
async def test_other_statuses_and_times_are_refused(
    tmp_path: Path, older_than: timedelta, statuses: list[str]
) -> None:
    with opened(tmp_path) as store, pytest.raises(nh.ConfigurationError, match="prune takes"):
        store.prune(older_than, statuses=statuses)

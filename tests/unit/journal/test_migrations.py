"""Databases of each earlier version are opened by this one, and their runs continue."""

from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalAuditError, tables

from .durable_runs import change, live, opened, shout, shouting

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

VERSIONS = range(1, len(tables._MIGRATIONS) + 1)


@nh.once
async def pay(word: str) -> str:
    """Return what would be paid."""
    return f"paid {word}"


async def program() -> str:
    return await pay(await shout("a"))


async def make_earlier(folder: Path, version: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Make a database of an earlier version with a run; return the number of its records."""
    newest = folder / "newest"
    newest.mkdir()
    with opened(newest) as store:
        await live(store, shouting(), program)
        records = store.records("run-1")
    with monkeypatch.context() as patch, opened(folder) as store:
        patch.setattr(tables, "_MIGRATIONS", tables._MIGRATIONS[:version])
        change(
            store,
            "INSERT INTO runs (run_id, status, epoch, holder, leased_until, created_at, updated_at) "
            "VALUES ('run-1', 'ended', 1, '', 0, 1, 1)",
        )
        for each in records:
            change(
                store,
                "INSERT INTO records (run_id, seq, place, kind, epoch, at, body) "
                "VALUES ('run-1', ?, ?, ?, ?, ?, ?)",
                *(each.seq, each.place, each.kind, each.epoch, each.at, each.body),
            )
    return len(records)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_run_of_an_earlier_version_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    records = await make_earlier(tmp_path, version, monkeypatch)
    model = shouting()
    with opened(tmp_path) as store:
        assert [(each.records, each.is_linked) for each in store.verify()] == [(0, False)]
        assert await live(store, model, program) == "paid A"
        assert [(row.status, row.lives) for row in store.runs()] == [("ended", 2)]
        ((verified),) = store.verify()
        assert verified.is_linked
        assert verified.records > records
        change(store, "UPDATE records SET at = 0 WHERE seq = 1")
        with pytest.raises(JournalAuditError, match="record 1 "):
            store.verify()
    assert model.prompts == []


@pytest.mark.parametrize("version", [1, VERSIONS[-1]])
async def test_a_run_of_an_earlier_version_gets_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    await make_earlier(tmp_path, version, monkeypatch)
    with opened(tmp_path, keys={"2026-11": b"n" * 32}, audit_key=b"k" * 32) as store:
        with pytest.raises(JournalAuditError, match="no audit key"):
            await live(store, shouting(), program)
        assert store.reencrypt() == 1
        assert store.verify()
        assert await live(store, shouting(), program) == "paid A"

"""Chains: records that were changed, removed or inserted are found."""

from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalAuditError

from .durable_runs import change, live, opened, query, shout, shouting

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

KEY = b"k" * 32


@nh.once
async def pay(word: str) -> str:
    """Return what would be paid."""
    return f"paid {word}"


async def program() -> str:
    return await pay(await shout("a"))


@pytest.fixture(params=[None, KEY], ids=["without key", "with key"])
def audit_key(request: pytest.FixtureRequest) -> bytes | None:
    return request.param


async def test_runs_of_several_lives_are_verified(tmp_path: Path, audit_key: bytes | None) -> None:
    for _ in range(2):
        with opened(tmp_path, audit_key=audit_key) as store:
            assert await live(store, shouting(), program) == "paid A"
            await live(store, shouting(), program, "run-2")
            assert [
                (each.run_id, each.records, each.is_linked, each.is_pruned) for each in store.verify()
            ] == [(run_id, len(store.records(run_id)), True, False) for run_id in ("run-1", "run-2")]
            assert store.verify("run-2") == store.verify()[1:]
    with opened(tmp_path) as store, pytest.raises(JournalAuditError, match="no run 'run-3'"):
        store.verify("run-3")


async def test_a_run_in_progress_is_verified(tmp_path: Path, audit_key: bytes | None) -> None:
    async def checking() -> int:
        await shout("a")
        await nh.journal.sleep(seconds=0)  # what came before is durable
        (verified,) = store.verify()
        await program()
        return verified.records

    with opened(tmp_path, audit_key=audit_key) as store:
        assert 0 < await live(store, shouting(), checking) < len(store.records("run-1"))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE records SET body = ? WHERE kind = 'result'",
        "UPDATE records SET place = 'run/other()[0]' WHERE kind = 'result' AND body <> ?",
        "UPDATE records SET link = ? WHERE kind = 'result'",
        "DELETE FROM records WHERE kind = 'intent' AND body <> ?",
        "INSERT INTO records SELECT run_id, 100, place, 'value', epoch, at, body, link FROM records "
        "WHERE kind = 'result' AND body <> ?",
        "DELETE FROM records WHERE seq >= 5 AND body <> ?",
        "DELETE FROM records WHERE body <> ?",
        "UPDATE records SET seq = 0 WHERE kind = 'result' AND body <> ?",
        "UPDATE runs SET linked = linked - 1 WHERE link <> ?",
    ],
)
async def test_a_changed_store_is_found(tmp_path: Path, audit_key: bytes | None, statement: str) -> None:
    with opened(tmp_path, audit_key=audit_key) as store:
        await live(store, shouting(), program)
        await live(store, shouting(), program, "run-2")
        assert change(store, f"{statement} AND run_id = 'run-1'", b"other")
        with pytest.raises(JournalAuditError, match="run-1") as caught:
            store.verify()
        assert caught.value.run_id == "run-1"
        assert store.verify("run-2")


async def test_the_first_changed_record_is_named(tmp_path: Path, audit_key: bytes | None) -> None:
    with opened(tmp_path, audit_key=audit_key) as store:
        await live(store, shouting(), program)
        changed = next(each for each in store.records("run-1") if each.kind == "response")
        change(store, "UPDATE records SET at = at + 1 WHERE seq >= ?", changed.seq)
        with pytest.raises(JournalAuditError, match="was changed or inserted") as caught:
            store.verify()
        assert (caught.value.seq, caught.value.place) == (changed.seq, changed.place)


async def test_with_a_key_the_end_cannot_be_cut_off_by_those_who_can_write_the_file(tmp_path: Path) -> None:
    cut = (
        "DELETE FROM records WHERE seq > 3",
        "UPDATE runs SET linked = 3, link = (SELECT link FROM records WHERE seq = 3)",
    )
    for key in (None, KEY):
        folder = tmp_path / str(key is None)
        folder.mkdir()
        with opened(folder, audit_key=key) as store:
            await live(store, shouting(), program)
            for statement in cut:
                change(store, statement)
            if key is None:
                assert [each.records for each in store.verify()] == [3]
                continue
            with pytest.raises(JournalAuditError):
                store.verify()
            change(store, "UPDATE runs SET audit_key = '', seal = NULL")
            with pytest.raises(JournalAuditError, match="no audit key"):
                store.verify()


async def test_a_run_with_a_key_does_not_continue_from_changed_records(tmp_path: Path) -> None:
    model = shouting()
    with opened(tmp_path, audit_key=KEY) as store:
        await live(store, model, program)
        change(store, "UPDATE records SET at = at + 1 WHERE kind = 'response'")
        with pytest.raises(JournalAuditError, match="was changed"):
            await live(store, model, program)
        change(store, "UPDATE records SET at = at - 1 WHERE kind = 'response'")
        assert await live(store, model, program) == "paid A"
    assert len(model.prompts) == 1


@pytest.mark.parametrize(
    ("first", "second", "words"), [(KEY, None, "another audit key"), (None, KEY, "no audit key")]
)
async def test_a_run_keeps_its_key(
    tmp_path: Path, first: bytes | None, second: bytes | None, words: str
) -> None:
    with opened(tmp_path, audit_key=first) as store:
        await live(store, shouting(), program)
    with opened(tmp_path, audit_key=second) as store:
        with pytest.raises(JournalAuditError, match=words):
            await live(store, shouting(), program)
        with pytest.raises(JournalAuditError, match=words):
            store.verify()
        assert store.reencrypt() == 1
        assert store.verify()
        assert await live(store, shouting(), program) == "paid A"


async def test_a_changed_run_is_not_chained_anew(tmp_path: Path, audit_key: bytes | None) -> None:
    with opened(tmp_path, audit_key=audit_key) as store:
        await live(store, shouting(), program)
        change(store, "UPDATE records SET epoch = 7 WHERE kind = 'result'")
        with pytest.raises(JournalAuditError):
            store.reencrypt()
        assert query(store, "SELECT count(*) FROM records WHERE epoch = 7") == [(1,)]


def test_a_key_is_long_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(nh.ConfigurationError, match="at least 16"):
        nh.journal.open("sqlite:///runs.db", audit_key=b"short")
    with pytest.raises(nh.ConfigurationError, match="AUDIT is not set"):
        nh.journal.open("sqlite:///runs.db", audit_key="AUDIT")
    monkeypatch.setenv("AUDIT", "a2tra2tra2tra2tra2tra2tr")
    nh.journal.open("sqlite:///runs.db", audit_key="AUDIT").close()

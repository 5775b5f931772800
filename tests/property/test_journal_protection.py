"""Journals: any single change is found, and an encrypted body comes back in its place only."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import assume, given, strategies as st

from nighthawk_async.journal import JournalAuditError, JournalKeyError, Record
from nighthawk_async.journal.audit import Audit
from nighthawk_async.journal.audit_table import check_chain
from nighthawk_async.journal.blob_table import LARGE_BYTES, load_body, store_body
from nighthawk_async.journal.database import Database
from nighthawk_async.journal.encryption import BodyCodec
from nighthawk_async.journal.sqlite_database import open_sqlite
from nighthawk_async.journal.tables import append_records, claim_run, read_records

KEYS = {"a": b"a" * 32, "b": b"b" * 32}
CODECS = [BodyCodec(), BodyCodec(KEYS, "a"), BodyCodec(KEYS, "b")]
AUDIT_KEYS = [None, b"k" * 32]

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
kinds = st.sampled_from(["step", "response", "intent", "result", "value"])
bodies = st.binary(max_size=60) | st.sampled_from([b"\xc1\x00", b"\xc1\x01\x01a", b"\xc1\x02" + b"x" * 32])
contexts = st.tuples(texts, st.integers(0, 2**40), texts)
Change: TypeAlias = Callable[[st.DataObject, Database, str, int], object]

run_numbers = count()


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    opened = open_sqlite(tmp_path_factory.mktemp("journal") / Path("runs.db"))
    opened.change("PRAGMA synchronous = OFF")
    yield opened
    opened.close()


def record_run(data: st.DataObject, database: Database) -> tuple[str, list[Record]]:
    """A run with some records."""
    run_id = f"run-{next(run_numbers)}"
    epoch, _ = claim_run(database, run_id, "")
    drawn = data.draw(st.lists(st.tuples(texts, kinds, st.floats(0, 2**40), bodies), min_size=1, max_size=6))
    records = [
        Record(seq=seq, place=f"run/{place}[{seq}]", kind=kind, epoch=epoch, at=at, body=body)
        for seq, (place, kind, at, body) in enumerate(drawn, 1)
    ]
    middle = data.draw(st.integers(0, len(records)))
    for part in (records[:middle], records[middle:]):
        with database.transaction():
            append_records(database, run_id, epoch, part)
    return run_id, records


def change_byte(data: st.DataObject, database: Database, run_id: str, seq: int) -> None:
    column = data.draw(st.sampled_from(["body", "link"]))
    ((stored,),) = database.query(f"SELECT {column} FROM records WHERE run_id = ? AND seq = ?", run_id, seq)
    assume(stored)
    index, bit = data.draw(st.integers(0, len(stored) - 1)), data.draw(st.integers(0, 7))
    changed = stored[:index] + bytes([stored[index] ^ (1 << bit)]) + stored[index + 1 :]
    database.change(f"UPDATE records SET {column} = ? WHERE run_id = ? AND seq = ?", changed, run_id, seq)


def change_field(data: st.DataObject, database: Database, run_id: str, seq: int) -> None:
    assignment = data.draw(
        st.sampled_from(
            [
                "place = place || 'x'",
                "kind = kind || 'x'",
                "epoch = epoch + 1",
                "at = at + 1000000000000.0",
                "seq = seq + 100",
                "seq = -seq",
                "link = NULL",
                "link = 'text'",
                "at = 'text'",
                "body = body || x'00'",
                "run_id = run_id || 'x'",
            ]
        )
    )
    database.change(f"UPDATE records SET {assignment} WHERE run_id = ? AND seq = ?", run_id, seq)


def remove_row(data: st.DataObject, database: Database, run_id: str, seq: int) -> None:
    database.change("DELETE FROM records WHERE run_id = ? AND seq = ?", run_id, seq)


def insert_row(data: st.DataObject, database: Database, run_id: str, seq: int) -> None:
    new = data.draw(st.sampled_from([0, 50]))
    database.change(
        "INSERT INTO records SELECT run_id, ?, place || 'x', kind, epoch, at, body, link FROM records "
        "WHERE run_id = ? AND seq = ?",
        *(new, run_id, seq),
    )


def exchange_rows(data: st.DataObject, database: Database, run_id: str, seq: int) -> None:
    last = database.query("SELECT max(seq) FROM records WHERE run_id = ?", run_id)[0][0]
    assume(seq != last)
    for old, new in ((seq, -1), (last, seq), (-1, last)):
        database.change("UPDATE records SET seq = ? WHERE run_id = ? AND seq = ?", new, run_id, old)


@pytest.mark.parametrize("key", AUDIT_KEYS, ids=["without key", "with key"])
@pytest.mark.parametrize("tamper", [change_byte, change_field, remove_row, insert_row, exchange_rows])
@given(data=st.data())
def test_any_single_change_is_found(
    database: Database, key: bytes | None, tamper: Change, data: st.DataObject
) -> None:
    database.audit, database.codec = Audit(key), data.draw(st.sampled_from(CODECS[:2]))
    database.change("DELETE FROM encryption_keys")
    run_id, records = record_run(data, database)
    assert check_chain(database, run_id).head.count == len(records)
    assert read_records(database, run_id) == records
    tamper(data, database, run_id, data.draw(st.integers(1, len(records))))
    with pytest.raises(JournalAuditError):
        check_chain(database, run_id)


@given(body=bodies, context=contexts, codec=st.sampled_from(CODECS), is_large=st.booleans())
def test_a_body_comes_back(
    database: Database, body: bytes, context: tuple[Any, ...], codec: BodyCodec, is_large: bool
) -> None:
    database.codec = codec
    body = body * (LARGE_BYTES // len(body) + 1) if is_large and body else body
    with database.transaction():
        stored = store_body(database, body, *context)
    for reader in CODECS if not codec.active_key else CODECS[1:]:
        database.codec = reader
        assert load_body(database, stored, *context) == body
    assert (codec.active_key == "") or len(body) < 8 or body not in stored


@given(body=bodies, context=contexts, other=contexts, is_large=st.booleans())
def test_an_encrypted_body_comes_back_in_its_place_only(
    database: Database, body: bytes, context: tuple[Any, ...], other: tuple[Any, ...], is_large: bool
) -> None:
    assume(context != other)
    database.codec = CODECS[1]
    body = body * (LARGE_BYTES // len(body) + 1) if is_large and body else body
    with database.transaction():
        stored = store_body(database, body, *context)
    with pytest.raises(JournalKeyError):
        load_body(database, stored, *other)
    database.codec = BodyCodec()
    with pytest.raises(JournalKeyError, match="missing"):
        load_body(database, stored, *context)
    database.codec = BodyCodec({"a": b"x" * 32}, "a")
    with pytest.raises(JournalKeyError, match="'a'"):
        load_body(database, stored, *context)
